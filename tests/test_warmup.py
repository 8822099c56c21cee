"""``stream-osr warmup`` leaves nothing to compile: real processes, in which what comes after it is watched."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough

WATCH = """
import gc

from stream_osr_connectors.cli.warmup import warm_up
from stream_osr.model.compiler import Kernel


def compiled():
    kernels = [held for held in gc.get_objects() if isinstance(held, Kernel)]
    return {(kernel.py_func.__module__, kernel.__name__, types) for kernel in kernels for types in kernel.overloads}


warm_up()
before = compiled()
%s
for module, name, types in sorted(compiled() - before, key=str):
    print(module, name, types)
"""

DEMO = """
import contextlib, io, pathlib
from stream_osr_connectors.cli import demo
with contextlib.redirect_stdout(io.StringIO()):
    demo.demo(pathlib.Path({output!r}), seed=2)
"""

RECOGNIZER = """
import copy

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from tests.blobs import learn_all, stream_part, training_part

for arguments in (
    {},
    {"window": 0, "chains": 1, "ensemble": "drawn"},
    {"max_false_unknown": 0.05, "half_life": 100.0, "decision_delay": 64},
):
    model = OpenSetRecognizer(**grouped(batch_size=32, training_sweeps=5, **arguments))
    learn_all(model, training_part(40, 0)).freeze()
    earlier = copy.deepcopy(model)
    for key, (x, _) in enumerate(stream_part(300, 0)):
        model.predict_proba_one(x)
        if key % 7 == 0:
            x = {**x, next(iter(x)): None}
        model.learn_one(x, key=key)
        if key % 50 == 49:
            model.learn_label(key, sorted(model.trained.labels)[0])
            model.summary()
        if key == 200:
            model.promote([model.summary().emerging[0][0]], "named")
    model.flush()
    model.undo()
    earlier.carry_over(model)
    for x, _ in stream_part(100, 1):
        earlier.learn_one(x)
    earlier.flush()
"""


def test_a_recognizer_compiles_nothing_after_it():
    assert said(RECOGNIZER) == ""


def test_the_demonstration_compiles_nothing_after_it(tmp_path):
    assert said(DEMO.replace("{output!r}", repr(str(tmp_path)))) == ""


def said(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", WATCH % program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout

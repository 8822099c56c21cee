"""Machine code is cached until the sources change."""

from __future__ import annotations

import importlib
import os
import pickle
import pkgutil
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.target_extension import CPU, jit_registry

import stream_osr
from stream_osr import ModelOptions, OpenSetRecognizer
from stream_osr.model import compiler, jit, kernel_cache
from tests.blobs import dependent_rows


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A package of three modules, each of which imports the next, one beside them, and a kernel elsewhere."""
    monkeypatch.setattr(kernel_cache, "ROOT", tmp_path)
    model = tmp_path / "stream_osr" / "model"
    model.mkdir(parents=True)
    (model / "__init__.py").write_text("")
    (model / "step.py").write_text("from stream_osr.model import (\n    seating,\n)\n")
    (model / "seating.py").write_text(
        "def f():\n    from stream_osr.model.dishes import (  # the menu\n        add,\n    )\n"
    )
    (model / "dishes.py").write_text("add = 1")
    (model / "naming.py").write_text("from stream_osr.model.step import step\n")
    return model


def stamp(path: Path) -> str:
    kernel_cache._imported.cache_clear()
    kernel_cache._digest.cache_clear()
    return kernel_cache.source_stamp.__wrapped__(path)


def test_stamp_changes_with_the_sources_that_a_kernel_imports_and_with_no_others(house):
    for changed in ("step.py", "seating.py", "dishes.py", "__init__.py"):
        before = stamp(house / "step.py")
        assert stamp(house / "step.py") == before
        (house / changed).write_text((house / changed).read_text() + "# changed\n")
        assert stamp(house / "step.py") != before, changed
    before = stamp(house / "dishes.py")
    (house / "naming.py").write_text("")
    (house / "step.py").write_text("")
    assert stamp(house / "dishes.py") == before


def kernels() -> Iterator[tuple[str, compiler.Kernel]]:
    """Every kernel of the library, by module and name."""
    for info in pkgutil.walk_packages(stream_osr.__path__, "stream_osr."):
        if not info.name.endswith("__main__"):
            for name, held in vars(importlib.import_module(info.name)).items():
                if isinstance(held, compiler.Kernel) and held.py_func.__module__ == info.name:
                    yield f"{info.name}.{name}", held


@pytest.mark.thorough
def test_what_kernels_call_and_are_handed_is_imported_where_they_are():
    """Else a change there would leave them as they were compiled."""
    seen = 0
    for name, kernel in kernels():
        function = kernel.py_func
        reached = reach(Path(function.__code__.co_filename))
        held = (function.__globals__.get(called) for called in function.__code__.co_names)
        modules = [called.py_func.__module__ for called in held if isinstance(called, compiler.Kernel)]
        hints = typing.get_type_hints(function).values()
        modules += [
            hint.__module__ for hint in hints if isinstance(hint, type) and hint.__module__.startswith("stream_osr")
        ]
        assert {Path(sys.modules[module].__file__) for module in modules} <= reached, name
        seen += len(modules)
    assert seen > 400


@pytest.mark.thorough
def test_categories_and_dependent_neighbours_need_no_machine_code_for_another_memory_layout():
    """It is not compiled ahead, so a stream would wait for it."""

    def strided() -> set[str]:
        signatures = (f"{name}{sig}" for name, kernel in kernels() for sig in kernel.signatures)
        return {signature for signature in signatures if re.search(r"'A'|, A\)", signature)}

    before = strided()
    model = OpenSetRecognizer(batch_size=32, chains=2, seed=1, model=ModelOptions(training_sweeps=10))
    for x, y in dependent_rows(300, 0):
        model.learn_one({**x, "way": y[0]}, y)
    for x, y in dependent_rows(300, 1):
        model.learn_one({**x, "way": y[0]})
    model.flush()
    assert model.trained.is_dependent
    assert strided() == before


def reach(path: Path) -> set[Path]:
    found, waiting = set(), [path]
    while waiting:
        found.add(known := waiting.pop())
        waiting += [other for other in kernel_cache._imported(known) if other not in found]
    return found


def test_kernels_carry_the_stamp_and_divide_by_the_rules_of_ieee():
    @jit.kernel
    def divide(x: float, y: float) -> float:
        return x / y

    assert divide(1.0, 0.0) == float("inf")
    assert divide._cache._cache_file._source_stamp == kernel_cache.source_stamp(Path(__file__))


def test_an_index_of_sources_whose_classes_had_other_names_is_written_anew():
    """A checkout and a package that are replaced in place keep the machine code of the sources before."""

    @jit.kernel
    def fourfold(x: float) -> float:
        return 4.0 * x

    stale = Path(fourfold._cache._cache_file._index_path)
    try:
        stale.write_bytes(pickle.dumps(numba.__version__) + b"cstream_osr.model.gone\nGamma\n.")
        assert fourfold(2.0) == 8.0
        (compiled,) = fourfold.overloads.values()
        key = fourfold._cache._index_key(compiled.signature.args, compiled.target_context.codegen())
        assert fourfold._cache._cache_file.load(key) is not None
    finally:
        stale.unlink()


WITHOUT = """
import numba.core.codegen

del numba.core.codegen.JITCodeLibrary

import numpy as np
from stream_osr.model import jit
from stream_osr.model.prior import homogeneous


@jit.borrowing_kernel
def twice(x):
    return 2.0 * x


@jit.fused_kernel
def divided(x, y):
    return twice(x) / y


assert type(divided) is type(numba.njit(lambda: 0)), type(divided)
assert divided(1.0, 0.0) == np.inf
assert homogeneous(np.zeros((1, 2))).tolist() == [[0.0, 0.0, 1.0]]
print(jit.why_not())
"""


@pytest.mark.thorough
def test_without_a_private_class_of_numba_kernels_are_compiled_by_njit():
    """As with a release of numba that has renamed it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "machine code is not cached" in done.stdout
    assert "machine code is not cached" in done.stderr, "the notice says so before the first kernel is compiled"


@pytest.mark.thorough
def test_functions_of_numba_serve_others_after_kernels():
    """A kernel takes them as intermediate code, which other functions in the process use from then on."""

    def summary(n):
        rows = np.empty((n, 3))
        rows[:, 1:] = np.arange(n).reshape(n, 1)
        rows[:, 0] = np.where(np.arange(n) > 2, 1.0, -1.0)
        return str(n), np.sort(rows.sum(axis=1)), rows.T @ rows

    own = jit.kernel(summary)
    own._cache = NullCache()
    expected = summary(7)
    for compiled in own, numba.njit(summary), own, numba.njit(summary):
        for found, value in zip(compiled(7), expected, strict=True):
            assert np.array_equal(found, value)
    assert jit_registry[CPU] is numba.core.decorators.jit


KERNELS = """
import numpy as np
from numba.core import event
from numba.core.registry import cpu_target
from stream_osr.model.jit import kernel

@kernel
def inner(n):
    return np.arange(n) + 0.5

@kernel
def outer(n):
    return inner(n) * 2.0

with event.install_recorder("numba:compile") as recorder:
    print(outer(3).tolist(), inner(3).tolist())
print(sum(each.data["dispatcher"].py_func.__name__ == "inner" for _, each in recorder.buffer if each.is_start))
print(bool(cpu_target.target_context._registries))
"""


@pytest.mark.thorough
def test_a_kernel_is_loaded_beside_kernels_that_call_it(tmp_path):
    """The body is compiled once. Each machine code has its own constants for the conversion of the result."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    room = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    for compilations in (2, 0):  # of the inner one, for Python and for other kernels, then none
        command = [sys.executable, "-c", "import kernels"]
        out = subprocess.run(command, cwd=tmp_path, env=room, capture_output=True, text=True, check=True).stdout
        # numba's declarations for compilation are not loaded for kernels from the cache
        assert out == f"[1.0, 3.0, 5.0] [0.5, 1.5, 2.5]\n{compilations}\n{compilations > 0}\n"

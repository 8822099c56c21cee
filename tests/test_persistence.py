"""Saving, loading, copying: bit for bit, or a plain error and nothing lost."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.archive.files import load_trained, read_archive, save_trained, write_archive
from stream_osr.config import grouped
from stream_osr.errors import PersistenceError
from tests.blobs import check_stream, dependent_rows, fitted, fitted_once, learn_all, stream_part, training_part

# Going on as if nothing had happened

Operation = tuple[Any, ...]


def story() -> list[Operation]:
    """Training, a stream with a new class, late labels of old and new classes, flushes: one after the other."""
    out: list[Operation] = [("learn_one", x, y, None, None) for x, y in training_part(45)]
    out.append(("freeze",))
    for i, (x, y) in enumerate(stream_part(300, seed=7)):
        out.append(("learn_one", x, None, 0.1 * i, f"k{i}"))
        if i in (90, 200):
            out.append(("learn_label", f"k{i - 3}", "right"))  # still buffered
            out.append(("learn_label", f"k{i - 60}", y))  # decided long ago
            out.append(("learn_one", x, "right", None, None))
        if i == 150:
            out += [("learn_label", f"k{j}", "third") for j in range(140, 150)]
        if i == 230:
            out.append(("flush",))
    return out


def play(model: OpenSetRecognizer, operations: list[Operation]) -> None:
    for name, *arguments in operations:
        if name == "learn_one":
            x, y, t, key = arguments
            model.learn_one(x, y, t=t, key=key)
        else:
            getattr(model, name)(*arguments)


def feed(model: OpenSetRecognizer, n: int, seed: int = 0) -> None:
    for x, _ in stream_part(n, seed):
        model.learn_one(x)


def outcome(model: OpenSetRecognizer) -> str:
    """Digest of the archive of a model, which holds all of it to the last bit."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.osr")
        return hashlib.sha256((Path(folder) / "model.osr").read_bytes()).hexdigest()


@functools.cache
def uninterrupted(**arguments: Any) -> str:
    model = OpenSetRecognizer(**grouped(**arguments))
    play(model, story())
    model.flush()
    return outcome(model)


def through_a_file(model: OpenSetRecognizer, folder: Path) -> OpenSetRecognizer:
    model.save(folder / "model.osr")
    return OpenSetRecognizer.load(folder / "model.osr")


def beside_its_model(model: OpenSetRecognizer, folder: Path) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_state_bytes(model.trained, model.state_bytes())


WAYS: dict[str, Callable[[OpenSetRecognizer, Path], OpenSetRecognizer]] = {
    "file": through_a_file,
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, _: copy.deepcopy(model),
}
POINTS = (0, 1, 50, 90, 91, 100, 186, 262, 380)
"""Places in the story: its begin, in training (1, 50, 90), frozen (91), in a batch (100), with late labels that wait
(186), after a label has opened a class (262), after many batches."""
ARGUMENTS = {"batch_size": 16, "window": 50, "label_horizon": 150, "seed": 3}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.thorough if way != "file" else ()) for way in WAYS]
)
def test_goes_on_bit_for_bit(way, tmp_path):
    operations, begin, made = story(), 0, list[tuple[int, OpenSetRecognizer]]()
    first = OpenSetRecognizer(**grouped(**ARGUMENTS))
    for end in POINTS if way == "file" else POINTS[1::3]:
        play(first, operations[begin:end])
        if end == 186:
            assert first.value.evidence
            assert first.value.buffer
        made.append((end, WAYS[way](first, tmp_path)))
        begin = end
    for point, model in (*made, (begin, first)):
        play(model, operations[point:])
        model.flush()
        assert outcome(model) == uninterrupted(**ARGUMENTS), point


def test_everything_that_a_caller_may_hand_over_survives(tmp_path):
    model = OpenSetRecognizer(batch_size=4, max_wait=1e9, unknown="dunno")
    names: list[Any] = ["plain", "späte \N{SNOWMAN}", 3, ("pair", 1), 2.5, True, None]
    rng = np.random.default_rng(0)
    for i in range(60):
        x = dict(zip(names, rng.normal(size=7).tolist(), strict=True))
        model.learn_one({**x, "plain": x["plain"] + 20 * (i % 2)}, ["eins", "zwei"][i % 2])
    keys: list[Any] = ["text", 7, ("topic", 3, 12), 2.5, None, True, "\x00", np.int64(5), -(2**63)]
    for i, key in enumerate(keys):
        x = dict(zip(names, rng.normal(size=7).tolist(), strict=True))
        model.learn_one(x, t=[i, 0.1 * i, None][i % 3], key=key)
    other = through_a_file(model, tmp_path)
    assert other.trained.names == model.trained.names
    assert other.arguments == model.arguments
    assert other.counters == model.counters
    for each in (model, other):
        each.learn_label(("topic", 3, 12), "zwei")
        each.flush()
        assert each.counters["unknown_keys"] == 0
    decisions = list(other.drain())
    assert decisions == list(model.drain())
    assert [d.key for d in decisions] == keys
    assert not list(through_a_file(other, tmp_path).drain()), "what was drained is not drained again"


# In another process

SCRIPT = """
import sys
from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from tests.test_persistence import ARGUMENTS, outcome, play, story

path, start = sys.argv[1], int(sys.argv[2])
model = OpenSetRecognizer.load(path) if start else OpenSetRecognizer(**grouped(**ARGUMENTS))
play(model, story()[start:])
model.flush()
print(outcome(model))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("start", [0, 186])
def test_another_process_computes_the_same_bits(start, tmp_path):
    """Play the rest of the story in a process with other hashes."""
    model, root = OpenSetRecognizer(**grouped(**ARGUMENTS)), Path(__file__).parent.parent
    play(model, story()[:start])
    model.save(tmp_path / "model.osr")
    command = [sys.executable, "-W", "error", "-c", SCRIPT, tmp_path / "model.osr", str(start)]
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == uninterrupted(**ARGUMENTS), done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("begin", [0, 91], ids=["of training", "of the stream"])
def test_the_seed_decides(begin):
    trained = fitted().trained
    outcomes = []
    for seed in (0, 1, 2, 3, 0):
        model = OpenSetRecognizer(batch_size=16, seed=seed)
        if begin:
            model = OpenSetRecognizer.from_trained(trained, batch_size=16, seed=seed)
        play(model, story()[begin:])
        outcomes.append(outcome(model))
    assert outcomes[-1] == outcomes[0]
    assert len(set(outcomes)) == 4


# One trained model for several recognizers


def test_streams_share_a_trained_model_and_do_not_change_it(tmp_path):
    trained = fitted().trained
    save_trained(trained, tmp_path / "trained.osr")
    loaded = load_trained(tmp_path / "trained.osr")
    before, outcomes = pickle.dumps(trained), []
    other = OpenSetRecognizer.from_trained(trained, batch_size=16, seed=6)
    for part in (trained, trained, loaded, pickle.loads(pickle.dumps(trained)), copy.deepcopy(trained)):
        model = OpenSetRecognizer.from_trained(part, batch_size=16, seed=5)
        play(model, story()[91:])
        play(other, story()[91:130])
        outcomes.append(outcome(model))
        assert model.trained is part
        assert part.fingerprint == dataclasses.replace(part).fingerprint == trained.fingerprint
    assert len(set(outcomes)) == 1
    assert pickle.dumps(trained) == before
    assert len(model.value.stream.labels) == 3


def test_a_stream_is_saved_without_the_model_that_it_shares(tmp_path):
    trained = fitted(chains=2).trained
    model = OpenSetRecognizer.from_trained(trained, batch_size=16, chains=2)
    feed(model, 40)
    again = beside_its_model(model, tmp_path)
    shared = [chain.known is draw for chain, draw in zip(again.value.stream.chains, trained.draws, strict=True)]
    assert all(shared), "shared, not copied"
    model.save(tmp_path / "alone.osr")
    assert len(model.state_bytes()) < 0.7 * (tmp_path / "alone.osr").stat().st_size


def test_fingerprint_tells_trained_models_apart():
    models = [
        fitted(),
        fitted(seed=1),
        fitted(39),
        fitted(nu=30),
        fitted(epsilon=0.2),
        learn_all(OpenSetRecognizer(), [(x, y.upper()) for x, y in training_part()]),
        learn_all(OpenSetRecognizer(), [({"c": x["a"], "d": x["b"]}, y) for x, y in training_part()]),
    ]
    for model in models:
        model.freeze()
    assert len({model.trained.fingerprint for model in models}) == len(models)
    assert fitted().trained.fingerprint == models[0].trained.fingerprint


@pytest.mark.parametrize("references", [0, 40])
def test_file_holds_the_references_of_the_training_instances_and_the_trained_part_once(tmp_path, references):
    def size(n: int) -> int:
        fitted(n, training_sweeps=0, references=references).save(tmp_path / "model.osr")
        return (tmp_path / "model.osr").stat().st_size

    assert size(120) == pytest.approx(size(600), rel=0.02)
    loaded = OpenSetRecognizer.load(tmp_path / "model.osr")
    assert loaded.value.stream.known is loaded.trained.known


# Files that cannot be used


@pytest.fixture(scope="module")
def model() -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(**ARGUMENTS))
    play(model, story()[:250])
    return model


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "model.osr"
    model.save(path)
    return path.read_bytes()


def refused(path: Path, expected: str) -> None:
    with pytest.raises(PersistenceError, match=expected) as caught:
        OpenSetRecognizer.load(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, OSError)


def test_a_path_without_a_file_is_refused(tmp_path, model):
    for path in (tmp_path / "nothing.osr", tmp_path / "no folder" / "nothing.osr"):
        refused(path, r"there is no file .*\. Check the path")
    refused(tmp_path, "is a folder")
    with pytest.raises(PersistenceError, match=r"is a folder\. Give the name of a file in it"):
        model.save(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    refused(tmp_path / "file" / "model.osr", "cannot read .*Not a directory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_other_and_truncated_files_are_refused(tmp_path, saved):
    path = tmp_path / "model.osr"
    truncated = [saved[:length] for length in [*range(0, len(saved), len(saved) // 40), len(saved) - 1]]
    for content in [b"hello", b"PK\x03\x04", np.random.default_rng(0).bytes(5000), *truncated]:
        path.write_bytes(content)
        refused(path, "is damaged, or not a saved stream-osr model. Save it again")


@pytest.mark.thorough
def test_flipped_bits_are_found_or_harmless(tmp_path, saved):
    path, rng = tmp_path / "model.osr", np.random.default_rng(0)
    path.write_bytes(saved)
    expected = pickle.dumps(OpenSetRecognizer.load(path))
    found = 0
    for at in rng.integers(0, len(saved), size=300):
        damaged = bytearray(saved)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            assert pickle.dumps(OpenSetRecognizer.load(path)) == expected
        except PersistenceError:
            found += 1
    assert found > 200


def test_wrong_kind_and_another_model_are_refused(tmp_path, model):
    model.save(tmp_path / "model.osr")
    save_trained(model.trained, tmp_path / "trained.osr")
    refused(tmp_path / "trained.osr", "holds a trained model, not a recognizer")
    with pytest.raises(PersistenceError, match="holds a recognizer, not a trained model"):
        load_trained(tmp_path / "model.osr")
    with pytest.raises(PersistenceError, match=r"holds a state of a stream over the model .*, not a state of a"):
        OpenSetRecognizer.from_state_bytes(fitted_once(41).trained, model.state_bytes())


def test_loading_executes_nothing(tmp_path):
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / "model.osr").write_bytes(pickle.dumps(Trap()))
    refused(tmp_path / "model.osr", "is damaged")
    np.savez(tmp_path / "model.npz", manifest=np.array([Trap()], dtype=object), allow_pickle=True)
    refused(tmp_path / "model.npz", "is damaged")
    assert not (tmp_path / "sprung").exists()


# Writing that fails


def test_folder_that_does_not_exist(tmp_path, model):
    with pytest.raises(PersistenceError, match=r"cannot write .*No such file.*Check that the folder exists"):
        model.save(tmp_path / "nowhere" / "model.osr")
    with pytest.raises(PersistenceError, match="cannot write /dev/full"):
        model.save(Path("/dev/full/model.osr"))


def test_what_is_no_file_is_not_replaced(tmp_path, model):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for path in (tmp_path / "pipe", tmp_path / "null"):
        with pytest.raises(PersistenceError, match=f"{path} is a device or a pipe, which cannot be replaced"):
            model.save(path)
        assert not path.is_file()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["null", "pipe"]


def test_keys_that_cannot_be_saved_are_named(tmp_path, saved):
    path = tmp_path / "model.osr"
    path.write_bytes(saved)
    for key in (b"bytes", frozenset([1]), 1j, Path("a")):
        model = fitted_once(batch_size=4)
        model.learn_one({"a": 0.0, "b": 0.0}, key=key)
        with pytest.raises(PersistenceError, match=r"cannot be saved\. Use str, int or float for keys") as caught:
            model.save(path)
        assert repr(key) in str(caught.value)
        assert path.read_bytes() == saved
        model.flush()
        assert next(model.drain()).key == key


def test_values_that_archives_hold_come_back(tmp_path):
    content = {
        "numbers": (1, 2.5, float("inf"), True, None, 10**30, -0.0, 0.1 + 0.2),
        "arrays": [np.arange(6).reshape(2, 3), np.zeros((0, 4)), np.asfortranarray(np.eye(3)), np.array(True)],
        "nested": {1: {"a": ({},)}, (1, "x"): [], False: "\N{SNOWMAN}"},
    }
    write_archive(tmp_path / "any", "thing", content)
    back = read_archive(tmp_path / "any", "thing")
    arrays = content.pop("arrays"), back.pop("arrays")
    for one, other in zip(*arrays, strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        assert one.flags.f_contiguous == other.flags.f_contiguous
    assert pickle.dumps(back) == pickle.dumps(content)


@pytest.mark.parametrize("constants", [{}, {"k": 1.0, "l": 1.0}], ids=["text alone", "constants beside"])
def test_a_model_without_a_number_that_varies_is_saved_and_goes_on(constants, tmp_path) -> None:
    rng = np.random.default_rng(0)

    def row(kind: str) -> dict[str, Any]:
        shape = rng.choice(["round", "oval", "flat"], p={"a": (0.8, 0.1, 0.1), "b": (0.1, 0.1, 0.8)}[kind])
        colour = {"a": "red", "b": "blue"}[kind] if rng.random() < 0.9 else "grey"
        return {"shape": str(shape), "colour": colour} | constants

    model = learn_all(OpenSetRecognizer(batch_size=16, seed=1), [(row(kind), kind) for kind in "ab" * 80])
    model.freeze()
    other, stream = through_a_file(model, tmp_path), [(row(kind), None) for kind in "ab" * 20]
    for each in (model, other):
        learn_all(each, stream).flush()
    assert outcome(model) == outcome(other)
    assert sum(d.label == kind for d, kind in zip(model.drain(), "ab" * 20, strict=True)) > 25


# Streams in which neighbours depend on each other


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("memory", "arguments"),
    [
        (0.0, {"follow_drift": True}),
        (0.95, {"decision_delay": 40}),
        pytest.param(0.95, {}, marks=pytest.mark.long),
        pytest.param(0.95, {"batch_size": 64, "window": 20}, marks=pytest.mark.long),
    ],
)
def test_a_dependent_stream_goes_on_bit_for_bit_with_new_classes_and_gaps(memory, arguments, tmp_path):
    """Saved in the midst of batches, with a class that a person names, one that a label opens, and missing values."""
    outcomes = []
    for saved in (False, True):
        usual = {"batch_size": 16, "window": 100, "chains": 2, "training_sweeps": 3}
        model = OpenSetRecognizer(**grouped(**{**usual, **arguments}))
        learn_all(model, dependent_rows(600, 1, memory)).freeze()
        assert model.trained.is_dependent == (memory > 0.0)
        for at, (x, _) in enumerate(dependent_rows(900, 2)):
            rng = np.random.default_rng([at, 4])
            if at % 5 == 4:
                x = dict(zip("abc", rng.normal((-9.0, 9.0, -9.0)).tolist(), strict=True))
            model.learn_one({**x, "a": None} if at % 11 == 7 else x, key=at)
            if at == 500:
                life = model.value.stream.life
                model.promote(life.ids[life.emerged].tolist()[:1], "third")
            if at == 700:
                model.learn_label(654, "fourth")
            if saved and at % 97 == 50:
                check_stream(model.value.stream)
                model = through_a_file(model, tmp_path)
        model.flush()
        assert model.value.stream.labels[2:] == ("third", "fourth")
        assert model.value.stream.arrival.gain.any()
        outcomes.append(outcome(model))
    assert outcomes[0] == outcomes[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments",
    [
        {"pca_components": 2, "max_training": 20},
        {"nu": 9, "beta": 1, "decision_delay": 40, "min_probability": 0.8},
        {"chains": 3, "ensemble": "drawn", "learn_odds": False, "broad": False},
        {"chains": 1},
    ],
    ids=str,
)
def test_goes_on_bit_for_bit_whatever_the_model(arguments, tmp_path):
    operations = story()
    model = OpenSetRecognizer(**grouped(**ARGUMENTS, **arguments))
    for at in range(0, len(operations), 47):
        play(model, operations[at : at + 47])
        model = through_a_file(model, tmp_path)
    model.flush()
    assert outcome(model) == uninterrupted(**ARGUMENTS, **arguments)

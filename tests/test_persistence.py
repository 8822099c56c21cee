"""Saving, loading, copying: bit for bit, or a plain error and nothing lost."""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import json
import os
import pickle
import re
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import PersistenceError
from tests.blobs import NEW, check_stream, dependent_rows, fitted, learn_all, stream_part, told, training_part
from tests.doors.archive import VERSION, load_trained, read_archive, save_trained, write_archive

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


def outcome(model: OpenSetRecognizer) -> tuple[Any, ...]:
    """Everything that a model has told and would tell, floats to the last bit."""
    decisions, events = told(model)
    x = {"a": NEW[0], "b": NEW[1]}
    return repr(decisions), repr(events), repr(model.predict_proba_one(x)), str(model.summary()), dict(model.counters)


@functools.cache
def uninterrupted(**arguments: Any) -> tuple[Any, ...]:
    model = OpenSetRecognizer(**grouped(**arguments))
    play(model, story())
    model.flush()
    return outcome(model)


def through_a_file(model: OpenSetRecognizer, folder: Path) -> OpenSetRecognizer:
    model.save(folder / "model.osr")
    return OpenSetRecognizer.load(folder / "model.osr")


WAYS: dict[str, Callable[[OpenSetRecognizer, Path], OpenSetRecognizer]] = {
    "file": through_a_file,
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, _: copy.deepcopy(model),
}
POINTS = {
    "fresh": 0,
    "first-instance": 1,
    "in-training": 50,
    "before-freezing": 90,
    "frozen": 91,
    "mid-batch": 100,
    "late-labels-pending": 186,
    "class-opened": 262,
    "many-batches": 380,
}
ARGUMENTS = {"batch_size": 16, "window": 50, "label_horizon": 150, "seed": 3}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("point", POINTS)
def test_goes_on_bit_for_bit(way, point, tmp_path):
    operations, at = story(), POINTS[point]
    first = OpenSetRecognizer(**grouped(**ARGUMENTS))
    play(first, operations[:at])
    if point == "late-labels-pending":
        assert first.value.evidence
        assert first.value.buffer
    second = WAYS[way](first, tmp_path)
    play(second, operations[at:])
    second.flush()
    assert outcome(second) == uninterrupted(**ARGUMENTS)
    play(first, operations[at:])  # and what was saved goes on as well
    first.flush()
    assert outcome(first) == uninterrupted(**ARGUMENTS)


@pytest.mark.parametrize(
    "arguments",
    [
        {"pca_components": 2},
        {"max_training": 20},
        {"nu": 9, "beta": 1},
        {"decision_delay": 40, "min_probability": 0.8},
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


def test_what_was_drained_is_not_told_again(tmp_path):
    model = fitted(batch_size=8)
    for x, _ in stream_part(60):
        model.learn_one(x)
    told(model)
    assert told(through_a_file(model, tmp_path)) == ([], [])


def test_everything_that_a_caller_may_hand_over_survives(tmp_path):
    model = OpenSetRecognizer(batch_size=4, max_wait=1e9, unknown="dunno")
    names: list[Any] = ["plain", "späte \N{SNOWMAN}", 3, ("pair", 1), 2.5, True, None]
    rng = np.random.default_rng(0)
    for i in range(60):
        x = dict(zip(names, rng.normal(size=7).tolist(), strict=True))
        model.learn_one({**x, "plain": x["plain"] + 20 * (i % 2)}, ["eins", "zwei"][i % 2])
    keys: list[Any] = ["text", 7, ("topic", 3, 12), 2.5, None, True, "\x00", np.int64(5), -(2**63)]
    for i, key in enumerate(keys):
        model.learn_one(
            dict(zip(names, rng.normal(size=7).tolist(), strict=True)), t=[i, 0.1 * i, None][i % 3], key=key
        )
    other = through_a_file(model, tmp_path)
    assert other.trained.names == model.trained.names
    assert other.arguments == model.arguments
    assert other.counters == model.counters
    for each in (model, other):
        each.learn_label(("topic", 3, 12), "zwei")
        each.flush()
        assert each.counters["unknown_keys"] == 0
    decisions = list(other.drain())
    assert repr(decisions) == repr(list(model.drain()))
    assert [d.key for d in decisions] == keys


# In another process

SCRIPT = """
import sys
from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from tests.test_persistence import ARGUMENTS, digest, play, story

path, start = sys.argv[1], int(sys.argv[2])
model = OpenSetRecognizer.load(path) if start else OpenSetRecognizer(**grouped(**ARGUMENTS))
play(model, story()[start:])
model.flush()
print(model.trained.fingerprint, digest(model))
"""


def digest(model: OpenSetRecognizer) -> str:
    return hashlib.sha256(repr(outcome(model)).encode()).hexdigest()


def elsewhere(path: Path, start: int) -> list[str]:
    """Play the rest of the story in another process, with other hashes; fingerprint and digest of the outcome."""
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(path), str(start)],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("start", [0, 186])
def test_another_process_computes_the_same_bits(start, tmp_path):
    model = OpenSetRecognizer(**grouped(**ARGUMENTS))
    play(model, story()[:start])
    model.save(tmp_path / "model.osr")
    play(model, story()[start:])
    model.flush()
    assert elsewhere(tmp_path / "model.osr", start) == [model.trained.fingerprint, digest(model)]


def test_the_seed_decides():
    def digest_of(seed: int) -> str:
        model = OpenSetRecognizer(batch_size=16, seed=seed)
        play(model, story())
        return digest(model)

    assert digest_of(0) == digest_of(0)
    assert len({digest_of(seed) for seed in range(4)}) == 4


def test_the_seed_of_the_stream_decides_too():
    trained = fitted().trained
    digests = set()
    for seed in range(4):
        model = OpenSetRecognizer.from_trained(trained, batch_size=16, seed=seed)
        play(model, story()[91:])
        digests.add(digest(model))
    assert len(digests) == 4


# One trained model for several recognizers


def test_two_streams_share_a_trained_model_and_do_not_change_it(tmp_path):
    trained = fitted().trained
    before, fingerprint = pickle.dumps(trained), trained.fingerprint
    one, same, other = (OpenSetRecognizer.from_trained(trained, batch_size=16, seed=seed) for seed in (5, 5, 6))
    play(other, story()[91:200])
    for operation in story()[91:]:
        play(one, [operation])
        play(same, [operation])
        assert one.trained is same.trained is trained
    assert pickle.dumps(trained) == before
    assert (
        TrainedModel(
            trained.names,
            trained.labels,
            trained.whitening,
            trained.draws,
            trained.report,
            trained.references,
            trained.noise_range,
            usual=trained.usual,
        ).fingerprint
        == fingerprint
    )
    assert len(one.value.stream.labels) == 3
    assert outcome(one) == outcome(same)


def test_trained_part_alone_is_saved_and_loaded(tmp_path):
    trained = fitted().trained
    save_trained(trained, tmp_path / "trained.osr")
    loaded = load_trained(tmp_path / "trained.osr")
    assert loaded.fingerprint == trained.fingerprint
    assert loaded.report == trained.report
    assert (loaded.names, loaded.labels) == (trained.names, trained.labels)
    outcomes = []
    for part in (trained, loaded, pickle.loads(pickle.dumps(trained)), copy.deepcopy(trained)):
        model = OpenSetRecognizer.from_trained(part, batch_size=16)
        play(model, story()[91:])
        outcomes.append(outcome(model))
    assert all(each == outcomes[0] for each in outcomes)


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


def test_missing_file_is_refused(tmp_path):
    refused(tmp_path / "nothing.osr", "there is no file .*; check the path")
    refused(tmp_path / "no folder" / "nothing.osr", "there is no file .*; check the path")


def test_folder_is_refused(tmp_path, model):
    refused(tmp_path, "is a folder")
    with pytest.raises(PersistenceError, match="is a folder; give the name of a file in it"):
        model.save(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    refused(tmp_path / "file" / "model.osr", "cannot read .*Not a directory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"hello", b"PK\x03\x04", b"\x80\x04N.", np.random.default_rng(0).bytes(5000)],
    ids=["empty", "nul", "text", "zip", "pickle", "random"],
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "model.osr"
    path.write_bytes(content)
    refused(path, "is damaged, or not a saved stream-osr model; save it again")


def test_archives_of_other_programs_are_refused(tmp_path):
    np.save(tmp_path / "plain.npy", np.arange(5))
    np.savez(tmp_path / "other.npz", x=np.arange(5))
    np.savez(tmp_path / "objects.npz", manifest=np.array([{"format": "stream-osr"}], dtype=object), allow_pickle=True)
    for manifest in ("[]", "3", "{", "{}", '{"format": "other"}', '{"format": "stream-osr"}'):
        np.savez(tmp_path / "manifest.npz", manifest=np.array(manifest))
        refused(tmp_path / "manifest.npz", "is damaged, or not a saved stream-osr model")
    for name in ("plain.npy", "other.npz", "objects.npz"):
        refused(tmp_path / name, "is damaged, or not a saved stream-osr model")


def test_truncated_files_are_refused(tmp_path, saved):
    path = tmp_path / "model.osr"
    for length in [*range(0, len(saved), len(saved) // 40), len(saved) - 1]:
        path.write_bytes(saved[:length])
        refused(path, "is damaged")


def test_flipped_bits_are_found_or_harmless(tmp_path, saved, model):
    path, rng = tmp_path / "model.osr", np.random.default_rng(0)
    expected = pickle.dumps(OpenSetRecognizer.load(write(path, saved)))
    found = 0
    for at in rng.integers(0, len(saved), size=300):
        damaged = bytearray(saved)
        damaged[at] ^= 1 << int(rng.integers(8))
        write(path, bytes(damaged))
        try:
            loaded = OpenSetRecognizer.load(path)
        except PersistenceError:
            found += 1
        else:
            assert pickle.dumps(loaded) == expected
    assert found > 200


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_wrong_kind_is_refused(tmp_path, model):
    model.save(tmp_path / "model.osr")
    save_trained(model.trained, tmp_path / "trained.osr")
    refused(tmp_path / "trained.osr", "holds a trained model, not a recognizer")
    with pytest.raises(PersistenceError, match="holds a recognizer, not a trained model"):
        load_trained(tmp_path / "model.osr")


def with_manifest(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite the manifest of a saved model, everything else being as it was."""
    with np.load(path) as archive:
        arrays = dict(archive)
    manifest = json.loads(str(arrays["manifest"]))
    change(manifest)
    arrays["manifest"] = np.array(json.dumps(manifest))
    with path.open("wb") as file:
        np.savez(file, **arrays)


@pytest.mark.parametrize("other", [VERSION - 1, VERSION + 1])
def test_another_version_is_refused(tmp_path, model, other):
    path = tmp_path / "model.osr"
    model.save(path)
    with_manifest(path, lambda manifest: None)
    assert OpenSetRecognizer.load(path).pending == model.pending
    with_manifest(path, lambda manifest: manifest.update(version=other))
    refused(path, f"has format version {other}, this program reads {VERSION}; read it with the release of stream-osr")


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        pairs = manifest["content"]["dict"]
        pairs[:] = [pair for pair in pairs if pair[0] not in names]

    return change


def replaced(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        for pair in manifest["content"]["dict"]:
            if pair[0] == name:
                pair[1] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        without("arguments"),
        without("stream"),
        replaced("arguments", {"dict": [["batch_size", -1]]}),
        replaced("arguments", {"dict": [["no such parameter", 1]]}),
        replaced("arguments", 5),
        replaced("counters", 5.0),
        replaced("stream", {"same": 12345}),
        replaced("stream", {"array": "a12345", "number": 1}),
        replaced("stream", {"record": "Popen", "values": {}, "number": 1}),
        replaced("stream", {"record": "Stream", "values": {"labels": 1}, "number": 1}),
        replaced("stream", {}),
        lambda manifest: manifest.update(content=[]),
        lambda manifest: manifest.update(version="newest"),
        lambda manifest: manifest.pop("kind"),
    ],
)
def test_manifest_that_does_not_fit_is_refused(tmp_path, model, change):
    path = tmp_path / "model.osr"
    model.save(path)
    with_manifest(path, change)
    with pytest.raises(PersistenceError, match=r"is damaged|cannot be used"):
        OpenSetRecognizer.load(path)


def test_a_file_that_would_unpack_to_more_than_it_is_is_refused_unread(tmp_path, saved):
    """Of the same arrays: only the packing is another, as in a bomb."""
    with (
        zipfile.ZipFile(io.BytesIO(saved)) as before,
        zipfile.ZipFile(tmp_path / "b.osr", "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for name in before.namelist():
            after.writestr(name, before.read(name))
    with pytest.raises(PersistenceError, match="damaged") as refused:
        OpenSetRecognizer.load(tmp_path / "b.osr")
    assert re.fullmatch(r"\d+ bytes would unpack to \d+", str(refused.value.__cause__))


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


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let the system refuse to write more than so many bytes to any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 4096])
def test_full_disk_leaves_the_old_file(tmp_path, saved, model, room):
    path = write(tmp_path / "model.osr", saved)
    expected = r"cannot write .*File too large; check that the folder exists and has room"
    with room_for(room), pytest.raises(PersistenceError, match=expected):
        model.save(path)
    assert path.read_bytes() == saved
    assert [each.name for each in tmp_path.iterdir()] == ["model.osr"]


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), KeyboardInterrupt()], ids=["error", "interrupted"]
)
def test_failing_at_the_last_moment_leaves_the_old_file(tmp_path, saved, model, monkeypatch, error):
    path = write(tmp_path / "model.osr", saved)

    def fail(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((PersistenceError, KeyboardInterrupt)):
        model.save(path)
    assert path.read_bytes() == saved
    assert [each.name for each in tmp_path.iterdir()] == ["model.osr"]


def test_folder_that_does_not_exist(tmp_path, model):
    with pytest.raises(PersistenceError, match=r"cannot write .*No such file.*check that the folder exists"):
        model.save(tmp_path / "nowhere" / "model.osr")
    with pytest.raises(PersistenceError, match="cannot write /dev/full"):
        model.save(Path("/dev/full/model.osr"))


def test_saving_replaces_whole_files(tmp_path, model):
    path = tmp_path / "model.osr"
    for size in (10, 60):
        fitted(size).save(path)
        assert OpenSetRecognizer.load(path).trained.report.instances == {"left": size, "right": size}
    assert [each.name for each in tmp_path.iterdir()] == ["model.osr"]
    before = path.read_bytes()
    with path.open("rb") as reader:  # who reads the old file meanwhile reads it to its end
        model.save(path)
        assert reader.read() == before
    assert path.read_bytes() != before


def test_a_saved_file_holds_rows_and_is_its_owners_alone(tmp_path, model):
    path = tmp_path / "model.osr"
    model.save(path)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    path.chmod(0o640)  # somebody means it
    model.save(path)
    assert oct(path.stat().st_mode & 0o777) == "0o640"


def test_what_is_no_file_is_not_replaced(tmp_path, model):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for path in (tmp_path / "pipe", tmp_path / "null"):
        with pytest.raises(PersistenceError, match=f"{path} is a device or a pipe, which cannot be replaced"):
            model.save(path)
        assert not path.is_file()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["null", "pipe"]


@pytest.mark.parametrize("key", [b"bytes", frozenset([1]), 1j, Path("a")], ids=repr)
def test_keys_that_cannot_be_saved_are_named(tmp_path, saved, key):
    path = write(tmp_path / "model.osr", saved)
    model = fitted(batch_size=4)
    model.learn_one({"a": 0.0, "b": 0.0}, key=key)
    with pytest.raises(PersistenceError, match="cannot be saved; use str, int or float for keys") as caught:
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
    assert repr(back) == repr(content)
    assert [each.flags.f_contiguous for each in back["arrays"]] == [
        each.flags.f_contiguous for each in content["arrays"]
    ]


def test_streams_over_a_shared_model_are_saved_without_it(tmp_path):
    trained = fitted(chains=2).trained
    model = OpenSetRecognizer.from_trained(trained, batch_size=16, chains=2)
    feed(model, 40)
    path = tmp_path / "stream.osr"
    write_archive(path, "stream", model.stream_state(), trained.shared)
    again = OpenSetRecognizer.from_stream_state(trained, read_archive(path, "stream", trained.shared))
    assert all(chain.known is trained.draws[n] for n, chain in enumerate(again.value.stream.chains)), (
        "shared, not copied"
    )
    alone = tmp_path / "alone.osr"
    write_archive(alone, "stream", model.stream_state())
    assert path.stat().st_size < alone.stat().st_size
    feed(model, 40, seed=1)
    feed(again, 40, seed=1)
    assert list(model.drain()) == list(again.drain())


def test_a_stream_over_another_model_is_refused():
    model = fitted()
    other = fitted(n=41).trained
    with pytest.raises(PersistenceError, match=r"belongs to the trained model .* and this is"):
        OpenSetRecognizer.from_stream_state(other, model.stream_state())


def test_a_copy_goes_on_alone():
    model = fitted(batch_size=16)
    feed(model, 24)
    twin = copy.copy(model)
    before = (model.pending, dict(model.counters), model.predict_proba_one({"a": 4.0, "b": 14.0}))
    feed(twin, 40, seed=1)
    twin.learn_one({"a": 0.0, "b": None})
    assert (model.pending, dict(model.counters), model.predict_proba_one({"a": 4.0, "b": 14.0})) == before
    feed(model, 40, seed=1)
    assert list(model.drain()) == list(twin.drain())


def feed(model, n, seed=0):
    for x, _ in stream_part(n, seed):
        model.learn_one(x)


@pytest.mark.parametrize("constants", [(), ("k", "l")], ids=["text alone", "constants beside"])
def test_a_model_without_a_number_that_varies_is_saved_and_goes_on(constants, tmp_path) -> None:
    rng = np.random.default_rng(0)

    def row(kind: str) -> dict[str, Any]:
        shape = rng.choice(["round", "oval", "flat"], p={"a": (0.8, 0.1, 0.1), "b": (0.1, 0.1, 0.8)}[kind])
        colour = {"a": "red", "b": "blue"}[kind] if rng.random() < 0.9 else "grey"
        return {"shape": str(shape), "colour": colour} | dict.fromkeys(constants, 1.0)

    model = OpenSetRecognizer(batch_size=16, seed=1)
    for _ in range(80):
        for kind in "ab":
            model.learn_one(row(kind), kind)
    model.freeze()
    path = tmp_path / "model.osr"
    model.save(path)
    other = OpenSetRecognizer.load(path)
    stream = [row("ab"[number % 2]) for number in range(40)]
    for each in (model, other):
        for x in stream:
            each.learn_one(x)
        each.flush()
    first, second = list(model.drain()), list(other.drain())
    assert [d.as_dict() for d in first] == [d.as_dict() for d in second]
    assert sum(d.label == "ab"[number % 2] for number, d in enumerate(first)) > 25


# Streams in which neighbours depend on each other


DEPENDENT = {
    "in training": (0.95, {"batch_size": 16, "window": 100}),
    "found by the stream": (0.0, {"batch_size": 16, "window": 100}),
    "smaller window than batch": (0.95, {"batch_size": 64, "window": 20}),
    "held back": (0.95, {"batch_size": 16, "window": 100, "decision_delay": 40}),
}


def beside_its_model(model: OpenSetRecognizer, folder: Path) -> OpenSetRecognizer:
    trained, path = model.trained, folder / "stream.osr"
    write_archive(path, "stream", model.stream_state(), trained.shared)
    return OpenSetRecognizer.from_stream_state(trained, read_archive(path, "stream", trained.shared))


@pytest.mark.parametrize("way", [*WAYS, "beside"])
@pytest.mark.parametrize("case", DEPENDENT)
def test_a_dependent_stream_goes_on_bit_for_bit(case: str, way: str, tmp_path: Path) -> None:
    memory, arguments = DEPENDENT[case]
    model = OpenSetRecognizer(**grouped(**arguments, chains=3, training_sweeps=5, seed=2))
    learn_all(model, dependent_rows(600, 1, memory))
    model.freeze()
    assert model.trained.is_dependent == (memory > 0.0)
    rows = [x for x, _ in dependent_rows(1400, 2)]
    for x in rows[:905]:  # 905 = 14 * 64 + 9 = 56 * 16 + 9
        model.learn_one(x)
    arrival = model.value.stream.arrival
    assert arrival.process is not None
    assert arrival.gain.any()
    assert (arrival.fitted >= 0) == (case == "found by the stream")
    assert model.pending
    other = {**WAYS, "beside": beside_its_model}[way](model, tmp_path)
    outcomes = []
    for each in (model, other):
        for x in rows[905:]:
            each.learn_one(x)
        each.flush()
        outcomes.append(
            (*told(each), repr(each.value.stream.arrival), each.trained.fingerprint, each.expected_recall)
        )
    same = repr(outcomes[0]) == repr(outcomes[1])
    assert same, "no difference is shown: it would take minutes"


@pytest.mark.parametrize("arguments", [{}, {"follow_drift": True}, {"batch_size": 64, "window": 20}], ids=str)
def test_a_dependent_stream_with_new_classes_and_gaps_is_saved_now_and_then(arguments, tmp_path):
    """Saved in the midst of batches, with a class that a person names, one that a label opens, and missing values."""
    outcomes = []
    for saved in (False, True):
        model = OpenSetRecognizer(
            **grouped(**{"batch_size": 16, "window": 100, "chains": 2, **arguments}, training_sweeps=3)
        )
        learn_all(model, dependent_rows(600, 1))
        model.freeze()
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
        outcomes.append((*told(model), model.expected_recall))
    same = repr(outcomes[0]) == repr(outcomes[1])
    assert same, "no difference is shown: it would take minutes"

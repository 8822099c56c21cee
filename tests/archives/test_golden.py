"""Archives that were written once are loaded, and go on as they did then, to the bit where bits can be the same.

On another processor, or with other versions of numpy and numba, labels are the same, and probabilities to 1e-9.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.archive.files import load_trained
from stream_osr.config import grouped
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import Partition
from stream_osr_connectors.kafka.run.snapshots import Snapshots, name_of
from stream_osr_connectors.kafka.wire.boundaries import Boundary, History
from tests.archives.golden import VERSIONS, beside, machine, unpacked
from tests.archives.story import ARGUMENTS, PLACE, go_on, go_on_serving, go_on_training, go_on_with_files

CLOSE = 1e-9

pytestmark = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)


def same(found: Any, expected: Any, close: float, where: str = "") -> None:
    """Compare what is told; numbers that are no counts may differ in their last digits elsewhere."""
    if isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=close, abs_tol=close), where
    elif isinstance(expected, dict):
        assert list(found) == list(expected), where
        for name in expected:
            same(found[name], expected[name], close, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for at, (one, other) in enumerate(zip(found, expected, strict=True)):
            same(one, other, close, f"{where}[{at}]")
    else:
        assert found == expected, where


def closeness(version: Path) -> float:
    """How close numbers have to be: the same bits on the machine that wrote them."""
    return 0.0 if json.loads((version / "machine.json").read_text()) == machine() else CLOSE


def as_text(told: dict[str, Any]) -> Any:
    return json.loads(json.dumps(told))


def test_the_trained_model(version: Path, tmp_path: Path) -> None:
    told = beside(version, "trained.osr")
    trained = load_trained(unpacked(version, "trained.osr", tmp_path))
    assert trained.fingerprint == told["fingerprint"], "snapshots, commits and events bear it"
    outcome = as_text(go_on(OpenSetRecognizer.from_trained(trained, **grouped(**ARGUMENTS)), told["rows"]))
    same(outcome, told["expected"], closeness(version))


@pytest.mark.parametrize("name", ["mid-stream.osr", "in-training.osr"])
def test_the_recognizer(version: Path, name: str, tmp_path: Path) -> None:
    told = beside(version, name)
    model = OpenSetRecognizer.load(unpacked(version, name, tmp_path))
    again = tmp_path / "again.osr"
    model.save(again)
    then = go_on if name == "mid-stream.osr" else go_on_training
    outcome = as_text(then(model, told["rows"]))
    same(outcome, told["expected"], closeness(version))
    assert as_text(then(OpenSetRecognizer.load(again), told["rows"])) == outcome, "written anew, to the last bit"


def test_the_recognizer_was_in_the_midst_of_everything(version: Path, tmp_path: Path) -> None:
    """Data that lost one case would still pass everything else."""
    model = OpenSetRecognizer.load(unpacked(version, "mid-stream.osr", tmp_path))
    stream = model.value.stream
    lives = stream.life.subclasses.values()
    assert (len(model.value.buffer), len(stream.waiting.decisions), len(model.value.evidence)) == (9, 12, 3)
    assert {life.muted for life in lives} == {life.emerged for life in lives} == {True, False}
    assert len(stream.chains[0].dormant.ids) == 1
    assert all(chain.known.named for chain in stream.chains)
    assert [type(action).__name__ for action in stream.undo_log] == ["Promotion", "Muting", "Labelling", "Labelling"]
    assert stream.labels[3:] == ("named",)
    assert None not in (
        stream.references,
        stream.called,
        stream.class_shift,
        stream.unknown_rate,
        stream.chains[0].check,
    )
    assert {chain.known.location.freedom > 0.0 for chain in stream.chains} == {True, False}
    assert set(model.trained.values) == {"kind"}
    assert model.trained.report.two_valued_features == ("on",)
    other = len(model.trained.values["kind"]) + 1
    assert sum(chain.state.dishes.counts[:, other].sum() for chain in stream.chains) > 0, "values never seen"


def test_the_checkpoint_of_the_loop(version: Path, tmp_path: Path) -> None:
    told = beside(version, "checkpoint.osr")
    checkpoint = load_checkpoint(unpacked(version, "checkpoint.osr", tmp_path))
    same(as_text(go_on_with_files(checkpoint, told["rows"])), told["expected"], closeness(version))


def test_the_snapshot_of_the_service(version: Path, tmp_path: Path) -> None:
    (name,) = (path.name.removesuffix(".json") for path in version.glob("in-3-*.json"))
    told, named = beside(version, name), name_of(unpacked(version, name, tmp_path))
    identity = unpacked(version, told["model"], tmp_path).stem
    model = ModelFile.kept(tmp_path, identity)
    snapshot = Snapshots(tmp_path, keep=2).read(Place(*PLACE), named.lineage, named.at, model.trained)
    assert len(snapshot.waiting) == ARGUMENTS["decision_delay"]
    assert [type(action).__name__ for action in snapshot.model.value.stream.undo_log] == ["Promotion", "Labelling"]
    shared = snapshot.model.value.stream.known.location is model.trained.draws[0].location
    assert shared, "what lies beside is not copied"
    partition = Partition(
        snapshot.model, snapshot.waiting, named.lineage, History(Boundary(0), fresh=True).to(named.at)
    )
    same(as_text(go_on_serving(partition, told["rows"], named.at.offset)), told["expected"], closeness(version))

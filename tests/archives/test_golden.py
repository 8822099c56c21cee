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
from stream_osr_connectors.kafka.run.partition import Partition
from stream_osr_connectors.kafka.wire.boundaries import Boundary, History
from tests.archives.golden import VERSIONS, beside, machine, unpacked
from tests.archives.story import ARGUMENTS, PLACE, go_on, go_on_serving, go_on_training, go_on_with_files

CLOSE = 1e-9

pytestmark = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)


def check_same(found: Any, expected: Any, version: Path, where: str = "") -> None:
    """Compare results: numbers that are no counts may differ in their last digits, unless this machine wrote them."""
    if isinstance(expected, float):
        close = 0.0 if json.loads((version / "machine.json").read_text()) == machine() else CLOSE
        assert math.isclose(found, expected, rel_tol=close, abs_tol=close), where
    elif isinstance(expected, dict):
        assert list(found) == list(expected), where
        for name in expected:
            check_same(found[name], expected[name], version, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for at, (one, other) in enumerate(zip(found, expected, strict=True)):
            check_same(one, other, version, f"{where}[{at}]")
    else:
        assert found == expected, where


def as_text(results: dict[str, Any]) -> Any:
    return json.loads(json.dumps(results))


def test_the_trained_model(version: Path, tmp_path: Path) -> None:
    golden = beside(version, "trained.osr")
    trained = load_trained(unpacked(version, "trained.osr", tmp_path))
    assert trained.fingerprint == golden["fingerprint"], "snapshots, commits and events contain it"
    outcome = as_text(go_on(OpenSetRecognizer.from_trained(trained, **grouped(**ARGUMENTS)), golden["rows"]))
    check_same(outcome, golden["expected"], version)


@pytest.mark.parametrize("name", ["mid-stream.osr", "in-training.osr"])
def test_the_recognizer(version: Path, name: str, tmp_path: Path) -> None:
    golden = beside(version, name)
    model = OpenSetRecognizer.load(unpacked(version, name, tmp_path))
    again = tmp_path / "again.osr"
    model.save(again)
    then = go_on if name == "mid-stream.osr" else go_on_training
    outcome = as_text(then(model, golden["rows"]))
    if name == "mid-stream.osr" or version == VERSIONS[-1]:
        check_same(outcome, golden["expected"], version)
    else:  # a later version may train otherwise
        assert list(outcome) == list(golden["expected"])
    assert as_text(then(OpenSetRecognizer.load(again), golden["rows"])) == outcome, "written anew, to the last bit"


def test_the_checkpoint_of_the_loop(version: Path, tmp_path: Path) -> None:
    golden = beside(version, "checkpoint.osr")
    checkpoint = load_checkpoint(unpacked(version, "checkpoint.osr", tmp_path))
    check_same(as_text(go_on_with_files(checkpoint, golden["rows"])), golden["expected"], version)


def test_the_snapshot_of_the_service(version: Path, tmp_path: Path) -> None:
    from stream_osr_connectors.kafka.run.folder_states import FolderStates
    from stream_osr_connectors.kafka.run.models import ModelFile
    from stream_osr_connectors.kafka.run.snapshots import Snapshots, name_of

    (name,) = (path.name.removesuffix(".json") for path in version.glob("in-3-*.json"))
    golden, named = beside(version, name), name_of(unpacked(version, name, tmp_path).name)
    identity = unpacked(version, golden["model"], tmp_path).stem
    model = ModelFile.kept(FolderStates(tmp_path), identity)
    snapshot = Snapshots(FolderStates(tmp_path), keep=2).read(Place(*PLACE), named.lineage, named.at, model.trained)
    assert len(snapshot.waiting) == ARGUMENTS["decision_delay"]
    assert [type(action).__name__ for action in snapshot.model.value.stream.undo_log] == ["Promotion", "Labelling"]
    shared = snapshot.model.value.stream.known.location is model.trained.draws[0].location
    assert shared, "what lies beside is not copied"
    partition = Partition(
        snapshot.model, snapshot.waiting, named.lineage, History(Boundary(0), fresh=True).to(named.at)
    )
    check_same(as_text(go_on_serving(partition, golden["rows"], named.at.offset)), golden["expected"], version)

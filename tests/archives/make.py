"""Write the golden archives of the code that runs, and beside each the results of the stream that goes on from it.

    python -m tests.archives.make FOLDER

Run it once for each format version, into a folder named by it; see the README beside it.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.archive.files import save_trained
from stream_osr.config import grouped
from stream_osr_connectors.files import MemorySink
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.file_run import Sinks
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.folder_states import FolderStates
from stream_osr_connectors.kafka.run.models import ModelFile
from stream_osr_connectors.kafka.run.partition import begin, step
from stream_osr_connectors.kafka.run.snapshots import Snapshots
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from tests.archives import story
from tests.archives.golden import machine
from tests.file_runs import run

LINEAGE = "77aa00bb"
STOPPED_AFTER = 75


def make(folder: Path) -> None:
    """Write all archives."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for write in (_trained, _mid_stream, _training, _checkpoint, _service):
            write(Path(temporary), folder)
    (folder / "machine.json").write_text(json.dumps(machine()) + "\n")


def _keep(folder: Path, path: Path, expected: dict[str, Any]) -> None:
    (folder / f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
    (folder / f"{path.name}.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


def _rows(n: int, seed: int, *names: str) -> list[story.Row]:
    return [row for _, row in story.drawn(n, seed, (*story.TRAINED, *names))]


def _trained(temporary: Path, folder: Path) -> None:
    model, path, rows = story.trained(), temporary / "trained.osr", _rows(80, 10, "named")
    save_trained(model.trained, path)
    expected = story.go_on(OpenSetRecognizer.from_trained(model.trained, **grouped(**story.ARGUMENTS)), rows)
    _keep(folder, path, {"fingerprint": model.trained.fingerprint, "rows": rows, "expected": expected})


def _recognizer(model: OpenSetRecognizer, path: Path, folder: Path, rows: Any, then: Callable[..., Any]) -> None:
    model.save(path)
    _keep(folder, path, {"rows": rows, "expected": then(OpenSetRecognizer.load(path), rows)})


def _mid_stream(temporary: Path, folder: Path) -> None:
    rows = _rows(80, 11, "named", "asleep", "late")
    _recognizer(story.mid_stream(), temporary / "mid-stream.osr", folder, rows, story.go_on)


def _training(temporary: Path, folder: Path) -> None:
    model = OpenSetRecognizer(**grouped(**story.ARGUMENTS))
    story.train(model, 41)
    _recognizer(model, temporary / "in-training.osr", folder, _rows(70, 12, "named"), story.go_on_training)


def _checkpoint(temporary: Path, folder: Path) -> None:
    path, rows = temporary / "checkpoint.osr", _rows(120, 13, "named", "noise")
    model, read = story.trained(chains=2, max_wait=9.0), 0

    def count(records: int) -> None:
        nonlocal read
        read = records

    sinks = Sinks(MemorySink(), MemorySink(), MemorySink())
    run(model, story.source(rows), sinks, checkpoint=path, stop=lambda: read >= STOPPED_AFTER - 1, progress=count)
    _keep(folder, path, {"rows": rows, "expected": story.go_on_with_files(load_checkpoint(path), rows)})


def _service(temporary: Path, folder: Path) -> None:
    path, state, rows = temporary / "service.model", temporary / "state", _rows(140, 14, "named", "noise")
    story.trained(chains=2).save(path)
    model = ModelFile.load(ServiceSettings(model=path, brokers="b", input="in"))
    snapshots = Snapshots(FolderStates(state).open(), keep=2)
    model.keep(FolderStates(state))
    partition = begin(model.recognizer(Place(*story.PLACE)), Boundary(0))._replace(lineage=LINEAGE)
    emerged: list[int] = []
    for first in range(0, 100, 20):
        batch = story.messages(rows[first : first + 20], first)
        if first == 80:
            story.ask(partition.model, emerged)
        partition, outcome = step(partition, story.PLACE, batch, (), Boundary(first + 20), story.decoder())
        emerged += [event.subclass_id for event in outcome.events if isinstance(event, SubclassEmerged)]
    written = state / snapshots.write(Place(*story.PLACE), partition)
    expected = story.go_on_serving(partition, rows[100:], 100)
    _keep(folder, written, {"rows": rows[100:], "expected": expected, "model": f"{model.identity}.model"})
    (folder / f"{model.identity}.model.xz").write_bytes(
        lzma.compress((state / f"{model.identity}.model").read_bytes(), preset=9)
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]))

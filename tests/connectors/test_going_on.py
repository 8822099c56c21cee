"""Going on from a checkpoint: every file is looked at before the first is cut, and none that is another one is."""

from __future__ import annotations

import gzip
import logging
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.base import BatchCloser, Position
from stream_osr_connectors.files import CheckedSink, MemorySink, Sink, open_sink, open_source
from stream_osr_connectors.files.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from stream_osr_connectors.files.file_run import Sinks, go_on
from tests.connectors.models import NAMES, streaming
from tests.connectors.test_locking import another_user, shared
from tests.file_runs import run

__all__ = ["shared"]  # a fixture

OUTPUTS = ["{}.jsonl", "{}.csv", "{}.jsonl.gz", "{}.csv.gz"]


class Run(NamedTuple):
    """A run that died: what it had written, and what it would have."""

    folder: Path
    paths: tuple[Path, Path]
    expected: tuple[bytes, bytes]
    checkpoint: Path


def content(paths: tuple[Path, ...]) -> tuple[bytes, ...]:
    return tuple(gzip.decompress(p.read_bytes()) if p.name.endswith(".gz") else p.read_bytes() for p in paths)


def table(folder: Path) -> Path:
    rows = np.random.default_rng(4).normal(9 * np.arange(400)[:, None] % 18, 1, (400, 3)).round(3)
    lines = ["x,y,z" if i % 9 == 5 else ",".join(map(str, row)) for i, row in enumerate(rows.tolist())]
    path = folder / "in.csv"
    path.write_text("\n".join([",".join(NAMES), *lines]) + "\n")
    return path


@pytest.fixture(scope="module", params=OUTPUTS)
def died(request: Any, trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Decisions and errors of a run that died after its checkpoint at 250 of 400, with more written after that."""
    folder, name = tmp_path_factory.mktemp("died"), str(request.param)
    whole = (folder / name.format("whole"), folder / name.format("whole-errors"))
    paths = (folder / name.format("out"), folder / name.format("errors"))
    options: Any = {"checkpoint": folder / "checkpoint", "checkpoint_every": 100}
    source = table(folder)
    for outputs, stopped in ((whole, 401), (paths, 250)):
        with open_source(source) as rows, open_sink(outputs[0]) as out, open_sink(outputs[1]) as errors:
            run(streaming(trained), rows, Sinks(out, None, errors), until=stopped, **options)
            if stopped == 250:
                for sink in (out, errors):
                    sink.write(dict.fromkeys(sink.position().get("fields") or ["row"], 7))
    return Run(folder, paths, content(whole), folder / "checkpoint")  # type: ignore[arg-type]


@pytest.fixture
def dead(died: Run, tmp_path: Path) -> Run:
    """What that run has left, in a folder of its own."""
    shutil.copytree(died.folder, tmp_path, dirs_exist_ok=True)
    out, errors = died.paths
    return Run(tmp_path, (tmp_path / out.name, tmp_path / errors.name), died.expected, tmp_path / "checkpoint")


def go(dead: Run, source: str = "in.csv") -> None:
    """Go on from the checkpoint to the end."""
    found = load_checkpoint(dead.checkpoint)
    out, errors = dead.paths
    with open_source(dead.folder / source) as rows, open_sink(out) as decisions, open_sink(errors) as bad:
        sinks = Sinks(decisions, None, bad)
        go_on(found, rows, sinks)
        run(found.model, rows, sinks, started=found, checkpoint=dead.checkpoint)


def test_a_run_goes_on_where_it_died_or_with_copies(dead: Run) -> None:
    out, errors = (dead.folder / f"copy-{path.name}" for path in dead.paths)
    for path, copy in zip(dead.paths, (out, errors), strict=True):
        copy.write_bytes(path.read_bytes())
    copies = dead._replace(paths=(out, errors), checkpoint=dead.folder / "copy-checkpoint")
    copies.checkpoint.write_bytes(dead.checkpoint.read_bytes())
    for each in (dead, dead, copies):
        go(each)
        assert content(each.paths) == dead.expected


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "shorter": lambda data: data[: len(data) // 3],
    "head": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "another": lambda data: b"\n".join(b'{"another": "program", "wrote": %d}' % i for i in range(len(data) // 10)),
    "emptied": lambda data: b"",
}


@contextmanager
def refused(dead: Run, match: str) -> Iterator[None]:
    """Check that going on is an error, and that it changes no file."""
    before = [path.read_bytes() for path in dead.paths]
    with pytest.raises(ConnectorError, match=match):
        yield
    assert [path.read_bytes() for path in dead.paths] == before


@pytest.mark.parametrize(("change", "which"), [*zip(CHANGES, (0, 1, 0, 1), strict=True)])
def test_another_file_is_refused_before_anything_is_cut(dead: Run, which: int, change: str) -> None:
    (dead.folder / "other.csv").write_text((dead.folder / "in.csv").read_text().replace("0.", "1."))
    with refused(dead, r"other.csv: this is not the file that was being read"):
        go(dead, source="other.csv")
    path = dead.paths[which]
    path.write_bytes(CHANGES[change](path.read_bytes()))
    why = "it is not the file that was being written. Put that file back, or start without"
    with refused(dead, rf"^{re.escape(str(path))} has .*{why}"):
        go(dead)


@pytest.mark.parametrize("back", [1, 100])
def test_a_change_before_the_checkpoint_is_noticed(dead: Run, back: int) -> None:
    """An edited end of the file before the checkpoint would otherwise be cut in the middle."""
    offset: Any = (load_checkpoint(dead.checkpoint).sinks[0] or {})["offset"]
    data = bytearray(dead.paths[0].read_bytes())
    data[offset - back] ^= 1
    dead.paths[0].write_bytes(data)
    with refused(dead, rf"has other content before byte {offset} \(its first or its last 4096"):
        go(dead)


# --- files that could not be read when the checkpoint was written -----------------------------------


def unidentified(dead: Run) -> Checkpoint:
    """Have the checkpoint as it is where the outputs could be written and not read."""
    found = load_checkpoint(dead.checkpoint)
    known = {"offset", "fields", "safe"}
    sinks = tuple(p and {name: value for name, value in p.items() if name in known} for p in found.sinks)
    save_checkpoint(dead.checkpoint, found._replace(sinks=sinks))
    return found


def test_a_run_goes_on_and_says_what_it_could_not_check(dead: Run, caplog: pytest.LogCaptureFixture) -> None:
    unidentified(dead)
    with caplog.at_level(logging.WARNING, logger="stream_osr"):
        go(dead)
        assert content(dead.paths) == dead.expected
        said = [
            message.partition(": the position to resume from does not identify ")[0] for message in caplog.messages
        ]
        assert said == [str(path) for path in dead.paths]
        caplog.clear()
        go(dead)
    assert not caplog.records


def test_what_can_be_checked_is(dead: Run) -> None:
    found = unidentified(dead)
    before = [path.read_bytes() for path in dead.paths]
    dead.paths[1].write_bytes(before[1][:30])  # the second alone: the first was cut once
    with refused(dead, "has 30 bytes and cannot be cut to"):
        go(dead)
    offset: Any = (found.sinks[0] or {})["offset"]
    data = bytearray(before[0])
    data[offset if dead.paths[0].name.endswith(".gz") else offset - 1] ^= 1
    for path, content in zip(dead.paths, (data, before[1]), strict=True):
        path.write_bytes(content)
    with refused(dead, f"has no end of a record at byte {offset}"):
        go(dead)


# --- sinks without content, and sinks of others -----------------------------------------------------


@pytest.mark.parametrize("name", ["errors.jsonl", "errors.csv.gz"])
def test_a_file_that_was_empty_is_not_any_file(tmp_path: Path, name: str) -> None:
    """Nothing had been set aside, and the name given now is that of something else."""
    with open_sink(tmp_path / name) as sink:
        sink.flush()
        position = sink.position()
        sink.write({"row": 1})
    other = tmp_path / f"other-{name}"
    other.write_bytes(b"precious")
    with open_sink(other) as sink, pytest.raises(ConnectorError, match="has 8 bytes, and there was an empty file"):
        sink.truncate(position)
    other.write_bytes(b"precious")
    with open_sink(tmp_path / name) as sink:  # after a crash
        sink.truncate(position)
    assert (tmp_path / name).read_bytes() == b""
    other.unlink()
    with open_sink(other) as sink:  # as good as that one
        sink.truncate(position)


class PlainSink(BatchCloser):
    """A sink of a user, without `check`."""

    def __init__(self, refuses: bool = False) -> None:
        self.records: list[Mapping[str, object]] = []
        self.refuses = refuses

    def write(self, record: Mapping[str, object]) -> None:
        self.records.append(record)

    def flush(self) -> None:
        pass

    def position(self) -> Position:
        return {"offset": len(self.records)}

    def truncate(self, position: Position | None) -> None:
        if self.refuses:
            raise ConnectorError("not mine")
        offset: Any = (position or {"offset": 0})["offset"]
        del self.records[offset:]

    def close(self) -> None:
        pass


def test_a_sink_without_a_check_goes_on_and_what_it_refuses_costs_no_other(trained: Any, tmp_path: Path) -> None:
    source, checkpoint, own = table(tmp_path), tmp_path / "checkpoint", PlainSink()
    assert isinstance(own, Sink)
    assert not isinstance(own, CheckedSink)
    expected = MemorySink()
    with open_source(source) as rows:
        run(streaming(trained), rows, Sinks(expected))
    with open_source(source) as rows, open_sink(tmp_path / "events.jsonl") as events:
        run(streaming(trained), rows, Sinks(own, events), checkpoint=checkpoint, until=250)
        own.write({})
        events.write({"after": "the checkpoint"})
    found = load_checkpoint(checkpoint)
    before = (tmp_path / "events.jsonl").read_bytes()
    own.refuses = True
    with open_source(source) as rows, open_sink(tmp_path / "events.jsonl") as events:
        for sinks in (Sinks(own, events), Sinks(events, own)):
            places = found.sinks if sinks[0] is own else (found.sinks[1], found.sinks[0], None)
            with pytest.raises(ConnectorError, match="not mine"):
                go_on(found._replace(sinks=places), rows, sinks)
            assert (tmp_path / "events.jsonl").read_bytes() == before
        own.refuses = False
        go_on(found, rows, Sinks(own, events))
        assert b"after" not in (tmp_path / "events.jsonl").read_bytes()
        run(found.model, rows, Sinks(own, events), started=found)
    assert own.records == expected.records


def test_a_file_that_may_be_written_and_not_read(shared: Path) -> None:
    path = shared / "out.jsonl"
    path.touch()
    path.chmod(0o222)
    with another_user(), open_sink(path) as sink:
        sink.write({"n": 2})
        sink.flush()
        position = sink.position()
        assert position == {"offset": 8}
        sink.write({"n": 3})
        sink.truncate(position)
    assert path.read_text() == '{"n":2}\n'

"""What is asked of a checkpoint is done once, whatever is killed meanwhile, and a log says what came of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import (
    InvalidInstance,
    InvalidLabel,
    InvalidParameter,
    InvalidSubclass,
    NothingToUndo,
    PersistenceError,
)
from stream_osr_connectors.commands import Command, history, runner
from stream_osr_connectors.commands.file_log import CommandLog
from stream_osr_connectors.files import JsonLinesSink, JsonLinesSource, MemorySink, MemorySource
from stream_osr_connectors.files.checkpoint import Checkpoint, ask, load_checkpoint
from stream_osr_connectors.files.file_run import Sinks, go_on
from stream_osr_connectors.files.locking import sole_writer
from tests.blobs import around
from tests.connectors.models import NAMES
from tests.file_runs import run
from tests.processes import COMMAND, Process
from tests.processes import run as command
from tests.test_cli import lines_of as lines

RUN = ("run", "-m", "model.osr", "--key", "id", "-o", "out.jsonl", "-e", "events.jsonl")
CHECKPOINT = "out.jsonl.checkpoint"
PATIENCE = 240.0
"""Seconds that a busy machine may take for something that takes one."""


@pytest.fixture
def work(made: bytes, tmp_path: Path) -> Path:
    """A folder with a model, and a stream of 96 instances of a new class."""
    (tmp_path / "model.osr").write_bytes(made)
    lines = [json.dumps({**x, "id": f"k{n}"}) for n, x in enumerate(new(96))]
    (tmp_path / "stream.jsonl").write_text("".join(line + "\n" for line in lines))
    return tmp_path


def new(count: int) -> list[dict[str, float]]:
    return list(around([30.0] * 3, count, np.random.default_rng(4), NAMES))


def go(work: Path, model: OpenSetRecognizer, started: Checkpoint | None = None, **options: Any) -> None:
    """Have a run, a new one or one that goes on."""
    with (
        JsonLinesSink(work / "out.jsonl") as out,
        JsonLinesSink(work / "events.jsonl") as events,
        JsonLinesSource(work / "stream.jsonl", key="id") as source,
    ):
        sinks = Sinks(out, events)
        if started is not None:
            go_on(started, source, sinks)
        run(model, source, sinks, started=started, checkpoint=work / CHECKPOINT, **options)


def resting(work: Path) -> tuple[Path, tuple[int, ...]]:
    """Have a run that has ended after 48 records; return its checkpoint, and what has emerged."""
    path = work / CHECKPOINT
    go(work, OpenSetRecognizer.load(work / "model.osr"), until=48)
    return path, load_checkpoint(path).model.new_classes().candidates[0].subclasses


def resumed(work: Path, **options: Any) -> None:
    """Go on from the checkpoint to the end of the stream."""
    started = load_checkpoint(work / CHECKPOINT)
    go(work, started.model, started, **options)


def outcomes(path: Path) -> list[str]:
    return [entry.outcome for entry in history(path)]


# At rest


def test_a_promotion_labels_what_comes_next(work: Path) -> None:
    path, ids = resting(work)
    receipt = ask(path, Command("promote", ids, "sky", by="ann", reason="I know it"))
    assert (receipt.status, receipt.n) == ("done", 1)
    resumed(work)
    labels = [line["label"] for line in lines(work / "out.jsonl")]
    assert labels[:48] == ["unknown"] * 48
    assert set(labels[48:]) == {"sky"}
    assert "SubclassPromoted" in [line["type"] for line in lines(work / "events.jsonl")], "told by the next run"
    (entry,) = history(path)
    assert (entry.command.by, entry.command.reason, entry.outcome, entry.after) == ("ann", "I know it", "done", 48)


def test_what_cannot_be_done_is_told_at_once_and_stands_in_the_log(work: Path) -> None:
    path, ids = resting(work)
    before = load_checkpoint(path).model.new_classes()
    for asked, error in (
        (Command("promote", (99,), "sky"), InvalidSubclass),
        (Command("promote", ids, "unknown"), InvalidLabel),
        (Command("label", key="nobody", label="left"), InvalidInstance),
        (Command("undo"), NothingToUndo),
    ):
        with pytest.raises(error):
            ask(path, asked)
    assert outcomes(path) == ["refused"] * 4
    assert all(entry.why for entry in history(path))
    assert load_checkpoint(path).model.new_classes() == before


def test_an_undo_is_of_the_last_one_that_stands(work: Path) -> None:
    path, ids = resting(work)
    ask(path, Command("mute", ids))
    ask(path, Command("label", key="k3", label="left"))
    for _ in range(2):
        ask(path, Command("undo"))
    assert [entry.undone_by for entry in history(path)] == [4, 3, None, None]
    assert [entry.takes_back for entry in history(path)] == [None, None, 2, 1]
    ask(path, Command("promote", ids, "sky"))
    ask(path, Command("undo"))
    assert history(path)[-2].undone_by == 6


def test_text_is_a_number_where_classes_are(tmp_path: Path) -> None:
    rng, model, path = np.random.default_rng(3), OpenSetRecognizer(chains=1, seed=5, batch_size=16), tmp_path / "c"
    for label, at in ((1, 0.0), (2, 9.0)):
        for x in around([at] * 3, 40, rng, NAMES):
            model.learn_one(x, label)
    model.freeze()
    run(model, MemorySource(new(48)), Sinks(MemorySink()), checkpoint=path)
    ids = load_checkpoint(path).model.new_classes().candidates[0].subclasses
    ask(path, Command("promote", ids, "3"))
    assert load_checkpoint(path).model.predict_one(new(1)[0]) == 3


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Command("rename", (1,)), "action is 'rename'"),  # type: ignore[arg-type]
        (Command("mute"), "mute without a subclass"),
        (Command("mute", (1,), "sky"), "mute with a label"),
        (Command("undo", key="k"), "undo with a key"),
        (Command("mute", (-1,)), "subclass id is -1"),
        (Command("mute", (True,)), "subclass id is True"),
        (Command("mute", (1,) * 1001), "1001 subclasses at a time"),
        (Command("mute", (1,), reason="x" * 1001), "reason is .*Use fewer words"),
        (Command("mute", (1,), by="\ud800"), "by is .* surrogate"),
        (Command("undo", partition=("sensors", 3)), "sensors/3: a run over files is one stream"),
    ],
)
def test_what_is_not_complete_is_not_written(work: Path, asked: Command, message: str) -> None:
    (work / "c").write_bytes(b"")
    with pytest.raises(InvalidParameter, match=message):
        ask(work / "c", asked)
    assert not (work / "c.asked.jsonl").exists()


def test_no_log_is_left_where_nothing_is_asked(work: Path) -> None:
    path, _ = resting(work)
    resumed(work)
    assert "asked" not in load_checkpoint(path).totals
    for name in ("nothing", "model.osr"):
        with pytest.raises(PersistenceError):
            ask(work / name, Command("undo"))
    assert not list(work.glob("*.asked.jsonl"))


# The log


def test_half_a_line_is_of_somebody_who_died_over_it(work: Path) -> None:
    path, ids = resting(work)
    ask(path, Command("mute", ids))
    log = Path(f"{path}.asked.jsonl")
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"n": 2, "at": "2026-01-01T00:00:00Z", "action": "un')
    assert len(history(path)) == 1
    ask(path, Command("undo"))
    assert log.read_bytes().startswith(whole)
    assert outcomes(path) == ["done", "done"]


def test_a_line_of_others_is_left(work: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, ids = resting(work)
    others = ["rubbish", '{"n": 1, "at": "now", "action": "mute", "subclasses": ["x"]}', "[1]", '{"of": 7, "at": ""}']
    others += ["[" * 100_000, '{"at": ' * 100_000, "[]", "7"]
    Path(f"{path}.asked.jsonl").write_text("".join(line + "\n" for line in others))
    ask(path, Command("mute", ids))
    assert outcomes(path) == ["done"]
    assert all(f"line {n} is skipped" in caplog.text for n in range(1, 1 + len(others)))


def test_a_log_that_was_lost_costs_the_record_and_no_act(work: Path) -> None:
    path, ids = resting(work)
    ask(path, Command("mute", ids))
    Path(f"{path}.asked.jsonl").unlink()
    assert ask(path, Command("undo")).n == 2, "a number below what the checkpoint has would never be done"
    assert load_checkpoint(path).totals["asked"] == 2


def test_two_ask_at_once(work: Path) -> None:
    path, _ = resting(work)
    asking = [
        Process((*COMMAND, "label", f"k{n}", "left", "--by", f"p{n}", "--checkpoint", path), cwd=work)
        for n in range(4)
    ]
    assert [process.wait(PATIENCE) for process in asking] == [0] * 4
    assert outcomes(path) == ["done"] * 4
    assert [entry.n for entry in history(path)] == [1, 2, 3, 4]
    assert {entry.command.by for entry in history(path)} == {"p0", "p1", "p2", "p3"}
    assert len(load_checkpoint(path).model.value.evidence) == 4


def test_a_new_run_leaves_what_was_asked_of_the_one_before(work: Path) -> None:
    path, ids = resting(work)
    with sole_writer(path):
        assert ask(path, Command("mute", ids)).status == "queued"
    assert outcomes(path) == ["pending"]
    resting(work)
    assert outcomes(path) == ["left"]
    assert load_checkpoint(path).totals["asked"] == 1
    ask(path, Command("mute", ids))
    assert outcomes(path) == ["left", "done"]


# Crashes


@pytest.mark.parametrize("at", ["before the outcome", "after the outcome", "after the checkpoint"])
def test_killed_while_it_is_done_at_rest(work: Path, at: str) -> None:
    """A process that forks does it, and dies for good at the point."""
    path, ids = resting(work)
    child = os.fork()
    if child == 0:
        _die_at(at)
        ask(path, Command("promote", ids, "sky"))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    resumed(work)
    assert outcomes(path) == ["done"]
    lines_of_log = Path(f"{path}.asked.jsonl").read_text().splitlines()
    assert len(lines_of_log) == 2, "one line that asks, and one that says what came of it"
    assert {line["label"] for line in lines(work / "out.jsonl")[48:]} == {"sky"}
    promoted = [line for line in lines(work / "events.jsonl") if line["type"] == "SubclassPromoted"]
    assert len(promoted) == len(ids)


def _die_at(point: str) -> None:
    """Have this process killed at a point of doing what was asked."""

    def die(*given: object, **named: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    from stream_osr_connectors.files import checkpoint

    if point == "before the outcome":
        CommandLog.tell = die  # type: ignore[method-assign]
    elif point == "after the outcome":
        checkpoint.save_checkpoint = die
    else:
        save = checkpoint.save_checkpoint
        checkpoint.save_checkpoint = lambda *given: (save(*given), die())  # type: ignore[func-returns-value]


def test_a_run_that_crashed_does_it_again_at_the_same_record(work: Path) -> None:
    """The checkpoint with it is lost, what came of it stands in the log: all outputs are the same to the byte."""
    path, ids = resting(work)
    early = path.read_bytes()
    read = iter(range(49, 200))
    asked = []

    def ask_at_60() -> bool:
        if next(read) == 60:
            asked.append(ask(path, Command("promote", ids, "sky")).status)
        return False

    original, runner.LOOK_SECONDS = runner.LOOK_SECONDS, 0.0
    try:
        resumed(work, stop=ask_at_60)
        assert asked == ["queued"]
        once = [(work / name).read_bytes() for name in ("out.jsonl", "events.jsonl", f"{CHECKPOINT}.asked.jsonl")]
        assert history(path)[0].after == 61, "the loop looks before it asks whether to stop"
        path.write_bytes(early)
        resumed(work)
    finally:
        runner.LOOK_SECONDS = original
    assert once == [(work / name).read_bytes() for name in ("out.jsonl", "events.jsonl", f"{CHECKPOINT}.asked.jsonl")]
    # and before the run has come there, somebody asks more: it waits its turn
    path.write_bytes(early)
    later = ask(path, Command("mute", ids))
    assert later.status == "queued"
    assert "--resume" in later.message
    resumed(work)
    assert outcomes(path) == ["done", "refused"], "it is a known class by then"


# While a run holds the checkpoint


def until(what: Callable[[], Any]) -> Any:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, "it has taken too long"
        time.sleep(0.05)
    return found


def test_a_run_that_waits_for_input_does_it_and_labels_what_comes_next(work: Path) -> None:
    path, stream = work / CHECKPOINT, (work / "stream.jsonl").read_bytes().splitlines(keepends=True)
    theirs, pipe = os.pipe()
    fed = (*COMMAND, *RUN, "-i", "-", "--format", "jsonl", "--checkpoint", CHECKPOINT)
    with (work / "err").open("w") as err:
        process = Process(fed, cwd=work, stdin=theirs, stderr=err.fileno())
    os.close(theirs)
    try:
        os.write(pipe, b"".join(stream[:56]))
        out = work / "out.jsonl"
        until(lambda: out.exists() and len(out.read_text().splitlines()) == 48)  # shown, though no checkpoint is due
        until(lambda: "SubclassEmerged" in (work / "events.jsonl").read_text())
        emerged = [line["subclass_id"] for line in lines(work / "events.jsonl") if line["type"] == "SubclassEmerged"]
        asked = command(*COMMAND, "promote", emerged[0], "sky", "--checkpoint", CHECKPOINT, "--by", "ann", cwd=work)
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout.startswith("queued: ")
        until(lambda: outcomes(path) == ["done"])
        bad = command(*COMMAND, "mute", 99, "--checkpoint", CHECKPOINT, "--reason", "dust", cwd=work)
        assert bad.returncode == 0
        until(lambda: outcomes(path) == ["done", "refused"])
        os.write(pipe, b"".join(stream[56:]))
        os.close(pipe)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
    labels = [line["label"] for line in lines(out)]
    assert set(labels[48:]) == {"sky"}, "the batch that was waiting is labelled so"
    assert len(labels) == 96
    said = (work / "err").read_text()
    assert "command 1 by ann: promote" in said
    assert "mute 99: refused: subclass 99 does not exist" in said
    told = command(*COMMAND, "history", "--checkpoint", CHECKPOINT, cwd=work).stdout
    assert "ann: promote" in told
    assert "mute 99 (dust): refused: subclass 99" in told


def test_a_followed_file_is_stopped_and_gone_on_with(work: Path) -> None:
    stream = (work / "stream.jsonl").read_bytes().splitlines(keepends=True)
    (work / "in.jsonl").write_bytes(b"".join(stream[:40]) + stream[40][:20])
    out, follow = work / "out.jsonl", (*COMMAND, *RUN, "-i", "in.jsonl", "--follow")
    process = Process(follow, cwd=work)
    try:
        until(lambda: out.exists() and len(out.read_text().splitlines()) == 32)
        with (work / "in.jsonl").open("ab") as more:
            more.write(stream[40][20:] + b"".join(stream[41:64]))
        until(lambda: len(out.read_text().splitlines()) == 64)
        process.terminate()
        assert process.wait(PATIENCE) == 130
    finally:
        process.kill()
    with (work / "in.jsonl").open("ab") as more:
        more.write(b"".join(stream[64:]))
    done = command(*COMMAND, *RUN, "-i", "in.jsonl", "--resume", cwd=work)
    assert done.returncode == 0, done.stderr
    followed = out.read_bytes()
    whole = command(*COMMAND, *RUN, "-i", "stream.jsonl", cwd=work)
    assert whole.returncode == 0
    assert out.read_bytes() == followed


def test_options_of_the_service_and_of_files_do_not_mix(work: Path) -> None:
    path, _ = resting(work)
    for arguments, message in (
        (("undo", "--checkpoint", path, "--config", "s.yaml"), "--config is for the Kafka service"),
        (("undo", "sensors/3", "--checkpoint", path), "this run is one stream and has no key"),
        (("undo",), "undo needs --checkpoint FILE"),
        (("mute", "eleven", "--checkpoint", path), "is no id of a subclass"),
    ):
        done = command(*COMMAND, *arguments, cwd=work)
        assert done.returncode == 1
        assert message in done.stderr

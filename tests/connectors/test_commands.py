"""A command for a checkpoint is done once, whatever is killed meanwhile, and a log has its result."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, errors
from stream_osr.stream.frame import ACCEPTED, REJECTED
from stream_osr_connectors.commands import Command, history, runner
from stream_osr_connectors.commands.file_log import CommandLog
from stream_osr_connectors.files import JsonLinesSink, JsonLinesSource, MemorySink, MemorySource
from stream_osr_connectors.files.checkpoint import Checkpoint, ask, load_checkpoint
from stream_osr_connectors.files.file_run import Sinks, go_on
from stream_osr_connectors.files.locking import sole_writer
from tests.blobs import around, fitted_once, moved_part
from tests.connectors.models import NAMES
from tests.file_runs import run
from tests.processes import COMMAND, Process
from tests.processes import run as command
from tests.test_cli import lines_of as lines

RUN = ("run", "-m", "model.osr", "--key", "id", "-o", "out.jsonl", "-e", "events.jsonl")
CHECKPOINT = "out.jsonl.checkpoint"
LOG, COMMANDS = f"{CHECKPOINT}.asked.jsonl", "asked"
"""Names of the log and, in a checkpoint, of the number of the last command."""
PATIENCE = 240.0
"""Seconds that a busy machine may take for something that takes one."""


def new(count: int) -> list[dict[str, float]]:
    return list(around([30.0] * 3, count, np.random.default_rng(4), NAMES))


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines))


@pytest.fixture
def work(made: bytes, tmp_path: Path) -> Path:
    """A folder with a model, and a stream of 96 instances of a new class."""
    (tmp_path / "model.osr").write_bytes(made)
    write(tmp_path / "stream.jsonl", [json.dumps({**x, "id": f"k{n}"}) for n, x in enumerate(new(96))])
    return tmp_path


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
    assert (labels[:48], set(labels[48:])) == (["unknown"] * 48, {"sky"})
    assert "SubclassPromoted" in [line["type"] for line in lines(work / "events.jsonl")], "an event of the next run"
    (entry,) = history(path)
    assert (entry.command.by, entry.command.reason, entry.outcome, entry.after) == ("ann", "I know it", "done", 48)


def test_what_cannot_be_done_is_refused_at_once_and_stands_in_the_log(work: Path) -> None:
    path, ids = resting(work)
    before = load_checkpoint(path).model.new_classes()
    for one, error in (
        (Command("promote", (99,), "sky"), errors.InvalidSubclass),
        (Command("promote", ids, "unknown"), errors.InvalidLabel),
        (Command("label", key="nobody", label="left"), errors.InvalidInstance),
        (Command("undo"), errors.NothingToUndo),
        (Command("accept_frame"), errors.NothingToJudge),
    ):
        with pytest.raises(error):
            ask(path, one)
    assert outcomes(path) == ["refused"] * 5
    assert all(entry.why for entry in history(path))
    assert load_checkpoint(path).model.new_classes() == before


def test_an_undo_is_of_the_last_one_that_stands(work: Path) -> None:
    path, ids = resting(work)
    label, undo = Command("label", key="k3", label="left"), Command("undo")
    for one in (Command("mute", ids), label, undo, undo):
        ask(path, one)
    assert [entry.undone_by for entry in history(path)] == [4, 3, None, None]
    assert [entry.takes_back for entry in history(path)] == [None, None, 2, 1]
    for one in (Command("promote", ids, "sky"), undo):
        ask(path, one)
    assert history(path)[-2].undone_by == 6


def test_a_verdict_on_a_moved_frame_is_undone(tmp_path: Path) -> None:
    path, rows = tmp_path / "c", [x for x, _ in moved_part(224)]
    model = fitted_once(batch_size=32, chains=1, window=32, seed=5)
    run(model, MemorySource(rows), Sinks(MemorySink()), checkpoint=path)
    undo = (Command("undo"), 0)
    for one, verdict in ((Command("accept_frame"), ACCEPTED), undo, (Command("reject_frame"), REJECTED), undo):
        receipt, model = ask(path, one), load_checkpoint(path).model
        assert model.value.stream.frame.verdict == verdict, receipt.message
        assert bool(model.signals.frame) == (one.action == "undo")
    assert [entry.undone_by for entry in history(path)] == [2, None, 4, None]
    assert history(path)[2].line().endswith("Z  reject frame: done after 224 records, undone by 4")


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
    ("command", "message"),
    [
        (Command("rename", (1,)), "action is 'rename'"),  # type: ignore[arg-type]
        (Command("mute"), "mute without a subclass"),
        (Command("mute", (1,), "sky"), "mute with a label"),
        (Command("undo", key="k"), "undo with a key"),
        (Command("reject_frame", (1,)), "reject_frame with a subclass"),
        (Command("mute", (-1,)), "subclass id is -1"),
        (Command("mute", (True,)), "subclass id is True"),
        (Command("mute", (1,) * 1001), "1001 subclasses at a time"),
        (Command("mute", (1,), reason="x" * 1001), "reason is .*Use fewer words"),
        (Command("mute", (1,), by="\ud800"), "by is .* surrogate"),
        (Command("undo", partition=("sensors", 3)), "sensors/3: a run over files is one stream"),
    ],
)
def test_an_invalid_command_is_not_written(tmp_path: Path, command: Command, message: str) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"")
    with pytest.raises(errors.InvalidParameter, match=message):
        ask(tmp_path / CHECKPOINT, command)
    assert not (tmp_path / LOG).exists()


def test_no_log_is_left_where_there_is_no_command(work: Path) -> None:
    path, _ = resting(work)
    resumed(work)
    assert COMMANDS not in load_checkpoint(path).totals
    for name in ("nothing", "model.osr"):
        with pytest.raises(errors.PersistenceError):
            ask(work / name, Command("undo"))
    assert not list(work.glob(f"*.{COMMANDS}.jsonl"))


# The log


def test_half_a_line_and_lines_of_other_programs_are_skipped(work: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, ids = resting(work)
    others = ["rubbish", '{"n": 1, "at": "now", "action": "mute", "subclasses": ["x"]}', "[1]", '{"of": 7, "at": ""}']
    others += ["[" * 100_000, '{"at": ' * 100_000, "[]", "7"]
    write(work / LOG, others)
    ask(path, Command("mute", ids))
    assert outcomes(path) == ["done"]
    assert all(f"line {n} is skipped" in caplog.text for n in range(1, 1 + len(others)))
    whole = (work / LOG).read_bytes()
    (work / LOG).write_bytes(whole + b'{"n": 2, "at": "2026-01-01T00:00:00Z", "action": "un')
    assert len(history(path)) == 1, "the process died while it wrote this line"
    ask(path, Command("undo"))
    assert (work / LOG).read_bytes().startswith(whole)
    assert outcomes(path) == ["done", "done"]


def test_numbers_go_on_after_a_log_was_lost(work: Path) -> None:
    path, ids = resting(work)
    ask(path, Command("mute", ids))
    (work / LOG).unlink()
    assert ask(path, Command("undo")).n == 2, "a number below what the checkpoint has would never be done"
    assert load_checkpoint(path).totals[COMMANDS] == 2


def test_commands_of_several_processes_at_once_are_all_done(work: Path) -> None:
    path, _ = resting(work)
    processes = [
        Process((*COMMAND, "label", f"k{n}", "left", "--by", f"p{n}", "--checkpoint", path), cwd=work)
        for n in range(4)
    ]
    assert [process.wait(PATIENCE) for process in processes] == [0] * 4
    assert [(entry.n, entry.outcome) for entry in history(path)] == [(n, "done") for n in (1, 2, 3, 4)]
    assert {entry.command.by for entry in history(path)} == {"p0", "p1", "p2", "p3"}
    assert len(load_checkpoint(path).model.value.evidence) == 4


def test_a_new_run_leaves_commands_for_the_one_before(work: Path) -> None:
    path, ids = resting(work)
    with sole_writer(path):
        assert ask(path, Command("mute", ids)).status == "queued"
    assert outcomes(path) == ["pending"]
    resting(work)
    assert outcomes(path) == ["left"]
    assert load_checkpoint(path).totals[COMMANDS] == 1
    ask(path, Command("mute", ids))
    assert outcomes(path) == ["left", "done"]


# Crashes


@pytest.mark.parametrize("at", ["before the outcome", "after the outcome", "after the checkpoint"])
def test_killed_while_it_is_done_at_rest(work: Path, at: str) -> None:
    """A process that forks does it, and is killed at the point."""
    path, ids = resting(work)
    child = os.fork()
    if child == 0:
        _die_at(at)
        ask(path, Command("promote", ids, "sky"))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    resumed(work)
    assert outcomes(path) == ["done"]
    assert len(lines(work / LOG)) == 2, "one line for the command, and one for its result"
    assert {line["label"] for line in lines(work / "out.jsonl")[48:]} == {"sky"}
    types = [line["type"] for line in lines(work / "events.jsonl")]
    assert types.count("SubclassPromoted") == len(ids)


def _die_at(point: str) -> None:
    """Have this process killed at a point of a command."""

    def die(*given: object, **named: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    from stream_osr_connectors.files import checkpoint

    save = checkpoint.save_checkpoint
    if point == "before the outcome":
        CommandLog.tell = die  # type: ignore[method-assign]
    elif point == "after the outcome":
        checkpoint.save_checkpoint = die
    else:
        checkpoint.save_checkpoint = lambda *given: (save(*given), die())  # type: ignore[func-returns-value]


def test_a_run_that_crashed_does_it_again_at_the_same_record(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint with it is lost, its result stands in the log: all outputs are the same to the byte."""
    path, ids = resting(work)
    early = path.read_bytes()
    read = iter(range(49, 200))
    statuses = []

    def ask_at_60() -> bool:
        if next(read) == 60:
            statuses.append(ask(path, Command("promote", ids, "sky")).status)
        return False

    def outputs() -> list[bytes]:
        return [(work / name).read_bytes() for name in ("out.jsonl", "events.jsonl", LOG)]

    monkeypatch.setattr(runner, "LOOK_SECONDS", 0.0)
    resumed(work, stop=ask_at_60)
    assert statuses == ["queued"]
    once = outputs()
    assert history(path)[0].after == 61, "the loop looks before it checks whether to stop"
    path.write_bytes(early)
    resumed(work)
    assert once == outputs()
    # and before the run has come there, another command waits its turn
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


@contextmanager
def running(work: Path, *options: object, **files: Any) -> Iterator[Process]:
    """A run in a process of its own, which is killed if the test fails."""
    process = Process((*COMMAND, *RUN, *options), cwd=work, **files)
    try:
        yield process
    finally:
        process.kill()


def test_a_run_that_waits_for_input_does_it_and_labels_what_comes_next(work: Path) -> None:
    path, stream = work / CHECKPOINT, (work / "stream.jsonl").read_bytes().splitlines(keepends=True)
    out, place = work / "out.jsonl", ("--checkpoint", CHECKPOINT)
    theirs, pipe = os.pipe()
    with (
        (work / "err").open("w") as err,
        running(work, "-i", "-", "--format", "jsonl", *place, stdin=theirs, stderr=err.fileno()) as process,
    ):
        os.close(theirs)
        os.write(pipe, b"".join(stream[:56]))
        until(lambda: out.exists() and len(lines(out)) == 48)  # shown, though no checkpoint is due
        until(lambda: "SubclassEmerged" in (work / "events.jsonl").read_text())
        emerged = [line["subclass_id"] for line in lines(work / "events.jsonl") if line["type"] == "SubclassEmerged"]
        done = command(*COMMAND, "promote", emerged[0], "sky", *place, "--by", "ann", cwd=work)
        assert (done.returncode, done.stdout[:8]) == (0, "queued: "), done.stderr
        until(lambda: outcomes(path) == ["done"])
        assert command(*COMMAND, "mute", 99, *place, "--reason", "dust", cwd=work).returncode == 0
        until(lambda: outcomes(path) == ["done", "refused"])
        os.write(pipe, b"".join(stream[56:]))
        os.close(pipe)
        assert process.wait(PATIENCE) == 0
    labels = [line["label"] for line in lines(out)]
    assert set(labels[48:]) == {"sky"}, "the batch that was waiting is labelled so"
    assert len(labels) == 96
    said = (work / "err").read_text()
    assert "command 1 by ann: promote" in said
    assert "mute 99: refused: subclass 99 does not exist" in said
    listed = command(*COMMAND, "history", *place, cwd=work).stdout
    assert "ann: promote" in listed
    assert "mute 99 (dust): refused: subclass 99" in listed


def test_options_of_the_service_and_of_files_do_not_mix(work: Path) -> None:
    path, _ = resting(work)
    for arguments, message in (
        (("undo", "--checkpoint", path, "--config", "s.yaml"), "--config is for the Kafka service"),
        (("undo", "sensors/3", "--checkpoint", path), "this run is one stream and has no key"),
        (("undo",), "undo needs --checkpoint FILE"),
        (("mute", "eleven", "--checkpoint", path), "is no id of a subclass"),
    ):
        done = command(*COMMAND, *arguments, cwd=work)
        assert (done.returncode, message in done.stderr) == (1, True), done.stderr

"""Incarnations of a service whose journal has small segments. Each one is killed at a step that the caller names.

``python -m tests.http.rotating FOLDER N`` accepts N instances. Each incarnation is a process that sends SIGKILL to
itself just before one of its steps: a new segment, a checkpoint, a deletion, or the sync of the folder after one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.http_service.acceptor import Acceptor
from stream_osr_connectors.http_service.folder_run import FolderRun
from stream_osr_connectors.http_service.journal import JournalLine
from tests.http.serving import instances

HORIZON, SEGMENT_BYTES, CHECKPOINT_EVERY = 20, 2000, 16
REPEATED = 4
"""Number of accepted instances that each incarnation sends again."""
MOST_BEHIND = 8
"""Most accepted instances that the run has not read before the next one is sent."""
STEPS = ("begin", "checkpoint", "delete", "begun", "saved", "deleted")


def step_of(folder: Path, event: str, given: tuple[Any, ...], before: str) -> str:
    """Name the step that an audit event of the interpreter is about to do, or return empty text."""
    name = Path(str(given[0])).name
    if event == "os.remove" and name.startswith("journal"):
        return "delete"
    if event == "os.rename" and str(given[1]).endswith(".checkpoint"):
        return "checkpoint"
    if event == "open" and name.startswith("journal-") and given[2] & os.O_EXCL:
        return "begin"
    done = dict(zip(STEPS[:3], STEPS[3:], strict=True))
    return done.get(before, "") if event == "open" and str(given[0]) == str(folder) else ""


def live(folder: Path, n: int, last_step: str, times: int) -> None:
    """Send instances that have not been accepted, and a few others again, until a step comes for the n-th time."""
    left, before = times, ""

    def note(event: str, given: tuple[Any, ...]) -> None:
        nonlocal left, before
        if event not in ("open", "os.remove", "os.rename") or not (step := step_of(folder, event, given, before)):
            return
        before, left = step, left - (step == last_step)
        if left == 0:
            with (folder / "steps").open("a") as file:
                file.write(f"{step}\n")
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(note)
    model = OpenSetRecognizer.load(folder / "model.osr")
    run = FolderRun(folder, model, horizon=HORIZON, checkpoint_every=CHECKPOINT_EVERY, segment_bytes=SEGMENT_BYTES)
    acceptor = Acceptor(run.journal)
    run.start()
    acceptor.start()
    client = folder / "client"
    answered = client.read_text().count("\n") if client.exists() else 0
    for each in instances(n)[max(0, answered - REPEATED) :]:
        answer: list[Any] = []
        done = threading.Event()
        line = JournalLine(each["key"], each["time"], each["features"], {"label": each["key"]})
        acceptor.submit(
            1, lambda line=line: [line], lambda result, got=answer, done=done: (got.append(result), done.set())
        )
        assert done.wait(60)
        ((accepted,),) = answer
        assert accepted.immediate == line.immediate, answer
        if accepted.n > answered:
            answered = accepted.n
            with client.open("a") as file:
                file.write(json.dumps({"n": accepted.n, "key": each["key"]}) + "\n")
        while run.behind > (0 if answered == n else MOST_BEHIND):
            time.sleep(0.001)
    acceptor.stop()
    run.stop()
    assert not run.failure, run.failure


def main(folder: Path, n: int) -> None:
    """Start incarnations until one ends by itself. They have the compiled code of this process."""
    model = OpenSetRecognizer.load(folder / "model.osr")
    for each in instances(model.batch_size):
        model.learn_one(each["features"])
    model.flush()
    for number in range(1000):
        process = os.fork()
        if process == 0:
            live(folder, n, STEPS[number % len(STEPS)], 1 + number // len(STEPS) % 2)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0, "an incarnation failed"
            break


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

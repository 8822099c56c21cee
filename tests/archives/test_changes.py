"""Every field of every record of an archive is changed: it is refused by name, or it is harmless.

Harmless: the recognizer goes on to the same bits. A change that makes another state, as consistent as the first,
cannot be found; the fields where there is one are listed in ``FREE``, with the reason. Changes are tried in child
processes, so that one that kills its process is seen.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stream_osr import ModelOptions, OpenSetRecognizer
from stream_osr.archive import files
from stream_osr.archive.files import form_from, load_trained, open_archive, save_trained
from stream_osr.archive.records import RECORDS
from stream_osr.config import archived, grouped
from stream_osr.errors import StreamOSRError
from stream_osr_connectors.files.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tests.archives.changes import Change, changed, changes
from tests.archives.golden import VERSIONS, beside, unpacked
from tests.archives.story import ARGUMENTS, go_on, go_on_training, go_on_with_files
from tests.blobs import bits, dependent_rows, learn_all

SETTING = "a setting that a person may have chosen"
TOLD = "what was told or handed over; nothing is computed of it"
LEARNT = "a faded sum of what has come, which is not kept, or an estimate from it"
WHERE = "where something lies: moved, it is a model or an instance that lies there"
WHICH = "which of several was meant, or when; nothing else says it"

_FREE = {
    SETTING: """
        dict.batch_size dict.beta dict.chains dict.epsilon dict.follow_drift dict.half_life dict.max_false_unknown
        dict.max_wait dict.nu dict.pca_variance dict.references dict.scale dict.seed dict.sweeps
        dict.training_sweeps dict.window
    """,
    TOLD: """
        Arrived.key Arrived.t Decision.first_label Decision.key Decision.nearest_class Evidence.key Evidence.label
        Lifecycle.delta NewClassesChanged.seq SubclassMuted.seq SubclassPromoted.seq TrainingReport.known_recall
        dict.buffer dict.decisions dict.events dict.evidence dict.index dict.sinks dict.source
    """,
    LEARNT: """
        Arrival.fitted Arrival.gain Arrival.group Arrival.independent Arrival.residual Called.doubt
        Pairs.correlation Pairs.number Pairs.products Process.axes Process.noise Process.slow Process.step
        References.effective References.gain References.weight Residuals.mean Tracked.mean Tracked.variance
        Books.asked Books.seen Books.stream Books.taken Books.votes Called.asked Called.right Chain.guard
        Drift.detectors Following.saved Following.shift Following.sums Following.weight Franchise.alpha
        Franchise.gamma Franchise.table_founder Guard.estimated_at Guard.known Known.alpha Known.gamma Known.ranks
        Known.tables Odds.excess Odds.seen Prior.psi Seat.weight Shares.classes Shares.kappa Stream.called
        Stream.following Stream.past Stream.unknown_rate
        Lifecycle.announced_size Lifecycle.dormant Lifecycle.emerged Lifecycle.arrivals Lifecycle.usual
        UnknownRate.down UnknownRate.of UnknownRate.up UnknownRate.usual
    """,
    WHERE: """
        Arrived.row Background.covariance Background.mean Evidence.row Flags.high Flags.low Known.broad
        Labelling.shift Location.factor Location.freedom Location.mean Location.values Promotion.shift References.rows
        Space.center Statistics.matrix
    """,
    WHICH: """
        Arrival.departed Evidence.number Guard.ids Known.ids Labelling.into Labelling.seen Muting.subclasses
        Past.subclass Promotion.lives Promotion.subclasses References.group References.log_density Seat.alone
        Stream.actions Stream.decided StreamState.ids StreamState.next_id
        Lifecycle.ids Lifecycle.kept Lifecycle.muted Lifecycle.owned Lifecycle.p_unknown TrainedModel.categories
        TrainedModel.draws TrainedModel.names Waiting.responsible Waiting.subclass
    """,
}
FREE = {field: reason for reason, listed in _FREE.items() for field in listed.split()}
"""Fields of which one value is as good as another, beside all that is there; and why."""

TOGETHER = 40
"""Changes that a process tries."""
MEMORY = 6 << 30
SECONDS = 600


class Case(NamedTuple):
    """An archive: how it is written anew, and how one goes on from it."""

    name: str
    again: Callable[[Path], Any]
    then: Callable[[Path, Any], Any]


CASES = [
    Case(
        "mid-stream.osr",
        lambda path: OpenSetRecognizer.load(path).save(path),
        lambda path, rows: go_on(OpenSetRecognizer.load(path), rows),
    ),
    Case(
        "in-training.osr",
        lambda path: OpenSetRecognizer.load(path).save(path),
        lambda path, rows: go_on_training(OpenSetRecognizer.load(path), rows[:60]),
    ),
    Case(
        "checkpoint.osr",
        lambda path: save_checkpoint(path, load_checkpoint(path)),
        lambda path, rows: go_on_with_files(load_checkpoint(path), rows),
    ),
    Case(
        "trained.osr",
        lambda path: save_trained(load_trained(path), path),
        lambda path, rows: go_on(OpenSetRecognizer.from_trained(load_trained(path), **grouped(**ARGUMENTS)), rows),
    ),
]


class Told(NamedTuple):
    """What became of a change: ``refused``, ``harmless``, ``other``, ``error`` or ``killed``; and what was said."""

    change: Change
    outcome: str
    said: str


def tried(content: Any, todo: Sequence[Change], go: Callable[[], Any], monkeypatch: Any) -> Iterator[Told]:
    """Try changes, some in each process; when one dies, it is by the change that it was at."""
    form = pickle.dumps(content)  # reading this is the fastest way to a copy
    current = [content]
    with monkeypatch.context() as patched:
        patched.setattr(files, "form_from", lambda *_: current.pop())
        expected = bits(go())
        at = 0
        while at < len(todo):
            told, status = _in_a_child(todo[at : at + TOGETHER], form, current, go, expected)
            for outcome, said in told:
                yield Told(todo[at], outcome, said)
                at += 1
            if status:
                yield Told(todo[at], "killed", f"status {status}")
                at += 1


def _in_a_child(
    todo: Sequence[Change], form: bytes, current: list[Any], go: Callable[[], Any], expected: bytes
) -> tuple[list[list[str]], int]:
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        try:
            with os.fdopen(theirs, "w") as out:
                _try_each(todo, form, current, go, expected, out)
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as lines:
        told = [json.loads(line) for line in lines if line.endswith("\n")]
    return told, os.waitpid(child, 0)[1]


def _try_each(
    todo: Sequence[Change],
    form: bytes,
    current: list[Any],
    go: Callable[[], Any],
    expected: bytes,
    out: Any,
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    for change in todo:
        signal.alarm(SECONDS)
        other = changed(pickle.loads(form), change)
        told = ["harmless", "nothing is changed"]
        if other is not None:
            current[:] = [other]
            try:
                told = ["harmless" if bits(go()) == expected else "other", ""]
            except StreamOSRError as error:  # also when what was read is used: a setting, a place in a file
                told = ["refused", str(error)]
            except BaseException as error:
                told = ["error", repr(error)[:500]]
        print(json.dumps(told), file=out, flush=True)


def check(told: Sequence[Told]) -> None:
    """Each is refused by name, or harmless, or free."""
    wrong = [each for each in told if not _is_right(each)]
    assert not wrong, "\n".join(f"{change}: {outcome} {said[:300]}" for change, outcome, said in wrong[:40])


def _is_right(told: Told) -> bool:
    place = told.change.place
    if told.outcome == "refused":
        return "does not fit together" not in told.said and told.said.isprintable()
    return told.outcome == "harmless" or (told.outcome == "other" and f"{place.record}.{place.field}" in FREE)


@pytest.mark.parametrize("case", CASES[:1], ids=lambda case: case.name)
def test_some_changes(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each field of each record once or twice, chosen by a fixed seed."""
    check(_all(case, tmp_path, monkeypatch, most=2, occurrences=1))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_changes(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of each field of a record where it occurs first, and of some further ones."""
    told = _all(case, tmp_path, monkeypatch, most=1000, occurrences=1)
    check(told)
    assert sum(each.outcome == "refused" for each in told) > 0.7 * len(told)
    check(_all(case, tmp_path, monkeypatch, most=1, occurrences=5))


ORDERED = ("Arrival", "Order", "Residuals", "Pairs", "Process", "Tracked", "Called.doubt", "Guard.dependent")
ORDERED += ("References.gain", "References.effective", "Stream.arrival", "TrainedModel.order")


@pytest.mark.parametrize("most", [3, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("memory", [0.95, 0.0], ids=["in training", "found by the stream"])
def test_changes_of_what_is_known_of_the_order(
    memory: float, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of a stream whose neighbours depend on each other."""
    path, rows = tmp_path / "dependent.osr", [x for x, _ in dependent_rows(700, 2)]
    model = OpenSetRecognizer(batch_size=32, chains=2, model=ModelOptions(window=40, training_sweeps=3))
    learn_all(model, dependent_rows(400, 1, memory))
    model.freeze()
    learn_all(model, [(x, None) for x in rows[:600]])
    list(model.drain())
    model.save(path)

    def go() -> Any:
        loaded = OpenSetRecognizer.load(path)
        learn_all(loaded, [(x, None) for x in rows[600:]])
        loaded.flush()
        return list(loaded.drain()), list(loaded.drain_events())

    content, rng, of = (
        form_from(open_archive(path.read_bytes())),
        random.Random(19),
        dict[tuple[str, str], list[Change]](),
    )
    for change in changes(content):
        record, field, _, number = change.place
        if number == 0 and (record in ORDERED or f"{record}.{field}" in ORDERED):
            of.setdefault((record, field), []).append(change)
    assert {name for name, _ in of} >= {"Arrival", "Order", "Residuals", "Pairs", "Process", "Tracked"}
    todo = [change for group in of.values() for change in rng.sample(group, min(most, len(group)))]
    check(list(tried(content, todo, go, monkeypatch)))


def test_what_is_free_is_a_field() -> None:
    """The list may name no more than there is."""
    fields = {f"{name}.{field}" for name, entry in RECORDS.items() for field in entry.rules}
    others = (*archived(OpenSetRecognizer()), *OpenSetRecognizer().as_state(), *Checkpoint._fields, "index")
    assert not set(FREE) - fields - {f"dict.{name}" for name in others}


def _all(case: Case, folder: Path, monkeypatch: Any, *, most: int, occurrences: int) -> list[Told]:
    path = unpacked(VERSIONS[-1], case.name, folder)
    rows = beside(VERSIONS[-1], case.name)["rows"]
    case.again(path)
    content = form_from(open_archive(path.read_bytes()))
    rng, of = random.Random(19), dict[tuple[str, str, int], list[Change]]()
    for change in changes(content):
        record, field, _, number = change.place
        if number < occurrences:
            of.setdefault((record, field, number), []).append(change)
    todo = [change for group in of.values() for change in rng.sample(group, min(most, len(group)))]
    return list(tried(content, todo, lambda: case.then(path, rows), monkeypatch))

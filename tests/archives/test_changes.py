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
from stream_osr.config import grouped
from stream_osr.errors import StreamOSRError
from stream_osr_connectors.files.checkpoint import load_checkpoint, save_checkpoint
from tests.archives.changes import Change, changed, changes
from tests.archives.golden import VERSIONS, beside, unpacked
from tests.archives.story import ARGUMENTS, go_on, go_on_training, go_on_with_files
from tests.blobs import bits, dependent_rows, learn_all

SETTING = "a setting that a person may have chosen"
GIVEN = "input as it was handed over; nothing is computed from it"
LEARNT = "a faded sum of what has come, which is not kept, or an estimate from it"
WHERE = "where something lies: moved, it is a model or an instance that lies there"
WHICH = "which of several was meant, or when; nothing else says it"

_FREE = {
    SETTING: """
        dict.batch_size dict.beta dict.chains dict.epsilon dict.follow_drift dict.half_life dict.max_false_unknown
        dict.max_wait dict.nu dict.pca_variance dict.references dict.scale dict.seed dict.sweeps
        dict.training_sweeps dict.window
    """,
    GIVEN: """
        Arrived.key Arrived.t Decision.first_label Decision.key Decision.nearest_class Evidence.key Evidence.label
        Lifecycle.delta NewClassesChanged.seq SubclassMuted.seq SubclassPromoted.seq TrainingReport.known_recall
        dict.buffer dict.decisions dict.events dict.evidence dict.index dict.sinks dict.source
    """,
    LEARNT: """
        Arrival.fitted Arrival.gain Arrival.group Arrival.independent Arrival.residual Arrival.runs Called.doubt
        Frame.place Frame.before Frame.reported Frame.thinned
        Pairs.correlation Pairs.number Pairs.products Process.axes Process.noise Process.slow Process.step
        References.effective References.gain References.weight Residuals.mean Tracked.mean Tracked.variance
        Books.asked Books.seen Books.stream Books.taken Books.votes Called.asked Called.right Chain.guard
        Drift.detectors Frame.offset Following.saved Following.shift Following.sums Following.weight Franchise.alpha
        Franchise.gamma Franchise.table_founder Guard.estimated_at Guard.known Known.alpha Known.gamma Known.ranks
        Known.tables Odds.excess Odds.seen Prior.psi Prior.spread Seat.weight Shares.classes Shares.kappa
        Stream.called Stream.following Stream.past Stream.unknown_rate
        Lifecycle.announced_size Lifecycle.dormant Lifecycle.emerged Lifecycle.arrivals Lifecycle.usual
        UnknownRate.down UnknownRate.of UnknownRate.up UnknownRate.usual Usual.constant Order.persistence
        Runs.filtered Runs.latest Runs.same Runs.pairs Runs.score Runs.weight
    """,
    WHERE: """
        Arrived.row Background.covariance Background.mean Component.share Evidence.row Flags.high Flags.low
        Known.broad Labelling.row Labelling.shift Location.factor Location.freedom Location.mean Location.values
        Promotion.shift References.rows Space.center Statistics.matrix
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


def _save_again(path: Path) -> None:
    OpenSetRecognizer.load(path).save(path)


CASES: dict[str, tuple[Callable[[Path], Any], Callable[[Path, Any], Any]]] = {
    "mid-stream.osr": (_save_again, lambda path, rows: go_on(OpenSetRecognizer.load(path), rows)),
    "in-training.osr": (_save_again, lambda path, rows: go_on_training(OpenSetRecognizer.load(path), rows[:60])),
    "checkpoint.osr": (
        lambda path: save_checkpoint(path, load_checkpoint(path)),
        lambda path, rows: go_on_with_files(load_checkpoint(path), rows),
    ),
    "trained.osr": (
        lambda path: save_trained(load_trained(path), path),
        lambda path, rows: go_on(OpenSetRecognizer.from_trained(load_trained(path), **grouped(**ARGUMENTS)), rows),
    ),
}
"""Archives: how each is written anew, and how one goes on from it."""


class Result(NamedTuple):
    """Result of a change: ``refused``, ``harmless``, ``other``, ``error`` or ``killed``; and the message."""

    change: Change
    outcome: str
    said: str


def tried(content: Any, todo: Sequence[Change], go: Callable[[], Any], monkeypatch: Any) -> Iterator[Result]:
    """Try changes, some in each process; when one dies, it is by the change that it was at."""
    form = pickle.dumps(content)  # reading this is the fastest way to a copy
    current = [content]
    with monkeypatch.context() as patched:
        patched.setattr(files, "form_from", lambda *_: current.pop())
        expected = bits(go())
        at = 0
        while at < len(todo):
            results, status = _in_a_child(todo[at : at + TOGETHER], form, current, go, expected)
            for outcome, said in results:
                yield Result(todo[at], outcome, said)
                at += 1
            if status:
                yield Result(todo[at], "killed", f"status {status}")
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
        results = [json.loads(line) for line in lines if line.endswith("\n")]
    return results, os.waitpid(child, 0)[1]


def _try_each(
    todo: Sequence[Change], form: bytes, current: list[Any], go: Callable[[], Any], expected: bytes, out: Any
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    for change in todo:
        signal.alarm(SECONDS)
        other = changed(pickle.loads(form), change)
        result = ["harmless", "nothing is changed"]
        if other is not None:
            current[:] = [other]
            try:
                result = ["harmless" if bits(go()) == expected else "other", ""]
            except StreamOSRError as error:  # also when what was read is used: a setting, a place in a file
                result = ["refused", str(error)]
            except BaseException as error:
                result = ["error", repr(error)[:500]]
        print(json.dumps(result), file=out, flush=True)


def check(results: Sequence[Result]) -> None:
    """Each is refused by name, or harmless, or free."""
    wrong = [each for each in results if not _is_right(each)]
    assert not wrong, "\n".join(f"{change}: {outcome} {said[:300]}" for change, outcome, said in wrong[:40])


def _is_right(result: Result) -> bool:
    place = result.change.place
    if result.outcome == "refused":
        return "does not fit together" not in result.said and result.said.isprintable()
    return result.outcome == "harmless" or (result.outcome == "other" and f"{place.record}.{place.field}" in FREE)


@pytest.mark.parametrize(
    ("case", "unit"),
    [
        ("checkpoint.osr", "record"),
        pytest.param("mid-stream.osr", "third field", marks=pytest.mark.thorough),
        pytest.param("mid-stream.osr", "field", marks=pytest.mark.long),
    ],
)
def test_some_changes(case: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One change of each record, or of each field or third field; a fixed seed chooses it."""
    every = 3 if unit == "third field" else 1
    check(_all(case, tmp_path, monkeypatch, most=1, occurrences=1, every=every, of_record=unit == "record"))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_all_changes(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of each field of a record where it occurs first, and of some further ones."""
    results = _all(case, tmp_path, monkeypatch, most=1000, occurrences=1)
    check(results)
    assert sum(each.outcome == "refused" for each in results) > 0.7 * len(results)
    check(_all(case, tmp_path, monkeypatch, most=1, occurrences=5))


ORDERED = ("Arrival", "Order", "Residuals", "Pairs", "Process", "Tracked", "Called.doubt", "Guard.dependent")
ORDERED += ("References.gain", "References.effective", "Stream.arrival", "TrainedModel.order")


@pytest.mark.thorough
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

    content = form_from(open_archive(path.read_bytes()))
    of = [
        change
        for change in changes(content)
        if change.place.number == 0
        and (change.place.record in ORDERED or f"{change.place.record}.{change.place.field}" in ORDERED)
    ]
    found = {change.place.record for change in of}
    assert found >= {"Arrival", "Order", "Residuals", "Pairs", "Process", "Tracked"}
    check(list(tried(content, sample(of, most, "field"), go, monkeypatch)))


def sample(of: Sequence[Change], most: int, *unit: str) -> list[Change]:
    """At most so many changes of each record, of each field of it, or of each ``number`` of it, by a fixed seed."""
    rng, groups = random.Random(19), dict[tuple[Any, ...], list[Change]]()
    for change in of:
        key = (change.place.record, *(getattr(change.place, name) for name in unit))
        groups.setdefault(key, []).append(change)
    return [change for group in groups.values() for change in rng.sample(group, min(most, len(group)))]


def _all(
    name: str, folder: Path, monkeypatch: Any, *, most: int, occurrences: int, every: int = 1, of_record: bool = False
) -> list[Result]:
    path, rows = unpacked(VERSIONS[-1], name, folder), beside(VERSIONS[-1], name)["rows"]
    again, then = CASES[name]
    again(path)
    content = form_from(open_archive(path.read_bytes()))
    some = [change for change in changes(content) if change.place.number < occurrences]
    todo = sample(some, most, *(() if of_record else ("field", "number")))
    return list(tried(content, todo[::every], lambda: then(path, rows), monkeypatch))

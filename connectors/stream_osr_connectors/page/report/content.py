"""Content of a report: the state of the live page, and its answers about the instances that the report shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any, NamedTuple

from stream_osr.errors import ConnectorError
from stream_osr.keyed import KeySummary
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr_connectors.page.live.checkpoint_view import ModelView
from stream_osr_connectors.page.live.examples import MOST_CHOSEN, ExampleChooser
from stream_osr_connectors.page.live.file_commands import Acts
from stream_osr_connectors.page.live.watcher import Watcher
from stream_osr_connectors.page.report.records_feed import Instances, RecordsFeed
from stream_osr_connectors.summary.input_records import ReadRecord
from stream_osr_connectors.summary.model_facts import RememberedInstances, emerged_events, model_view
from stream_osr_connectors.summary.naming import naming_in_python
from stream_osr_connectors.summary.view_model import cut

LARGEST = 12
"""Number of candidates that count as large."""
LISTED, LISTED_OF_SMALL = 30, 6
"""Most listed instances of a large candidate, and of any other subclass or class."""
MOST_MEMBERS = 12
"""Most subclasses of a candidate with separate lists."""
MOST_CLASSES = 40
"""Most known classes with listed instances."""
MOST_KEYS = 1000
"""Most keys in the table of keys."""


class Content(NamedTuple):
    """Content of a report: the state of the page, and its answers by address."""

    state: dict[str, Any]
    answers: dict[str, Any]


class _GivenModel(ModelView):
    """Facts of a model, if there is one."""

    def __init__(self, model: OpenSetRecognizer | None) -> None:
        super().__init__()
        if model is not None:
            self.note(model_view(model), "")
            self._memory = RememberedInstances(model)


class _NoActs(Acts):
    """No commands of people."""

    def __init__(self, command: Callable[[Sequence[int | str]], str]) -> None:
        super().__init__(allowed=False)
        self._command = command

    def naming_command(self, ids: Sequence[int | str]) -> str:
        """Return the command that names the subclasses of a candidate."""
        return self._command(ids)


def collect(
    model: OpenSetRecognizer | None = None,
    decisions: Iterable[Mapping[str, Any]] | None = None,
    *more: Any,
    **rest: Any,
) -> Content:
    """Collect the content of a report. The arguments are those of :func:`watching`.

    Raises
    ------
    ConnectorError
        If a decision or an event is invalid, or the events belong to another model.
    NotTrained
        If training of the model has not ended.
    """
    with watching(model, decisions, *more, **rest) as (watcher, feed):
        state = watcher.refresh()
        if model is not None:
            state["stream"]["source"] = f"model {model.trained.fingerprint[:16]}"
            if decisions is None:
                _only_model(state, model, watcher.view.facts())
        return Content(state, _answers(watcher, feed, state))


@contextmanager
def watching(
    model: OpenSetRecognizer | None,
    decisions: Iterable[Mapping[str, Any]] | None,
    events: Iterable[Mapping[str, Any]] = (),
    truth: Callable[[Any, int], str | None] | None = None,
    title: str = "Stream report",
    notes: Sequence[str] = (),
    instances: Instances | None = None,
    command: Callable[[Sequence[int | str]], str] = naming_in_python,
    acts: Acts | None = None,
) -> Iterator[tuple[Watcher, RecordsFeed]]:
    """Return a watcher of given records, as :func:`.report_page` describes them, and their feed. No thread runs."""
    view = _GivenModel(model)
    if model is not None and decisions is None:
        decisions = RememberedInstances(model).decisions()
    with closing(RecordsFeed(title, decisions or (), events, truth, instances, notes)) as feed:
        if model is not None:
            _check_model(model.trained.fingerprint, feed.events)
            told = {event.get("subclass_id") for event in feed.events if "explanation" in event}
            missing = [event for event in emerged_events(model) if event["subclass_id"] not in told]
            feed.events += [ReadRecord(event, "the model") for event in missing]
            feed.has_events = bool(feed.events)
        yield Watcher(feed, view, _NoActs(command) if acts is None else acts, ExampleChooser(feed)), feed


def _check_model(fingerprint: str, events: Iterable[Mapping[str, Any]]) -> None:
    others = {its for event in events if isinstance(its := event.get("model"), str)} - {fingerprint}
    if others:
        raise ConnectorError(
            f"the events are of model {min(others)[:12]}, the model is {fingerprint[:12]}. "
            "Give the model, or the checkpoint, of that run"
        )


def _only_model(state: dict[str, Any], model: OpenSetRecognizer, facts: Mapping[str, Any]) -> None:
    """Replace counts of the instances in the model's memory by those of the stream."""
    decided, unknown = facts.get("decided", 0), facts.get("unknown", 0)
    state["stream"]["decided"] = decided
    state["unknown"] = {"n": unknown, "rate": round(unknown / max(decided, 1), 6), "recent_rate": None}
    empty: dict[str, Any] = {"edges": [], "times": [], "unknown": [], "truly_unknown": []}
    state["timeline"] = {**empty, "classes": {}, "subclasses": {}, "marks": {}}
    blank = {"n": None, "share": None}
    labels = [cut(label) for label in model.trained.labels]
    state["known"] = [{"label": label, **blank, "recall": facts["recalls"].get(label)} for label in labels]


def _answers(watcher: Watcher, feed: RecordsFeed, state: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the examples, and return the answers of the page about classes, subclasses and instances."""
    large, small = state["inbox"][:LARGEST], state["inbox"][LARGEST:]
    listed = dict.fromkeys((id for card in large for id in card["ids"][:MOST_MEMBERS]), LISTED_OF_SMALL)
    listed |= dict.fromkeys((",".join(card["ids"]) for card in large), LISTED)
    listed |= dict.fromkeys((",".join(card["ids"]) for card in small), LISTED_OF_SMALL)
    listed |= dict.fromkeys((f"class:{row['label']}" for row in state["known"][:MOST_CLASSES]), LISTED_OF_SMALL)
    found = {id: watcher.subclass_answer(id, most=most) for id, most in listed.items()}
    answers = {f"/api/subclass/{id}": {**its, "more": False, "cut": its["more"]} for id, its in found.items() if its}
    shown = {row["n"] for answer in answers.values() for row in answer["instances"]}
    chosen = state["inbox"][:MOST_CHOSEN]
    near = {f"class:{card['nearest_class']}" for card in chosen}
    samples = [watcher.state.find_all(id) for id in (*near, *(",".join(card["ids"]) for card in chosen))]
    feed.look_up(
        shown | {n for summary in chain.from_iterable(samples) for n in (*summary.sample, summary.last or 0)}
    )
    for card in chosen:
        card["examples"] = watcher.examples.choose(card, watcher.remembered)
        shown |= {one["n"] for some in card["examples"].values() for one in some}
    return answers | {f"/api/instance/{n}": watcher.instance_answer(n) for n in sorted(shown)}


def collect_keys(title: str, lines: Sequence[KeySummary], command: Callable[[str], str]) -> Content:
    """Collect the content of the page of the streams by key."""
    view = ModelView()
    shown = [
        {"by": line.by, "n": line.seen, "unknown": line.unknown, "new": line.emerged, "command": command(line.by)}
        for line in lines[:MOST_KEYS]
    ]
    view.note({"keys": {"n": len(lines), "new": sum(line.emerged > 0 for line in lines), "shown": shown}}, "")
    feed = RecordsFeed(title, (), ())
    with closing(feed):
        return Content(Watcher(feed, view, _NoActs(naming_in_python), ExampleChooser(feed)).refresh(), {})

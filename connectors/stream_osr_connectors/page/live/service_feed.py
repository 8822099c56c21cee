"""The topics of a Kafka service: committed decisions and events, and instances for their features."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import orjson
from prometheus_client.parser import text_string_to_metric_families

from stream_osr.errors import ConnectorError
from stream_osr.instances.embedding import flat
from stream_osr_connectors.kafka.client.consumers import TopicFollower
from stream_osr_connectors.kafka.client.errors import quieten, start_explained
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.settings import ServiceSettings, load_settings
from stream_osr_connectors.kafka.wire.decoding import make_decoder
from stream_osr_connectors.kafka.wire.messages import Received
from stream_osr_connectors.page.live.checkpoint_view import ModelView, PolledView
from stream_osr_connectors.page.live.feeds import Feed, FoundDecision, NewRecords
from stream_osr_connectors.page.live.input_rows import json_object
from stream_osr_connectors.page.live.service_acts import ServiceActs
from stream_osr_connectors.values import DecodeError

WAIT = 0.05
"""Seconds that one poll of a topic waits for records."""
MOST = 2000
"""Most records of one poll."""
LOOK = 2.0
"""Seconds between two requests for the end offsets."""
SILENT = 60.0
"""Seconds without a decision after which the service counts as idle."""
ANSWER = 10.0
"""Time limit in seconds for a lookup."""
METRICS_TURN = 2.0
"""Seconds between two reads of the metrics."""
MOST_BYTES = 1 << 24
_opener = build_opener(ProxyHandler({}))
NOT_JSON = "the value is not JSON. Did the service run with an encoder other than json?"


class ServiceFeed(Feed):
    """The topics of a service.

    Parameters
    ----------
    settings
        Of the service.
    last
        Number of latest decisions to read. All events are read.

    Raises
    ------
    ConnectorError
        If a topic does not exist, no broker answers, or the decisions are not JSON.
    """

    kind = "kafka"
    has_events = True

    def __init__(self, settings: ServiceSettings, last: int) -> None:
        self._settings = settings
        self.name = settings.input
        if settings.encoder != "json":
            raise ConnectorError(
                f"the service writes topic {settings.output} with the encoder {settings.encoder}, and the page reads "
                "only JSON: use a service with `encoder: json`"
            )
        with start_explained(settings):
            self._decisions = TopicFollower.of(settings, settings.output)
            self._events = TopicFollower.of(settings, settings.events)
            places: list[Place] = []
            for topic in settings.inputs:
                instances = TopicFollower.of(settings, topic)
                places += instances.places
                instances.close()
            self._places = places
            self._numbers = {place: number for number, place in enumerate(places)}
            count = 1 + max(place.partition for place in places)
            self._check(count)
            self.prefixes: Sequence[str] = [f"{place}:" for place in places]
            first, end = self._decisions.bounds()
            begin = {place: max(first[place], end[place] - -(-last // count)) for place in first}
            self._decisions.seek(begin)
            self._events.seek(self._events.bounds()[0])
        self._cut = sum(begin[place] - first[place] for place in first)
        self._at = dict(begin)
        self._behind = sum(end[place] - begin[place] for place in first)
        self._looked = time.monotonic()
        self._received = 0.0
        self._lock = threading.Lock()
        self._old: TopicFollower | None = None
        self._instances: dict[str, TopicFollower] = {}
        self._lost = 0
        self._decode = make_decoder(settings, None)

    def _check(self, count: int) -> None:
        for topic, follower in ((self._settings.output, self._decisions), (self._settings.events, self._events)):
            if len(follower.places) < count:
                raise ConnectorError(
                    f"topic {topic} has {len(follower.places)} partitions and {self.name} has {count}. "
                    "The page needs as many partitions in the output topics as in the input: add partitions"
                )

    def poll(self, refuse: Callable[[str, BaseException], None]) -> NewRecords:
        """Read new records."""
        with start_explained(self._settings):
            events = self._events.poll(0.01, MOST)
            records = self._decisions.poll(WAIT, MOST)
            now = time.monotonic()
            for record in records:
                self._at[Place(self._settings.output, record.partition)] = record.offset + 1
            if now - self._looked > LOOK:
                self._looked = now
                _, end = self._decisions.bounds()
                self._behind = sum(max(0, end[place] - self._decisions.position(place)) for place in end)
            else:
                self._behind = max(0, self._behind - len(records))
        if records:
            self._received = now
        parsed = self._parsed(records, "decision", refuse)
        decisions = [(track, record.offset, record.offset, one) for track, record, one in parsed]
        facts = [(track, one) for track, _, one in self._parsed(events, "event", refuse)]
        return NewRecords(decisions, facts, len(records) >= MOST // 4 or len(events) >= MOST // 4)

    def _parsed(
        self, records: Sequence[Received], kind: str, refuse: Callable[[str, BaseException], None]
    ) -> list[tuple[int, Received, dict[str, Any]]]:
        out = []
        for record in records:
            where = f"{record.topic}, partition {record.partition}, offset {record.offset}"
            try:
                one = orjson.loads(record.value or b"")
                if not isinstance(one, dict) or one.get("topic") not in self._settings.inputs:
                    raise ValueError(where)
                number = one["partition"]
                track = self._numbers.get(Place(one["topic"], number)) if isinstance(number, int) else None
                if track is None:
                    raise ValueError(f"partition is {number!r}")
                if kind == "decision" and number != record.partition:
                    raise ValueError(f"it belongs to partition {number} and is in {record.partition}")
            except orjson.JSONDecodeError as error:
                refuse(kind, ValueError(f"{where}: {NOT_JSON} ({error})"))
            except (ValueError, KeyError) as error:
                refuse(kind, error)
            else:
                out.append((track, record, one))
        return out

    def behind(self) -> int | None:
        """Return the number of decisions to be read."""
        return self._behind

    def running(self) -> bool:
        """Return whether a decision has arrived within ``SILENT`` seconds."""
        return time.monotonic() - self._received < SILENT and self._received > 0

    def block(
        self, track: int, number: int, place: int, after: int | None, only: Collection[int] | None = None
    ) -> list[FoundDecision]:
        """Read a block of decisions again, or only some decisions."""
        source = self._places[track]
        at = Place(self._settings.output, source.partition)
        begin = number if only is None else min(only, default=number)
        end = (self._at[at] if after is None else after) if only is None else max(only, default=number) + 1
        out = []
        with self._lock:
            if self._old is None:
                self._old = self._follower(self._settings.output)
            for record in self._range(self._old, at, begin, end):
                if only is None or record.offset in only:
                    one = json_object(record.value or b"")
                    if one is not None and (one.get("topic"), one.get("partition")) == source:
                        out.append(FoundDecision(record.offset, one))
        return out

    def _follower(self, topic: str) -> TopicFollower:
        with start_explained(self._settings):
            return TopicFollower.of(self._settings, topic)

    def _range(self, follower: TopicFollower, place: Place, begin: int, end: int) -> list[Received]:
        """Read records of a partition between two offsets."""
        out: list[Received] = []
        ends = time.monotonic() + ANSWER
        with start_explained(self._settings):  # of records that were deleted, say
            follower.only(place, begin)
            while follower.position(place) < end and time.monotonic() < ends:
                out += [record for record in follower.poll(WAIT, MOST) if record.offset < end]
        return out

    def features(self, found: Sequence[FoundDecision], texts: Collection[str] = ()) -> list[dict[str, Any] | None]:
        """Return the features from the input topic."""
        out: list[dict[str, Any] | None] = [None] * len(found)
        places: dict[Place, dict[int, int]] = {}
        for i, each in enumerate(found):
            topic, number, offset = (each.decision.get(name) for name in ("topic", "partition", "offset"))
            place = Place(str(topic), number if isinstance(number, int) else -1)
            if isinstance(offset, int) and place in self._numbers:
                places.setdefault(place, {})[offset] = i
        with self._lock:
            for place, wanted in places.items():
                if place.topic not in self._instances:
                    self._instances[place.topic] = self._follower(place.topic)
                for begin, end in _runs(sorted(wanted)):
                    with suppress(ConnectorError):
                        for record in self._range(self._instances[place.topic], place, begin, end):
                            if record.offset in wanted:
                                out[wanted[record.offset]] = self._decoded(record)
        self._lost += sum(each is None for each in out)
        return out

    def _decoded(self, record: Received) -> dict[str, Any] | None:
        try:
            return {str(name): value for name, value in flat(self._decode(record).features).items()}
        except DecodeError:
            return None

    def notes(self) -> list[str]:
        """Describe the skipped input."""
        out = []
        if self._cut:
            out.append(f"The first {self._cut} decisions were skipped (--last N reads more).")
        if self._lost:
            out.append(f"The features of {self._lost} instances are no longer in topic {self.name}.")
        return out

    def close(self) -> None:
        """Close the consumers."""
        for follower in (self._decisions, self._events, self._old, *self._instances.values()):
            if follower is not None:
                follower.close()


def _runs(offsets: Sequence[int], gap: int = 64) -> list[tuple[int, int]]:
    """Combine nearby offsets into ranges.

    >>> _runs([3, 5, 500])
    [(3, 6), (500, 501)]
    """
    out: list[tuple[int, int]] = []
    for offset in offsets:
        if out and offset - out[-1][1] < gap:
            out[-1] = out[-1][0], offset + 1
        else:
            out.append((offset, offset + 1))
    return out


class MetricsView(PolledView):
    """Facts from the metrics port of a service.

    Parameters
    ----------
    settings
        Settings of the service with the port.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        host = settings.metrics_host if settings.metrics_host not in ("0.0.0.0", "::", "") else "127.0.0.1"
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{settings.metrics_port}/metrics"
        super().__init__("metrics")

    def look(self) -> float:
        """Read the metrics of the service."""
        try:
            with _opener.open(self._address, timeout=5) as answer:
                self.note(metrics_view(answer.read(MOST_BYTES).decode()), "")
        except (URLError, OSError, ValueError) as error:
            self.note({}, f"The recall is not available: {self._address} does not answer ({error}).")
        return METRICS_TURN


def metrics_view(text: str) -> dict[str, Any]:
    """Parse metrics. The result has the recall of the partition with the lowest recall.

    >>> metrics_view('stream_osr_expected_recall{partition="0"} 0.5')
    {'recall': {'value': 0.5, 'low': 0.0, 'high': 1.0, 'promised': None}}
    >>> metrics_view('stream_osr_frame_moved{partition="0"} 0')
    {'frame': ''}
    """
    by_name: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            place = f"{sample.labels.get('topic')}/{sample.labels.get('partition')}"
            by_name.setdefault(sample.name.removeprefix("stream_osr_"), {})[place] = sample.value
    recall = by_name.get("expected_recall")
    moved = by_name.get("frame_moved")
    view: dict[str, Any] = {} if moved is None or any(moved.values()) else {"frame": ""}
    if "dependent" in by_name:
        view["dependent"] = any(by_name["dependent"].values())
    if not recall:
        return view
    place = min(recall, key=lambda each: recall[each])
    low, high = by_name.get("expected_recall_low", {}), by_name.get("expected_recall_high", {})
    promised = by_name.get("promised_recall", {}).get(place)
    ends = {"low": low.get(place, 0.0), "high": high.get(place, 1.0)}
    return {"recall": {"value": recall[place], **ends, "promised": promised}, **view}


def parts(config: Path | None, last: int, allowed: bool) -> tuple[ServiceFeed, ModelView, ServiceActs]:
    """Read the settings, and connect to the service.

    Parameters
    ----------
    config
        File of settings.
    last
        Number of latest decisions to read.
    allowed
        Whether commands are allowed.

    Raises
    ------
    StreamOSRError
        If a setting is wrong, or the topics cannot be read.
    """
    quieten()
    settings = load_settings(config, model=Path())
    feed = ServiceFeed(settings, last)
    view: ModelView = ModelView() if settings.metrics_port is None else MetricsView(settings)
    return feed, view, ServiceActs(settings, allowed=allowed)

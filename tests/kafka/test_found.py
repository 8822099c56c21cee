"""What has been found in a partition, from its recognizer to /metrics: right, bounded, the same in a new process."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

import numpy as np

from stream_osr import ClassDrifted, EventsSummed, OpenSetRecognizer, Signals, SubclassEmerged
from stream_osr.discovery.class_count import Estimate
from stream_osr.discovery.event_base import Movement
from stream_osr.discovery.signal_table import EVENT_TABLE
from stream_osr.stream import StageCounts
from stream_osr.trust.recall import ExpectedRecall
from stream_osr_connectors.kafka import stats
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run import model_metrics
from stream_osr_connectors.kafka.run.model_metrics import class_names, find
from stream_osr_connectors.kafka.run.partition import begin
from stream_osr_connectors.kafka.run.publishing import begin_counts, count_decisions, count_events
from stream_osr_connectors.kafka.run.snapshot_policy import Owned
from stream_osr_connectors.kafka.stats import PartitionStats, ServiceStats
from stream_osr_connectors.kafka.wire.boundaries import Boundary
from tests.blobs import KNOWN, NEW, around, fitted_once, stream_part
from tests.kafka.scraping import Samples, total
from tests.kafka.test_monitor import get, live, port, scrape

LONG, ALIKE = "x" * 1000, "x" * 500 + "y" + "x" * 500
PLACE, OTHER = Place("sensors", 3), Place("sensors", 4)
HOSTILE = ("a\nb", 'say "no"\\', "\x1b[2J", LONG, ALIKE, "", "other", "\u202egnp.exe", "{class}", "sky")

RECALL = ExpectedRecall(0.97, 0.95, 0.98, 0.01)
CLASSES = dict.fromkeys(class_names(HOSTILE).values(), stats.ClassMetrics(RECALL, 0.5))
FOUND = stats.ModelMetrics(Signals(2), StageCounts(1, 2, 3, 4, 5), Estimate(3, 3, 4), 0.1, 10, CLASSES)


def run(model: OpenSetRecognizer, n: int = 200, seed: int = 0) -> OpenSetRecognizer:
    """Let a stream with a new class go through it."""
    for key, (x, _) in enumerate(stream_part(n, seed)):
        model.learn_one(x, key=key)
    model.flush()
    return model


def samples_of(*workers: ServiceStats) -> Samples:
    """Samples of /metrics with some workers."""
    with port({f"osr-{number}": figures for number, figures in enumerate(workers)}) as address:
        return scrape(address)


def test_what_is_found_is_what_the_recognizer_says() -> None:
    model = run(fitted_once(chains=2, batch_size=32))
    found, _ = find(model)
    assert found.signals == model.signals
    assert found.signals.novelty >= 1
    assert found.new == model.new_classes().estimate
    assert found.known_classes == 2
    assert found.classes.keys() == {"left", "right"}
    assert found.stages.active == model.value.menu.active >= 1
    assert 0 < found.usual < 1
    expected, of_each = model.expected_recall, [own.recall for own in found.classes.values()]
    assert min(own.recall for own in of_each) <= expected.recall <= max(own.recall for own in of_each)
    assert all(own.low < own.recall <= own.high for own in of_each), "a class has an interval of its own"
    assert max(own.low for own in of_each) < expected.low, "and a wider one than all together"
    assert all(0.2 < own.rank < 0.8 for own in found.classes.values()), "nothing has moved"
    found, _ = find(run(fitted_once(chains=1, references=0), 64))
    assert [own.recall for own in found.classes.values()] == [None, None], "without references there is none"


def test_a_class_that_moves_shows_in_its_rank_and_in_no_other() -> None:
    model, rng = fitted_once(100, chains=1, batch_size=32), np.random.default_rng(1)
    for left, right in zip(around((-2.0, 0.0), 80, rng), around(KNOWN["right"], 80, rng), strict=True):
        model.learn_one(left)
        model.learn_one(right)
    model.flush()
    ranks = {name: own.rank for name, own in find(model)[0].classes.items()}
    assert ranks["left"] < 0.4 < ranks["right"]


def test_each_emerging_subclass_is_at_one_stage() -> None:
    model, rng = fitted_once(chains=1, batch_size=32, half_life=20), np.random.default_rng(2)
    for centre, n in ((NEW, 40), ((30.0, 30.0), 40), (KNOWN["left"], 200), ((30.0, -30.0), 40)):
        for x in around(centre, n, rng):
            model.learn_one(x)
    model.flush()
    before, stream = find(model)[0].stages, model.value.stream
    assert sum(before) == len(stream.life.ids)
    assert (before.active, before.dormant, before.muted) == (1, 2, 0)
    key = int(stream.life.ids[stream.life.emerged & ~stream.life.dormant][0])
    model.mute([key])
    after = find(model)[0].stages
    assert (after.muted, after.active, sum(after)) == (1, 0, sum(before))
    assert model.value.menu.active == 0, "as in every other count"
    announced = [key for key, _, emerged in model.summary().emerging if emerged]
    assert len(announced) == after.active + after.dormant + after.muted
    model.undo()
    assert find(model)[0].stages == before
    model.promote([key], "named")
    found = find(model)[0]
    assert sum(found.stages) == sum(before) - 1
    assert (found.known_classes, [*found.classes]) == (3, ["left", "right", "named"])


def test_looking_changes_nothing_and_what_was_measured_only_saves_time() -> None:
    model = run(fitted_once(chains=2, batch_size=32))
    stream = model.value.stream
    first, measured = find(model)
    assert model.value.stream is stream
    run(model, 100, seed=5)
    assert find(model, measured)[0] == find(model)[0]
    assert find(model)[0] != first


def test_a_partition_is_measured_when_it_has_changed_and_not_while_it_is_replayed() -> None:
    figures = ServiceStats(partitions={PLACE: PartitionStats(), OTHER: PartitionStats()})
    model = fitted_once(chains=1)
    owned = {number: Owned(begin(model, Boundary(0)), deque(), [], 0.0) for number in figures.partitions}
    owned[OTHER].replay.append(Boundary(7))
    schedule = model_metrics.ModelMetricsSchedule(figures)

    def turn(due: float) -> bool:
        schedule._due = due
        schedule.turn(owned)
        return figures.partitions[OTHER].found is not None

    assert not turn(0.0)
    assert figures.partitions[PLACE].found is not None
    assert not turn(0.0), "a count that is behind would look like one that began anew"
    owned[OTHER].replay.clear()
    assert not turn(math.inf), "it is not time yet"
    assert turn(0.0)


def test_counts_by_class_and_type_begin_at_nought_and_add_up() -> None:
    figures, model = ServiceStats(), fitted_once(chains=1, batch_size=32)
    begin_counts(figures, PLACE, model)
    samples = samples_of(figures)
    assert {labels["type"] for labels, _ in samples["stream_osr_events_of_type_total"]} == {*EVENT_TABLE}
    assert {value for each in samples.values() for labels, value in each if "partition" in labels} == {0}
    assert {(labels["class"], labels["decided"]) for labels, _ in samples["stream_osr_class_decisions_total"]} == {
        (name, decided) for name in KNOWN for decided in ("known", "unknown")
    }

    run(model)
    made, events = list(model.drain()), list(model.drain_events())
    count_decisions(figures, PLACE, model, made)
    count_events(figures, PLACE, model, events)
    samples = samples_of(figures)
    for decided in ("known", "unknown"):
        of = [d for d in made if (d.label in KNOWN) is (decided == "known")]
        assert total(samples, "stream_osr_decisions_total", decided=decided) == len(of) > 0
        for name in KNOWN:
            nearest = sum(d.nearest_class == name for d in of)
            assert total(samples, "stream_osr_class_decisions_total", decided=decided, **{"class": name}) == nearest
    emerged = sum(isinstance(event, SubclassEmerged) for event in events)
    assert total(samples, "stream_osr_events_of_type_total", type="SubclassEmerged") == emerged > 0
    assert total(samples, "stream_osr_events_of_type_total") == len(events)


def test_drifts_are_counted_by_class_and_what_was_summed_up_apart() -> None:
    figures, model = ServiceStats(), fitted_once(chains=1)
    about = {"batch": 7, "seq": 99, "model": "m"}
    change = {"direction": "sparser", "since": 3, "size": 9, "rank_before": 0.5, "rank_now": 0.1}
    movement = Movement(mean={"a": 2.0}, trained={"a": 1.0}, shift={"a": 1.0})
    labels = ("left", "left", "unheard of")
    drifted = [ClassDrifted(label=label, movement=movement, **change, **about) for label in labels]
    summed = EventsSummed(counts={"SubclassGrew": 5}, since=3, until=90, emerged=(), **about)
    count_events(figures, PLACE, model, [*drifted, summed])
    samples = samples_of(figures)
    assert total(samples, "stream_osr_class_drifts_total", **{"class": "left"}) == 2
    assert total(samples, "stream_osr_class_drifts_total", **{"class": "other"}) == 1
    assert total(samples, "stream_osr_events_summed_total", type="SubclassGrew") == 5


def test_names_of_classes_are_few_short_and_one_line_each_and_no_two_are_one_series() -> None:
    names = class_names((*HOSTILE, *(f"c{number}" for number in range(1000))))
    assert len(names) == len(HOSTILE) + 1000
    own = [name for name in names.values() if name != "other"]
    assert len(own) == len({*own}) == model_metrics.MOST_CLASSES
    assert all(len(name) <= model_metrics.LONGEST_NAME and name.isprintable() for name in own)
    assert names[LONG] != "other"
    assert [names[label] for label in (ALIKE, "", "other", "c999")] == ["other"] * 4
    assert (names["sky"], names["c0"]) == ("sky", "c0")


def test_hostile_names_of_classes_come_back_from_metrics_as_they_are_shown() -> None:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

    figures, names = live(), class_names(HOSTILE)
    figures.partitions[PLACE].found = FOUND
    for name in names.values():
        figures.add(f"known of {name}", PLACE, 7)
    with port({"osr-0": figures}) as address:
        samples = scrape(address)
        plain, open_metrics = (
            get(address, "/metrics", accept)[1]
            for accept in ("text/plain", "application/openmetrics-text; version=1.0.0")
        )
    families = {family.name: family.type for family in parse_openmetrics(open_metrics)}
    kinds = {"signals": "counter", "subclasses_at": "gauge", "model": "info", "batch_seconds": "histogram"}
    assert {name: families[f"stream_osr_{name}"] for name in kinds} == kinds
    for name in ("class_density_rank", "class_decisions_total"):
        assert {labels["class"] for labels, _ in samples[f"stream_osr_{name}"]} == {*names.values()}
    assert total(samples, "stream_osr_subclasses_at", stage="dormant") == 3
    assert total(samples, "stream_osr_signals_total", signal="novelty") == 2
    assert [total(samples, f"stream_osr_new_classes{end}") for end in ("", "_low", "_high")] == [3, 3, 4]
    assert total(samples, "stream_osr_known_classes") == 10
    assert total(samples, "stream_osr_unknown_usual") == 0.1
    for text in (plain, open_metrics):
        assert len(text.splitlines()) == len(text.split("\n")) - 1, "no name breaks a line"


def test_what_is_not_known_of_a_class_has_no_sample() -> None:
    figures = live()
    figures.partitions[PLACE].found = FOUND._replace(usual=None, classes={"sky": stats.ClassMetrics(None, None)})
    samples = samples_of(figures, replace(live(), partitions={}))
    for name in ("class_expected_recall", "class_density_rank", "unknown_usual"):
        assert f"stream_osr_{name}" not in samples
    assert samples["stream_osr_new_classes"] == [({"worker": "osr-0", "topic": "sensors", "partition": "3"}, 3)]


def test_a_partition_has_at_most_500_series_however_many_classes_there_are() -> None:
    """As docs/kafka_reference.md promises; what a service has but once is not counted."""
    names = class_names(tuple(range(1000))).values()
    figures, classes = live(), dict.fromkeys(names, stats.ClassMetrics(RECALL, 0.5))
    figures.partitions[PLACE].found = FOUND._replace(classes=classes)
    figures.partitions[PLACE].recall = stats.PartitionRecall(RECALL, 0.96)
    for kind in EVENT_TABLE:
        figures.add(f"{stats.OF_TYPE}{kind}", PLACE)
        figures.add(f"{stats.SUMMED}{kind}", PLACE)
    for name in classes:
        for of in (stats.KNOWN_OF, stats.UNKNOWN_OF, stats.DRIFTED):
            figures.add(f"{of}{name}", PLACE)
    assert 300 < sum("partition" in labels for each in samples_of(figures).values() for labels, _ in each) <= 500

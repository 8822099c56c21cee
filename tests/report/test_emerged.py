"""What is told of a subclass, from events and from the model."""

from __future__ import annotations

import math
from collections import Counter
from itertools import compress

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.page.report import class_summary
from stream_osr_connectors.page.report.decisions_table import read_decisions
from tests.report.conftest import EVIL_FEATURES, NEW


def test_events_and_model_tell_of_the_same_subclasses(run):
    events, model = class_summary.from_events(run.events), class_summary.from_model(*run.model.value.running)
    assert set(model) <= set(events)
    for key, subclass in model.items():
        assert (subclass.first, subclass.nearest) == (events[key].first, events[key].nearest)
        assert subclass.size >= events[key].size > 0
        assert {shift.feature for shift in subclass.shifts} == set(EVIL_FEATURES)


def test_shifts_come_largest_first_and_in_standard_deviations(run):
    for subclass in class_summary.from_model(*run.model.value.running).values():
        sizes = [abs(shift.shift) for shift in subclass.shifts]
        assert sizes == sorted(sizes, reverse=True)
        if subclass.size > 50:  # the centres are some nine standard deviations from the known ones
            assert 4 < sizes[0] < 20
            means = {shift.feature: shift.mean for shift in subclass.shifts}
            near = min(NEW.values(), key=lambda c: math.dist(c, [means[name] for name in EVIL_FEATURES]))
            assert math.dist(near, [means[name] for name in EVIL_FEATURES]) < 1.0


def test_the_forgotten_are_gone_but_told(run):
    first = next(e for e in run.events if e["type"] == "SubclassEmerged")
    key = first["subclass_id"]
    gone = {**{k: first[k] for k in ("batch", "seq", "model", "last_seen")}, "subclass_id": key}
    told = class_summary.from_events([first, {"type": "SubclassForgotten", **gone}])
    assert not told[key].alive
    assert told[key].size == first["size"]


def test_decisions_alone_name_what_has_support(run):
    told = read_decisions(run.decisions)
    expected = Counter(d["subclass_id"] for d in run.decisions if d["label"] == "unknown")
    found = class_summary.from_decisions(told)
    wanted = {key: n for key, n in expected.items() if key is not None and n >= 8}
    assert {key: s.size for key, s in found.items()} == wanted


def test_true_classes_are_counted(run):
    told = read_decisions(run.decisions, run.truth)
    for key, subclass in class_summary.with_truth(class_summary.from_model(*run.model.value.running), told).items():
        own = [d["subclass_id"] == key and d["label"] == "unknown" for d in run.decisions]
        assert dict(subclass.truth) == Counter(compress(run.labels, own))


def test_a_broken_event_is_named_by_its_number(run):
    with pytest.raises(ConnectorError, match="event 2 is no event"):
        class_summary.from_events([run.events[0], {"type": "SubclassEmerged", "explanation": {}}])


SUM = {"type": "EventsSummed", "counts": {"SubclassEmerged": 2, "SubclassGrew": 3}, "emerged": [4, 9]}


def test_what_is_summed_up_is_counted_and_its_subclasses_are_named():
    counts, emerged = class_summary.counts_of_sums([{"type": "SubclassGrew"}, SUM, {**SUM, "emerged": [5]}])
    assert counts == {"SubclassEmerged": 4, "SubclassGrew": 6}
    assert emerged == {4, 5, 9}
    assert class_summary.from_events([SUM]) == {}
    for broken in ({**SUM, "counts": [1]}, {**SUM, "emerged": None}, {"type": "EventsSummed"}):
        with pytest.raises(ConnectorError, match="event 2 "):
            class_summary.counts_of_sums([SUM, broken])

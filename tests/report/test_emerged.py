"""Summaries of subclasses, from events and from the model."""

from __future__ import annotations

from collections import Counter

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.page.report import class_summary
from stream_osr_connectors.page.report.decisions_table import read_decisions
from tests.report.conftest import EVIL_FEATURES


def test_events_and_model_have_the_same_subclasses(run):
    events, model = class_summary.from_events(run.events), class_summary.from_model(*run.model.value.running)
    assert set(model) <= set(events)
    for key, subclass in model.items():
        assert (subclass.first, subclass.nearest) == (events[key].first, events[key].nearest)
        assert subclass.size >= events[key].size > 0
        assert {shift.feature for shift in subclass.shifts} == set(EVIL_FEATURES)


def test_a_forgotten_subclass_stays_in_the_summary(run):
    first = next(e for e in run.events if e["type"] == "SubclassEmerged")
    gone = {name: first[name] for name in ("subclass_id", "batch", "seq", "model", "last_seen")}
    found = class_summary.from_events([first, {"type": "SubclassForgotten", **gone}])[first["subclass_id"]]
    assert (found.alive, found.size) == (False, first["size"])


def test_decisions_alone_name_what_has_support(run):
    expected = Counter(d["subclass_id"] for d in run.decisions if d["label"] == "unknown")
    found = class_summary.from_decisions(read_decisions(run.decisions))
    wanted = {key: n for key, n in expected.items() if key is not None and n >= 8}
    assert {key: s.size for key, s in found.items()} == wanted


SUM = {"type": "EventsSummed", "counts": {"SubclassEmerged": 2, "SubclassGrew": 3}, "emerged": [4, 9]}


def test_what_is_summed_up_is_counted_and_its_subclasses_are_named():
    counts, emerged = class_summary.counts_of_sums([{"type": "SubclassGrew"}, SUM, {**SUM, "emerged": [5]}])
    assert counts == {"SubclassEmerged": 4, "SubclassGrew": 6}
    assert emerged == {4, 5, 9}
    assert class_summary.from_events([SUM]) == {}
    for broken in ({**SUM, "counts": [1]}, {**SUM, "emerged": None}, {"type": "EventsSummed"}):
        with pytest.raises(ConnectorError, match="event 2 "):
            class_summary.counts_of_sums([SUM, broken])

"""Decisions as columns."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.page.report.decisions_table import read_decisions


def decision(seq: int, label: str, classes: tuple[str, ...] = ("red", "blue"), **more) -> dict:
    probabilities = dict.fromkeys((*classes, "other"), 0.5)
    return {
        "key": f"k{seq}",
        "seq": seq,
        "label": label,
        "subclass_id": None,
        "p_unknown": 0.5,
        "probabilities": probabilities,
        **more,
    }


def test_columns_say_what_the_run_decided(run):
    told = read_decisions(run.decisions, run.truth)
    assert told.seq.tolist() == [d["seq"] for d in run.decisions]
    assert [told.names[code] for code in told.label] == [d["label"] for d in run.decisions]
    assert [told.names[code] for code in told.truth] == run.labels
    assert told.unknown.tolist() == [d["label"] == "unknown" for d in run.decisions]
    assert told.known == tuple(str(label) for label in run.model.trained.labels)
    np.testing.assert_array_equal(told.truly_unknown, [label not in told.known for label in run.labels])


def test_a_class_that_a_late_label_opened_was_unknown_before():
    first, then = decision(0, "other"), decision(1, "green", ("red", "blue", "green"))
    told = read_decisions([first, then], lambda key, number: "green")
    assert told.known == ("red", "blue", "green")
    assert told.truly_unknown.tolist() == [True, False]


@pytest.mark.parametrize("broken", [{}, {"seq": "three"}, {"probabilities": {}}, {"p_unknown": None}])
def test_what_is_no_decision_is_named_by_its_number(broken):
    records = [decision(0, "red"), {**decision(1, "red"), **broken} if broken else {}]
    with pytest.raises(ConnectorError, match="record 2 is no decision"):
        read_decisions(records)

"""A rule accepts what it expects, and refuses anything else with its place, what was found and what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_osr.support import rules
from stream_osr.support.rules import RecordForm, RefusedValue

CHECKED = RecordForm("Known", {})
CHECKED.sizes = {"J": (2, "Known.seated")}
ACCEPTED = {
    "whole": (rules.whole(0, 5), 3),
    "number": (rules.number(0.0), 0.5),
    "any number": (rules.any_number(), 3),
    "text among": (rules.text("up", "down"), "up"),
    "plain": (rules.plain, ("a", 1, (2.5, None))),
    "maybe": (rules.maybe(rules.flag), None),
    "many": (rules.many(rules.label), ("a", 1, True)),
    "mapping": (rules.mapping(rules.text(), rules.whole()), {"a": 1}),
    "tuple": (rules.tuple_of(rules.flag, rules.whole()), (True, 2)),
    "fields": (rules.fields({"more": rules.flag}, a=rules.whole()), {"a": 1}),
    "array": (rules.array("f", "n", low=0.0, allowed=("nan",)), np.array([0.5, np.nan])),
    "length": (rules.every(rules.many(rules.label), rules.length("2"), rules.distinct), ("a", "b")),
    "empty array": (rules.array("i", "n"), np.zeros(0, np.int64)),
}
REFUSED = {
    "whole": (rules.whole(0, 5), 7, "a whole number from 0 to 5"),
    "truth value as whole": (rules.whole(), True, "a whole number"),
    "whole as number": (rules.number(), 1, "a finite floating-point number"),
    "number that is too large": (rules.any_number(), 1 << 1001, "a number"),
    "text among": (rules.text("up", "down"), "left", "one of up, down"),
    "object in a plain tuple": (rules.plain, ("a", (1, [2])), "place[1][1]"),
    "value of maybe": (rules.maybe(rules.flag), 1, "true or false"),
    "list for tuple": (rules.many(rules.label), ["a"], "a tuple"),
    "element": (rules.many(rules.label), ("a", 2.5), "place[1]"),
    "length": (rules.many(rules.label, "2|3"), ("a",), "2 or 3 (always)"),
    "list for mapping": (rules.mapping(rules.text(), rules.whole()), ["a"], "a mapping"),
    "value of a mapping": (rules.mapping(rules.text(), rules.whole()), {"a": "b"}, "place['a']"),
    "key of a mapping": (rules.mapping(rules.text(), rules.whole()), {1: 1}, "a key of place"),
    "tuple of another length": (rules.tuple_of(rules.flag, rules.whole()), (True,), "a tuple of 2"),
    "list for fields": (rules.fields(a=rules.whole()), [1], "a mapping"),
    "field that is missing": (rules.fields(a=rules.whole()), {}, "missing"),
    "field too many": (rules.fields(a=rules.whole()), {"a": 1, "b": 2}, "there"),
    "value of a field": (rules.fields(a=rules.whole()), {"a": "x"}, "place.a"),
    "list for array": (rules.array("f", "n"), [1.0], "an array of float64"),
    "whole numbers for floats": (rules.array("f", "n"), np.array([1]), "of int64"),
    "dimensions": (rules.array("f", "n", "d"), np.array([1.0]), "of 1 dimensions"),
    "number below": (rules.array("f", "n", low=0.0), np.array([1.0, -2.0]), "place[1]"),
    "missing number": (rules.array("f", "n"), np.array([np.nan]), "finite numbers"),
    "sizes that differ": (rules.array("f", "n", "n"), np.zeros((2, 3)), "2 (place has 2)"),
    "second rule": (rules.every(rules.whole(), rules.whole(0, 5)), 7, "a whole number from 0 to 5"),
    "other length": (rules.length("2"), ("a",), "2 (always)"),
    "record without a size": (rules.sizes("K"), CHECKED, "no field defines the size K"),
    "record of another size": (rules.sizes(J="3"), CHECKED, "3 (always)"),
    "text for record": (rules.record("Dishes"), "x", "a record Dishes"),
}


@pytest.mark.parametrize(("rule", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_value_that_fits_is_accepted(rule: Any, value: Any):
    rule(value, "place", {})


@pytest.mark.parametrize(("rule", "value", "named"), REFUSED.values(), ids=REFUSED)
def test_another_value_is_refused_by_name(rule: Any, value: Any, named: str):
    with pytest.raises(RefusedValue) as refused:
        rule(value, "place", {})
    assert named in str(refused.value)

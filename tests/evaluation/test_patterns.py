from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.cluster import contingency_matrix

from stream_osr import Decision
from stream_osr.evaluation import CER, NoveltyPattern, Purity, UnkR, pattern_of

P, Q = NoveltyPattern(0), NoveltyPattern(1)
PAIRS = st.lists(st.tuples(st.sampled_from(["a", "b", "y", "z"]), st.sampled_from(["a", "b", "c", P, Q, "unknown"])))


def of(kind, pairs):
    metric = kind()
    for y_true, y_pred in pairs:
        metric.update(y_true, y_pred)
    return metric


def same(value, expected):
    return value == pytest.approx(expected, nan_ok=True, abs=1e-12)


def plainly(pairs):
    """CER from its formula, instance by instance."""
    pairs = [(y, answer) for y, answer in pairs if answer != "unknown"]
    size = Counter(y for y, _ in pairs)
    stands_for = {}
    for pattern in (P, Q):
        inside = Counter(y for y, answer in pairs if answer == pattern)
        stands_for[pattern] = max(inside, key=lambda y: (inside[y], -size[y]), default=None)
    given_to = [(y, stands_for.get(answer, answer)) for y, answer in pairs]
    total = 0.0
    for c in size:
        missed = sum(y == c != answer for y, answer in given_to) / size[c]
        others = len(pairs) - size[c]
        false = sum(answer == c != y for y, answer in given_to) / others if others else 0.0
        total += size[c] / len(pairs) * (missed + false) / 2
    return total if pairs else math.nan


@given(PAIRS)
def test_rates_are_their_formulas(pairs):
    value = of(CER, pairs).get()
    assert same(value, plainly(pairs))
    assert math.isnan(value) or 0 <= value <= 1
    met = {y for y, _ in pairs}
    blank = [sum(pair == (y, "unknown") for pair in pairs) / sum(y == true for true, _ in pairs) for y in met]
    assert same(of(UnkR, pairs).get(), sum(blank) / len(met) if met else math.nan)


def test_label_of_a_class_that_was_not_met_is_an_error_and_no_pattern():
    assert of(CER, [("a", "a"), ("b", "c")]).get() == pytest.approx(0.25)
    assert of(CER, [("a", "a"), ("b", P)]).get() == 0


def test_pattern_may_be_of_a_known_class():
    assert of(CER, [("a", "a"), ("a", P), ("a", P), ("z", Q)]).get() == 0


def test_nothing_explained():
    metric, rate = (of(kind, [("a", "unknown"), ("z", "unknown")]) for kind in (CER, UnkR))
    assert math.isnan(metric.get())
    assert rate.get() == 1
    assert all(math.isnan(kind().get()) for kind in (CER, UnkR, Purity))


def test_unknown_label_may_be_another():
    metric, rate = CER(unknown=-1), UnkR(unknown=-1)
    for pair in ((0, 0), (0, -1), (5, NoveltyPattern(0))):
        metric.update(*pair)
        rate.update(*pair)
    assert (metric.get(), rate.get()) == (0, 0.25)
    assert metric.clone().unknown == -1


@pytest.mark.parametrize("kind", [CER, UnkR, Purity])
@given(pairs=PAIRS, more=PAIRS, seed=st.randoms())
def test_order_does_not_matter_and_revert_undoes_update(kind, pairs, more, seed):
    metric = of(kind, pairs + more)
    mixed = pairs + more
    seed.shuffle(mixed)
    assert same(of(kind, mixed).get(), metric.get())
    for y_true, y_pred in more:
        metric.revert(y_true, y_pred)
    assert same(metric.get(), of(kind, pairs).get())


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_purity_is_that_of_the_contingency_table(pairs):
    table = contingency_matrix(*zip(*pairs, strict=True))
    assert of(Purity, pairs).get() == pytest.approx(table.max(axis=0).sum() / len(pairs))


def decision(label, subclass_id):
    probabilities = {"a": 0.4, "unknown": 0.6}
    return Decision(0, None, label, label, 0.6, 0.6, probabilities, subclass_id, "a", 3.0, 0.1, 0, 0)


def test_decisions_as_patterns():
    assert pattern_of(decision("a", 4), "unknown") == "a"
    assert pattern_of(decision("unknown", None), "unknown") == "unknown"
    assert pattern_of(decision("unknown", 4), "unknown") == NoveltyPattern(4)
    assert pattern_of(decision("unknown", 4), "unknown", {4}) == NoveltyPattern(4)
    assert pattern_of(decision("unknown", 4), "unknown", {5}) == "unknown"

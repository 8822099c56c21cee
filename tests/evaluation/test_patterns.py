from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import Decision
from stream_osr.evaluation import CER, NoveltyPattern, Purity, UnkR, pattern_of
from tests.tiers import examples

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
    per_reference = {}
    for pattern in (P, Q):
        inside = Counter(y for y, answer in pairs if answer == pattern)
        per_reference[pattern] = max(inside, key=lambda y: (inside[y], -size[y]), default=None)
    given_to = [(y, per_reference.get(answer, answer)) for y, answer in pairs]
    total = 0.0
    for c in size:
        missed = sum(y == c != answer for y, answer in given_to) / size[c]
        others = len(pairs) - size[c]
        false = sum(answer == c != y for y, answer in given_to) / others if others else 0.0
        total += size[c] / len(pairs) * (missed + false) / 2
    return total if pairs else math.nan


@examples(100)
@given(PAIRS)
def test_rates_are_their_formulas(pairs):
    value = of(CER, pairs).get()
    assert same(value, plainly(pairs))
    assert math.isnan(value) or 0 <= value <= 1
    met = {y for y, _ in pairs}
    blank = [sum(pair == (y, "unknown") for pair in pairs) / sum(y == true for true, _ in pairs) for y in met]
    assert same(of(UnkR, pairs).get(), sum(blank) / len(met) if met else math.nan)


def test_without_explained_instances_the_error_rate_is_nan():
    unexplained = [("a", "unknown"), ("z", "unknown")]
    assert math.isnan(of(CER, unexplained).get())
    assert of(UnkR, unexplained).get() == 1
    assert all(math.isnan(kind().get()) for kind in (CER, UnkR, Purity))


def test_unknown_label_may_be_another():
    metric, rate = CER(unknown=-1), UnkR(unknown=-1)
    for pair in ((0, 0), (0, -1), (5, NoveltyPattern(0))):
        metric.update(*pair)
        rate.update(*pair)
    assert (metric.get(), rate.get()) == (0, 0.25)
    assert metric.clone().unknown == -1


@pytest.mark.parametrize("kind", [CER, UnkR, Purity])
@examples(100)
@given(pairs=PAIRS, more=PAIRS, seed=st.randoms())
def test_order_does_not_matter_and_revert_undoes_update(kind, pairs, more, seed):
    metric, mixed = of(kind, pairs + more), pairs + more
    seed.shuffle(mixed)
    assert same(of(kind, mixed).get(), metric.get())
    for y_true, y_pred in more:
        metric.revert(y_true, y_pred)
    assert same(metric.get(), of(kind, pairs).get())


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_purity_is_the_share_of_the_largest_class_of_each_group(pairs):
    counts = Counter(pairs)
    largest = [max(n for (_, group), n in counts.items() if group == each) for each in {group for _, group in pairs}]
    assert of(Purity, pairs).get() == pytest.approx(sum(largest) / len(pairs))


def test_decisions_as_patterns():
    probabilities = {"a": 0.4, "unknown": 0.6}
    decision = Decision(0, None, "unknown", "unknown", 0.6, 0.6, probabilities, 4, "a", 3.0, 0.1, 0, 0)
    assert pattern_of(decision._replace(label="a"), "unknown") == "a"
    assert pattern_of(decision._replace(subclass_id=None), "unknown") == "unknown"
    assert pattern_of(decision, "unknown") == pattern_of(decision, "unknown", {4}) == NoveltyPattern(4)
    assert pattern_of(decision, "unknown", {5}) == "unknown"

"""The recall that training promises, its estimate from references while a stream runs, and when it has dropped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_osr.trust import recall as trust
from stream_osr.trust.references import References
from tests.tiers import examples

MANY = np.full(3, 10_000)


def judged(n: int, recall: float, rng: np.random.Generator, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Log densities of instances of which this share is recognized, and their classes."""
    group = np.arange(n) % n_classes
    called = np.where(rng.random(n) < recall, group, (group + 1) % n_classes)
    return 5.0 * np.eye(n_classes)[called], group


def called(n: int, recall: float, unknown: float = 0.0) -> trust.ReferenceResults:
    """References called in batches: exactly these shares of them are right, and unknown."""
    results, group, batch = trust.no_results(3), np.arange(256) % 3, 256
    u = np.random.default_rng(0).permutation((np.arange(batch) + 0.5) / batch)
    label = np.where(u < recall, group, np.where(u < recall + unknown, 3, (group + 1) % 3))
    for _ in range(n // batch):
        results = trust.call(results, label, group, np.full(3, 1 / 3), batch)
    return results


def test_promise_counts_what_the_averaged_models_call_right_at_the_shares_of_training() -> None:
    group = np.array([0, 0, 0, 1])
    even = np.zeros((4, 2))
    assert trust.promise([even], group).recall == 0.75, "what is even goes to the larger class"
    one, other = np.log([[0.9, 0.1]] * 4), np.log([[0.001, 0.999]] * 4)
    both = trust.promise([one, one, other], group)
    assert both.recall == 0.75
    assert trust.promise([one, other, other], group).recall == 0.25
    assert both.false_unknown == 0.0


@pytest.mark.parametrize("recall", [0.6, 0.9, 0.98])
@pytest.mark.parametrize("n", [30, 300])
def test_the_interval_of_the_promise_holds_the_truth(recall: float, n: int) -> None:
    rng = np.random.default_rng([n, int(100 * recall)])
    covered = [
        trust.promise([log_density], group) for log_density, group in (judged(n, recall, rng) for _ in range(400))
    ]
    share = np.mean([each.low <= recall <= each.high for each in covered])
    assert share > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 400)
    assert all(0 <= each.low <= each.recall <= each.high <= 1 for each in covered)


def test_what_no_class_describes_makes_no_warning() -> None:
    only = trust.promise([np.full((1, 1), -np.inf)], np.array([0]))
    assert 0 <= only.low <= only.recall <= only.high <= 1


@examples(40)
@example(recall=0.9777242162308132)  # whole instances: a tenth wider than required
@given(recall=st.floats(0.02, 0.98))
def test_the_stated_number_of_instances_suffices(recall: float) -> None:
    enough = trust.instances_that_would_do(recall)
    for n, holds in ((enough, True), (enough // 2, False)):
        group = np.arange(n) % 2
        called = np.where(np.arange(n) < round(recall * n), group, 1 - group)
        found = trust.promise([np.eye(2)[called]], group)
        assert ((found.high - found.low) / 2 <= trust.ENOUGH * 1.15) == holds


def test_what_was_called_fades_and_is_weighed_by_the_shares_of_the_stream() -> None:
    results = trust.call(
        trust.no_results(2), np.array([0, 2, 1, 1]), np.array([0, 0, 1, 1]), np.array([0.9, 0.1]), 10
    )
    now = trust.expect(results, np.array([100, 100]))
    assert now.recall == pytest.approx(0.9 * 0.5 + 0.1)
    assert now.false_unknown == pytest.approx(0.9 * 0.5)
    later = trust.call(results, np.zeros(0, int), np.zeros(0, int), np.array([0.9, 0.1]), int(trust.REMEMBERED))
    np.testing.assert_allclose(later.total, 0.5 * results.total)
    np.testing.assert_allclose(later.right, 0.5 * results.right)
    np.testing.assert_allclose(later.unknown, 0.5 * results.unknown)
    assert trust.expect(trust.no_results(2), np.array([5, 5])) is None


def test_references_count_by_their_weight() -> None:
    label, group, weight = np.array([0, 2, 0]), np.zeros(3, int), np.array([1.9, 0.1, 1.0])
    results = trust.call(trust.no_results(2), label, group, np.array([1.0, 0.0]), 10, weight)
    now = trust.expect(results, np.array([100, 100]))
    assert now.recall == pytest.approx(2.9 / 3.0)
    assert now.false_unknown == pytest.approx(0.1 / 3.0)
    assert results.total[0] == pytest.approx(3.0)


def test_a_class_without_called_references_is_left_out_and_a_new_class_is_added() -> None:
    results = trust.call(trust.no_results(2), np.array([0]), np.array([0]), np.array([0.2, 0.8]), 1)
    now = trust.expect(results, np.array([3, 3]))
    assert now.recall == 1.0
    wider = trust.call(results, np.array([2, 3]), np.array([2, 2]), np.array([0.2, 0.3, 0.5]), 1)
    assert wider.total.shape == (3,)
    found = trust.expect(wider, np.array([3, 3, 3]))
    assert found.recall == pytest.approx((0.2 * 1.0 + 0.5 * 0.5) / 0.7)
    narrower = trust.call(wider, np.array([1]), np.array([1]), np.array([0.5, 0.5]), 1)
    assert narrower.total.shape == (2,)


def test_calling_the_same_references_again_makes_no_interval_narrower() -> None:
    few, many = called(2560, 0.9), called(25_600, 0.9)
    widths = []
    for results, distinct in ((few, 20), (many, 20), (many, 10_000)):
        now = trust.expect(results, np.full(3, distinct))
        assert now.recall == pytest.approx(0.9, abs=0.01)
        widths.append(now.high - now.low)
    assert widths[1] == pytest.approx(widths[0], rel=0.01)
    assert widths[2] < 0.5 * widths[1]
    assert widths[2] > 2 * trust.Z * trust.WIDEST


def test_references_of_dependent_instances_are_as_many_as_are_independent() -> None:
    group = np.repeat([0, 1], [50, 6])
    references = References(np.zeros((56, 1)), group, (np.zeros((56, 2)),))
    np.testing.assert_array_equal(references.distinct(2), [50, 6])
    few = references._replace(effective=8.0).distinct(2)
    np.testing.assert_array_equal(few, [8, 6])
    low = trust.call(trust.no_results(2), np.repeat([0, 1], 100), np.zeros(200, int), np.array([1.0, 0.0]), 0)
    for distinct, dropped in ((references.distinct(2), True), (few, False)):
        assert trust.has_dropped(low, trust.expect(low, distinct), (0.7, 0.9), distinct) == dropped


def test_references_right_all_along_still_leave_an_interval() -> None:
    now = trust.expect(called(2560, 1.0), np.full(3, 5))
    assert now.recall == pytest.approx(1)
    assert now.low < 0.95


def test_a_drop_is_found_when_it_is_sure_and_until_it_is_over() -> None:
    def dropped(results: trust.ReferenceResults, distinct: np.ndarray = MANY) -> bool:
        return trust.has_dropped(results, trust.expect(results, distinct), (0.9, 0.98), distinct)

    assert not dropped(called(5120, 0.95))
    assert not dropped(called(5120, 0.89)), "a little below may be chance"
    low = called(5120, 0.8)
    assert dropped(low)
    assert not dropped(low, np.full(3, 10)), "of few references it is not sure"
    known = low._replace(dropped=True)
    assert dropped(known._replace(right=0.89 / 0.8 * low.right)), "not yet back"
    assert not dropped(known._replace(right=0.92 / 0.8 * low.right))
    begun = called(256, 0.1)
    faded = begun._replace(total=begun.total * 0.2, right=begun.right * 0.2)
    assert not dropped(faded), "too few were called yet"
    assert dropped(faded, np.full(3, 15)), "but all that there are"


NONE = np.zeros(0)


def doubted(known: int, disputed: int, unplaced: int) -> tuple[trust.ExpectedRecall, trust.ExpectedRecall]:
    """The estimate without doubt, and with what the stream says against it."""
    results = called(2560, 0.9, unknown=0.05)
    plain, other = (
        trust.expect(results, MANY),
        trust.expect(trust.doubt(results, known, disputed, unplaced, NONE), MANY),
    )
    return plain, other


def test_a_stream_that_says_nothing_against_the_references_changes_no_bit() -> None:
    plain, other = doubted(500, 0, 0)
    assert other == plain


def test_unknown_instances_without_a_subclass_count_the_more_as_known_the_more_there_are() -> None:
    plain, other = doubted(300, 0, 100)
    assert other.recall == pytest.approx((1.0 - 0.25 * 0.625) * plain.recall)
    assert other.low == pytest.approx(0.75 * plain.low)
    assert other.high == pytest.approx((1.0 - 0.25 * 0.4375) * plain.high)
    assert other.false_unknown == pytest.approx(1.0 - (1.0 - 0.25 * 0.625) * (1.0 - plain.false_unknown))
    alone = doubted(0, 0, 50)[1]
    assert (alone.recall, alone.low, alone.high) == pytest.approx((0.0, 0.0, 0.0))
    assert alone.false_unknown == pytest.approx(1.0)


def test_disputed_instances_lower_the_estimate_by_half_of_them_and_widen_it() -> None:
    plain, other = doubted(300, 100, 0)
    assert other.recall == pytest.approx(plain.recall * (1.0 - 0.5 * 0.25))
    width, before = other.high - other.low, plain.high - plain.low
    assert width == pytest.approx(before * (1.0 - 0.5 * 0.25) + 2.0 * trust.DISPUTED_SPREAD * 0.25)
    assert other.false_unknown == pytest.approx(plain.false_unknown)


def test_doubt_fades_with_the_instances_that_follow() -> None:
    results = trust.doubt(trust.no_results(3), 0, 100, 0, NONE)
    half = round(trust.REMEMBERED)
    np.testing.assert_allclose(trust.doubt(results, half, 0, 0, NONE).doubt, [half, 50.0, 0.0])
    np.testing.assert_array_equal(results.doubt, [0.0, 100.0, 0.0])


def test_instances_whose_subclass_is_announced_later_are_no_doubt_from_then_on() -> None:
    results = trust.doubt(trust.no_results(3), 100, 0, 3, NONE)
    ages = np.array([trust.REMEMBERED, 1e9])
    np.testing.assert_allclose(trust.doubt(results, 0, 0, 0, ages).doubt, [100.0, 0.0, 2.5])
    assert trust.doubt(results, 0, 0, 0, np.zeros(9)).doubt[2] == 0.0


def test_recall_without_a_mistake_is_not_above_one() -> None:
    rng, every = np.random.default_rng(0), np.full(7, 30.0)
    for _ in range(200):
        results = trust.no_results(7)._replace(right=every, total=every, unknown=0.0 * every)
        now = trust.expect(results._replace(shares=rng.dirichlet(every)), every)
        assert now is not None
        assert now.recall <= 1.0

"""The recall that training promises, what references tell of it while a stream runs, and when it has dropped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_osr.trust import recall as law
from tests.tiers import examples

MANY = np.full(3, 10_000)


def judged(n: int, recall: float, rng: np.random.Generator, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Log densities of instances of which this share is told right, and their classes."""
    group = np.arange(n) % n_classes
    called = np.where(rng.random(n) < recall, group, (group + 1) % n_classes)
    return 5.0 * np.eye(n_classes)[called], group


def asked(
    n: int, recall: float, unknown: float = 0.0, begin: law.ReferenceResults | None = None, batch: int = 256
) -> law.ReferenceResults:
    """References called in batches: exactly these shares of them are right, and unknown."""
    called = law.no_results(3) if begin is None else begin
    group = np.arange(batch) % 3
    u = (np.arange(batch) + 0.5) / batch
    u = np.random.default_rng(0).permutation(u)
    label = np.where(u < recall, group, np.where(u < recall + unknown, 3, (group + 1) % 3))
    for _ in range(n // batch):
        called = law.call(called, label, group, np.full(3, 1 / 3), batch)
    return called


def test_promise_counts_what_the_averaged_models_call_right_at_the_shares_of_training() -> None:
    group = np.array([0, 0, 0, 1])
    even = np.zeros((4, 2))
    assert law.promise([even], group).recall == 0.75, "what is even goes to the larger class"
    one, other = np.log([[0.9, 0.1]] * 4), np.log([[0.001, 0.999]] * 4)
    both = law.promise([one, one, other], group)
    assert both.recall == 0.75
    assert law.promise([one, other, other], group).recall == 0.25
    assert both.false_unknown == 0.0


@pytest.mark.parametrize("recall", [0.6, 0.9, 0.98])
@pytest.mark.parametrize("n", [30, 300])
def test_the_interval_of_the_promise_holds_the_truth(recall: float, n: int) -> None:
    rng = np.random.default_rng([n, int(100 * recall)])
    covered = [
        law.promise([log_density], group) for log_density, group in (judged(n, recall, rng) for _ in range(400))
    ]
    share = np.mean([each.low <= recall <= each.high for each in covered])
    assert share > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 400)
    assert all(0 <= each.low <= each.recall <= each.high <= 1 for each in covered)


def test_what_no_class_describes_makes_no_warning() -> None:
    only = law.promise([np.full((1, 1), -np.inf)], np.array([0]))
    assert 0 <= only.low <= only.recall <= only.high <= 1


@examples(40)
@example(recall=0.9777242162308132)  # whole instances: a tenth wider than asked for
@given(recall=st.floats(0.02, 0.98))
def test_as_many_instances_as_are_said_would_do(recall: float) -> None:
    for n, holds in ((law.instances_that_would_do(recall), True), (law.instances_that_would_do(recall) // 2, False)):
        group = np.arange(n) % 2
        called = np.where(np.arange(n) < round(recall * n), group, 1 - group)
        found = law.promise([np.eye(2)[called]], group)
        assert ((found.high - found.low) / 2 <= law.ENOUGH * 1.15) == holds


def test_what_was_called_fades_and_is_weighed_by_the_shares_of_the_stream() -> None:
    called = law.call(law.no_results(2), np.array([0, 2, 1, 1]), np.array([0, 0, 1, 1]), np.array([0.9, 0.1]), 10)
    now = law.expect(called, np.array([100, 100]))
    assert now.recall == pytest.approx(0.9 * 0.5 + 0.1)
    assert now.false_unknown == pytest.approx(0.9 * 0.5)
    later = law.call(called, np.zeros(0, int), np.zeros(0, int), np.array([0.9, 0.1]), int(law.REMEMBERED))
    np.testing.assert_allclose(later.total, 0.5 * called.total)
    np.testing.assert_allclose(later.right, 0.5 * called.right)
    np.testing.assert_allclose(later.unknown, 0.5 * called.unknown)
    assert law.expect(law.no_results(2), np.array([5, 5])) is None


def test_references_count_by_their_weight() -> None:
    label, group, weight = np.array([0, 2, 0]), np.zeros(3, int), np.array([1.9, 0.1, 1.0])
    called = law.call(law.no_results(2), label, group, np.array([1.0, 0.0]), 10, weight)
    now = law.expect(called, np.array([100, 100]))
    assert now.recall == pytest.approx(2.9 / 3.0)
    assert now.false_unknown == pytest.approx(0.1 / 3.0)
    assert called.total[0] == pytest.approx(3.0)


def test_a_class_that_was_not_asked_is_left_out_and_one_that_comes_is_made_room_for() -> None:
    called = law.call(law.no_results(2), np.array([0]), np.array([0]), np.array([0.2, 0.8]), 1)
    now = law.expect(called, np.array([3, 3]))
    assert now.recall == 1.0
    wider = law.call(called, np.array([2, 3]), np.array([2, 2]), np.array([0.2, 0.3, 0.5]), 1)
    assert wider.total.shape == (3,)
    found = law.expect(wider, np.array([3, 3, 3]))
    assert found.recall == pytest.approx((0.2 * 1.0 + 0.5 * 0.5) / 0.7)
    narrower = law.call(wider, np.array([1]), np.array([1]), np.array([0.5, 0.5]), 1)
    assert narrower.total.shape == (2,)


def test_asking_the_same_references_again_makes_no_interval_narrower() -> None:
    few, many = asked(2560, 0.9), asked(25_600, 0.9)
    widths = []
    for called, distinct in ((few, 20), (many, 20), (many, 10_000)):
        now = law.expect(called, np.full(3, distinct))
        assert now.recall == pytest.approx(0.9, abs=0.01)
        widths.append(now.high - now.low)
    assert widths[1] == pytest.approx(widths[0], rel=0.01)
    assert widths[2] < 0.5 * widths[1]
    assert widths[2] > 2 * law.Z * law.WIDEST


def test_references_right_all_along_still_leave_an_interval() -> None:
    now = law.expect(asked(2560, 1.0), np.full(3, 5))
    assert now.recall == pytest.approx(1)
    assert now.low < 0.95


def test_a_drop_is_told_when_it_is_sure_and_until_it_is_over() -> None:
    promised = (0.9, 0.98)

    def dropped(called: law.ReferenceResults, distinct: np.ndarray = MANY) -> bool:
        now = law.expect(called, distinct)
        return law.has_dropped(called, now, promised, distinct)

    assert not dropped(asked(5120, 0.95))
    assert not dropped(asked(5120, 0.89)), "a little below may be chance"
    assert dropped(asked(5120, 0.8))
    assert not dropped(asked(5120, 0.8), np.full(3, 10)), "of few references it is not sure"
    told = asked(5120, 0.8)._replace(dropped=True)
    assert dropped(told._replace(right=0.89 / 0.8 * told.right)), "not yet back"
    assert not dropped(told._replace(right=0.92 / 0.8 * told.right))
    begun = asked(256, 0.1)
    faded = begun._replace(total=begun.total * 0.2, right=begun.right * 0.2)
    assert faded.total.sum() < law.LEAST_ASKED
    assert not dropped(faded), "too few were asked yet"
    assert dropped(faded, np.full(3, 15)), "but all that there are"


def doubted(known: int, disputed: int, unplaced: int) -> tuple[law.ExpectedRecall, law.ExpectedRecall]:
    """The estimate without doubt, and with what the stream says against it."""
    called = asked(2560, 0.9, unknown=0.05)
    plain, other = law.expect(called, MANY), law.expect(law.doubt(called, known, disputed, unplaced), MANY)
    return plain, other


def test_a_stream_that_says_nothing_against_the_references_changes_no_bit() -> None:
    plain, other = doubted(500, 0, 0)
    assert other == plain


def test_unknown_instances_that_gather_in_no_subclass_count_as_known_ones_that_have_moved() -> None:
    plain, other = doubted(300, 0, 100)
    assert other.recall == pytest.approx(0.75 * plain.recall)
    assert other.low == pytest.approx(0.75 * plain.low)
    assert other.high == pytest.approx(0.75 * plain.high)
    assert other.false_unknown == pytest.approx(1.0 - 0.75 * (1.0 - plain.false_unknown))
    alone = doubted(0, 0, 50)[1]
    assert alone.recall == pytest.approx(0.0)
    assert alone.false_unknown == pytest.approx(1.0)


def test_disputed_instances_lower_the_estimate_by_half_of_them_and_widen_it() -> None:
    plain, other = doubted(300, 100, 0)
    assert other.recall == pytest.approx(plain.recall * (1.0 - 0.5 * 0.25))
    width, before = other.high - other.low, plain.high - plain.low
    assert width == pytest.approx(before * (1.0 - 0.5 * 0.25) + 2.0 * law.DISPUTED_SPREAD * 0.25)
    assert other.false_unknown == pytest.approx(plain.false_unknown)


def test_doubt_fades_with_the_instances_that_follow() -> None:
    called = law.doubt(law.no_results(3), 0, 100, 0)
    half = round(law.REMEMBERED)
    np.testing.assert_allclose(law.doubt(called, half, 0, 0).doubt, [half, 50.0, 0.0])
    np.testing.assert_array_equal(called.doubt, [0.0, 100.0, 0.0])


def test_recall_without_a_mistake_is_not_above_one() -> None:
    rng, every = np.random.default_rng(0), np.full(7, 30.0)
    for _ in range(200):
        results = law.no_results(7)._replace(right=every, total=every, unknown=0.0 * every)
        now = law.expect(results._replace(shares=rng.dirichlet(every)), every)
        assert now is not None
        assert now.recall <= 1.0

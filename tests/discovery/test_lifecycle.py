"""Candidate, emerged, grown, forgotten: the rules at their boundaries, without a sampler."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.discovery.events import Moment
from stream_osr.discovery.lifecycle import (
    EMERGES_ABOVE,
    EMERGES_WITH,
    EMERGES_WITHIN,
    EXEMPLARS,
    HELD_WITH,
    Lifecycle,
    Subclass,
    estimate_new_classes,
    forget,
    observe,
    to_hold,
    worth_telling,
)


def arrived(key: int, positions: list[int], p_unknown: float = 0.99) -> list[tuple[int, Moment, float]]:
    return [(key, Moment(seq, 0.5 * seq, f"k{seq}"), p_unknown) for seq in positions]


def emerged(size: int = 8, seq: int = 0) -> Subclass:
    return Subclass(Moment(seq, None, None), Moment(seq, None, None), emerged=True, announced_size=size)


def test_the_rules_are_the_measured_ones():
    # science.md M11: 8 arrivals within 640 instances at a mean of .9: hardly a false one, most found by 30
    assert (EMERGES_WITH, EMERGES_WITHIN, EMERGES_ABOVE) == (8, 640, 0.9)


def test_nothing_happens_to_nothing():
    assert observe(Lifecycle(), [], {}) == (Lifecycle(), ((), ()))


def test_first_and_latest_arrival_and_exemplars_are_noted():
    life, _ = observe(Lifecycle(), arrived(7, [3, 4, 9]), {7: 3})
    life, _ = observe(life, arrived(7, [12, 15, 20, 21]), {7: 7})
    subclass = life.subclasses[7]
    assert subclass.first == Moment(3, 1.5, "k3")
    assert subclass.last == Moment(21, 10.5, "k21")
    assert subclass.exemplars == ("k9", "k12", "k15", "k20", "k21")
    assert len(subclass.exemplars) == EXEMPLARS
    assert not subclass.emerged


def test_what_went_in_stays_as_it_is():
    life, _ = observe(Lifecycle(), arrived(7, [1, 2]), {7: 2})
    copy = dict(life.subclasses)
    observe(life, arrived(7, list(range(3, 20))), {7: 19})
    forget(life, [])
    assert life.subclasses == copy


@pytest.mark.parametrize(
    ("positions", "size", "p_unknown", "announced"),
    [
        (list(range(8)), 8, 0.99, True),
        (list(range(7)), 7, 0.99, False),
        ([0, 1, 2, 3, 4, 5, 6, 639], 8, 0.99, True),
        ([0, 1, 2, 3, 4, 5, 6, 640], 8, 0.99, False),
        ([0, 700, 701, 702, 703, 704, 705, 706, 707], 9, 0.99, True),  # the latest eight count
        (list(range(8)), 8, 0.901, True),
        (list(range(8)), 8, 0.899, False),
        (list(range(8)), 7, 0.99, False),  # one has moved to another subclass since
        (list(range(20)), 1, 0.99, False),
        (list(range(8)), 30, 0.99, True),  # others have moved in
    ],
)
def test_support(positions, size, p_unknown, announced):
    _, changes = observe(Lifecycle(), arrived(7, positions, p_unknown), {7: size})
    assert changes.emerged == ((7,) if announced else ())


def test_support_is_of_the_latest_arrivals_on_average():
    doubtful, sure = arrived(7, list(range(10)), 0.5), arrived(7, list(range(10, 17)), 0.95)
    life, changes = observe(Lifecycle(), [*doubtful, *sure], {7: 17})
    assert changes.emerged == ()  # one of .5 and seven of .95: a mean of .894
    _, changes = observe(life, arrived(7, [17], 0.95), {7: 18})
    assert changes.emerged == (7,)


def test_support_may_gather_over_batches():
    life = Lifecycle()
    for batch in range(8):
        life, changes = observe(life, arrived(7, [50 * batch]), {7: batch + 1})
        assert changes.emerged == ((7,) if batch == 7 else ())


def test_a_subclass_is_announced_once_and_then_at_every_doubling():
    life, told = Lifecycle(), []
    for batch in range(200):
        size = 8 + batch
        life, changes = observe(life, arrived(7, [batch] if batch else list(range(-8, 0))), {7: size})
        told += [("emerged", size)] * (changes.emerged == (7,)) + [("grew", size)] * (changes.grew == (7,))
    assert told == [("emerged", 8), ("grew", 16), ("grew", 32), ("grew", 64), ("grew", 128)]


def test_growth_in_leaps_is_told_once():
    life = Lifecycle({7: emerged(8)})
    life, changes = observe(life, [], {7: 100})
    assert changes.grew == (7,)
    life, changes = observe(life, [], {7: 199})
    assert changes.grew == ()
    _, changes = observe(life, [], {7: 200})
    assert changes.grew == (7,)


def test_growth_after_shrinking_is_no_news():
    life = Lifecycle({7: emerged(8)})
    for size in (3, 6, 12, 15):
        life, changes = observe(life, [], {7: size})
        assert changes.grew == ()


def test_several_at_once_are_told_in_order_of_their_first_arrival():
    arrivals = [one for seq in range(8) for key in (5, 3) for one in arrived(key, [2 * seq + (key == 3)])]
    _, changes = observe(Lifecycle(), arrivals, {3: 8, 5: 8})
    assert changes.emerged == (5, 3)


def test_forgetting_ends_lives_and_names_those_that_were_announced():
    life = Lifecycle({1: emerged(), 2: Subclass(Moment(0, None, None), Moment(0, None, None)), 3: emerged(seq=4)}, 2)
    kept, ended = forget(life, {3: 0})
    assert kept == Lifecycle({3: emerged(seq=4)}, 2)
    assert ended == {1: emerged()}
    assert forget(kept, [3]) == (kept, {})


def test_a_life_that_has_ended_is_no_longer_held():
    life = Lifecycle({1: emerged(), 2: emerged()})
    assert to_hold(life, {2: 1.0}, {2: 8}, 10) == {2}


def test_the_best_supported_are_held():
    life = Lifecycle(
        {key: emerged() for key in range(6)} | {6: Subclass(Moment(0, None, None), Moment(0, None, None))}
    )
    support = {0: 0.0, 1: 5.0, 2: 0.0, 3: 9.0, 4: 0.0, 5: 5.0, 6: 100.0}
    sizes = {0: 50, 1: 10, 2: 60, 3: HELD_WITH, 4: 60, 5: 20, 6: 100}
    ranked = [3, 5, 1, 4, 2, 0]  # by seats, then by size, then the younger; 6 has not emerged
    for most in range(1, 8):
        assert to_hold(life, support, sizes, most) == set(ranked[:most])


def test_a_subclass_that_lost_its_instances_is_not_held():
    life = Lifecycle({1: emerged(), 2: emerged()})
    assert to_hold(life, {1: 9.0, 2: 1.0}, {1: HELD_WITH - 1, 2: HELD_WITH}, 10) == {2}


def test_nothing_is_told_of_a_muted_subclass():
    candidate = Subclass(Moment(0, None, None), Moment(0, None, None), muted=True)
    life = Lifecycle({1: emerged()._replace(muted=True), 2: emerged(), 3: candidate})
    life, changes = observe(
        life, [*arrived(1, list(range(8))), *arrived(3, list(range(8, 16)))], {1: 80, 2: 8, 3: 40}
    )
    assert changes == ((), ())
    assert life.subclasses[1].last.seq == 7
    assert life.subclasses[1].muted
    assert worth_telling(life) == (2,)
    kept, ended = forget(life, [])
    assert set(ended) == {2}
    assert not kept.subclasses


def test_a_muted_subclass_is_held_before_all_others():
    candidate = Subclass(Moment(0, None, None), Moment(0, None, None), muted=True)
    life = Lifecycle({1: emerged(), 2: emerged()._replace(muted=True), 3: candidate})
    support, sizes = {1: 9.0, 2: 0.0, 3: 0.5}, {1: 90, 2: HELD_WITH - 1, 3: 1}
    assert [to_hold(life, support, sizes, most) for most in (1, 2, 3)] == [{3}, {2, 3}, {1, 2, 3}]
    assert to_hold(life, support, {**sizes, 3: 0}, 3) == {1, 2}


@pytest.mark.parametrize(
    ("emerging", "known", "classes", "delta"),
    [
        (14, 19, 5, 4),  # the paper's USPS
        (32, 43, 5, 4),  # the paper's PENDIGITS: 3.72
        (0, 10, 5, 0),
        (1, 1, 1, 1),
        (1, 2, 1, 1),  # a half is rounded up
        (1, 5, 2, 0),
        (3, 10, 5, 2),
    ],
)
def test_equation_14(emerging, known, classes, delta):
    assert estimate_new_classes(emerging, known, classes) == delta


@given(st.integers(0, 500), st.integers(1, 500), st.integers(1, 50))
def test_equation_14_by_its_definition(emerging, known, classes):
    assert estimate_new_classes(emerging, known, classes) in {
        math.floor(emerging / (known / classes) + 0.5),
        (2 * emerging * classes + known) // (2 * known),  # in whole numbers
    }


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1)), max_size=12),
            st.dictionaries(st.integers(0, 4), st.integers(0, 60)),
        ),
        max_size=12,
    )
)
def test_each_life_is_announced_and_ended_at_most_once(batches):
    life, seq = Lifecycle(), 0
    announced: dict[int, list[int]] = {}
    for arrivals, sizes in batches:
        inside = [(key, p) for key, p in arrivals if key in sizes]
        moments = [(key, Moment(seq + i, None, None), p) for i, (key, p) in enumerate(inside)]
        seq += len(inside)
        life, changes = observe(life, moments, sizes)
        for key in changes.emerged:
            assert key not in announced
            announced[key] = [sizes[key]]
        for key in changes.grew:
            assert sizes[key] >= 2 * announced[key][-1]
            announced[key].append(sizes[key])
        life, ended = forget(life, sizes)
        assert set(life.subclasses) <= set(sizes)
        assert set(ended) <= set(announced)
        for key in ended:
            del announced[key]
        assert {key for key, subclass in life.subclasses.items() if subclass.emerged} == set(announced)

"""Candidate, emerged, grown, dormant, back, forgotten: the rules at their boundaries, without a sampler."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.discovery import histories, membership
from stream_osr.discovery import lifecycle as rules
from stream_osr.discovery.event_base import Moment
from stream_osr.discovery.histories import Lifecycle, SubclassHistory, SubclassMember, lifecycle
from stream_osr.discovery.reservoir import keep, objects
from tests.oracles import lives as oracle
from tests.tiers import examples

NOTHING = rules.LifecycleChanges((), (), (), ())

Move = tuple[int, int, SubclassMember]


def arrived(
    key: int, positions: list[int], p_unknown: float = 0.99, per_batch: int = 5
) -> list[tuple[int, SubclassMember]]:
    """Arrivals at these positions of a stream in batches."""
    return [
        (key, SubclassMember(Moment(seq, 0.5 * seq, f"k{seq}"), p_unknown, seq // per_batch)) for seq in positions
    ]


def observe(
    life: Lifecycle,
    arrivals: list[tuple[int, SubclassMember]],
    sizes: dict[int, int],
    faded: Collection[int] = (),
    moves: Sequence[Move] = (),
    new: Sequence[int] = (),
) -> tuple[Lifecycle, rules.LifecycleChanges]:
    """Follow a batch after which a table serves every subclass but those that have faded."""
    ids = column(sizes)
    menu = rules.OnMenu(ids, column(sizes.values()), ~np.isin(ids, list(faded)))
    was, now, who = zip(*moves, strict=True) if moves else ((), (), ())
    them = [*who, *(member for _, member in arrivals)]
    key = column([*now, *(key for key, _ in arrivals)])
    return rules.observe(life, membership.NewSeats(column(was), key, *members(them)), menu, new=column(new))


def column(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def members(them: Sequence[SubclassMember]) -> tuple[membership.MemberColumns, np.ndarray]:
    moments = [member.moment for member in them]
    numbers = membership.MemberColumns(
        column(moment.seq for moment in moments),
        np.array([member.p_unknown for member in them], float),
        column(member.batch for member in them),
    )
    times, keys = [moment.t for moment in moments], objects([moment.key for moment in moments])
    return numbers, membership.moments_of(times, keys)


def forget(life: Lifecycle, alive: Iterable[int]) -> tuple[Lifecycle, dict[int, SubclassHistory]]:
    return rules.forget(life, column(alive))


def best_supported(
    life: Lifecycle, keys: Iterable[int], support: dict[int, float], sizes: dict[int, int], most: int
) -> set[int]:
    keys = list(keys)
    seats = np.array([support.get(key, 0.0) for key in keys])
    return rules.best_supported(life, column(keys), seats, column(sizes[key] for key in keys), most)


def arrives_as_usual(life: Lifecycle, seq: int) -> bool:
    """Whether the only subclass comes as often as it usually does."""
    (usual,) = rules.arrives_as_usual(life, seq)
    return bool(usual)


def emerged(size: int = 8, seq: int = 0) -> SubclassHistory:
    return SubclassHistory(Moment(seq, None, None), Moment(seq, None, None), emerged=True, announced_size=size)


def test_what_went_in_stays_as_it_is():
    life, _ = observe(lifecycle(), arrived(7, [1, 2]), {7: 2})
    copy = dict(life.subclasses)
    observe(life, arrived(7, list(range(3, 20))), {7: 19})
    forget(life, [])
    assert life.subclasses == copy


def emerges(
    positions: Iterable[int], size: int | None = None, p_unknown: float = 0.99, new: Sequence[int] = ()
) -> bool:
    """Whether a subclass is announced after one batch of these arrivals."""
    arrivals = arrived(7, list(positions), p_unknown)
    _, changes = observe(lifecycle(), arrivals, {7: len(arrivals) if size is None else size}, new=new)
    return changes == NOTHING._replace(emerged=(7,))


def test_a_subclass_emerges_with_enough_members_that_come_close_together():
    assert emerges(range(3, 8))
    assert not emerges(range(3, 7))
    # the more slowly they come the more there must be
    for earlier, latest in (([0, 1, 2, 3], 399), ([0, 1, 2, 400, 401], 575), ([0, 1, 2, 3, 400, 401, 576], 1023)):
        assert emerges([*earlier, latest]), latest
        assert not emerges([*earlier, latest + 1]), latest
    assert emerges(240 * n for n in range(16))
    assert not emerges(280 * n for n in range(16))  # sixteen within 4201
    assert emerges([0, 700, 701, 702, 703, 705])  # the latest five count
    assert not emerges(range(3, 8), 4)  # one has left that is not remembered
    assert emerges(range(3, 8), 30)  # others have moved in


def test_a_subclass_emerges_if_its_members_are_surely_unknown_or_the_references_say_that_it_is_new():
    assert emerges(range(3, 8), p_unknown=0.901)
    assert not emerges(range(3, 8), p_unknown=0.899)
    assert emerges(range(16), 40, 0.51, new=[7])
    assert not emerges(range(16), 40, 0.49, new=[7])
    assert not emerges(range(15), 40, 0.85, new=[7])
    assert not emerges(range(16), 40, 0.85, new=[8])


def test_support_is_of_the_latest_members_on_average():
    doubtful, sure = arrived(7, list(range(10)), 0.5), arrived(7, list(range(10, 14)), 0.95)
    life, changes = observe(lifecycle(), [*doubtful, *sure], {7: 14})
    assert changes.emerged == ()  # one of .5 and four of .95: a mean of .86
    _, changes = observe(life, arrived(7, [14], 0.95), {7: 15})
    assert changes.emerged == (7,)


def test_a_burst_of_one_batch_is_announced_only_if_it_is_large():
    for count, size in ((rules.BURST, rules.BURST), (5, rules.BURST)):
        _, changes = observe(lifecycle(), arrived(7, list(range(count)), per_batch=100), {7: size})
        assert changes.emerged == (7,), (count, size)
    for count in (rules.EMERGES_WITH, rules.BURST - 1):
        life, changes = observe(lifecycle(), arrived(7, list(range(count)), per_batch=100), {7: count})
        assert changes.emerged == (), count
        _, changes = observe(life, arrived(7, [100], per_batch=100), {7: count + 1})
        assert changes.emerged == (7,), "it was no burst"


def test_a_member_that_moves_is_of_its_new_subclass_alone():
    came = arrived(7, list(range(4)))
    life, changes = observe(lifecycle(), [*came, *arrived(9, list(range(5, 9)))], {7: 4, 9: 4})
    assert changes == NOTHING
    life, changes = observe(life, [], {7: 3, 9: 5}, moves=[(7, 9, came[2][1])])
    assert changes == NOTHING._replace(emerged=(9,))
    recent = {key: [member.moment.seq for member in one.recent] for key, one in life.subclasses.items()}
    assert recent == {7: [0, 1, 3], 9: [2, 5, 6, 7, 8]}


def sizes_of_growth(life: Lifecycle, sizes: Iterable[int]) -> list[int]:
    """Sizes at which growth of subclass 7 is announced."""
    grew = []
    for size in sizes:
        life, changes = observe(life, [], {7: size})
        assert not changes.emerged
        grew += [size] * (changes.grew == (7,))
    return grew


def test_a_subclass_is_announced_once_and_then_at_every_doubling():
    life, changes = observe(lifecycle(), arrived(7, list(range(-8, 0))), {7: 8})
    assert changes == NOTHING._replace(emerged=(7,))
    assert sizes_of_growth(life, range(9, 208)) == [16, 32, 64, 128]
    # growth in leaps is announced once, and growth after shrinking is not announced
    assert sizes_of_growth(lifecycle({7: emerged(8)}), (100, 199, 200)) == [100, 200]
    assert sizes_of_growth(lifecycle({7: emerged(8)}), (3, 6, 12, 15)) == []


def test_forgetting_ends_lives_and_names_those_that_were_announced():
    life = lifecycle({1: emerged(), 2: emerged()._replace(emerged=False), 3: emerged(seq=4)}, 2)
    kept, ended = forget(life, {3: 0})
    assert ended == {1: emerged()}
    again, ended = forget(kept, [3])
    assert not ended
    assert again.subclasses == kept.subclasses == {3: emerged(seq=4)}
    assert again.delta == kept.delta == 2


def test_the_best_supported_are_chosen():
    life = lifecycle({key: emerged(seq=key) for key in range(7)})
    support = {0: 0.0, 1: 5.0, 2: 0.0, 3: 9.0, 5: 5.0, 6: 0.0}
    sizes = {0: 50, 1: 10, 2: 60, 3: 4, 4: 60, 5: 20, 6: 100}
    ranked = [3, 5, 1, 6, 4, 2, 0]  # by seats, then by size, then the one seen last
    for most in range(9):
        assert best_supported(life, set(range(7)), support, sizes, most) == set(ranked[:most])
    assert best_supported(life, {2, 4}, support, sizes, 1) == {4}


def test_what_has_faded_is_dormant_once_and_wakes_with_arrivals_enough():
    life, changes = observe(lifecycle({7: emerged(8)}), [], {7: 8}, faded=[7])
    assert changes == NOTHING._replace(dormant=(7,))
    assert life.subclasses[7].dormant
    for seq in range(rules.LEAST_KEPT - 1):  # stray ones do not wake it, and do not put it to sleep again
        life, changes = observe(life, arrived(7, [1000 + seq]), {7: 9 + seq})
        assert changes == NOTHING
        life, changes = observe(life, [], {7: 9 + seq}, faded=[7])
        assert changes == NOTHING
    life, changes = observe(life, arrived(7, [1100]), {7: 12})
    assert changes == NOTHING._replace(recurred=(7,))
    assert not life.subclasses[7].dormant
    life, changes = observe(life, [], {7: 12}, faded=[7])
    assert changes.dormant == (7,)


def test_arrivals_far_apart_or_doubtful_do_not_wake():
    asleep, _ = observe(lifecycle({7: emerged(8)}), [], {7: 8}, faded=[7])
    for latest, p_unknown, recurred in ((1000, 0.99, ()), (3, 0.89, ()), (999, 0.91, (7,))):
        positions = [1000, 1001, 1002, latest + (rules.WAKES_WITHIN if latest > 3 else 1000)]
        _, changes = observe(asleep, arrived(7, positions, p_unknown), {7: 12})
        assert changes == NOTHING._replace(recurred=recurred)


@pytest.mark.parametrize(("every", "length"), [(1, 40), (4, 300), (50, 5000), (1, 5000), (50, 40)])
def test_trend_is_the_rate_of_arrivals_and_fades(every, length):
    life = lifecycle()
    positions = list(range(0, length, every))
    for begin in range(0, len(positions), 7):
        life, _ = observe(life, arrived(7, positions[begin : begin + 7]), {7: begin + 7})
    true = 1000 * len(positions) / length
    assert histories.trend(life.subclasses[7], length - 1) == pytest.approx(true, rel=0.1)
    assert histories.trend(life.subclasses[7], length - 1 + int(histories.TREND_HALF_LIFE)) < 0.5 * true * 1.1


def coming(every: int, begin: int, end: int, life: Lifecycle | None = None) -> Lifecycle:
    """Let an instance of subclass 0 come in every so many."""
    for at in range(begin, end, 250):
        life, _ = observe(life or lifecycle(), arrived(0, list(range(at, min(at + 250, end), every))), {0: 1000})
    return life


def test_a_steady_rate_becomes_usual_after_the_half_life_and_a_higher_rate_later():
    end = int(histories.USUAL_HALF_LIFE)
    for every in (20, 40):
        assert not arrives_as_usual(coming(every, 0, end - 1000), end - 1000)
        assert arrives_as_usual(coming(every, 0, end + 1000), end + 1000)
    slow = coming(40, 0, 20_000)
    assert arrives_as_usual(slow, 20_000)
    often = coming(4, 20_000, 20_500, slow)
    assert not arrives_as_usual(often, 20_500)
    assert arrives_as_usual(coming(4, 20_500, 26_000, often), 26_000)


def test_usual_rates_of_united_lives_add_up():
    long, short = coming(5, 0, 20_000).subclasses[0], coming(5, 19_000, 20_000).subclasses[0]
    both = histories.unite(long, short)
    assert both.usual == pytest.approx(long.usual + short.usual, rel=0.01)
    assert arrives_as_usual(lifecycle({0: both}), 20_000)


def test_two_lives_become_one():
    life, _ = observe(lifecycle(), [*arrived(3, [0, 1, 6]), *arrived(9, [2, 4, 5, 8, 9, 10, 11])], {3: 3, 9: 7})
    older, younger = life.subclasses[3], life.subclasses[9]
    rows = np.arange(40.0).reshape(20, 2)
    older = older._replace(emerged=True, announced_size=8, kept=keep(np.arange(10), rows[:10], np.arange(10)))
    younger = younger._replace(kept=keep(np.arange(10, 20), rows[10:], np.arange(10, 20)))
    one = histories.unite(older, younger)
    assert (one.first.seq, one.last.seq) == (0, 11)
    assert [arrival.moment.seq for arrival in one.recent] == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    assert one.emerged
    assert one.announced_size == 8
    assert not one.dormant
    both, _ = observe(lifecycle(), arrived(1, [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]), {1: 10})
    assert one.arrivals == pytest.approx(both.subclasses[1].arrivals)
    whole = keep(np.arange(20), rows, np.arange(20))
    assert one.kept.keys.tolist() == whole.keys.tolist()
    np.testing.assert_array_equal(one.kept.rows, whole.rows)


def test_of_two_lives_one_awake_makes_both_awake():
    awake, asleep = emerged(), emerged()._replace(dormant=True)
    candidate = awake._replace(emerged=False)
    united = [(awake, asleep), (asleep, awake), (asleep, asleep), (asleep, candidate), (candidate, candidate)]
    dormant = [histories.unite(*lives).dormant for lives in united]
    assert dormant == [False, False, True, True, False]  # arrivals of the candidate may wake it
    assert not histories.unite(candidate, candidate).emerged


def test_a_muted_subclass_is_not_announced_and_is_held_before_all_others():
    candidate = emerged()._replace(emerged=False, muted=True)
    begun = lifecycle({1: emerged()._replace(muted=True), 2: emerged(), 3: candidate})
    arrivals = [*arrived(1, list(range(8))), *arrived(3, list(range(8, 16)))]
    life, changes = observe(begun, arrivals, {1: 80, 2: 8, 3: 40})
    assert changes == NOTHING
    assert (life.subclasses[1].last.seq, life.subclasses[1].muted) == (7, True)
    assert rules.announced_ids(life) == (2,)
    kept, ended = forget(life, [])
    assert set(ended) == {2}
    assert not kept.subclasses
    support, sizes = {2: 9.0, 1: 0.0, 3: 0.5}, {2: 90, 1: rules.LEAST_KEPT - 1, 3: 1}
    chosen = [best_supported(begun, sizes, support, sizes, most) for most in (1, 2, 3)]
    assert chosen == [{3}, {1, 3}, {1, 2, 3}]


def test_equation_14():
    cases = [(14, 19, 5, 4), (32, 43, 5, 4), (0, 10, 5, 0), (1, 1, 1, 1), (1, 2, 1, 1), (1, 5, 2, 0), (3, 10, 5, 2)]
    for *counts, delta in cases:  # the paper's USPS, the paper's PENDIGITS (3.72), ...; a half is rounded up
        assert rules.estimate_new_classes(*counts) == delta, counts


@given(
    st.lists(st.integers(-1, 70) | st.integers(0, 10**12), unique=True), st.lists(st.integers(-1, 70), max_size=99)
)
def test_places_are_those_of_the_identities(ids, keys):
    place = {key: at for at, key in enumerate(ids)}
    keys += ids
    assert histories.places_of(column(ids), column(keys)).tolist() == [place.get(key, -1) for key in keys]


@examples(100)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 5), st.floats(0.85, 1)), max_size=30),
            st.lists(st.tuples(st.integers(0, 200), st.integers(-1, 5)), max_size=6),
            st.dictionaries(st.integers(0, 5), st.integers(1, 60), min_size=3),
            st.sets(st.integers(0, 5)),
            st.sampled_from(["", "owned", "muted"]),
        ),
        max_size=12,
    )
)
def test_columns_say_what_lives_one_by_one_do_to_the_last_bit(batches):
    life, lives, members_so_far, sits, seq = lifecycle(), {}, [], [], 0
    for batch, (arrivals, moving, sizes, faded, flag) in enumerate(batches):
        came = [SubclassMember(Moment(seq + i, None, ("k", seq + i)), p, batch) for i, (_, p) in enumerate(arrivals)]
        moves = {i % len(sits): now for i, now in moving} if sits else {}
        moves = [(sits[i], now, members_so_far[i]) for i, now in sorted(moves.items()) if sits[i] != now]
        keys = [key if key in sizes else -1 for key, _ in arrivals]
        for _, now, member in moves:
            sits[member.moment.seq] = now
        arrived = [(key, member) for key, member in zip(keys, came, strict=True) if key >= 0]
        lives, expected = oracle.observe(lives, arrived, moves, sizes, sizes.keys() - faded)
        life, changes = observe(life, list(zip(keys, came, strict=True)), sizes, faded, moves)
        assert changes == expected
        if flag and lives:
            changed = {(key := min(lives)): lives[key]._replace(**{flag: not getattr(lives[key], flag)})}
            life, lives = histories.with_lives(life, changed), {**lives, **changed}
        assert [*life.subclasses.items()] == [*lives.items()]
        life, ended = forget(life, sizes)
        gone = {key: lives.pop(key) for key in [*lives] if key not in sizes}
        assert ended == {key: one for key, one in gone.items() if one.emerged and not one.muted}
        members_so_far += came
        sits += keys
        seq += len(came)

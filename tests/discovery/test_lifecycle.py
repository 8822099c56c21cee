"""Candidate, emerged, grown, dormant, back, forgotten: the rules at their boundaries, without a sampler."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_osr.discovery import histories
from stream_osr.discovery import lifecycle as rules
from stream_osr.discovery.events import Moment
from stream_osr.discovery.histories import Lifecycle, SubclassHistory, SubclassMember, lifecycle
from stream_osr.discovery.reservoir import keep, objects
from tests.oracles import lives as oracle

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
    return rules.observe(life, histories.Coming(column(was), key, *members(them)), menu, new=column(new))


def column(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def members(them: Sequence[SubclassMember]) -> tuple[histories.MemberColumns, np.ndarray]:
    moments = [member.moment for member in them]
    numbers = histories.MemberColumns(
        column(moment.seq for moment in moments),
        np.array([member.p_unknown for member in them], float),
        column(member.batch for member in them),
    )
    return numbers, histories.moments_of(
        [moment.t for moment in moments], objects([moment.key for moment in moments])
    )


def forget(life: Lifecycle, alive: Iterable[int]) -> tuple[Lifecycle, dict[int, SubclassHistory]]:
    return rules.forget(life, column(alive))


def best_supported(
    life: Lifecycle, keys: Iterable[int], support: dict[int, float], sizes: dict[int, int], most: int
) -> set[int]:
    keys = list(keys)
    seats = np.array([support.get(key, 0.0) for key in keys])
    return rules.best_supported(life, column(keys), seats, column(sizes[key] for key in keys), most)


def comes_as_usual(subclass: SubclassHistory, seq: int) -> bool:
    (usual,) = rules.comes_as_usual(lifecycle({0: subclass}), seq)
    return bool(usual)


def same(a: Lifecycle, b: Lifecycle) -> bool:
    """Say whether two are the same one by one, the order included."""
    return [*a.subclasses.items()] == [*b.subclasses.items()] and a.delta == b.delta


def emerged(size: int = 8, seq: int = 0) -> SubclassHistory:
    return SubclassHistory(Moment(seq, None, None), Moment(seq, None, None), emerged=True, announced_size=size)


def test_what_went_in_stays_as_it_is():
    life, _ = observe(lifecycle(), arrived(7, [1, 2]), {7: 2})
    copy = dict(life.subclasses)
    observe(life, arrived(7, list(range(3, 20))), {7: 19})
    forget(life, [])
    assert life.subclasses == copy


@pytest.mark.parametrize(
    ("positions", "size", "p_unknown", "announced"),
    [
        (list(range(3, 8)), 5, 0.99, True),
        (list(range(3, 7)), 4, 0.99, False),
        ([0, 1, 2, 3, 399], 5, 0.99, True),
        ([0, 1, 2, 3, 400], 5, 0.99, False),
        ([0, 1, 2, 400, 401, 575], 6, 0.99, True),  # the more slowly they come the more there must be
        ([0, 1, 2, 400, 401, 576], 6, 0.99, False),
        ([0, 1, 2, 3, 400, 401, 576, 1023], 8, 0.99, True),
        ([0, 1, 2, 3, 400, 401, 576, 1024], 8, 0.99, False),
        ([240 * n for n in range(16)], 16, 0.99, True),
        ([280 * n for n in range(16)], 16, 0.99, False),  # sixteen within 4201
        ([0, 700, 701, 702, 703, 705], 6, 0.99, True),  # the latest five count
        (list(range(3, 8)), 5, 0.901, True),
        (list(range(3, 8)), 5, 0.899, False),
        (list(range(3, 8)), 4, 0.99, False),  # one has left that is not remembered
        (list(range(3, 8)), 30, 0.99, True),  # others have moved in
    ],
)
def test_support(positions, size, p_unknown, announced):
    _, changes = observe(lifecycle(), arrived(7, positions, p_unknown), {7: size})
    assert changes.emerged == ((7,) if announced else ())


def test_support_is_of_the_latest_members_on_average():
    doubtful, sure = arrived(7, list(range(10)), 0.5), arrived(7, list(range(10, 14)), 0.95)
    life, changes = observe(lifecycle(), [*doubtful, *sure], {7: 14})
    assert changes.emerged == ()  # one of .5 and four of .95: a mean of .86
    _, changes = observe(life, arrived(7, [14], 0.95), {7: 15})
    assert changes.emerged == (7,)


@pytest.mark.parametrize(
    ("count", "p_unknown", "new", "announced"),
    [(16, 0.51, [7], True), (16, 0.49, [7], False), (15, 0.85, [7], False), (16, 0.85, [8], False)],
)
def test_one_that_overlaps_a_known_class_is_announced_if_references_say_that_it_is_new(
    count, p_unknown, new, announced
):
    _, changes = observe(lifecycle(), arrived(7, list(range(count)), p_unknown), {7: 40}, new=new)
    assert changes.emerged == ((7,) if announced else ())


def moved(was: int, now: int, positions: list[int]) -> list[Move]:
    return [(was, now, member) for _, member in arrived(now, positions)]


def test_those_that_moved_in_count_and_those_that_left_do_not():
    life, changes = observe(lifecycle(), [*arrived(7, [1, 2, 3]), *arrived(9, [4, 6])], {7: 3, 9: 2})
    assert changes == NOTHING
    life, changes = observe(life, arrived(7, [10]), {7: 3, 9: 3}, moves=moved(7, 9, [3]))
    assert changes == NOTHING
    assert [m.moment.seq for m in life.subclasses[7].recent] == [1, 2, 10]
    assert [m.moment.seq for m in life.subclasses[9].recent] == [3, 4, 6]
    assert life.subclasses[9].first.seq == 3
    life, changes = observe(life, arrived(7, [12]), {7: 5, 9: 3}, moves=moved(-1, 7, [0]))
    assert changes.emerged == (7,)  # one from a known class
    assert life.subclasses[7].first == Moment(0, 0.0, "k0")
    life, changes = observe(life, [], {7: 5, 9: 2}, moves=moved(9, -1, [4]))
    assert [m.moment.seq for m in life.subclasses[9].recent] == [3, 6]
    assert changes == NOTHING


@pytest.mark.parametrize(
    ("count", "size", "announced"),
    [
        (rules.EMERGES_WITH, rules.EMERGES_WITH, False),
        (rules.BURST - 1, rules.BURST - 1, False),
        (rules.BURST, rules.BURST, True),
        (5, rules.BURST, True),
    ],
)
def test_a_burst_of_one_batch_is_announced_only_if_it_is_large(count, size, announced):
    life, changes = observe(lifecycle(), arrived(7, list(range(count)), per_batch=100), {7: size})
    assert changes.emerged == ((7,) if announced else ())
    if not announced:
        _, changes = observe(life, arrived(7, [100], per_batch=100), {7: size + 1})
        assert changes.emerged == (7,)  # it was no burst


def test_a_subclass_is_announced_once_and_then_at_every_doubling():
    life, told = lifecycle(), []
    for batch in range(200):
        size = 8 + batch
        life, changes = observe(life, arrived(7, [batch] if batch else list(range(-8, 0))), {7: size})
        told += [("emerged", size)] * (changes.emerged == (7,)) + [("grew", size)] * (changes.grew == (7,))
    assert told == [("emerged", 8), ("grew", 16), ("grew", 32), ("grew", 64), ("grew", 128)]


@pytest.mark.parametrize(("sizes", "grew"), [((100, 199, 200), [100, 200]), ((3, 6, 12, 15), [])])
def test_growth_in_leaps_is_told_once_and_growth_after_shrinking_is_no_news(sizes, grew):
    life, told = lifecycle({7: emerged(8)}), []
    for size in sizes:
        life, changes = observe(life, [], {7: size})
        told += [size] * (changes.grew == (7,))
    assert told == grew


def test_forgetting_ends_lives_and_names_those_that_were_announced():
    life = lifecycle({1: emerged(), 2: emerged()._replace(emerged=False), 3: emerged(seq=4)}, 2)
    kept, ended = forget(life, {3: 0})
    assert same(kept, lifecycle({3: emerged(seq=4)}, 2))
    assert ended == {1: emerged()}
    again, ended = forget(kept, [3])
    assert same(again, kept)
    assert not ended


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
    for seq in range(rules.KEPT_WITH - 1):  # stray ones do not wake it, and do not put it to sleep again
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
    _, changes = observe(asleep, arrived(7, [1000, 1001, 1002, 1000 + rules.WAKES_WITHIN]), {7: 12})
    assert changes == NOTHING
    _, changes = observe(asleep, arrived(7, [1000, 1001, 1002, 1003], 0.89), {7: 12})
    assert changes == NOTHING
    _, changes = observe(asleep, arrived(7, [1000, 1001, 1002, 999 + rules.WAKES_WITHIN], 0.91), {7: 12})
    assert changes.recurred == (7,)


@pytest.mark.parametrize("every", [1, 4, 50])
@pytest.mark.parametrize("length", [40, 300, 5000])
def test_trend_is_the_rate_of_arrivals_and_fades(every, length):
    life = lifecycle()
    positions = list(range(0, length, every))
    for begin in range(0, len(positions), 7):
        life, _ = observe(life, arrived(7, positions[begin : begin + 7]), {7: begin + 7})
    subclass = life.subclasses[7]
    true = 1000 * len(positions) / length
    assert histories.trend(subclass, length - 1) == pytest.approx(true, rel=0.1)
    later = histories.trend(subclass, length - 1 + int(histories.TREND_HALF_LIFE))
    assert later < 0.5 * true * 1.1


def coming(every: int, begin: int, end: int, life: Lifecycle | None = None) -> Lifecycle:
    """Let an instance of subclass 0 come in every so many."""
    for at in range(begin, end, 250):
        life, _ = observe(life or lifecycle(), arrived(0, list(range(at, min(at + 250, end), every))), {0: 1000})
    return life


@pytest.mark.parametrize("every", [20, 40])
def test_what_comes_steadily_becomes_usual_after_the_half_life(every):
    end = int(histories.USUAL_HALF_LIFE)
    assert not comes_as_usual(coming(every, 0, end - 1000).subclasses[0], end - 1000)
    assert comes_as_usual(coming(every, 0, end + 1000).subclasses[0], end + 1000)


def test_what_comes_more_often_than_it_did_is_not_usual_for_a_while():
    slow = coming(40, 0, 20_000)
    assert comes_as_usual(slow.subclasses[0], 20_000)
    often = coming(4, 20_000, 20_500, slow)
    assert not comes_as_usual(often.subclasses[0], 20_500)
    assert comes_as_usual(coming(4, 20_500, 26_000, often).subclasses[0], 26_000)


def test_what_is_usual_goes_with_one_life_of_two():
    long, short = coming(5, 0, 20_000).subclasses[0], coming(5, 19_000, 20_000).subclasses[0]
    both = histories.unite(long, short)
    assert both.usual == pytest.approx(long.usual + short.usual, rel=0.01)
    assert comes_as_usual(both, 20_000)


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
    assert not histories.unite(awake, asleep).dormant
    assert not histories.unite(asleep, awake).dormant
    assert histories.unite(asleep, asleep).dormant
    assert histories.unite(asleep, candidate).dormant  # its arrivals may wake it
    assert not histories.unite(candidate, candidate).dormant
    assert not histories.unite(candidate, candidate).emerged


def test_nothing_is_told_of_a_muted_subclass():
    candidate = emerged()._replace(emerged=False, muted=True)
    life = lifecycle({1: emerged()._replace(muted=True), 2: emerged(), 3: candidate})
    life, changes = observe(
        life, [*arrived(1, list(range(8))), *arrived(3, list(range(8, 16)))], {1: 80, 2: 8, 3: 40}
    )
    assert changes == NOTHING
    assert life.subclasses[1].last.seq == 7
    assert life.subclasses[1].muted
    assert rules.worth_telling(life) == (2,)
    kept, ended = forget(life, [])
    assert set(ended) == {2}
    assert not kept.subclasses


def test_a_muted_subclass_is_held_before_all_others():
    candidate = emerged()._replace(emerged=False, muted=True)
    life = lifecycle({1: emerged(), 2: emerged()._replace(muted=True), 3: candidate})
    support, sizes = {1: 9.0, 2: 0.0, 3: 0.5}, {1: 90, 2: rules.KEPT_WITH - 1, 3: 1}
    chosen = [best_supported(life, sizes, support, sizes, most) for most in (1, 2, 3)]
    assert chosen == [{3}, {2, 3}, {1, 2, 3}]


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
    assert rules.estimate_new_classes(emerging, known, classes) == delta


@settings(deadline=None)
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


@given(
    st.lists(st.integers(-1, 70) | st.integers(0, 10**12), unique=True), st.lists(st.integers(-1, 70), max_size=99)
)
def test_places_are_those_of_the_identities(ids, keys):
    place = {key: at for at, key in enumerate(ids)}
    keys += ids
    assert histories.places_of(column(ids), column(keys)).tolist() == [place.get(key, -1) for key in keys]

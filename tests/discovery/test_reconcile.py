"""Global identities: given once, kept over stops, and sums that follow what was said last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_osr.discovery.reconcile import Local, LocalSummary, ReconciledSubclasses, reconcile, restore
from stream_osr.model.dishes import empty_dishes, refill
from stream_osr.model.marginal import Statistics, of_nobody, statistics_of
from stream_osr.model.prior import Prior, homogeneous, make_prior
from stream_osr.stream.summaries import as_sums, from_sums, to_say
from tests.blobs import fitted, stream_part, told

PRIOR = make_prior(2, nu=4, scale=1, beta=0.1)
CENTRES = [(0.0, 0.0), (9.0, 0.0), (4.5, 0.0), (0.0, 30.0)]
SIZES = [3, 12, 60]


def drawn(centre: Sequence[float], n: int, prior: Prior = PRIOR, seed: int = 0) -> Statistics:
    """Statistics of n rows of a Gaussian of unit variance."""
    rows = homogeneous(np.random.default_rng([seed, n]).normal(centre, size=(n, len(centre))))
    dishes = empty_dishes(1, prior)
    refill(dishes, np.zeros(n, np.int64), rows, prior)
    return statistics_of(dishes, np.array([0]))


@cache
def pooled(at: int) -> Statistics:
    return drawn(CENTRES[at // len(SIZES)], SIZES[at % len(SIZES)], seed=7 * (at // len(SIZES)))


summaries = st.builds(
    lambda place, run, number, at, absorbed: LocalSummary(
        Local(f"in/{place}", str(run), number),
        None if at is None else pooled(at),
        () if at is None else tuple(sorted(absorbed - {number})),
    ),
    place=st.integers(0, 2),
    run=st.sampled_from([0, 0, 0, 0, 1]),
    number=st.integers(0, 3),
    at=st.none() | st.integers(0, len(CENTRES) * len(SIZES) - 1),
    absorbed=st.just(set[int]()) | st.sets(st.integers(0, 3), max_size=1),
)


def take_all(given: Sequence[LocalSummary], state: ReconciledSubclasses | None = None) -> ReconciledSubclasses:
    state = ReconciledSubclasses() if state is None else state
    for summary in given:
        state, _ = reconcile(state, summary, PRIOR)
    return state


def same(one: ReconciledSubclasses, other: ReconciledSubclasses) -> bool:
    """Whether two states agree, sums to the last bit, but for subclasses of runs that have ended."""
    links = [
        {local: key for local, key in state.links.items() if local in state.statistics} for state in (one, other)
    ]
    return (
        links[0] == links[1]
        and one.merged == other.merged
        and one.next_id == other.next_id
        and one.sums.keys() == other.sums.keys()
        and all(np.array_equal(one.sums[key].matrix, other.sums[key].matrix) for key in one.sums)
    )


@settings(deadline=None)
@given(st.lists(summaries, max_size=25))
def test_an_identity_is_given_once_and_only_merged(said: list[LocalSummary]) -> None:
    state, ever = ReconciledSubclasses(), set[int]()
    for summary in said:
        before = state
        state, changes = reconcile(state, summary, PRIOR)
        assert not ever & set(changes.emerged)
        ever.update(changes.emerged)
        assert set(state.links.values()) <= ever - state.merged.keys()
        for local, key in before.links.items():
            assert state.links[local] in (key, state.merged.get(key))
        assert all(older < younger for younger, older in state.merged.items())
        assert before.merged.keys() <= state.merged.keys()
        assert changes.linked == {k: v for k, v in state.links.items() if before.links.get(k) != v}


@settings(deadline=None)
@given(st.lists(summaries, max_size=25))
def test_sums_are_those_of_what_was_said_last(said: list[LocalSummary]) -> None:
    state = take_all(said)
    nobody = of_nobody(PRIOR)
    for key in set(state.links.values()) | state.sums.keys():
        own = [
            state.statistics[local] for local, at in state.links.items() if at == key and local in state.statistics
        ]
        assert (key in state.sums) == bool(own)
        if own:
            assert state.sums[key].size[0] == sum(int(one.size[0]) for one in own)
            matrix = nobody + sum(one.matrix[0] - nobody for one in own)
            np.testing.assert_allclose(state.sums[key].matrix[0], matrix, rtol=1e-12)
    for local in state.statistics:
        assert local in state.links


@settings(deadline=None)
@given(st.lists(summaries, min_size=1, max_size=25), st.data())
def test_a_stop_anywhere_changes_nothing(said: list[LocalSummary], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(said)))
    first = take_all(said[:at])
    kept = said[:at]
    if len({s.local.run for s in kept}) == 1 and data.draw(st.booleans()):
        # compacted: of each key only the last is left
        last = {(s.local.place, s.local.id): n for n, s in enumerate(kept)}
        kept = [s._replace(absorbed=()) for n, s in enumerate(kept) if last[s.local.place, s.local.id] == n]
        gone = {(s.local.place, id) for s in said[:at] for id in s.absorbed}
        if gone:
            return  # the worker says that those have ended by themselves, too
    restored = restore(kept, first.links, first.merged, first.next_id, PRIOR)
    assert same(first, restored)
    assert same(take_all(said[at:], first), take_all(said[at:], restored))


def of(place: int, number: int, run: str = "") -> Local:
    return Local(f"in/{place}", run, number)


def test_one_class_in_many_partitions_is_one() -> None:
    state = take_all([LocalSummary(of(place, 5), drawn((9, 0), 30, seed=place)) for place in range(8)])
    assert set(state.links.values()) == {0}
    assert int(state.sums[0].size[0]) == 240


def test_the_older_identity_goes_on_when_two_have_grown_together() -> None:
    apart = [LocalSummary(of(0, 1), drawn((0, 0), 12)), LocalSummary(of(1, 1), drawn((9, 0), 12))]
    state = take_all(apart)
    assert state.links == {of(0, 1): 0, of(1, 1): 1}
    state, changes = reconcile(state, LocalSummary(of(1, 1), drawn((0, 0), 60, seed=1)), PRIOR)
    assert changes.merged == {1: 0}
    assert changes.linked == {of(1, 1): 0}
    state, changes = reconcile(state, LocalSummary(of(2, 1), drawn((0, 30), 12)), PRIOR)
    assert changes.emerged == (2,), "1 is not given again"


def test_an_identity_that_has_ended_leads_to_the_one_that_goes_on_now() -> None:
    apart = [LocalSummary(of(at, 1), drawn(centre, 12)) for at, centre in enumerate([(0, 0), (9, 0), (0, 30)])]
    state = take_all([*apart, LocalSummary(of(2, 1), drawn((9, 0), 60, seed=1))])
    assert state.merged == {2: 1}
    state = take_all([LocalSummary(of(2, 1), None), LocalSummary(of(1, 1), drawn((0, 0), 60, seed=1))], state)
    assert state.merged == {2: 0, 1: 0}


def test_a_merge_of_a_recognizers_own_is_followed() -> None:
    apart = [LocalSummary(of(0, 1), drawn((0, 0), 30)), LocalSummary(of(0, 2), drawn((9, 0), 30))]
    state = take_all(apart)
    state, changes = reconcile(state, LocalSummary(of(0, 1), drawn((4.5, 0), 60), absorbed=(2,)), PRIOR)
    assert changes.merged == {1: 0}
    assert state.links == {of(0, 1): 0, of(0, 2): 0}
    elsewhere = [*apart, LocalSummary(of(1, 7), drawn((9, 0), 30, seed=1))]
    state, changes = reconcile(take_all(elsewhere), LocalSummary(of(0, 1), drawn((0, 0), 60), absorbed=(2,)), PRIOR)
    assert changes.merged == {}, "another partition still has it"


def test_a_recognizer_that_begins_anew_has_other_subclasses() -> None:
    state = take_all([LocalSummary(of(0, 1, "a"), drawn((0, 0), 30)), LocalSummary(of(0, 2, "a"), drawn((9, 0), 30))])
    state = take_all([LocalSummary(of(0, 1, "b"), drawn((0, 30), 30))], state)
    assert set(state.statistics) == {of(0, 1, "b")}
    assert state.links[of(0, 1, "b")] == 2


def test_sums_survive_the_wire() -> None:
    prior = make_prior(3, nu=5, scale=0.5, beta=0.1)
    statistics = drawn((1, 2, 3), 9, prior)
    again = from_sums(9, as_sums(statistics, prior), prior)
    np.testing.assert_allclose(again.matrix, statistics.matrix, rtol=1e-12)
    np.testing.assert_array_equal(again.size, statistics.size)
    for sums in ([[1.0]], [[float("nan")] * len(row) for row in as_sums(statistics, prior)]):
        with pytest.raises(ValueError, match="sums"):
            from_sums(9, sums, prior)


def test_what_a_stream_says_is_its_emerged_subclasses() -> None:
    model = fitted(batch_size=1000, chains=1, seed=5)
    latest: dict[int, Statistics] = {}
    counts = []
    for part in range(12):
        before = model.emerged_statistics()
        for key, (x, _) in enumerate(stream_part(40, seed=part)):
            model.learn_one(x, key=f"{part}-{key}")
        model.close_batch()
        _, events = told(model)
        said = to_say(before, model.emerged_statistics(), events)
        counts.append(len(said))
        latest |= {one.id: one.statistics for one in said if one.statistics is not None}
        for one in said:
            if one.statistics is None:
                del latest[one.id]
    now = model.emerged_statistics()
    assert latest.keys() == now.keys()
    assert latest
    assert all(now[key].size[0] < 1.25**2 * latest[key].size[0] for key in now)
    assert sum(counts[6:]) < 6 * len(now), "not after every batch"


def test_muted_and_promoted_subclasses() -> None:
    model = fitted(batch_size=64, chains=1, seed=5)
    for key, (x, _) in enumerate(stream_part(256)):
        model.learn_one(x, key=key)
    told(model)
    before = model.emerged_statistics()
    first = min(before)
    model.mute([first])
    assert model.emerged_statistics().keys() == before.keys(), "other partitions should not tell of it as new"
    model.undo()
    model.promote([first], "leak")
    (one,) = (said for said in to_say(before, model.emerged_statistics(), told(model)[1]) if said.id == first)
    assert one.statistics is None

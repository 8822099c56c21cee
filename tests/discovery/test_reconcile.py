"""Global identities: given once, kept over stops, and sums that follow what was said last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.discovery.reconcile import Local, LocalSummary, ReconciledSubclasses, reconcile, restore
from stream_osr.model.dish_statistics import empty_dishes, refill
from stream_osr.model.marginal import Statistics, of_nobody, statistics_of
from stream_osr.model.prior import Prior, homogeneous, make_prior
from stream_osr.stream.local_summaries import as_sums, changed_summaries, from_sums
from tests.blobs import fitted_once, play, stream_part
from tests.tiers import examples

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
    state = state or ReconciledSubclasses()
    for summary in given:
        state, _ = reconcile(state, summary, PRIOR)
    return state


def comparable(state: ReconciledSubclasses) -> tuple[object, ...]:
    """A state with its sums to the last bit, without links of runs that have ended."""
    links = {local: key for local, key in state.links.items() if local in state.statistics}
    return links, state.merged, state.next_id, {key: one.matrix.tobytes() for key, one in state.sums.items()}


@examples(100)
@given(st.lists(summaries, max_size=25))
def test_an_identity_is_given_once_and_only_merged(given: list[LocalSummary]) -> None:
    state, ever = ReconciledSubclasses(), set[int]()
    for summary in given:
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


@examples(100)
@given(st.lists(summaries, max_size=25))
def test_sums_are_those_of_the_latest_summaries(given: list[LocalSummary]) -> None:
    state, none = take_all(given), of_nobody(PRIOR)
    assert state.statistics.keys() <= state.links.keys()
    for key in set(state.links.values()) | state.sums.keys():
        own = [one for local, one in state.statistics.items() if state.links[local] == key]
        assert (key in state.sums) == bool(own)
        if own:
            assert state.sums[key].size[0] == sum(int(one.size[0]) for one in own)
            matrix = none + sum(one.matrix[0] - none for one in own)
            np.testing.assert_allclose(state.sums[key].matrix[0], matrix, rtol=1e-12)


@examples(100)
@given(st.lists(summaries, min_size=1, max_size=25), st.data())
def test_a_stop_anywhere_changes_nothing(given: list[LocalSummary], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(given)))
    kept, first = given[:at], take_all(given[:at])
    if len({s.local.run for s in kept}) == 1 and data.draw(st.booleans()):
        if any(s.absorbed for s in kept):
            return  # the worker says that those have ended by themselves, too
        # compacted: of each key only the last is left
        last = {(s.local.place, s.local.id): n for n, s in enumerate(kept)}
        kept = [kept[n] for n in sorted(last.values())]
    restored = restore(kept, first.links, first.merged, first.next_id, PRIOR)
    assert comparable(first) == comparable(restored)
    assert comparable(take_all(given[at:], first)) == comparable(take_all(given[at:], restored))


def said(place: int, number: int, centre: Sequence[float] | None, n: int = 12, **more: Any) -> LocalSummary:
    """Summary of a subclass of ``n`` instances around a centre, or of one that has ended."""
    statistics = None if centre is None else drawn(centre, n, seed=more.pop("seed", 0))
    return LocalSummary(Local(f"in/{place}", more.pop("run", ""), number), statistics, **more)


def test_one_class_in_many_partitions_is_one() -> None:
    state = take_all([said(place, 5, (9, 0), 30, seed=place) for place in range(8)])
    assert set(state.links.values()) == {0}
    assert int(state.sums[0].size[0]) == 240


def test_the_older_identity_goes_on_when_two_have_grown_together() -> None:
    state = take_all([said(0, 1, (0, 0)), said(1, 1, (9, 0))])
    assert list(state.links.values()) == [0, 1]
    state, changes = reconcile(state, said(1, 1, (0, 0), 60, seed=1), PRIOR)
    assert changes.merged == {1: 0}
    assert changes.linked == {said(1, 1, None).local: 0}
    state, changes = reconcile(state, said(2, 1, (0, 30)), PRIOR)
    assert changes.emerged == (2,), "1 is not used again"


def test_an_identity_that_has_ended_leads_to_the_one_that_goes_on_now() -> None:
    state = take_all([said(0, 1, (0, 0)), said(1, 1, (9, 0)), said(2, 1, (0, 30)), said(2, 1, (9, 0), 60, seed=1)])
    assert state.merged == {2: 1}
    assert take_all([said(2, 1, None), said(1, 1, (0, 0), 60, seed=1)], state).merged == {2: 0, 1: 0}


def test_a_merge_in_a_recognizer_is_followed_unless_another_partition_has_the_subclass() -> None:
    apart = [said(0, 1, (0, 0), 30), said(0, 2, (9, 0), 30)]
    state, changes = reconcile(take_all(apart), said(0, 1, (4.5, 0), 60, absorbed=(2,)), PRIOR)
    assert changes.merged == {1: 0}
    assert state.links == {one.local: 0 for one in apart}
    elsewhere = take_all([*apart, said(1, 7, (9, 0), 30, seed=1)])
    assert reconcile(elsewhere, said(0, 1, (0, 0), 60, absorbed=(2,)), PRIOR)[1].merged == {}


def test_a_recognizer_that_begins_anew_has_other_subclasses() -> None:
    anew = said(0, 1, (0, 30), 30, run="b")
    state = take_all([said(0, 1, (0, 0), 30, run="a"), said(0, 2, (9, 0), 30, run="a"), anew])
    assert set(state.statistics) == {anew.local}
    assert state.links[anew.local] == 2


def test_sums_survive_the_wire() -> None:
    prior = make_prior(3, nu=5, scale=0.5, beta=0.1)
    statistics = drawn((1, 2, 3), 9, prior)
    sums = as_sums(statistics, prior)
    again = from_sums(9, sums, prior)
    np.testing.assert_allclose(again.matrix, statistics.matrix, rtol=1e-12)
    np.testing.assert_array_equal(again.size, statistics.size)
    for wrong in ([[1.0]], [[float("nan")] * len(row) for row in sums]):
        with pytest.raises(ValueError, match="sums"):
            from_sums(9, wrong, prior)


def test_summaries_of_a_stream_are_those_of_its_emerged_subclasses() -> None:
    model = fitted_once(batch_size=1000, chains=1, seed=5)
    latest: dict[int, Statistics] = {}
    counts = []
    for part in range(12):
        before = model.value.emerged_statistics()
        play(model, stream_part(40, seed=part), begin=40 * part)
        model.close_batch()
        summaries = changed_summaries(before, model.value.emerged_statistics(), list(model.drain_events()))
        counts.append(len(summaries))
        for one in summaries:
            if one.statistics is None:
                del latest[one.id]
            else:
                latest[one.id] = one.statistics
    now = model.value.emerged_statistics()
    assert latest.keys() == now.keys()
    assert latest
    assert all(now[key].size[0] < 1.25**2 * latest[key].size[0] for key in now)
    assert sum(counts[6:]) < 6 * len(now), "not after every batch"


def test_muted_subclasses_are_still_reported_and_promoted_ones_end() -> None:
    model = play(fitted_once(batch_size=64, chains=1, seed=5), stream_part(256))
    list(model.drain_events())
    before = model.value.emerged_statistics()
    first = min(before)
    model.mute([first])
    assert model.value.emerged_statistics().keys() == before.keys(), "other partitions must not report it as new"
    model.undo()
    model.promote([first], "leak")
    summaries = changed_summaries(before, model.value.emerged_statistics(), list(model.drain_events()))
    assert [one.statistics for one in summaries if one.id == first] == [None]

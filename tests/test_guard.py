"""The reference check: where references would sit, and what follows for decisions and counts, chain by chain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr import OpenSetRecognizer, SubclassEmerged, TrainedModel
from stream_osr.config import grouped
from stream_osr.model.known import log_class_densities, log_new
from stream_osr.model.responsibilities import QueryDensities, query_rows, weigh
from stream_osr.stream import reference_check as check
from stream_osr.stream import subclass_owners
from stream_osr.stream.chain import IdentityChanges, ReferenceCheck, SplitOff, follow_identities
from stream_osr.trust.balance import balance, votes
from stream_osr.trust.density_levels import N_LEVELS
from stream_osr.trust.known_shares import KnownShares
from stream_osr.trust.reference_counts import ReferenceCounts
from tests.blobs import check_stream, drained, ended, fitted, learn_all, menu_weights, stream_part
from tests.oracles import balance as oracle
from tests.oracles import niw
from tests.tiers import examples

SETTINGS: dict[str, Any] = {"batch_size": 32, "window": 48, "half_life": 100.0, "chains": 2, "training_sweeps": 10}


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted(**SETTINGS).trained


def guard_of(model: OpenSetRecognizer, number: int = 0) -> ReferenceCheck:
    return model.value.stream.chains[number].check


def play(
    model: OpenSetRecognizer, n: int, begin: int = 0, seed: int = 0, new_share: float = 0.3
) -> OpenSetRecognizer:
    for i, (x, _) in list(enumerate(stream_part(begin + n, seed, new_share)))[begin:]:
        model.learn_one(x, t=float(i), key=i)
    return model


@pytest.fixture
def running(trained: TrainedModel) -> OpenSetRecognizer:
    """Eight batches of a stream, three in ten instances of a new class."""
    return play(OpenSetRecognizer.from_trained(trained, **grouped(**SETTINGS)), 256)


@pytest.fixture
def count_arguments(trained: TrainedModel, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Arguments from which the references of a third batch are counted."""
    seen: list[tuple[Any, ...]] = []
    count = check._count_references
    monkeypatch.setattr(check, "_count_references", lambda *a: seen.append(a) or count(*a))
    play(OpenSetRecognizer.from_trained(trained, **grouped(**SETTINGS)), 96)
    return seen[-1]


# Where an instance would sit


def test_cells_are_those_of_equation_10_without_the_row_itself() -> None:
    # decisions that wait keep all instances in the window
    arguments = {**SETTINGS, "window": 400, "decision_delay": 1, "ensemble": "drawn", "seed": 3}
    model = play(fitted(**arguments), 192, new_share=0.4)
    chain = model.value.stream.chains[1]
    known, state = chain.known, chain.state
    window, franchise, n_classes = state.window, state.franchise, len(known.size)
    rows = window.rows[:, :-1]
    assert len(rows) == state.seen == 192, "all that came can be counted again"
    dish = franchise.table_dish[window.table]
    blocks = {k: rows[dish == k] for k in range(n_classes, len(franchise.menu))}
    assert [len(block) for block in blocks.values()] == state.dishes.size.tolist()
    log_known = log_class_densities(known, chain.frozen, window.rows)[0]
    subclass = np.where(dish >= n_classes, np.append(state.ids, -1)[dish - n_classes], -1)
    who = query_rows(rows, known.prior)
    fresh, nobody = log_new(known, who.rows), np.full(len(log_known), -1)
    found = weigh(state, who, QueryDensities(log_known, fresh, subclass, window.weight), known.prior)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    nothing = np.zeros(len(log_known))
    as_references = weigh(state, who, QueryDensities(log_known, fresh, nobody, nothing), known.prior)
    alone = dish >= n_classes
    alone[alone] = [len(blocks[k]) == 1 for k in dish[alone].tolist()]
    assert (found[alone, dish[alone]] == 0).all(), "the only one of a subclass: without it there is none"
    tested = [*np.flatnonzero((dish >= n_classes) & ~alone)[::3], *np.flatnonzero(dish < n_classes)[::9]]
    assert len(tested) > 15
    tables = list(zip(franchise.table_dish.tolist(), franchise.table_mass.tolist(), strict=True))
    menu = dict(enumerate(menu_weights(franchise).tolist()))
    prior = known.prior
    base = niw.Full(prior.n_features, prior.psi * prior.spread, prior.nu, prior.beta)
    rest = blocks, base, float(franchise.alpha[0]), float(franchise.gamma[0])
    for i in tested:
        seat = None
        if dish[i] >= n_classes:
            seat = int(window.table[i]), int(np.flatnonzero((blocks[int(dish[i])] == rows[i]).all(axis=1))[0])
        for cells, own in ((found, (seat, window.weight[i])), (as_references, (None, 0.0))):
            expected = oracle.cells(rows[i], *own, tables, menu, log_known[i].tolist(), *rest)
            np.testing.assert_allclose(cells[i], expected, rtol=1e-7, atol=1e-10)


def test_seats_are_left_with_the_weight_that_they_have(count_arguments: tuple[Any, ...]) -> None:
    _, state, sides, *_ = count_arguments
    assert len(sides.others.rows) == len(sides.references.rows) == 32
    assert (sides.of_references.subclass < 0).all(), "references sit nowhere"
    at = state.window_seq - (state.seen - 32)
    there, at = at >= 0, at[at >= 0]
    assert len(at) > 16
    dish = state.franchise.table_dish[state.window.table[there]]
    np.testing.assert_array_equal(sides.of_others.subclass[at], np.append([-1, -1], state.ids)[dish])
    np.testing.assert_allclose(sides.of_others.weight[at], state.window.weight[there])
    np.testing.assert_allclose(sides.others.rows[at], state.window.rows[there])


# What is divided


def drawn_shares(rng: np.random.Generator, n_classes: int, count: int) -> KnownShares:
    known = np.ones((n_classes + count, N_LEVELS))
    known[n_classes:] = rng.random((count, N_LEVELS))
    owner = rng.dirichlet(np.ones(n_classes), size=count).T.copy()
    return KnownShares(known, owner, rng.dirichlet(np.ones(n_classes)), rng.random())


@examples(50)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 6),
    n_classes=st.integers(1, 4),
    count=st.integers(1, 5),
    far=st.sampled_from([1.0, 50.0, 1e4]),
)
def test_probabilities_stay_probabilities(seed: int, n: int, n_classes: int, count: int, far: float) -> None:
    from scipy.special import softmax

    rng = np.random.default_rng(seed)
    shares = drawn_shares(rng, n_classes, count)
    p = rng.dirichlet(np.full(n_classes + 1, 0.1), size=n)
    cells = rng.dirichlet(np.full(n_classes + count, 0.1), size=n)
    log_density, level = far * rng.normal(size=(n, n_classes)), rng.integers(N_LEVELS, size=n)
    vote = votes(log_density)
    out = balance(shares, p[:, -1], cells, level, vote)
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-12)
    assert (out >= 0).all()
    assert (out[:, -1] <= p[:, -1] + 1e-12).all(), "nothing becomes new by it"
    np.testing.assert_allclose(vote, softmax(log_density, axis=1), rtol=1e-12, atol=1e-300)
    divided = oracle.divided(p[:, -1], cells, vote, shares.known[n_classes:, level].T, shares.owner, shares.classes)
    np.testing.assert_allclose(out, divided, rtol=1e-9, atol=1e-12)
    without_p = balance(shares, np.full(n, np.nan), cells, level, vote)
    by_cells = balance(shares, cells[:, n_classes:].sum(axis=1), cells, level, vote)
    np.testing.assert_allclose(without_p, by_cells, rtol=1e-12, atol=1e-12)


def test_what_is_new_stays_unknown_and_what_is_known_goes_to_its_owner() -> None:
    cells = np.array([[0.1, 0.1, 0.8, 0.0, 0.0], [0.1, 0.1, 0.0, 0.8, 0.0], [0.1, 0.1, 0.4, 0.4, 0.0]])
    known = np.ones((5, N_LEVELS))
    known[2:] = 0.0
    known[3, 2] = 1.0
    owner = np.array([[0.5, 0.0, 0.5], [0.5, 1.0, 0.5]])
    shares = KnownShares(known, owner, np.array([0.5, 0.5]), 0.5)
    p, even = np.full(3, 0.8), np.full((3, 2), 0.5)
    out = balance(shares, p, cells, np.array([2, 2, 2]), even)
    np.testing.assert_allclose(out, [[0.1, 0.1, 0.8], [0.1, 0.9, 0.0], [0.1, 0.5, 0.4]], atol=1e-12)
    other_level = balance(shares, p, cells, np.array([1, 1, 1]), even)
    np.testing.assert_allclose(other_level[:, -1], 0.8)
    nearer = balance(shares, p[:1], cells[:1], np.array([2]), votes(np.log([[0.9, 0.3]])))
    np.testing.assert_allclose(nearer, [[0.15, 0.05, 0.8]])
    common = balance(shares._replace(classes=np.array([0.9, 0.1])), p[:1], cells[:1], np.array([2]), even[:1])
    np.testing.assert_allclose(common, [[0.18, 0.02, 0.8]])


# Counts that follow their subclasses


def counted(ids: list[int], n_classes: int = 2, seed: int = 0) -> ReferenceCheck:
    """Make a check whose counts are all positive."""
    rng = np.random.default_rng(seed)
    count = n_classes + len(ids) + 1
    shapes = (count, N_LEVELS), (count,), (n_classes, count, N_LEVELS), (n_classes, count), (n_classes,)
    counts = ReferenceCounts(
        *(each * rng.random(shape) for each, shape in zip((20, 500, 1, 100, 1), shapes, strict=True))
    )
    even = np.full(n_classes, 1 / n_classes)
    shares = drawn_shares(rng, n_classes, len(ids) + 1)._replace(classes=even)
    owner = np.array([j % (n_classes + 1) - 1 for j in range(len(ids))])
    return ReferenceCheck(np.array(ids, int), counts, shares, owner, rng.random(len(ids)), 100)


def check_fits(guard: ReferenceCheck, n_classes: int) -> None:
    count, among = n_classes + len(guard.ids) + 1, len(guard.ids)
    shapes = (count, N_LEVELS), (count,), (n_classes, count, N_LEVELS), (n_classes, count), (n_classes,)
    assert tuple(each.shape for each in guard.counts) == shapes
    assert (guard.shares.known.shape, guard.shares.classes.shape) == ((count, N_LEVELS), (n_classes,))
    assert guard.shares.owner.shape == (n_classes, among + 1)
    assert guard.owner.shape == guard.known.shape == (among,)


def test_mostly_new_is_what_many_members_and_no_references_share() -> None:
    guard = counted([3, 5, 9, 11])
    stream = np.eye(N_LEVELS)[[3] * 7] * subclass_owners.LEAST_INSTANCES
    stream[3] *= 0.9
    counts = guard.counts._replace(stream=stream, seen=np.full(7, 4.0 * subclass_owners.LEAST_INSTANCES))
    guard = guard._replace(
        counts=counts, known=np.array([subclass_owners.MOST_KNOWN, 0.0, subclass_owners.MOST_KNOWN + 0.01, -1.0])
    )
    few = np.full(2, 2.0 * subclass_owners.LEAST_REFERENCES)
    np.testing.assert_array_equal(subclass_owners.mostly_new(guard, few), [3])
    few[1] -= 1.0
    assert not len(subclass_owners.mostly_new(guard, few)), "of a class with so few references none may have come"


@examples(40)
@given(
    seed=st.integers(0, 10_000),
    before=st.integers(1, 4),
    n_classes=st.integers(1, 4),
    known=st.lists(st.integers(0, 9), max_size=6, unique=True),
    now=st.lists(st.integers(0, 9), max_size=6, unique=True),
)
def test_every_cell_takes_its_own_counts_along(
    seed: int, before: int, n_classes: int, known: list[int], now: list[int]
) -> None:
    guard = counted(known, before, seed)
    after = subclass_owners.fit_check(guard, np.array(now, int), n_classes)
    check_fits(after, n_classes)
    assert subclass_owners.fit_check(after, after.ids, n_classes) is after
    assert after.shares.classes.sum() == pytest.approx(1)
    came = np.array([known.index(key) if key in known else -1 for key in now], int)
    classes = np.array([j if j < before else -1 for j in range(n_classes)])
    cells = np.concatenate([classes, np.where(came < 0, -1, before + came), [before + len(known)]])
    stream, seen, taken, total, votes = guard.counts
    expected = (
        *(picked(stream, cells), picked(seen, cells), picked(picked(taken, classes), cells, 1)),
        *(picked(picked(total, classes), cells, 1), picked(votes, classes)),
    )
    for found, right in zip(after.counts, expected, strict=True):
        np.testing.assert_array_equal(found, right)
    np.testing.assert_array_equal(after.shares.known[:n_classes], 1.0)
    np.testing.assert_array_equal(after.shares.known[n_classes:], guard.shares.known[cells[n_classes:]])
    owner = np.append(guard.owner, subclass_owners.NOBODY)[came]
    np.testing.assert_array_equal(after.owner, np.where(owner < n_classes, owner, subclass_owners.NOBODY))
    np.testing.assert_array_equal(after.known, np.append(guard.known, -1.0)[came])


def picked(values: np.ndarray, at: np.ndarray, axis: int = 0) -> np.ndarray:
    """The entries at some places; -1 is a place without an entry, where the values are 0."""
    return np.where(at.reshape(-1, *[1] * (values.ndim - axis - 1)) < 0, 0.0, values.take(at, axis))


def test_joined_subclasses_have_the_counts_of_both() -> None:
    guard = counted([10, 11, 12])
    before = guard.counts.stream.copy()
    after = follow_identities(guard, IdentityChanges({12: 10}))
    np.testing.assert_allclose(after.counts.stream[2], before[2] + before[4])
    np.testing.assert_allclose(after.counts.taken[:, 2], guard.counts.taken[:, 2] + guard.counts.taken[:, 4])
    assert 12 not in after.ids
    settled = subclass_owners.fit_check(after, np.array([10, 11]), 2)
    check_fits(settled, 2)
    np.testing.assert_allclose(settled.counts.stream[2], before[2] + before[4])
    moved = follow_identities(guard, IdentityChanges({12: 9}))
    assert moved.ids.tolist() == [10, 11, 9], "an older one that was set aside: its name is taken on"
    np.testing.assert_array_equal(guard.counts.stream, before, "the argument stays as it is")


def test_parts_share_what_was_counted_of_the_whole() -> None:
    guard = counted([10, 11])
    after = follow_identities(guard, IdentityChanges({}, {20: SplitOff(11, np.arange(3))}))
    check_fits(after, 2)
    assert after.ids.tolist() == [10, 11, 20]
    for cell in (3, 4):
        np.testing.assert_allclose(after.counts.stream[cell], 0.5 * guard.counts.stream[3])
        np.testing.assert_allclose(after.counts.taken[:, cell], 0.5 * guard.counts.taken[:, 3])
        assert after.counts.seen[cell] == guard.counts.seen[3]
    assert after.owner.tolist() == [-1, 0, 0]
    np.testing.assert_array_equal(after.counts.stream[-1], guard.counts.stream[-1], "what is new stays last")
    assert follow_identities(None, IdentityChanges({1: 2})) is None
    assert follow_identities(guard, IdentityChanges()) is guard


def test_an_owner_is_kept_until_most_is_new() -> None:
    much, little = 2 * subclass_owners.LEAST_SUPPORT, 0.5 * subclass_owners.LEAST_SUPPORT
    for known, support, before, expected in (
        (0.6, much, subclass_owners.NOBODY, 1),
        (0.45, much, subclass_owners.NOBODY, subclass_owners.NOBODY),
        (0.45, much, 0, 1),  # it keeps one
        (0.35, much, 0, subclass_owners.NOBODY),
        (0.1, little, 0, 0),  # of few instances nothing is concluded
        (0.9, little, subclass_owners.NOBODY, subclass_owners.NOBODY),
        (0.9, 0.0, 0, 0),
    ):
        stream = np.zeros((4, N_LEVELS))
        stream[2, -1] = support
        shares = KnownShares(np.full((4, N_LEVELS), known), np.array([[0.1, 0.5], [0.9, 0.5]]), np.full(2, 0.5), 1.0)
        owner, part = subclass_owners.owners_of(np.array([before]), np.full(1, 0.7), stream, shares)
        assert part == pytest.approx(known if support >= subclass_owners.LEAST_SUPPORT else 0.7)
        assert owner.tolist() == [expected], (known, support, before)


def test_an_owner_is_remembered_from_batch_to_batch(running: OpenSetRecognizer) -> None:
    """A subclass without recent instances keeps its owner: nothing else is known of it."""
    stream = running.value.stream
    chains = []
    for chain in stream.chains:
        guard = chain.check
        counts = guard.counts._replace(stream=np.zeros_like(guard.counts.stream))
        chains.append(chain._replace(check=guard._replace(counts=counts, owner=np.ones(len(guard.ids), int))))
    running.value = replace(running.value, stream=stream._replace(chains=tuple(chains)))
    ids = [chain.check.ids for chain in chains]
    play(running, 96, begin=256, new_share=0.0)
    for number in range(2):
        guard = guard_of(running, number)
        before = np.isin(guard.ids, ids[number])
        assert before.any()
        assert (guard.counts.stream[2:-1].sum(axis=1)[before] < subclass_owners.LEAST_SUPPORT).all()
        assert (guard.owner[before] == 1).all()
        state = running.value.stream.chains[number].state
        theirs = np.isin(state.franchise.table_dish, 2 + np.flatnonzero(np.isin(state.ids, guard.ids[before])))
        assert not state.franchise.table_founder[theirs].any(), "their tables are no evidence that new things come"


@pytest.mark.parametrize("level", [check.TYPICAL - 1, check.TYPICAL])
def test_an_instance_that_is_typical_of_a_class_votes_for_it_whatever_its_label(
    count_arguments: tuple[Any, ...], level: int
) -> None:
    guard, state, sides, levels, *more = count_arguments
    n = more[1]
    bounds = np.where(np.arange(N_LEVELS - 1) < level, -np.inf, np.inf)
    sides = sides._replace(unknown=np.ones(len(sides.unknown)))
    levels = levels._replace(bounds=bounds, many=np.full(2, 1e3))
    after, probabilities = check._count_references(guard, state, sides, levels, *more)
    came = (after.counts.votes - 0.5 ** (n / check.REMEMBERED) * guard.counts.votes).sum()
    accepted = (1.0 - probabilities[len(sides.references.rows) :, -1]).sum()
    assert accepted < n - 1
    assert came == pytest.approx(n if level == check.TYPICAL else accepted)


@pytest.mark.thorough
def test_a_class_of_five_instances_is_no_new_class() -> None:
    rng = np.random.default_rng(7)
    centres = 2.5 * rng.normal(size=(3, 2, 6))

    def rows(group: np.ndarray) -> list[dict[int, float]]:
        X = centres[group, rng.integers(2, size=len(group))] + rng.normal(size=(len(group), 6))
        return [dict(enumerate(x)) for x in X.tolist()]

    training, stream = np.repeat(np.arange(3), [200, 20, 5]), rng.integers(3, size=3000)
    model = OpenSetRecognizer(chains=2, batch_size=64)
    learn_all(model, zip(rows(training), training.tolist(), strict=True)).freeze()
    for x in rows(stream):
        model.learn_one(x)
    model.flush()
    right = np.array([d.label for d in drained(model)[0]]) == stream
    assert right[stream == 2].mean() > 0.9
    assert right.mean() > 0.95


# Streams


def test_without_references_it_is_the_model_whose_references_were_taken_away(trained: TrainedModel) -> None:
    unguarded = fitted(**SETTINGS, references=0)
    taken = replace(trained, references=None)
    assert taken.fingerprint == unguarded.trained.fingerprint != trained.fingerprint
    model = OpenSetRecognizer.from_trained(taken, **grouped(**SETTINGS))
    for each in (unguarded, model):
        play(each, 256)
    assert drained(unguarded) == drained(model)
    assert all(chain.check is None for chain in model.value.stream.chains)
    assert model.expected_recall is None


def probabilities(model: OpenSetRecognizer) -> dict[Any, float]:
    """Check that all questions have answers between a change of the classes and the next batch."""
    assert model.expected_recall is not None
    assert str(model.signals)
    assert str(model.summary())
    p = model.predict_proba_one(dict.fromkeys(model.trained.names, 0.5))
    assert sum(p.values()) == pytest.approx(1.0, abs=1e-9)
    return p


@pytest.mark.parametrize("way", ["labels", "promotion"])
def test_a_class_that_is_opened_is_guarded_with_the_others(running: OpenSetRecognizer, way: str) -> None:
    decisions, events = drained(running)
    truth = [label for _, label in stream_part(512)]
    if way == "labels":
        for d in [d for d in decisions if truth[d.key] == "new"][:12]:
            running.learn_label(d.key, "opened")
    else:
        before = running.expected_recall
        running.promote([e.subclass_id for e in events if isinstance(e, SubclassEmerged)], "opened")
        assert running.expected_recall == before is not None, "until the next batch"
        assert "opened" in probabilities(running)
    play(running, 256, begin=256)
    stream = running.value.stream
    check_stream(stream)
    assert stream.labels == ("left", "right", "opened")
    count = np.bincount(stream.references.group)[2]
    assert count == 12 if way == "labels" else count > 20
    for number in range(2):
        check_fits(guard_of(running, number), 3)
        np.testing.assert_array_equal(guard_of(running, number).ids, stream.chains[number].state.ids)
    later = [(truth[d.key], d.label) for d in drained(running)[0]]
    assert np.mean([label == y for y, label in later if y != "new"]) > 0.95
    assert way == "labels" or np.mean([label == "opened" for y, label in later if y == "new"]) > 0.9
    assert running.expected_recall is not None
    for _ in range(12 if way == "labels" else 1):
        running.undo()
    assert "left" in probabilities(running)
    play(running, 64, begin=512)
    check_stream(running.value.stream)
    check_fits(guard_of(running), len(running.value.stream.labels))


def test_what_lies_beyond_all_references_is_unknown_however_quiet_the_stream_was(trained: TrainedModel) -> None:
    model = play(OpenSetRecognizer.from_trained(trained, **grouped(**SETTINGS)), 640, new_share=0.0)
    names = model.trained.names
    for far in (60.0, 1e3, 1e6):
        assert model.predict_proba_one(dict.fromkeys(names, far))["unknown"] > 0.9
    model.learn_one(dict.fromkeys(names, 60.0))
    assert ended(model)[-1].p_unknown > 0.9

"""The guard: where references would sit, what follows for decisions and books, chain by chain."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from stream_osr import OpenSetRecognizer, SubclassEmerged, SubclassRefuted, TrainedModel
from stream_osr.config import grouped
from stream_osr.model.known import log_class_densities
from stream_osr.model.responsibilities import query_rows, responsibilities_of
from stream_osr.stream import reference_check as law
from stream_osr.stream.chain import Chain, IdentityChanges, ReferenceCheck, SplitOff, follow_identities
from stream_osr.trust.balance import KnownShares, ReferenceCounts, balance, votes
from stream_osr.trust.levels import N_LEVELS
from stream_osr.trust.references import References
from tests.blobs import check_stream, fitted, learn_all, menu_weights, stream_part, told, training_part
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
def asked(trained: TrainedModel, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """What the books of a third batch are counted from."""
    seen: list[tuple[Any, ...]] = []
    count = law._count_references
    monkeypatch.setattr(law, "_count_references", lambda *a: seen.append(a) or count(*a))
    play(OpenSetRecognizer.from_trained(trained, **grouped(**SETTINGS)), 96)
    return seen[-1]


# Where an instance would sit


def bases(chain: Chain) -> niw.BaseMeasure:
    prior = chain.known.prior
    return niw.Full(prior.n_features, prior.psi, prior.nu, prior.beta)


def test_cells_are_those_of_equation_10_without_the_row_itself() -> None:
    # decisions that wait keep all instances in the window
    arguments = {**SETTINGS, "window": 400, "decision_delay": 1, "ensemble": "drawn", "seed": 3}
    model = play(fitted(**arguments), 192, new_share=0.4)
    chain = model.value.stream.chains[1]
    known, state, base = chain.known, chain.state, bases(chain)
    window, franchise, n_classes = state.window, state.franchise, len(known.size)
    rows = window.rows[:, :-1]
    assert len(rows) == state.seen == 192, "all that came can be counted again"
    dish = franchise.table_dish[window.table]
    blocks = {k: rows[dish == k] for k in range(n_classes, len(franchise.menu))}
    assert [len(block) for block in blocks.values()] == state.dishes.size.tolist()
    log_known = log_class_densities(known, chain.frozen, window.rows)[0]
    tables = list(zip(franchise.table_dish.tolist(), franchise.table_mass.tolist(), strict=True))
    menu = dict(enumerate(menu_weights(franchise).tolist()))
    law = tables, menu
    subclass = np.where(dish >= n_classes, np.append(state.ids, -1)[dish - n_classes], -1)
    who = query_rows(rows, known.prior)
    found = responsibilities_of(known, state, who, log_known, subclass=subclass, weight=window.weight)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    as_references = responsibilities_of(known, state, who, log_known)
    alone = dish >= n_classes
    alone[alone] = [len(blocks[k]) == 1 for k in dish[alone].tolist()]
    assert (found[alone, dish[alone]] == 0).all(), "the only one of a subclass: without it there is none"
    tested = [*np.flatnonzero((dish >= n_classes) & ~alone)[::3], *np.flatnonzero(dish < n_classes)[::9]]
    assert len(tested) > 15
    rest = base, float(franchise.alpha[0]), float(franchise.gamma[0])
    for i in tested:
        seat = None
        if dish[i] >= n_classes:
            seat = int(window.table[i]), int(np.flatnonzero((blocks[int(dish[i])] == rows[i]).all(axis=1))[0])
        expected = oracle.cells(rows[i], seat, window.weight[i], *law, log_known[i].tolist(), blocks, *rest)
        np.testing.assert_allclose(found[i], expected, rtol=1e-7, atol=1e-10)
        expected = oracle.cells(rows[i], None, 0.0, *law, log_known[i].tolist(), blocks, *rest)
        np.testing.assert_allclose(as_references[i], expected, rtol=1e-7, atol=1e-10)


def test_seats_are_left_with_the_weight_that_they_have(asked: tuple[Any, ...]) -> None:
    _, state, sides, *_ = asked
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
    return KnownShares(
        known, rng.dirichlet(np.ones(n_classes), size=count).T.copy(), rng.dirichlet(np.ones(n_classes)), rng.random()
    )


@examples(50)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 6),
    n_classes=st.integers(1, 4),
    count=st.integers(1, 5),
    far=st.sampled_from([1.0, 50.0, 1e4]),
)
def test_probabilities_stay_probabilities(seed: int, n: int, n_classes: int, count: int, far: float) -> None:
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
    nobody_said = balance(shares, np.full(n, np.nan), cells, level, vote)
    as_cells_say = balance(shares, cells[:, n_classes:].sum(axis=1), cells, level, vote)
    np.testing.assert_allclose(nobody_said, as_cells_say, rtol=1e-12, atol=1e-12)


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


# Books that follow what they are about


def counted(ids: list[int], n_classes: int = 2, seed: int = 0) -> ReferenceCheck:
    """Make a guard with something in all its books."""
    rng = np.random.default_rng(seed)
    count = n_classes + len(ids) + 1
    books = ReferenceCounts(
        rng.random((count, N_LEVELS)) * 20,
        rng.random(count) * 500,
        rng.random((n_classes, count, N_LEVELS)),
        rng.random((n_classes, count)) * 100,
        rng.random(n_classes),
    )
    known = np.ones((count, N_LEVELS))
    known[n_classes:] = rng.random((len(ids) + 1, N_LEVELS))
    even = np.full((n_classes, len(ids) + 1), 1 / n_classes)
    shares = KnownShares(known, even, np.full(n_classes, 1 / n_classes), 0.7)
    owner = np.array([j % (n_classes + 1) - 1 for j in range(len(ids))])
    return ReferenceCheck(np.array(ids, int), books, shares, owner, rng.random(len(ids)), 100)


def check_fits(guard: ReferenceCheck, n_classes: int) -> None:
    count, books = n_classes + len(guard.ids) + 1, guard.counts
    assert books.stream.shape == guard.shares.known.shape == (count, N_LEVELS)
    assert books.seen.shape == (count,)
    assert books.taken.shape == (n_classes, count, N_LEVELS)
    assert books.total.shape == (n_classes, count)
    assert books.votes.shape == guard.shares.classes.shape == (n_classes,)
    assert guard.shares.owner.shape == (n_classes, len(guard.ids) + 1)
    assert guard.owner.shape == guard.known.shape == (len(guard.ids),)


def test_mostly_new_is_what_many_members_and_no_references_share() -> None:
    guard = counted([3, 5, 9, 11])
    books = guard.counts._replace(stream=np.eye(N_LEVELS)[[3] * 7] * law.MANY, seen=np.full(7, 4.0 * law.MANY))
    books.stream[3] *= 0.9
    guard = guard._replace(counts=books, known=np.array([law.MOSTLY_NEW, 0.0, law.MOSTLY_NEW + 0.01, -1.0]))
    few = np.full(2, 2.0 * law.EXPECTED)
    np.testing.assert_array_equal(law.mostly_new(guard, few), [3])
    few[1] -= 1.0
    assert not len(law.mostly_new(guard, few)), "of a class with so few references none may have come"


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
    after = law.fit_check(guard, np.array(now, int), n_classes)
    check_fits(after, n_classes)
    assert law.fit_check(after, after.ids, n_classes) is after
    assert after.shares.classes.sum() == pytest.approx(1)
    old, came = before + len(known), [known.index(key) if key in known else None for key in now]
    place = [
        *(j if j < before else None for j in range(n_classes)),
        *(k if k is None else before + k for k in came),
        old,
    ]
    for c, at in enumerate(place):
        np.testing.assert_array_equal(after.counts.stream[c], 0.0 if at is None else guard.counts.stream[at])
        assert after.counts.seen[c] == (0.0 if at is None else guard.counts.seen[at])
        as_new = guard.shares.known[old if at is None else at]
        np.testing.assert_array_equal(after.shares.known[c], 1.0 if c < n_classes else as_new)
        for j in range(n_classes):
            none = at is None or j >= before
            np.testing.assert_array_equal(after.counts.taken[j, c], 0.0 if none else guard.counts.taken[j, at])
            assert after.counts.total[j, c] == (0.0 if none else guard.counts.total[j, at])
    for k, at in enumerate(came):
        owner = law.NOBODY if at is None else guard.owner[at]
        assert after.owner[k] == (owner if owner < n_classes else law.NOBODY)
        assert after.known[k] == (-1.0 if at is None else guard.known[at])
    np.testing.assert_array_equal(after.counts.votes, [*guard.counts.votes, *np.zeros(n_classes)][:n_classes])


def test_joined_subclasses_have_the_counts_of_both() -> None:
    guard = counted([10, 11, 12])
    after = follow_identities(guard, IdentityChanges({12: 10}))
    np.testing.assert_allclose(after.counts.stream[2], guard.counts.stream[2] + guard.counts.stream[4])
    np.testing.assert_allclose(after.counts.taken[:, 2], guard.counts.taken[:, 2] + guard.counts.taken[:, 4])
    assert 12 not in after.ids
    settled = law.fit_check(after, np.array([10, 11]), 2)
    check_fits(settled, 2)
    np.testing.assert_allclose(settled.counts.stream[2], guard.counts.stream[2] + guard.counts.stream[4])
    moved = follow_identities(guard, IdentityChanges({12: 9}))
    assert moved.ids.tolist() == [10, 11, 9], "an older one that was set aside: its name is taken on"
    np.testing.assert_array_equal(
        counted([10, 11, 12]).counts.stream, guard.counts.stream, "the argument stays as it is"
    )


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
    def told_of(known: float, support: float, before: int) -> int:
        stream = np.zeros((4, N_LEVELS))
        stream[2, -1] = support
        shares = KnownShares(np.full((4, N_LEVELS), known), np.array([[0.1, 0.5], [0.9, 0.5]]), np.full(2, 0.5), 1.0)
        owner, part = law.owners_of(np.array([before]), np.full(1, 0.7), stream, shares)
        assert part == pytest.approx(known if support >= law.LEAST_SUPPORT else 0.7)
        return int(owner[0])

    much, little = 2 * law.LEAST_SUPPORT, 0.5 * law.LEAST_SUPPORT
    assert told_of(0.6, much, law.NOBODY) == 1
    assert told_of(0.45, much, law.NOBODY) == law.NOBODY
    assert told_of(0.45, much, 0) == 1, "it keeps one"
    assert told_of(0.35, much, 0) == law.NOBODY
    assert told_of(0.1, little, 0) == 0, "of few instances nothing is concluded"
    assert told_of(0.9, little, law.NOBODY) == law.NOBODY
    assert told_of(0.9, 0.0, 0) == 0


def test_an_owner_is_remembered_from_batch_to_batch(running: OpenSetRecognizer) -> None:
    """A subclass that hardly anybody comes to any more stays its owner's: nothing is known of it but that."""
    stream = running.value.stream
    chains = []
    for chain in stream.chains:
        guard = chain.check
        books = guard.counts._replace(stream=np.zeros_like(guard.counts.stream))
        chains.append(chain._replace(check=guard._replace(counts=books, owner=np.ones(len(guard.ids), int))))
    running.value = replace(running.value, stream=stream._replace(chains=tuple(chains)))
    ids = [chain.check.ids for chain in chains]
    play(running, 96, begin=256, new_share=0.0)
    for number in range(2):
        guard = guard_of(running, number)
        before = np.isin(guard.ids, ids[number])
        assert before.any()
        assert (guard.counts.stream[2:-1].sum(axis=1)[before] < law.LEAST_SUPPORT).all()
        assert (guard.owner[before] == 1).all()
        state = running.value.stream.chains[number].state
        theirs = np.isin(state.franchise.table_dish, 2 + np.flatnonzero(np.isin(state.ids, guard.ids[before])))
        assert not state.franchise.table_founder[theirs].any(), "their tables are no evidence that new things come"


def test_tables_of_subclasses_with_an_owner_are_no_openings(running: OpenSetRecognizer) -> None:
    chain = running.value.stream.chains[0]
    guard = guard_of(running)
    assert len(guard.ids) == len(chain.state.ids) > 0
    nobody = guard._replace(owner=np.full(len(guard.ids), law.NOBODY))
    assert law.without_openings(chain.state, nobody, 2) is chain.state
    owned = guard._replace(owner=np.zeros(len(guard.ids), int))
    before, after = chain.state.franchise, law.without_openings(chain.state, owned, 2).franchise
    theirs = before.table_dish >= 2
    assert before.table_founder[theirs].any()
    assert not after.table_founder[theirs].any()
    np.testing.assert_array_equal(after.table_founder[~theirs], before.table_founder[~theirs])


@pytest.mark.parametrize("level", [law.TYPICAL - 1, law.TYPICAL])
def test_an_instance_that_is_typical_of_a_class_votes_for_it_whatever_it_is_called(
    asked: tuple[Any, ...], level: int
) -> None:
    guard, state, sides, levels, *more = asked
    n = more[3]
    bounds = np.where(np.arange(N_LEVELS - 1) < level, -np.inf, np.inf)
    sides = sides._replace(unknown=np.ones(len(sides.unknown)))
    levels = levels._replace(bounds=bounds, many=np.full(2, 1e3))
    after, probabilities = law._count_references(guard, state, sides, levels, *more)
    came = (after.counts.votes - 0.5 ** (n / law.REMEMBERED) * guard.counts.votes).sum()
    accepted = (1.0 - probabilities[len(sides.references.rows) :, -1]).sum()
    assert accepted < n - 1
    assert came == pytest.approx(n if level == law.TYPICAL else accepted)


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
    right = np.array([d.label for d in told(model)[0]]) == stream
    assert right[stream == 2].mean() > 0.9
    assert right.mean() > 0.95


def test_books_count_everybody_once(trained: TrainedModel, running: OpenSetRecognizer) -> None:
    fade = 0.5 ** (32 / law.REMEMBERED)
    weight = sum(fade**age for age in range(8))
    asked = asked_in_turn(trained.references, 8)
    for number in range(2):
        books = guard_of(running, number).counts
        np.testing.assert_allclose(books.total[:, :2], np.tile(asked[:, None], 2))
        np.testing.assert_allclose(books.seen[[0, 1, -1]], 32 * weight)
        assert books.stream.sum() <= 32 * weight + 1e-9
        assert books.stream.sum() > 0.9 * 32 * weight
        assert (books.taken.sum(axis=2) <= books.total * (1 + 1e-9)).all()
        assert (books.total <= books.total[:, :1] * (1 + 1e-9)).all()


def asked_in_turn(references: References, batches: int) -> np.ndarray:
    """Faded number of references of each class that the latest batches of 32 are scored with, from the first on."""
    group, fade = references.group, 0.5 ** (32 / law.REMEMBERED)
    asked = [np.bincount(group[(32 * b + np.arange(32)) % len(group)], minlength=2) for b in range(batches)]
    return np.array(asked).T @ fade ** np.arange(batches - 1, -1, -1)


def test_what_references_say_of_the_frozen_densities(trained: TrainedModel) -> None:
    references = trained.references
    model = law.model_of(references, 0)
    assert law.model_of(references, len(references.log_density)) is model
    log_density = references.log_density[0]
    np.testing.assert_allclose(model.levels.confusion[0], votes(log_density)[references.group == 0].mean(axis=0))
    np.testing.assert_allclose(model.levels.many, np.bincount(references.group))
    assert model.levels_of(log_density).max() < N_LEVELS
    np.testing.assert_allclose(votes(np.array([[1e4, 1e4 + np.log(3.0)]])), [[0.25, 0.75]])


# Streams


def test_without_references_it_is_the_model_whose_references_were_taken_away() -> None:
    unguarded = learn_all(OpenSetRecognizer(**grouped(**SETTINGS, references=0)), training_part())
    unguarded.freeze()
    whole = learn_all(OpenSetRecognizer(**grouped(**SETTINGS)), training_part())
    whole.freeze()
    taken = dataclasses.replace(whole.trained, references=None)
    assert taken.fingerprint == unguarded.trained.fingerprint != whole.trained.fingerprint
    model = OpenSetRecognizer.from_trained(taken, **grouped(**SETTINGS))
    for each in (unguarded, model):
        play(each, 256)
    assert told(unguarded) == told(model)
    assert all(chain.check is None for chain in model.value.stream.chains)
    assert model.expected_recall is None


@pytest.mark.parametrize("delay", [0, 40])
def test_a_new_class_beside_is_found_and_announced(trained: TrainedModel, delay: int) -> None:
    model = play(OpenSetRecognizer.from_trained(trained, **grouped(**SETTINGS, decision_delay=delay)), 512)
    model.flush()
    decisions, events = told(model)
    truth = np.array([{"new": "unknown"}.get(label, label) for _, label in stream_part(512)])
    assert np.mean([d.label for d in decisions] == truth) > 0.95
    assert all(abs(sum(d.probabilities.values()) - 1) < 1e-9 for d in decisions)
    assert any(isinstance(event, SubclassEmerged) for event in events)
    assert not any(isinstance(event, SubclassRefuted) for event in events)
    guard = guard_of(model)
    largest = int(np.argmax(guard.counts.stream[2:-1].sum(axis=1)))
    assert guard.owner[largest] == law.NOBODY
    assert guard.known[largest] < 0.1
    check_stream(model.value.stream)


@pytest.mark.parametrize("way", ["labels", "promotion"])
def test_a_class_that_is_opened_is_guarded_with_the_others(running: OpenSetRecognizer, way: str) -> None:
    decisions, events = told(running)
    truth = [label for _, label in stream_part(512)]
    if way == "labels":
        for d in [d for d in decisions if truth[d.key] == "new"][:12]:
            running.learn_label(d.key, "opened")
    else:
        running.promote([e.subclass_id for e in events if isinstance(e, SubclassEmerged)], "opened")
    play(running, 256, begin=256)
    stream = running.value.stream
    check_stream(stream)
    assert stream.labels == ("left", "right", "opened")
    count = np.bincount(stream.references.group)[2]
    assert count == 12 if way == "labels" else count > 20
    for number in range(2):
        check_fits(guard_of(running, number), 3)
        np.testing.assert_array_equal(guard_of(running, number).ids, stream.chains[number].state.ids)
    later = [(truth[d.key], d.label) for d in told(running)[0]]
    assert np.mean([label == y for y, label in later if y != "new"]) > 0.95
    assert way == "labels" or np.mean([label == "opened" for y, label in later if y == "new"]) > 0.9
    assert running.expected_recall is not None
    for _ in range(12 if way == "labels" else 1):
        running.undo()
    play(running, 64, begin=512)
    check_stream(running.value.stream)
    check_fits(guard_of(running), len(running.value.stream.labels))


def test_what_lies_beyond_all_references_is_unknown_however_quiet_the_stream_was(trained: TrainedModel) -> None:
    model = play(OpenSetRecognizer.from_trained(trained, **grouped(**SETTINGS)), 640, new_share=0.0)
    names = model.trained.names
    for far in (60.0, 1e3, 1e6):
        assert model.predict_proba_one(dict.fromkeys(names, far))["unknown"] > 0.9
    model.learn_one(dict.fromkeys(names, 60.0))
    model.flush()
    assert list(model.drain())[-1].p_unknown > 0.9


def test_a_class_that_has_just_come_or_gone_is_no_matter_meanwhile(running: OpenSetRecognizer) -> None:
    model = running
    model.flush()
    before = model.expected_recall
    assert before is not None
    row = dict.fromkeys(model.trained.names, 0.5)
    model.promote(model.new_classes().candidates[0].subclasses, "third")
    assert model.expected_recall == before
    assert "third" in model.predict_proba_one(row)
    assert str(model.signals)
    assert str(model.summary())
    model.learn_one(row)
    model.flush()
    assert model.expected_recall is not None
    model.undo()
    assert model.expected_recall is not None
    assert abs(sum(model.predict_proba_one(row).values()) - 1.0) < 1e-9
    assert str(model.signals)
    assert str(model.summary())

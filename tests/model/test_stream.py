"""The micro-batch step: what it seats, what it folds into the state, and what fades."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.model import edit, franchise
from stream_osr.model import step as library
from stream_osr.model.franchise import CLOSED, Franchise, StreamState
from stream_osr.model.franchise import fade as fade_seats
from stream_osr.model.known import Densities, Known, densities, log_class_densities
from stream_osr.model.prior import homogeneous
from stream_osr.model.step import BatchResult, Settings
from tests.blobs import menu_weights
from tests.model.problems import Problem, check_books, known_of, make_base
from tests.oracles import niw
from tests.oracles import stream as oracle
from tests.tiers import examples

NEVER = Settings(half_life=np.inf)


class World(NamedTuple):
    """Two known classes at -4 and 4 on the first axis, with a standard deviation of 1."""

    known: Known
    frozen: Densities
    base: niw.BaseMeasure
    blocks: list[np.ndarray]


def make_world(d=2, *, gamma=30.0, n=40) -> World:
    rng = np.random.default_rng(0)
    prior, base = make_base(d, nu=d + 3.0, psi=2.0, beta=0.02)
    axis = np.eye(d)[0]
    blocks = [rng.normal(size=(n, d)) + c * axis for c in (-4.0, 4.0)]
    known = known_of(prior, blocks, [0, 1], [30.0, 20.0], gamma=gamma)
    return World(known, densities(known), base, blocks)


def draw_stream(seed: int, n: int, d=2, *, classes=(-4.0, 4.0), novel=(0.0,)) -> np.ndarray:
    """Rows of the known classes, and of new ones some way off along the second axis."""
    rng = np.random.default_rng(seed)
    axis = np.eye(d)
    centres = [c * axis[0] for c in classes] + [(8.0 + 4.0 * c) * axis[-1] for c in range(len(novel))]
    return rng.normal(scale=0.8, size=(n, d)) + np.array(centres)[rng.integers(len(centres), size=n)]


class Ledger:
    """Follows a stream from outside: who sat where in the end, by the results of the steps alone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = library.open_stream(world.known, world.frozen)
        self.rows = np.empty((0, world.known.prior.n_features))
        self.subclass = np.empty(0, np.int64)
        self.retired: set[int] = set()

    def members(self, subclass: int) -> np.ndarray:
        return self.rows[self.subclass == subclass]

    def step(self, rows: np.ndarray, seed: object, settings: Settings) -> BatchResult:
        before = self.state
        first = before.seen
        rng = np.random.default_rng(seed)
        old_members = {k: set(np.flatnonzero(self.subclass == k).tolist()) for k in before.ids.tolist()}
        self.state, result = library.step(self.world.known, self.world.frozen, before, rows, rng, settings)
        self.rows = np.concatenate([self.rows, rows])
        self.subclass = np.concatenate([self.subclass, result.subclass])
        assert (result.moved < first).all()
        assert (self.subclass[result.moved] != result.moved_to).all()
        self.subclass[result.moved] = result.moved_to
        assert self.state.seen == first + len(rows)
        self.check_ids(before, old_members)
        return result

    def hold(self, ids: set[int]) -> None:
        """As the engine does after every batch: what is neither held nor served leaves no slot behind."""
        before = set(self.state.ids.tolist())
        self.state = edit.hold(self.state, ids)
        self.retired |= before - set(self.state.ids.tolist())

    def check_ids(self, before: StreamState, old_members: dict[int, set[int]]) -> None:
        """A number is given once, and kept only while somebody who had it still has."""
        now = set(self.state.ids.tolist())
        assert len(now) == len(self.state.ids)
        assert not now & self.retired
        known_ids = set(self.world.known.ids.tolist())
        assert not now & known_ids
        for k in now:
            if k in old_members:
                still = set(np.flatnonzero(self.subclass == k).tolist())
                assert still & old_members[k], f"subclass {k} is made of strangers"
            else:
                assert k >= before.next_id
        assert all(k < self.state.next_id for k in now)
        self.retired |= set(before.ids.tolist()) - now

    def check(self) -> None:
        """Recount the state: seats from the window and the settled weights, statistics from all members."""
        state, known = self.state, self.world.known
        n_classes = len(known.size)
        live = self.subclass.copy()
        live[state.window_seq] = -2  # those in the window are counted as guests
        problem = Problem(
            known.prior,
            self.world.base,
            state.window,
            state.franchise,
            state.dishes,
            np.empty((len(state.window.table), n_classes)),
            [self.rows[live == k] for k in state.ids],
        )
        trained = np.zeros(len(state.franchise.menu))
        trained[:n_classes] = self.world.frozen.menu
        assert len(state.franchise.menu) == n_classes + len(state.ids)
        check_books(problem, trained)
        np.testing.assert_array_equal(state.dishes.size, [(self.subclass == k).sum() for k in state.ids])
        assert (state.franchise.table_dish != CLOSED).all(), "slots not in use are dropped"
        assert not state.franchise.overflow[0]
        assert (state.franchise.table_founder > 0).all()
        assert (state.franchise.table_founder <= 1).all()
        served = state.franchise.table_dish[state.window.table] - n_classes
        expected = np.array([-1, *state.ids])[np.maximum(served, -1) + 1]
        np.testing.assert_array_equal(self.subclass[state.window_seq], expected)


STEPS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "sizes": st.lists(st.integers(1, 25), min_size=1, max_size=6),
        "sweeps": st.integers(0, 4),
        "window": st.sampled_from([0, 1, 7, 256]),
        "half_life": st.sampled_from([1.5, 10.0, 200.0, np.inf]),
        "gamma": st.sampled_from([2.0, 30.0]),
        "hold": st.booleans(),
        "settles": st.booleans(),
    }
)


@examples(25)
@given(case=STEPS)
def test_books_agree_with_a_recount_after_every_step(case):
    ledger = Ledger(make_world(gamma=case["gamma"]))
    how = Settings(case["sweeps"], case["window"], case["half_life"], case["settles"])
    for batch, size in enumerate(case["sizes"]):
        rows = draw_stream(case["seed"] + batch, size, novel=(0.0, 1.0))
        result = ledger.step(rows, [case["seed"], batch], how)
        ledger.check()
        assert how.settles or len(ledger.state.window_seq) == min(how.window, ledger.state.seen)
        assert ledger.state.batches == batch + 1
        assert result.probabilities.shape == (size, 3)
        assert (result.probabilities >= 0).all()
        np.testing.assert_allclose(result.probabilities.sum(axis=1), 1.0, rtol=0, atol=1e-9)
        if case["hold"]:
            ledger.hold(set(ledger.state.ids[::2].tolist()))
            ledger.check()


def copy_of(state: StreamState) -> list[np.ndarray]:
    parts = [*state.franchise, *state.dishes, *state.window, state.ids, state.window_seq]
    return [np.array(v, copy=True) for v in (*parts, state.batches, state.seen, state.next_id)]


def assert_equal_states(one: StreamState, other: StreamState) -> None:
    for value, expected in zip(copy_of(one), copy_of(other), strict=True):
        np.testing.assert_array_equal(value, expected)


def run(world: World, how: Settings, batches=4, size=30, seed=0) -> tuple[StreamState, list[BatchResult]]:
    state, results = library.open_stream(world.known, world.frozen), []
    for b in range(batches):
        rows = draw_stream(seed + b, size)
        state, result = library.step(world.known, world.frozen, state, rows, np.random.default_rng([seed, b]), how)
        results.append(result)
    return state, results


def test_step_is_a_function_of_state_rows_and_randomness():
    world = make_world()
    state, _ = run(world, Settings(window=20))
    before = copy_of(state)
    rows = draw_stream(50, 25)
    one = library.step(world.known, world.frozen, state, rows, np.random.default_rng(5), Settings())
    for value, old in zip(copy_of(state), before, strict=True):
        np.testing.assert_array_equal(value, old)
    again = library.step(world.known, world.frozen, state, rows, np.random.default_rng(5), Settings())
    assert_equal_states(one[0], again[0])
    for value, same in zip(one[1][:-1], again[1][:-1], strict=True):
        np.testing.assert_array_equal(value, same)


def test_densities_of_the_window_are_carried_over_while_they_are_valid():
    world, how, computed = make_world(), Settings(window=40), []
    other = world.frozen._replace(log_weight=world.frozen.log_weight - 1.0)
    other = other._replace(student_terms=other.student_terms._replace(head=other.student_terms.head - 1.0))
    of_rows = library.log_densities
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "log_densities", lambda *asked: computed.append(len(asked[2])) or of_rows(*asked))
        state, carried = library.open_stream(world.known, world.frozen), None
        for b, frozen in enumerate([world.frozen, world.frozen, other, other, world.frozen]):
            rows, first = draw_stream(b, 30), len(state.window.rows)
            given = {"gain": np.linspace(0.1, 0.5, first + 30) if b in (0, 2) else None}  # belongs to one batch
            again = library.step(world.known, frozen, state, rows, np.random.default_rng(b), how, **given)
            state, result = library.step(
                world.known, frozen, state, rows, np.random.default_rng(b), how, carried=carried, **given
            )
            assert_equal_states(state, again[0])
            for name in ("log_density", "log_density_new", "responsible", "window_log_density", "probabilities"):
                np.testing.assert_array_equal(getattr(result, name), getattr(again[1], name))
            valid = carried is not None and carried.frozen is frozen
            assert computed == [first + 30, 30 if valid else first + 30]
            computed.clear()
            carried = result.carried
    gap = carried._replace(seq=np.delete(carried.seq, 50))
    assert gap.of(world.frozen, state.window_seq) is None


def test_certain_seats_at_established_subclasses_settle_at_once():
    world, left = make_world(), 0
    for seed in range(5):
        state, _ = run(world, Settings(), batches=4, size=60, seed=seed)
        known, frozen, rows = world.known, world.frozen, draw_stream(seed, 60, novel=(0.0, 0.4))
        (late, result), (early, same) = (
            library.step(known, frozen, state, rows, np.random.default_rng(seed), Settings(settles=settles))
            for settles in (False, True)
        )
        np.testing.assert_array_equal(result.probabilities, same.probabilities)
        np.testing.assert_allclose(late.franchise.seated, early.franchise.seated)
        gone = ~np.isin(late.window_seq, early.window_seq)
        subclass = np.concatenate([same.window_subclass, same.subclass])[-len(gone) :][gone]
        assert all(state.dishes.size[state.ids == key].sum() >= library.ESTABLISHED for key in subclass.tolist())
        left += len(subclass)
    assert left > 50


def test_running_out_of_slots_changes_nothing(monkeypatch):
    world = make_world(gamma=300.0)
    seat_batch, tries = library.seat_batch, []
    monkeypatch.setattr(library, "seat_batch", lambda *arguments: tries.append(1) or seat_batch(*arguments))
    outcomes = []
    for spare in (1, 500):
        monkeypatch.setattr(library, "SPARE", spare)
        monkeypatch.setattr(library, "INSTANCES_PER_SLOT", 10**9)
        tries.clear()
        outcomes.append(run(world, NEVER, batches=3))
        assert (len(tries) > 3) == (spare == 1)
    (few, few_results), (many, many_results) = outcomes
    assert_equal_states(few, many)
    for one, other in zip(few_results, many_results, strict=True):
        for value, same in zip(one[:-1], other[:-1], strict=True):
            np.testing.assert_array_equal(value, same)


# Identities


def test_slot_opened_again_is_a_new_subclass():
    # one novel instance founds a subclass; then crowds settle elsewhere: it dies, and its slot is founded afresh
    world = make_world(gamma=100.0)
    for seed in range(60):
        ledger = Ledger(world)
        rng = np.random.default_rng(seed)
        for b in range(6):
            rows = rng.normal(scale=1.2, size=(6, 2)) * np.array([4.0, 1.0])
            ledger.step(rows, [seed, b], Settings(sweeps=3, window=4, half_life=np.inf))
        ledger.check()


def test_moved_instances_are_reported_with_where_they_went():
    world = make_world(gamma=3.0)
    ledger = Ledger(world)
    moves = 0
    for b in range(30):
        result = ledger.step(draw_stream(b, 4, novel=(0.0, 0.4)), b, Settings(window=12))
        moves += len(result.moved)
        ledger.check()
    assert moves > 0


# Probabilities


@pytest.mark.parametrize("half_life", [np.inf, 30.0])
def test_immediate_probabilities_are_the_predictive_rule(half_life):
    world = make_world()
    ledger = Ledger(world)
    for b in range(3):
        ledger.step(draw_stream(b, 20), b, Settings(window=15, half_life=half_life))
    state = ledger.state
    f = state.franchise
    rows = draw_stream(77, 8)
    before = copy_of(state)
    found = library.immediate(world.known, world.frozen, state, rows)
    for value, old in zip(copy_of(state), before, strict=True):
        np.testing.assert_array_equal(value, old)
    log_known, _ = log_class_densities(world.known, world.frozen, homogeneous(rows))
    past = oracle.StreamState(
        base=world.base,
        alpha=float(f.alpha[0]),
        gamma=float(f.gamma[0]),
        known_weights=f.menu[:2].tolist(),
        emerging_rows=[ledger.members(k) for k in state.ids],
        emerging_weights=menu_weights(f)[2:].tolist(),
        tables=list(zip(f.table_dish.tolist(), f.table_mass.tolist(), strict=True)),
    )
    for i, row in enumerate(rows):
        eats = oracle.target(past, row[None], log_known[i : i + 1]).dish_probabilities[0]
        expected = [*eats[:2], eats[2:].sum()]
        np.testing.assert_allclose(found[i], expected, rtol=1e-8, atol=1e-10)


def test_single_instance_without_sweeps_gets_its_immediate_probability():
    world = make_world()
    state, _ = run(world, Settings(window=10))
    for row in draw_stream(99, 6)[:, None]:
        expected = library.immediate(world.known, world.frozen, state, row)
        _, result = library.step(world.known, world.frozen, state, row, np.random.default_rng(0), Settings(sweeps=0))
        np.testing.assert_allclose(result.probabilities, expected, rtol=1e-12, atol=1e-15)


def test_densities_and_responsible_subclasses_are_reported():
    world = make_world()
    rows = draw_stream(1, 12)
    state = library.open_stream(world.known, world.frozen)
    _, result = library.step(world.known, world.frozen, state, rows, np.random.default_rng(0), Settings())
    log_density, responsible = log_class_densities(world.known, world.frozen, homogeneous(rows))
    np.testing.assert_allclose(result.log_density, log_density, rtol=1e-12)
    np.testing.assert_array_equal(result.responsible, responsible)


def test_known_instances_are_known_and_a_new_class_emerges_as_one():
    world = make_world()
    right = []
    for seed in range(5):
        ledger = Ledger(world)
        rng = np.random.default_rng(seed)
        for b in range(4):
            rows = np.concatenate([block[rng.integers(40, size=10)] for block in world.blocks])
            rows = np.concatenate([rows, rng.normal(scale=0.8, size=(10, 2)) + np.array([0.0, 12.0])])
            result = ledger.step(rows, 100 * seed + b, Settings())
        assert (result.probabilities[20:, 2] > 0.9).all()
        right += [*result.probabilities[:10, 0], *result.probabilities[10:20, 1]]
    assert np.mean(right) > 0.85
    assert np.mean(np.array(right) > 0.5) > 0.9
    novel = ledger.subclass.reshape(4, 30)[:, 20:]
    values, counts = np.unique(novel, return_counts=True)
    assert counts.max() > 0.8 * novel.size
    assert values[counts.argmax()] >= 2


# Fading


def settled_state(world: World, how: Settings, seed=0) -> StreamState:
    state, _ = run(world, how, batches=1, size=60, seed=seed)
    return state


def fade(state: StreamState, arrived: int, how: Settings) -> StreamState:
    """What the end of a step does after `arrived` instances, with nobody new."""
    tables = Franchise(*(v.copy() for v in state.franchise))
    stays = np.arange(len(state.window.weight)) >= len(state.window.weight) - how.window
    window = fade_seats(tables, state.window, stays, 0.5 ** (arrived / how.half_life))
    return edit.rewrite(state, tables, window=window, window_seq=state.window_seq[stays])


@pytest.mark.parametrize("window", [0, 20, 256])
def test_seats_weigh_half_after_the_half_life(window):
    world = make_world()
    how = Settings(window=window, half_life=64.0)
    state = settled_state(world, how._replace(half_life=np.inf))
    later = fade(state, 64, how)
    np.testing.assert_allclose(later.franchise.table_mass, state.franchise.table_mass / 2, rtol=1e-12)
    np.testing.assert_allclose(later.franchise.table_founder, state.franchise.table_founder / 2, rtol=1e-12)
    np.testing.assert_allclose(later.franchise.seated, state.franchise.seated / 2, rtol=1e-12)
    np.testing.assert_allclose(later.window.weight, state.window.weight / 2, rtol=1e-12)
    # in one go or in many
    step_by_step = state
    for _ in range(64):
        step_by_step = fade(step_by_step, 1, how)
    np.testing.assert_allclose(step_by_step.franchise.table_mass, later.franchise.table_mass, rtol=1e-9)
    # the statistics never fade
    for value, old in zip(later.dishes, state.dishes, strict=True):
        np.testing.assert_array_equal(value, old)


def test_seats_never_fade_with_an_infinite_half_life():
    world = make_world()
    state, _ = run(world, Settings(window=10, half_life=np.inf), batches=5)
    f = state.franchise
    np.testing.assert_array_equal(f.table_mass, np.round(f.table_mass))
    assert f.table_mass.sum() == f.seated.sum() == state.seen
    assert (state.window.weight == 1.0).all()
    assert (f.table_founder == 1.0).all()


def test_effective_number_of_seats_is_bounded():
    world = make_world()
    state, _ = run(world, Settings(window=30, half_life=50.0), batches=40)
    # 30 a batch, each batch fading by 2^(-30/50) from its own end on
    fade = 0.5 ** (30 / 50)
    assert state.franchise.table_mass.sum() == pytest.approx(30 * fade / (1 - fade), rel=0.03)  # but for the cleared


def far_batch(world: World, state: StreamState, how: Settings, seed: int, size: int) -> StreamState:
    """A batch of known instances only."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([block[rng.integers(len(block), size=size // 2)] for block in world.blocks])
    return library.step(world.known, world.frozen, state, rows, rng, how)[0]


def test_faded_tables_are_cleared_and_their_subclass_goes_unless_it_is_held():
    world = make_world()
    how = Settings(window=0, half_life=20.0)
    rng = np.random.default_rng(0)
    novel = rng.normal(scale=0.5, size=(15, 2)) + np.array([0.0, 15.0])
    start = library.open_stream(world.known, world.frozen)
    state, result = library.step(world.known, world.frozen, start, novel, rng, how)
    main = int(np.bincount(result.subclass[result.subclass >= 0]).argmax())
    assert main in state.ids
    for held in (True, False):
        later = edit.hold(state, {main} if held else set())
        statistics = later.dishes.matrix[later.ids == main].copy()
        size = int(later.dishes.size[later.ids == main][0])
        for b in range(15):
            later = far_batch(world, later, how, b, 20)
        f = later.franchise
        assert (f.table_mass >= franchise.CLEARED_BELOW).all()
        assert (main in later.ids) == held
        if not held:
            continue
        slot = int(np.flatnonzero(later.ids == main)[0])
        assert f.menu[2 + slot] == 0.0
        assert not f.seated[0, 2 + slot]
        np.testing.assert_array_equal(later.dishes.matrix[[slot]], statistics)  # exact, never faded
        assert main not in edit.hold(later, set()).ids  # let go without a table: gone, slot and all
        # a class that returns is recognised under its old number
        again, result = library.step(
            world.known, world.frozen, later, novel[:5] + 0.05, np.random.default_rng(9), how
        )
        assert (result.subclass == main).all()
        assert again.dishes.size[again.ids == main] == size + 5


def test_model_does_not_age():
    """Known seats that grow for ever drive the prior odds of anything new to nothing; fading seats do not."""
    world = make_world()
    novel = np.array([[0.0, 4.0]])
    chance = {}
    for half_life in (200.0, np.inf):
        how = Settings(sweeps=1, window=0, half_life=half_life)
        state = library.open_stream(world.known, world.frozen)
        chances = []
        for b in range(120):
            state = far_batch(world, state, how, b, 200)
            probability = library.immediate(world.known, world.frozen, state, novel)[0, 2]
            chances.append(probability / (1 - probability))
        chance[half_life] = chances
    early = np.mean(chance[200.0][:40])
    assert np.mean(chance[200.0][-40:]) > 0.6 * early
    assert np.mean(chance[np.inf][-40:]) < 0.15 * early

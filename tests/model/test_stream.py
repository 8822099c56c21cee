"""The micro-batch step: seats, the state after it, and fading."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_osr.model import edit, restaurants
from stream_osr.model import sampler as library
from stream_osr.model.known import Densities, Known, densities, log_class_densities
from stream_osr.model.prior import homogeneous
from stream_osr.model.restaurants import CLOSED, Franchise, StreamState
from stream_osr.model.restaurants import fade as fade_seats
from stream_osr.model.sampler import BatchResult, Settings
from tests.blobs import menu_weights
from tests.model.immediate import immediate
from tests.model.problems import Problem, assert_equal, check_counts, known_of, make_base
from tests.oracles import niw
from tests.oracles import stream as oracle
from tests.tiers import examples


class World(NamedTuple):
    """Two known classes at -4 and 4 on the first axis, with a standard deviation of 1."""

    known: Known
    frozen: Densities
    base: niw.BaseMeasure
    blocks: list[np.ndarray]

    def step(self, state: StreamState, rows: np.ndarray, seed: object, how: Settings, **given: Any):
        return library.step(self.known, self.frozen, state, rows, np.random.default_rng(seed), how, **given)

    def open(self) -> StreamState:
        return library.open_stream(self.known, self.frozen)


def make_world(gamma: float = 30.0) -> World:
    rng, (prior, base) = np.random.default_rng(0), make_base(2, nu=5.0, psi=2.0, beta=0.02)
    blocks = [rng.normal(size=(40, 2)) + np.array([centre, 0.0]) for centre in (-4.0, 4.0)]
    known = known_of(prior, blocks, [0, 1], [30.0, 20.0], gamma=gamma)
    return World(known, densities(known), base, blocks)


def draw_stream(seed: int, n: int, novel: int = 1) -> np.ndarray:
    """Rows of the known classes, and of new ones some way off along the second axis."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 8.0], [0.0, 12.0]])[: 2 + novel]
    return rng.normal(scale=0.8, size=(n, 2)) + centres[rng.integers(len(centres), size=n)]


class Follower:
    """Follows a stream from outside: the subclass of each instance, by the results of the steps alone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = world.open()
        self.rows = np.empty((0, world.known.prior.n_features))
        self.subclass = np.empty(0, np.int64)
        self.retired: set[int] = set()

    def step(self, rows: np.ndarray, seed: object, settings: Settings) -> BatchResult:
        before, first = self.state, self.state.seen
        old_members = {k: set(np.flatnonzero(self.subclass == k).tolist()) for k in before.ids.tolist()}
        self.state, result = self.world.step(before, rows, seed, settings)
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
        """A number is used once, and kept only while an instance that had it still has it."""
        now = set(self.state.ids.tolist())
        assert len(now) == len(self.state.ids)
        assert not now & (self.retired | set(self.world.known.ids.tolist()))
        for k in now:
            if k in old_members:
                still = set(np.flatnonzero(self.subclass == k).tolist())
                assert still & old_members[k], f"subclass {k} has other instances"
            else:
                assert k >= before.next_id
        assert all(k < self.state.next_id for k in now)
        self.retired |= set(before.ids.tolist()) - now

    def check(self) -> None:
        """Recount the state: seats from the window and the settled weights, statistics from all members."""
        state, known = self.state, self.world.known
        n_classes, live = len(known.size), self.subclass.copy()
        live[state.window_seq] = -2  # those in the window are counted as guests
        parts = state.window, state.franchise, state.dishes, np.empty((len(state.window.table), n_classes))
        problem = Problem(known.prior, self.world.base, *parts, [self.rows[live == k] for k in state.ids])
        trained = np.zeros(len(state.franchise.menu))
        trained[:n_classes] = self.world.frozen.menu
        assert len(state.franchise.menu) == n_classes + len(state.ids)
        check_counts(problem, trained)
        np.testing.assert_array_equal(state.dishes.size, [(self.subclass == k).sum() for k in state.ids])
        assert (state.franchise.table_dish != CLOSED).all(), "slots not in use are dropped"
        assert not state.franchise.overflow[0]
        assert ((state.franchise.table_founder > 0) & (state.franchise.table_founder <= 1)).all()
        served = state.franchise.table_dish[state.window.table] - n_classes
        expected = np.array([-1, *state.ids])[np.maximum(served, -1) + 1]
        np.testing.assert_array_equal(self.subclass[state.window_seq], expected)


@examples(25)
@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=6),
    how=st.builds(
        Settings,
        sweeps=st.integers(0, 4),
        window=st.sampled_from([0, 1, 7, 256]),
        half_life=st.sampled_from([1.5, 10.0, 200.0, np.inf]),
        settles=st.booleans(),
    ),
    gamma=st.sampled_from([2.0, 30.0]),
    hold=st.booleans(),
)
def test_counts_agree_with_a_recount_after_every_step(seed, sizes, how, gamma, hold):
    follower = Follower(make_world(gamma))
    for batch, size in enumerate(sizes):
        result = follower.step(draw_stream(seed + batch, size, novel=2), [seed, batch], how)
        follower.check()
        assert how.settles or len(follower.state.window_seq) == min(how.window, follower.state.seen)
        assert follower.state.batches == batch + 1
        assert result.probabilities.shape == (size, 3)
        assert (result.probabilities >= 0).all()
        np.testing.assert_allclose(result.probabilities.sum(axis=1), 1.0, rtol=0, atol=1e-9)
        if hold:
            follower.hold(set(follower.state.ids[::2].tolist()))
            follower.check()


def copy_of(state: StreamState) -> list[np.ndarray]:
    parts = [*state.franchise, *state.dishes, *state.window, state.ids, state.window_seq]
    return [np.array(v, copy=True) for v in (*parts, state.batches, state.seen, state.next_id)]


def run(world: World, how: Settings, batches=4, size=30, seed=0) -> tuple[StreamState, list[BatchResult]]:
    state, results = world.open(), []
    for b in range(batches):
        state, result = world.step(state, draw_stream(seed + b, size), [seed, b], how)
        results.append(result)
    return state, results


def test_step_is_a_function_of_state_rows_and_randomness():
    world = make_world()
    state, _ = run(world, Settings(window=20))
    before, rows = copy_of(state), draw_stream(50, 25)
    (one, result), (again, same) = (world.step(state, rows, 5, Settings()) for _ in range(2))
    assert_equal(copy_of(state), before)
    assert_equal(copy_of(one), copy_of(again))
    assert_equal(result[:-1], same[:-1])
    log_density, responsible = log_class_densities(world.known, world.frozen, homogeneous(rows))
    np.testing.assert_allclose(result.log_density, log_density, rtol=1e-12)
    np.testing.assert_array_equal(result.responsible, responsible)


def test_densities_of_the_window_are_carried_over_while_they_are_valid(monkeypatch):
    world, computed, of_rows = make_world(), [], library.log_densities
    other = world.frozen._replace(log_weight=world.frozen.log_weight - 1.0)
    other = other._replace(student_terms=other.student_terms._replace(head=other.student_terms.head - 1.0))
    monkeypatch.setattr(library, "log_densities", lambda *given: computed.append(len(given[2])) or of_rows(*given))
    state, carried = world.open(), None
    for b, frozen in enumerate([world.frozen, world.frozen, other, other, world.frozen]):
        rows, first = draw_stream(b, 30), len(state.window.rows)
        gain = np.linspace(0.1, 0.5, first + 30) if b in (0, 2) else None  # belongs to one batch

        (again, same), (state, result) = (
            world._replace(frozen=frozen).step(state, rows, b, Settings(window=40), gain=gain, carried=densities_of)
            for densities_of in (None, carried)
        )
        assert_equal(copy_of(state), copy_of(again))
        for name in ("log_density", "log_density_new", "responsible", "window_log_density", "probabilities"):
            np.testing.assert_array_equal(getattr(result, name), getattr(same, name))
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
        rows = draw_stream(seed, 60, novel=2)
        (late, result), (early, same) = (
            world.step(state, rows, seed, Settings(settles=settles)) for settles in (False, True)
        )
        np.testing.assert_array_equal(result.probabilities, same.probabilities)
        np.testing.assert_allclose(late.franchise.seated, early.franchise.seated)
        gone = ~np.isin(late.window_seq, early.window_seq)
        subclass = np.concatenate([same.window_subclass, same.subclass])[-len(gone) :][gone]
        assert all(state.dishes.size[state.ids == key].sum() >= library.ESTABLISHED for key in subclass.tolist())
        left += len(subclass)
    assert left > 50


def test_running_out_of_slots_changes_nothing(monkeypatch):
    world, seat_batch, tries, outcomes = make_world(gamma=300.0), library.seat_batch, [], []
    monkeypatch.setattr(library, "seat_batch", lambda *arguments: tries.append(1) or seat_batch(*arguments))
    monkeypatch.setattr(library, "INSTANCES_PER_SLOT", 10**9)
    for spare in (1, 500):
        monkeypatch.setattr(library, "SPARE", spare)
        tries.clear()
        outcomes.append(run(world, Settings(half_life=np.inf), batches=3))
        assert (len(tries) > 3) == (spare == 1)
    (few, few_results), (many, many_results) = outcomes
    assert_equal(copy_of(few), copy_of(many))
    for one, other in zip(few_results, many_results, strict=True):
        assert_equal(one[:-1], other[:-1])


# Identities


def test_slot_opened_again_is_a_new_subclass_and_moved_instances_are_reported():
    # one novel instance founds a subclass; then crowds settle elsewhere: it dies, and its slot is founded afresh
    moved = 0
    for seed in range(60):
        follower, rng = Follower(make_world(gamma=100.0)), np.random.default_rng(seed)
        for b in range(6):
            rows = rng.normal(scale=1.2, size=(6, 2)) * np.array([4.0, 1.0])
            moved += len(follower.step(rows, [seed, b], Settings(sweeps=3, window=4, half_life=np.inf)).moved)
        follower.check()
    assert moved > 0


# Probabilities


@pytest.mark.parametrize("half_life", [np.inf, 30.0])
def test_immediate_probabilities_are_the_predictive_rule(half_life):
    world = make_world()
    follower = Follower(world)
    for b in range(3):
        follower.step(draw_stream(b, 20), b, Settings(window=15, half_life=half_life))
    state, f, rows = follower.state, follower.state.franchise, draw_stream(77, 8)
    before = copy_of(state)
    found = immediate(world.known, world.frozen, state, rows)
    assert_equal(copy_of(state), before)
    log_known, _ = log_class_densities(world.known, world.frozen, homogeneous(rows))
    past = oracle.StreamState(
        base=world.base,
        alpha=float(f.alpha[0]),
        gamma=float(f.gamma[0]),
        known_weights=f.menu[:2].tolist(),
        emerging_rows=[follower.rows[follower.subclass == k] for k in state.ids],
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
        expected = immediate(world.known, world.frozen, state, row)
        _, result = world.step(state, row, 0, Settings(sweeps=0))
        np.testing.assert_allclose(result.probabilities, expected, rtol=1e-12, atol=1e-15)


# Fading


def fade(state: StreamState, arrived: int, how: Settings) -> StreamState:
    """What the end of a step does after `arrived` instances, without new instances."""
    tables = Franchise(*(v.copy() for v in state.franchise))
    stays = np.arange(len(state.window.weight)) >= len(state.window.weight) - how.window
    window = fade_seats(tables, state.window, stays, 0.5 ** (arrived / how.half_life))
    return edit.rewrite(state, tables, window=window, window_seq=state.window_seq[stays])


@pytest.mark.parametrize("window", [0, 20, 256])
def test_seats_weigh_half_after_the_half_life(window):
    how = Settings(window=window, half_life=64.0)
    state, _ = run(make_world(), how._replace(half_life=np.inf), batches=1, size=60)
    later = fade(state, 64, how)
    for name in ("table_mass", "table_founder", "seated"):
        np.testing.assert_allclose(getattr(later.franchise, name), getattr(state.franchise, name) / 2, rtol=1e-12)
    np.testing.assert_allclose(later.window.weight, state.window.weight / 2, rtol=1e-12)
    step_by_step = state
    for _ in range(64):
        step_by_step = fade(step_by_step, 1, how)
    np.testing.assert_allclose(step_by_step.franchise.table_mass, later.franchise.table_mass, rtol=1e-9)
    assert_equal(later.dishes, state.dishes)  # the statistics never fade


def test_seats_never_fade_with_an_infinite_half_life_and_are_bounded_with_another():
    state, _ = run(make_world(), Settings(window=10, half_life=np.inf), batches=5)
    f = state.franchise
    np.testing.assert_array_equal(f.table_mass, np.round(f.table_mass))
    assert f.table_mass.sum() == f.seated.sum() == state.seen
    assert (state.window.weight == 1.0).all()
    assert (f.table_founder == 1.0).all()
    state, _ = run(make_world(), Settings(window=30, half_life=50.0), batches=40)
    left = 0.5 ** (30 / 50)  # of a batch of 30, from its own end on
    assert state.franchise.table_mass.sum() == pytest.approx(30 * left / (1 - left), rel=0.03)  # but for the cleared


def far_batch(world: World, state: StreamState, how: Settings, seed: int, size: int) -> StreamState:
    """A batch of known instances only."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([block[rng.integers(len(block), size=size // 2)] for block in world.blocks])
    return world.step(state, rows, rng, how)[0]


def test_faded_tables_are_cleared_and_their_subclass_goes_unless_it_is_held():
    world = make_world()
    how, rng = Settings(window=0, half_life=20.0), np.random.default_rng(0)
    novel = rng.normal(scale=0.5, size=(15, 2)) + np.array([0.0, 15.0])
    state, result = world.step(world.open(), novel, rng, how)
    main = int(np.bincount(result.subclass[result.subclass >= 0]).argmax())
    assert main in state.ids
    for held in (True, False):
        later = edit.hold(state, {main} if held else set())
        statistics = later.dishes.matrix[later.ids == main].copy()
        size = int(later.dishes.size[later.ids == main][0])
        for b in range(15):
            later = far_batch(world, later, how, b, 20)
        f = later.franchise
        assert (f.table_mass >= restaurants.CLEARED_BELOW).all()
        assert (main in later.ids) == held
        if not held:
            continue
        slot = int(np.flatnonzero(later.ids == main)[0])
        assert f.menu[2 + slot] == 0.0
        assert not f.seated[0, 2 + slot]
        np.testing.assert_array_equal(later.dishes.matrix[[slot]], statistics)  # exact, never faded
        assert main not in edit.hold(later, set()).ids  # let go without a table: gone, slot and all
        # a class that returns is recognised under its old number
        back = novel[:5] + 0.05
        again, result = world.step(later, back, 9, how)
        assert (result.subclass == main).all()
        assert again.dishes.size[again.ids == main] == size + 5

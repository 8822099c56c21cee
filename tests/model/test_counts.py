"""Edits of the state: after each the counts are those of a slow ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from stream_osr.model import class_edits, edit, known, prior, student_t
from stream_osr.model.dish_statistics import Dishes
from stream_osr.model.restaurants import ANYONE, Guests, StreamState, derive, empty_franchise
from tests.model.problems import assert_equal, fill, make_base
from tests.oracles.counts import Ledger, Table

MOST = 60
"""Instances that have arrived; those from number 40 on are in the window."""


class Pair:
    """A state of the library and the slow ledger of the same stream."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.prior: prior.Prior = make_base(2)[0]
        self.rows = self.rng.normal(scale=2.0, size=(MOST + 100, 2))
        self.strangers = iter(range(MOST, MOST + 100))  # instances in the statistics of a subclass only
        ids = (5 + self.rng.permutation(10)[: int(self.rng.integers(1, 5))]).tolist()
        self.ledger = Ledger([4.0, 2.0], [], {key: [] for key in ids}, set(), next_id=20)
        dishes = self.ledger.dishes()
        for _ in range(int(self.rng.integers(1, 8))):
            self.ledger.tables += [Table(int(self.rng.choice(dishes)), float(self.rng.uniform(0.1, 3.0)), 0.2)]
        for seq in range(MOST):
            home = int(self.rng.choice(dishes))
            if home >= 0:
                self.ledger.members[home].append(seq)
            if seq >= MOST - 20:
                tables = self.ledger.tables_of(home)
                if not tables or self.rng.random() < 0.2:
                    tables = [Table(home, float(self.rng.integers(2)), 0.5)]
                    self.ledger.tables += tables
                tables[int(self.rng.integers(len(tables)))].guests[seq] = float(self.rng.uniform(0.2, 1.0))
        self.ledger.members[4] = [next(self.strangers) for _ in range(5)]  # all of its instances have settled
        self.ledger.tables += [Table(4, 0.7, 0.1), Table(4, 0.3)]
        self.ledger.hold([key for key in [4, *ids] if self.ledger.members[key] and self.rng.random() < 0.5])
        self.ledger.drop([key for key in self.ledger.members if not self.ledger.members[key]])
        self.state = derive(self.without_counts(), np.array(self.ledger.trained))

    def without_counts(self) -> StreamState:
        """The ledger as a state with right tables and held dishes; its menu, seats and totals are empty."""
        ledger, tables = self.ledger, self.ledger.tables
        dishes = ledger.dishes()
        seats = sorted((seq, at) for at, table in enumerate(tables) for seq in table.guests)
        counts = empty_franchise(1, len(dishes), len(tables), 1.0, 3.0)._replace(
            held=np.array([float(dish < 0 or dish in ledger.held) for dish in dishes]),
            table_dish=np.array([dishes.index(t.serves) for t in tables], np.int64),
            table_group=np.zeros(len(tables), np.int64),
            table_live=np.array([len(t.guests) for t in tables], np.int64),
            table_residual=np.array([t.settled for t in tables]),
            table_mass=np.array([t.mass for t in tables]),
            table_founder=np.array([t.founder for t in tables]),
        )
        seqs, at = np.array([seq for seq, _ in seats], np.int64), np.array([at for _, at in seats], np.int64)
        weight = np.array([tables[at].guests[seq] for seq, at in seats])
        window = Guests(prior.homogeneous(self.rows[seqs]), np.zeros(len(seats), np.int64), weight, at)
        ids = np.array(list(ledger.members), np.int64)
        return StreamState(counts, self.statistics(), ids, window, seqs, 3, MOST, ledger.next_id)

    def statistics(self) -> Dishes:
        return fill(self.prior, [self.rows[members] for members in self.ledger.members.values()])

    def check(self) -> None:
        state, ledger, counts = self.state, self.ledger, self.state.franchise
        dishes, tables = ledger.dishes(), ledger.tables
        assert state.ids.tolist() == list(ledger.members)
        assert state.next_id == ledger.next_id
        exact = {
            "held": [float(dish < 0 or dish in ledger.held) for dish in dishes],
            "menu": [ledger.menu(dish) for dish in dishes],
            "total": [ledger.total()],
            "extent": [len(dishes), len(tables)],
            "overflow": [0, 0],
            "owner": [ANYONE] * len(dishes),
            "table_dish": [dishes.index(t.serves) for t in tables],
            "table_live": [len(t.guests) for t in tables],
        }
        for name, expected in exact.items():
            assert getattr(counts, name).tolist() == expected, name
        seated = [[ledger.seated(dish) for dish in dishes]]
        near = {
            "seated": seated,
            "table_residual": [t.settled for t in tables],
            "table_mass": [t.mass for t in tables],
        }
        for name, expected in near.items():
            np.testing.assert_allclose(getattr(counts, name), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(counts.table_founder, [t.founder for t in tables], rtol=1e-9)
        seats = sorted((seq, at, t.guests[seq]) for at, t in enumerate(tables) for seq in t.guests)
        assert state.window_seq.tolist() == [seq for seq, _, _ in seats]
        assert state.window.table.tolist() == [at for _, at, _ in seats]
        np.testing.assert_allclose(state.window.weight, [weight for _, _, weight in seats], rtol=1e-12)
        np.testing.assert_array_equal(state.window.rows[:, :-1], self.rows[state.window_seq])
        fresh = self.statistics()
        np.testing.assert_array_equal(state.dishes.size, fresh.size)
        np.testing.assert_allclose(state.dishes.matrix, fresh.matrix, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(state.dishes.inverse, fresh.inverse, rtol=1e-6, atol=1e-8)

    # Edits; False: this one is impossible now

    def key(self) -> int:
        return int(self.rng.choice(list(self.ledger.members)))

    def some(self, key: int, most: int) -> list[int]:
        return self.rng.permutation(self.ledger.members[key])[:most].tolist()

    def merge(self) -> bool:
        if len(self.ledger.members) < 2:
            return False
        older, younger = self.rng.permutation(list(self.ledger.members))[:2].tolist()
        self.ledger.merge(older, younger)
        self.state = edit.merge(self.state, older, younger, self.prior)
        return True

    def split(self) -> bool:
        key = self.key()
        going = self.some(key, len(self.ledger.members[key]) // 2)
        if not going:
            return False
        self.hold_these(self.ledger.members)
        self.ledger.split(key, going)
        self.state = edit.split(self.state, key, self.rows[going], np.array(going), self.prior)
        return True

    def hold_these(self, keys: Iterable[int]) -> None:
        self.ledger.hold(keys)
        self.state = edit.hold(self.state, keys)

    def hold(self) -> bool:
        keys = {key for key in self.ledger.members if self.rng.random() < 0.5} | {99}
        if not any(key in keys or self.ledger.tables_of(key) for key in self.ledger.members):
            return False
        self.hold_these(keys)
        return True

    def insert(self) -> bool:
        key = self.ledger.next_id + 7
        if key in self.ledger.members:
            return False
        has = [next(self.strangers) for _ in range(3)]
        self.ledger.insert(key, has)
        self.state = edit.insert(self.state, key, fill(self.prior, [self.rows[has]]))
        return True

    def drop(self) -> bool:
        quiet = [key for key in self.ledger.members if not any(t.guests for t in self.ledger.tables_of(key))]
        if not quiet or len(self.ledger.members) == len(quiet):
            return False
        slots = np.array([edit.slot_of(self.state, key) for key in quiet])
        self.ledger.drop(quiet)
        self.state = edit.drop(self.state, slots)
        return True

    def rename(self) -> bool:
        key, now = self.key(), self.ledger.next_id
        self.ledger.members = {now if k == key else k: seqs for k, seqs in self.ledger.members.items()}
        self.ledger.held = {now if k == key else k for k in self.ledger.held}
        self.ledger.serve(key, now)
        self.ledger.next_id += 1
        self.state = edit.rename(self.state, key, now)._replace(next_id=self.ledger.next_id)
        return True

    def home(self, seq: int) -> int:
        return next((key for key, seqs in self.ledger.members.items() if seq in seqs), -1)

    def withdraw(self) -> bool:
        """Take an instance out, and perhaps put it back at its table."""
        seq = int(self.rng.integers(MOST))
        key, weight = self.home(seq), float(self.rng.uniform(0.0, 0.5))
        if sum(map(len, self.ledger.members.values())) == 1:
            return False
        seat = edit.seat_of(self.state, seq, key, weight)
        table = self.ledger.table_of(seq)
        assert (seat.subclass, seat.live) == (key, table is not None)
        if table is not None:
            assert seat.weight == pytest.approx(table.guests[seq])
            assert seat.alone == (table.mass == table.guests[seq])
        self.ledger.withdraw(seq, key, weight)
        self.state = edit.withdraw(self.state, self.rows[seq], seq, key, weight, self.prior)
        self.check()
        there = seat.subclass in self.ledger.members if seat.subclass >= 0 else seat.j >= 0
        if there and self.rng.random() < 0.7:
            live = seat.live and self.rng.random() < 0.7
            self.ledger.put_back(seq, seat.subclass, seat.j, seat.weight, live, seat.alone)
            self.state = edit.put_back(self.state, self.rows[seq], seq, seat, seat.weight, live, self.prior)
        return bool(self.ledger.members)

    def gather(self) -> bool:
        self.hold_these(self.ledger.members)
        seqs = self.rng.permutation(MOST)[:6].tolist()
        homes = [self.home(seq) for seq in seqs]
        if any(homes.count(key) == len(own) for key, own in self.ledger.members.items()):
            return False
        weights, has = self.rng.uniform(0.0, 0.5, len(seqs)), [next(self.strangers), next(self.strangers)]
        self.ledger.gather(seqs, homes, weights.tolist(), has)
        own, rows = fill(self.prior, [self.rows[has]]), self.rows[seqs]
        self.state = edit.gather_seats(self.state, own, rows, np.array(seqs), np.array(homes), weights, self.prior)
        return True

    def adopt(self) -> bool:
        """Give the tables of one subclass to a class, by other numbers."""
        if len(self.ledger.members) < 2:
            return False
        key, j = self.key(), int(self.rng.integers(len(self.ledger.trained)))
        number, held = np.arange(len(self.state.franchise.menu)), self.state.franchise.held.copy()
        at = edit.classes_of(self.state) + edit.slot_of(self.state, key)
        number[at], held[at] = j, 0.0
        self.ledger.adopt([key], j)
        self.state = edit.renumber(self.state, number, held, np.array(self.ledger.trained))
        return True

    def refresh_classes(self) -> bool:
        self.ledger.trained[0] += 1.0
        if self.rng.random() < 0.5:
            self.ledger.trained.append(1.0)
        nothing: Any = np.zeros(0)
        terms = student_t.StudentTerms(*[nothing] * 7)
        self.state = class_edits.refresh_classes(
            self.state, known.Densities(terms, nothing, np.array(self.ledger.trained))
        )
        return True


EDITS = ("merge", "split", "hold", "insert", "drop", "rename", "withdraw", "gather", "adopt", "refresh_classes")


def test_counts_are_the_ledgers_after_every_edit() -> None:
    done: Counter[str] = Counter()
    for seed in range(40):
        pair = Pair(seed)
        pair.check()
        for name in pair.rng.permutation(EDITS)[:8].tolist():
            if not pair.ledger.members:
                break
            old = pair.state
            arrays = *old.franchise, *old.window, old.ids, *old.dishes
            before = [array.copy() for array in arrays]
            done[name] += getattr(pair, name)()
            pair.check()
            assert_equal(arrays, before)  # an edit does not change its argument
    assert min(done[name] for name in EDITS) >= 3


def test_subclass_goes_with_its_last_instance() -> None:
    pair = Pair(3)
    key = next(iter(pair.ledger.members))
    for seq in list(pair.ledger.members[key]):
        pair.ledger.withdraw(seq, key, 0.2)
        pair.state = edit.withdraw(pair.state, pair.rows[seq], seq, key, 0.2, pair.prior)
        pair.check()
    assert key not in pair.state.ids


def test_known_classes_are_seated_in_their_shares() -> None:
    pair = Pair(0)
    pair.ledger.adopt(list(pair.ledger.members), 0)
    pair.ledger.tables.clear()
    state = derive(pair.without_counts(), np.array([4.0, 2.0]))
    seated = edit.seat_classes(state, np.array([30.0, 20.0]))
    pair.ledger.tables += [Table(-1, 30.0), Table(-2, 20.0)]
    pair.state = seated
    pair.check()
    assert seated.franchise.menu.tolist() == [5.0, 3.0]

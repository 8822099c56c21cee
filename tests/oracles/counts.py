"""The counts of the stream from a list of tables with their guests; each edit changes that list.

A table serves a known class (``-1 - j``) or an emerging subclass (its identity). The counts follow from a walk
over the tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Table:
    """One table: what it serves, its settled seats, its founder's seat, its guests and what their seats weigh."""

    serves: int
    settled: float = 0.0
    founder: float = 0.0
    guests: dict[int, float] = field(default_factory=dict)

    @property
    def mass(self) -> float:
        return self.settled + sum(self.guests.values())


@dataclass
class Ledger:
    """Tables, held subclasses, and the instances of each subclass (positions in the stream)."""

    trained: list[float]
    tables: list[Table]
    members: dict[int, list[int]]
    held: set[int]
    next_id: int

    def menu(self, dish: int) -> float:
        """Tables that serve the dish, trained ones included."""
        return sum(t.serves == dish for t in self.tables) + (self.trained[-1 - dish] if dish < 0 else 0.0)

    def seated(self, dish: int) -> float:
        return sum(t.mass for t in self.tables if t.serves == dish)

    def weight(self, dish: int) -> float:
        """What the dish counts for on the menu: a known class is always held."""
        return max(self.menu(dish), float(dish < 0 or dish in self.held))

    def total(self) -> float:
        return sum(self.weight(dish) for dish in self.dishes())

    def dishes(self) -> list[int]:
        return [*(-1 - j for j in range(len(self.trained))), *self.members]

    def tables_of(self, dish: int) -> list[Table]:
        return [t for t in self.tables if t.serves == dish]

    def table_of(self, seq: int) -> Table | None:
        return next((t for t in self.tables if seq in t.guests), None)

    def let_go(self) -> None:
        """Forget the subclasses without tables that are not held."""
        self.members = {key: seqs for key, seqs in self.members.items() if self.weight(key) > 0}
        self.held &= set(self.members)

    # Edits

    def serve(self, dish: int, now: int) -> None:
        """Let the tables of one dish serve another."""
        for table in self.tables_of(dish):
            table.serves = now

    def merge(self, older: int, younger: int) -> None:
        self.serve(younger, older)
        self.members[older] = self.members[older] + self.members.pop(younger)
        if younger in self.held:
            self.held = (self.held - {younger}) | {older}

    def split(self, key: int, seqs: Iterable[int]) -> None:
        going = list(seqs)
        share = len(going) / len(self.members[key])
        own = Table(self.next_id)
        for table in self.tables_of(key):
            own.settled += share * table.settled
            table.settled *= 1.0 - share
        for seq in going:
            table = self.table_of(seq)
            if table is not None:
                own.guests[seq] = table.guests.pop(seq)
        self.tables = [t for t in self.tables if t.serves != key or t.guests or t.settled > 0.0]
        self.tables += [own] if own.guests or own.settled > 0.0 else []
        self.members[key] = [seq for seq in self.members[key] if seq not in going]
        self.insert(self.next_id, going)
        self.next_id += 1
        self.let_go()

    def insert(self, key: int, seqs: Iterable[int]) -> None:
        self.members[key] = list(seqs)
        self.held.add(key)

    def drop(self, keys: Iterable[int]) -> None:
        for key in keys:
            self.tables = [t for t in self.tables if t.serves != key]
            self.members.pop(key)
            self.held.discard(key)

    def hold(self, keys: Iterable[int]) -> None:
        self.held = set(keys) & set(self.members)
        self.let_go()

    def stand_up(self, seq: int, key: int, weight: float) -> float:
        """Free the seat of a guest, or a part of the subclass's largest table; return its weight.

        ``key`` is -1 where no emerging subclass has the instance.
        """
        table = self.table_of(seq)
        if table is not None:
            weight = table.guests.pop(seq)
            if not table.guests and table.settled == 0.0:
                self.tables = [t for t in self.tables if t is not table]
            return weight
        tables = self.tables_of(key) if key >= 0 else []
        if not tables:
            return 0.0
        table = max(tables, key=lambda t: t.settled)
        weight = min(weight, table.settled)
        table.settled -= weight
        return weight

    def withdraw(self, seq: int, key: int, weight: float) -> None:
        self.stand_up(seq, key, weight)
        if key in self.members:
            self.members[key].remove(seq)
            if not self.members[key]:
                self.drop([key])
        self.let_go()

    def gather(self, seqs: Iterable[int], homes: Iterable[int], weights: Iterable[float], has: Iterable[int]) -> None:
        """``has`` are the instances in the statistics of the new subclass, whichever instances are known."""
        own = Table(self.next_id)
        for seq, home, weight in zip(seqs, homes, weights, strict=True):
            live = self.table_of(seq) is not None
            freed = self.stand_up(seq, home, weight)
            if live:
                own.guests[seq] = freed
            else:
                own.settled += freed
            if home in self.members:
                self.members[home].remove(seq)
        own.founder = own.mass
        self.tables += [own] if own.mass > 0.0 else []
        self.insert(self.next_id, has)
        self.next_id += 1
        self.let_go()

    def put_back(self, seq: int, key: int, j: int, weight: float, live: bool, alone: bool) -> None:
        dish = key if key >= 0 else -1 - j
        if key >= 0:
            self.members[key].append(seq)
        if not (live or weight > 0.0):
            return
        tables = self.tables_of(dish)
        if alone or not tables:
            tables = [Table(dish, founder=weight)]
            self.tables += tables
        table = max(tables, key=lambda t: t.mass)
        if live:
            table.guests[seq] = weight
        else:
            table.settled += weight

    def adopt(self, keys: Iterable[int], j: int) -> None:
        """Let the tables of these subclasses serve a known class."""
        for key in keys:
            self.serve(key, -1 - j)
        self.drop(keys)

"""Recognizers by key: the results of a key are those of a recognizer of its own, whatever stays in memory."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import Keyed, OpenSetRecognizer, SubclassEmerged, TrainedModel
from stream_osr.config import grouped
from stream_osr.errors import InvalidFeature, InvalidParameter, PersistenceError, RefusedState
from stream_osr.keys.key_streams import stored_name
from stream_osr.support.state_store import FolderStore, StoredState
from tests.blobs import ended, fitted, further, stream_part

ARGUMENTS = grouped(batch_size=16, chains=2, sweeps=3)
SMALL = 300_000
"""Memory for two recognizers or three."""

Row = tuple[str, dict[str, float], float]


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted(**ARGUMENTS).trained


def rows(n: int, keys: int = 7, seed: int = 0) -> list[Row]:
    """Instances of several keys, of some much more often than of others."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, keys + 1)
    by = rng.choice(keys, size=n, p=weight / weight.sum())
    return [
        (f"k{k}", x, float(at)) for at, (k, (x, _)) in enumerate(zip(by.tolist(), stream_part(n, seed), strict=True))
    ]


Results = dict[str, tuple[list[Any], list[Any]]]


def alone(trained: TrainedModel, part: Iterable[Row], **arguments: Any) -> Results:
    """The results of a recognizer for each key."""
    models: dict[str, OpenSetRecognizer] = {}
    for by, x, t in part:
        if by not in models:
            models[by] = OpenSetRecognizer.from_trained(trained, **{**ARGUMENTS, **arguments})
        models[by].learn_one(x, t=t, key=t)
    return {by: (ended(model), list(model.drain_events())) for by, model in models.items()}


@pytest.fixture(scope="module")
def each_alone(trained: TrainedModel) -> Callable[..., Results]:
    """What :func:`alone` returns for a number of rows, computed once; not to be changed."""

    @cache
    def of(n: int, *arguments: tuple[str, Any]) -> Results:
        return alone(trained, rows(n), **grouped(**dict(arguments)))

    return of


def results(keyed: Keyed) -> Results:
    out: Results = defaultdict(lambda: ([], []))
    for by, decision in keyed.drain():
        out[by][0].append(decision)
    for by, event in keyed.drain_events():
        out[by][1].append(event)
    return dict(out)


PLAIN, DELAYED, WAITING = (), (("decision_delay", 5),), (("max_wait", 12.0),)


@pytest.mark.parametrize(
    ("memory", "arguments"),
    [(SMALL, WAITING), *further((1, PLAIN), (SMALL, DELAYED), (1 << 30, PLAIN), (1, WAITING))],
)
def test_a_key_has_the_results_of_a_recognizer_of_its_own(
    trained: TrainedModel, each_alone: Callable[..., Results], memory: int, arguments: Any
) -> None:
    keyed = Keyed(trained, memory=memory, **ARGUMENTS, **grouped(**dict(arguments)))
    for by, x, t in rows(450):
        keyed.learn_one(x, by=by, t=t, key=t)
    keyed.flush()
    assert results(keyed) == each_alone(450, *arguments)
    assert keyed.loaded == 0 if memory == 1 << 30 else keyed.loaded > 10


@pytest.mark.thorough
def test_labels_missing_values_and_names_reach_the_recognizer_of_the_key(trained: TrainedModel) -> None:
    keyed, models = Keyed(trained, memory=1, **ARGUMENTS), dict[str, OpenSetRecognizer]()
    named = set[str]()
    for at, (by, x, t) in enumerate(rows(600, keys=3)):
        model = models.setdefault(by, OpenSetRecognizer.from_trained(trained, **ARGUMENTS))
        row: dict[str, Any] = {**x, "a": None} if at % 9 == 0 else {**x, "more": 1.0} if at % 7 == 0 else x
        label = "left" if at % 11 == 0 and abs(x["a"]) < 3 and abs(x["b"]) < 3 else None
        keyed.learn_one(row, label, by=by, t=t, key=at)
        model.learn_one(row, label, t=t, key=at)
        life = model.value.stream.life
        ids = life.ids[life.emerged].tolist() if at % 20 == 19 and by not in named else []
        if ids:
            named.add(by)
            for each in (model, keyed[by]):
                each.promote(ids[:1], "found")
    assert named
    assert {by: dict(keyed[by].counters) for by in keyed} == {by: dict(m.counters) for by, m in models.items()}
    keyed.flush()
    assert results(keyed) == {by: (ended(model), list(model.drain_events())) for by, model in models.items()}


def test_rows_of_a_sleeping_key_wait_outside_its_recognizer(trained: TrainedModel) -> None:
    keyed = Keyed(trained, memory=1, **ARGUMENTS)
    for at, (x, _) in enumerate(stream_part(15 * 40)):
        keyed.learn_one(x, by=at % 40)
    assert keyed.loaded == keyed.stored == 0, "no batch has closed"
    assert not any(line.awake for line in keyed.summary())
    assert len(keyed) == 40


def test_a_quiet_key_closes_its_batch_in_time(trained: TrainedModel) -> None:
    keyed = Keyed(trained, memory=1, **{**ARGUMENTS, **grouped(max_wait=10.0)})
    for by, t in (("a", 0.0), ("b", 7.0), ("a", 3.0)):
        keyed.learn_one({"a": 1.0, "b": 0.5}, by=by, t=t, key=t)
    keyed.close_due(9.0)
    assert not list(keyed.drain())
    keyed.close_due(12.0)
    assert [(by, decision.key) for by, decision in keyed.drain()] == [("a", 0.0), ("a", 3.0)]


def test_the_table_of_keys_has_the_largest_share_of_unknown_first(trained: TrainedModel) -> None:
    keyed = Keyed(trained, **ARGUMENTS)
    rng = np.random.default_rng(3)
    for _ in range(96):
        keyed.learn_one(dict(zip("ab", rng.normal((4.0, 14.0)).tolist(), strict=True)), by="odd")
        keyed.learn_one(dict(zip("ab", rng.normal((0.0, 0.0)).tolist(), strict=True)), by=7)
    first, last = keyed.summary()
    assert (first.by, last.by, first.seen, first.decided) == ("odd", "7", 96, 96)
    assert first.unknown > 0.9 > 0.1 > last.unknown
    assert first.emerged == sum(
        isinstance(event, SubclassEmerged) for by, event in keyed.drain_events() if by == "odd"
    )
    assert keyed[7].pending == 0


def test_what_cannot_be_used_changes_nothing(trained: TrainedModel, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "states")
    keyed = Keyed(trained, memory=1, store=store, **ARGUMENTS)
    with pytest.raises(InvalidFeature):
        keyed.learn_one({"a": "high", "b": 1.0}, by="k")
    with pytest.raises(InvalidParameter, match=r"by is 1\.5: expected text or a whole number"):
        keyed.learn_one({"a": 1.0, "b": 1.0}, by=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="memory is 0: expected"):
        Keyed(trained, memory=0)
    with pytest.raises(KeyError):
        keyed["k"]
    assert not keyed.summary()
    for by, x, t in rows(200, keys=2):
        keyed.learn_one(x, by=by, t=t)
    for state in store.states():
        store.drop(state)
    (asleep,) = (line.by for line in keyed.summary() if not line.awake)
    with pytest.raises(PersistenceError, match="the store has lost the state"):
        keyed[asleep]


LONG = pytest.param(1, WAITING, marks=pytest.mark.long)


@pytest.mark.parametrize(("memory", "arguments"), [(1, DELAYED), *further((1 << 30, PLAIN)), LONG])
def test_a_process_that_ends_at_any_moment_resumes_from_the_last_saved_state(
    trained: TrainedModel,
    each_alone: Callable[..., Results],
    tmp_path: Path,
    memory: int,
    arguments: Any,
) -> None:
    """What the lost process stored later neither replaces nor deletes what the saved state names."""
    part, every = rows(500), {**ARGUMENTS, **grouped(**dict(arguments))}
    store, state, out = FolderStore(tmp_path), None, [list[Any](), list[Any]()]
    for begin, lost in ((0, 90), (130, 70), (260, 0), (400, 50)):
        for end in (min(begin + 140, 500) + lost, {0: 130, 130: 260, 260: 400, 400: 500}[begin]):
            keyed = Keyed(trained, memory=memory, store=store, **every)
            keyed.resume(state)
            kept = [list[Any](), list[Any]()]
            for by, x, t in part[begin:end]:
                keyed.learn_one(x, by=by, t=t, key=t)
                kept[0] += keyed.drain()
                kept[1] += keyed.drain_events()
        before = keyed.stored
        state = keyed.as_state()
        assert keyed.as_state()["by"] == state["by"]
        again = keyed.stored
        keyed.as_state()
        assert keyed.stored == again >= before, "recognizers that have not changed are not stored again"
        keyed.saved()
        positions = state["counts"][:, 0]
        assert {each.position for each in store.states()} == {*positions[positions >= 0].tolist()}
        out = [old + new for old, new in zip(out, kept, strict=True)]
    keyed.flush()
    out = [out[0] + list(keyed.drain()), out[1] + list(keyed.drain_events())]
    found: Results = defaultdict(lambda: ([], []))
    for kind in (0, 1):
        for by, each in out[kind]:
            found[by][kind].append(each)
    assert found == each_alone(500, *arguments)


class Killed(Exception):
    """The end of a process."""


class FatalStore(FolderStore):
    """A store whose process ends at one of its changes."""

    left = -1

    def put(self, state: StoredState, data: bytes) -> None:
        self.count()
        super().put(state, data)

    def drop(self, state: StoredState) -> None:
        self.count()
        super().drop(state)

    def count(self) -> None:
        self.left -= 1
        if not self.left:
            raise Killed


def test_a_process_that_ends_between_two_changes_of_the_store_resumes(trained: TrainedModel, tmp_path: Path) -> None:
    part, every = rows(560, keys=12), {**ARGUMENTS, **grouped(chains=1)}
    Saved = tuple[int, dict[str, Any] | None, list[Any]]

    def go_on(store: FolderStore, saved: list[Saved], ends: Iterable[int]) -> None:
        keyed = Keyed(trained, memory=300_000, store=store, **every)
        keyed.resume(saved[-1][1])
        for end in ends:
            out = list[Any]()
            for by, x, t in part[saved[-1][0] : end]:
                keyed.learn_one(x, by=by, t=t, key=t)
                out += [*keyed.drain(), *keyed.drain_events()]
            saved.append((end, keyed.as_state(), out))
            keyed.saved()

    begun, ends = list[Saved]([(0, None, [])]), (500, 560)
    go_on(FolderStore(tmp_path / "begun"), begun, (200, 400))
    shutil.copytree(tmp_path / "begun", tmp_path / "whole")
    go_on(FolderStore(tmp_path / "whole"), whole := [*begun], ends)
    for changes in count(1, 2):
        shutil.copytree(tmp_path / "begun", folder := tmp_path / f"killed {changes}")
        fatal, saved = FatalStore(folder), [*begun]
        fatal.left = changes
        with suppress(Killed):
            go_on(fatal, saved, ends)
        go_on(FolderStore(folder), saved, [end for end in ends if end > saved[-1][0]])
        assert [each[2] for each in saved] == [each[2] for each in whole]
        resumed = Keyed(trained, store=FolderStore(folder), **every)
        resumed.resume(saved[-1][1])
        assert all(resumed[by].pending >= 0 for by in resumed), "each state is in the store"
        if fatal.left > 0:
            break
    assert changes > 12


def test_recognizers_of_many_keys_are_stored_in_few_states(trained: TrainedModel, tmp_path: Path) -> None:
    keyed = Keyed(trained, store=(store := FolderStore(tmp_path)), **ARGUMENTS)
    for by, x, t in rows(1600, keys=8):
        for more in range(5):
            keyed.learn_one(x, by=f"{by} {more}", t=t)
    keyed.flush()
    [*keyed.drain()], [*keyed.drain_events()]
    keyed.as_state()
    assert (keyed.stored, len(store.states())) == (40, 3)


@pytest.mark.parametrize("resumes", [True, False])
def test_states_of_keys_that_became_quiet_do_not_keep_the_others(
    trained: TrainedModel, tmp_path: Path, resumes: bool
) -> None:
    """Otherwise each state in the store might stay for one recognizer."""
    store, (x, _) = FolderStore(tmp_path), stream_part(1)[0]
    keyed, state = Keyed(trained, store=store, **ARGUMENTS), None
    for step in range(24):
        if resumes:
            keyed = Keyed(trained, store=store, **ARGUMENTS)
            keyed.resume(state)
        for by in (f"quiet {step}", "a", "b", "c"):
            for _ in range(16):
                keyed.learn_one(x, by=by)
        [*keyed.drain()], [*keyed.drain_events()]
        state = keyed.as_state()
        keyed.saved()
        assert len(store.states()) <= 11
    model = OpenSetRecognizer.from_trained(trained, **ARGUMENTS)
    for _ in range(16):
        model.learn_one(x)
    resumed = Keyed(trained, store=store, **ARGUMENTS)
    resumed.resume(state)
    for step in range(24):
        assert resumed[f"quiet {step}"].predict_proba_one(x) == model.predict_proba_one(x)


def test_the_states_of_an_earlier_version_are_read(trained: TrainedModel, tmp_path: Path) -> None:
    """It stored each recognizer alone, under the name of its key."""
    part, store = rows(400), FolderStore(tmp_path)
    keyed, expected = (Keyed(trained, store=each, **ARGUMENTS) for each in (store, None))
    for by, x, t in part[:200]:
        for each in (keyed, expected):
            each.learn_one(x, by=by, t=t, key=t)
    before = results(keyed)
    assert before == results(expected)
    state = keyed.as_state()
    for at, (by, line) in enumerate(zip(state["by"], state["counts"], strict=True)):
        if line[0] >= 0:
            line[0] = 300 + at
            store.put(StoredState(stored_name(by), 300 + at), keyed[by].state_bytes())
    state["counts"] = state["counts"][:, :7]
    for each in store.states("keys"):
        store.drop(each)
    resumed = Keyed(trained, memory=1, store=store, **ARGUMENTS)
    resumed.resume(state)
    for by, x, t in part[200:]:
        for each in (resumed, expected):
            each.learn_one(x, by=by, t=t, key=t)
    assert results(resumed) == results(expected)
    state = resumed.as_state()
    resumed.saved()
    resumed = Keyed(trained, store=store, **ARGUMENTS)
    resumed.resume(state)
    for each in (resumed, expected):
        each.flush()
    assert results(resumed) == results(expected)


def test_a_covariance_that_is_none_is_not_stored(trained: TrainedModel, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    keyed = Keyed(trained, store=store, **ARGUMENTS)
    for by, x, t in rows(400):
        keyed.learn_one(x | dict.fromkeys(x, 500.0 + t % 5), by=by, t=t, key=t)
    results(keyed)
    keyed.as_state()
    keyed.saved()
    before = {*store.states("keys")}
    model = keyed["0"] if "0" in keyed else keyed[next(iter(keyed))]
    chain = model.value.running[1].chains[0]
    assert len(chain.state.dishes.matrix)
    chain.state.dishes.matrix[0] *= -1.0
    with pytest.raises(RefusedState, match=r"the state of a key is not written: StreamState.dishes.matrix"):
        keyed.as_state()
    assert before <= {*store.states("keys")}


def test_a_state_without_the_recognizer_is_refused(trained: TrainedModel, tmp_path: Path) -> None:
    keyed = Keyed(trained, memory=1, store=FolderStore(tmp_path), **ARGUMENTS)
    for by, x, t in rows(60, keys=2):
        keyed.learn_one(x, by=by, t=t)
    [*keyed.drain()], [*keyed.drain_events()]
    state = keyed.as_state()
    state["counts"][:, 7] = 9
    resumed = Keyed(trained, store=FolderStore(tmp_path), **ARGUMENTS)
    resumed.resume(state)
    with pytest.raises(PersistenceError, match=r"the state .* is damaged: its schema does not fit together"):
        resumed[state["by"][0]]


def test_a_state_that_contradicts_itself_is_refused(trained: TrainedModel, tmp_path: Path) -> None:
    keyed = Keyed(trained, store=FolderStore(tmp_path), **ARGUMENTS)
    for by, x, t in rows(30):
        keyed.learn_one(x, by=by, t=t)
    list(keyed.drain())
    list(keyed.drain_events())
    state = keyed.as_state()
    resumed = Keyed(trained, store=FolderStore(tmp_path), **ARGUMENTS)
    for change in (
        {"counts": np.where(state["counts"] > 0, -1, state["counts"])},
        {"keys": state["keys"][1:]},
        {"by": (state["by"][0],) * len(state["by"])},
        {"rows": state["rows"][:, 1:]},
    ):
        with pytest.raises(PersistenceError, match="contradicts itself"):
            resumed.resume({**state, **change})
    resumed.resume(state)


@pytest.mark.parametrize("memory", [1, *further(1 << 30)])
def test_each_stream_continues_under_another_model(trained: TrainedModel, tmp_path: Path, memory: int) -> None:
    """As a recognizer of its own does. The earlier states in the store stay until the new ones are saved."""
    following, part = fitted(60, **ARGUMENTS).trained, rows(500)
    store = FolderStore(tmp_path)
    earlier = Keyed(trained, memory=memory, store=store, **ARGUMENTS)
    earlier.resume(None)
    for by, x, t in part[:300]:
        earlier.learn_one(x, by=by, t=t, key=t)
    results(earlier)
    begun = earlier.as_state()
    earlier.saved()
    for _ in range(2):  # the first process is lost before it saves
        earlier = Keyed(trained, memory=memory, store=store, **ARGUMENTS)
        earlier.resume(begun)
        earlier.flush()
        results(earlier)
        seen = {line.by: line.seen for line in earlier.summary()}
        keyed = Keyed(following, memory=memory, store=store, **ARGUMENTS)
        keyed.resume(None)
        keyed.carry_over(earlier)
        assert len(earlier) == 0
        assert {line.by: line.seen for line in keyed.summary()} == seen
    found = results(keyed)
    state = keyed.as_state()
    keyed.saved()
    keyed = Keyed(following, memory=memory, store=store, **ARGUMENTS)
    keyed.resume(state)
    for by, x, t in part[300:]:
        keyed.learn_one(x, by=by, t=t, key=t)
    keyed.flush()
    found = {by: (found.get(by, ([], []))[0] + a, found.get(by, ([], []))[1] + b)
             for by, (a, b) in results(keyed).items()}  # fmt: skip
    for by, own in found.items():
        before, after = (OpenSetRecognizer.from_trained(each, **ARGUMENTS) for each in (trained, following))
        for each, x, t in part[:300]:
            if each == by:
                before.learn_one(x, t=t, key=t)
        ended(before)
        if by in seen:
            after.carry_over(before)
        for each, x, t in part[300:]:
            if each == by:
                after.learn_one(x, t=t, key=t)
        assert own == (ended(after), list(after.drain_events())), by

"""Lives of emerging subclasses in real streams: joined, parted, set aside, brought back; nothing lost or doubled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from stream_osr import (
    OpenSetRecognizer,
    SubclassDormant,
    SubclassEmerged,
    SubclassForgotten,
    SubclassGrew,
    SubclassMerged,
    SubclassRecurred,
    SubclassSplit,
)
from stream_osr.discovery import histories
from stream_osr.discovery.explain import exemplars
from stream_osr.discovery.histories import lifecycle
from stream_osr.discovery.lifecycle import LifecycleChanges
from stream_osr.discovery.reservoir import keep
from stream_osr.model import edit, lifecycle_moves
from stream_osr.model.marginal import both, statistics_of
from stream_osr.model.whitening import whiten
from stream_osr.stream import Stream
from stream_osr.stream.chain import Chain, IdentityChanges, LifecycleUpdate
from stream_osr.stream.lifecycle import _join_same
from stream_osr.stream.recent_instances import as_batches, relabel, remembered, reseat, sampled
from tests.blobs import KNOWN, NEW, check_chain, check_stream, fitted, instances, told

Point = tuple[float, float]
Told = tuple[list, list]


def run(model: OpenSetRecognizer, parts: list[tuple[int, list[Point]]], seed: int = 0) -> Told:
    """Stream parts, each from known classes and some more centres; keys are positions."""
    rng, key = np.random.default_rng([seed, 3]), 0
    for n, more in parts:
        for x in instances(n, rng, [*KNOWN.values(), *more]):
            model.learn_one(x, key=key)
            key += 1
    model.flush()
    return told(model)


def seats(stream: Stream, number: int) -> dict[int, list[tuple[int, np.ndarray]]]:
    """Position and row of each remembered instance, by the emerging subclass that it sits in."""
    out: dict[int, list[tuple[int, np.ndarray]]] = {}
    for chunk in as_batches(stream.recent):
        for at, key in enumerate(chunk.subclass[number].tolist()):
            if key >= 0:
                out.setdefault(key, []).append((chunk.seq + at, chunk.rows[at]))
    return out


def check_statistics(stream: Stream) -> None:
    """Check that statistics and samples are those of the instances that sit there, if all are remembered."""
    for number, chain in enumerate(stream.chains):
        inside = seats(stream, number)
        size = dict(zip(chain.state.ids.tolist(), chain.state.dishes.size.tolist(), strict=True))
        size |= dict(zip(chain.dormant.ids.tolist(), chain.dormant.statistics.size.tolist(), strict=True))
        matrix = dict(zip(chain.state.ids.tolist(), chain.state.dishes.matrix, strict=True))
        matrix |= dict(zip(chain.dormant.ids.tolist(), chain.dormant.statistics.matrix, strict=True))
        for key, count in size.items():
            rows = np.array([row for _, row in inside[key]])
            assert count == len(rows), f"chain {number}, subclass {key}"
            np.testing.assert_allclose(matrix[key][-1, :-1], rows.sum(axis=0), atol=1e-6)
        for key, life in chain.life.subclasses.items():
            if life.kept is not None:
                at = dict(inside[key])
                assert set(life.kept.seq.tolist()) <= set(at), "rows of others"
                assert len(life.kept.seq) <= 16
                if len(at) >= 8:
                    assert len(life.kept.seq) >= 4
                for seq, row in zip(life.kept.seq.tolist(), life.kept.rows, strict=True):
                    np.testing.assert_array_equal(row, at[seq])


def visitors(n: int) -> list[tuple[int, list[Point]]]:
    """Five classes that come and go, two at a time, some near each other."""
    places = [(4.0, 14.0), (-12.0, 9.0), (4.0, -14.0), (7.0, 16.0), (-12.0, -12.0)]
    return [(n, [places[i % 5], places[(2 * i) % 5]]) for i in range(12)]


@pytest.mark.parametrize("chains", [1, 4])
def test_books_and_statistics_agree_whatever_happens(chains):
    model = fitted(
        batch_size=32, max_subclasses=2, max_dormant=3, half_life=20, window=48, chains=chains, seed=chains
    )
    happened: Counter[str] = Counter()
    ended: set[int] = set()
    rng, key = np.random.default_rng(4), 0
    for n, more in visitors(240):
        for x in instances(n, rng, [*KNOWN.values(), *more]):
            model.learn_one(x, key=key)
            key += 1
            if not model.pending:
                decisions, events = told(model)
                stream = model.value.stream
                check_stream(stream)
                check_statistics(stream)
                happened.update(type(event).__name__ for event in events)
                franchise, count, aside = stream.state.franchise, len(stream.labels), stream.chains[0].dormant.ids
                held, served = franchise.held[count:] > 0, franchise.menu[count:] > 0
                assert (held & ~served).sum() <= 2
                assert (held | served).all(), "a slot that could be used again with old statistics in it"
                assert len(aside) <= 3
                alive = {*stream.state.ids.tolist(), *aside.tolist()}
                assert set(stream.life.subclasses) <= alive
                ended |= {e.subclass_id for e in events if isinstance(e, SubclassForgotten | SubclassMerged)}
                assert not ended & alive, "an identity that has ended is used again"
                assert not ended & {d.subclass_id for d in decisions}, "decided to be what has ended already"
                of_known = set(stream.known.ids.tolist())
                assert {d.subclass_id for d in decisions} <= alive | of_known | {None}
    assert happened["SubclassDormant"] >= 5
    assert happened["SubclassRecurred"] >= 1


@pytest.fixture(scope="module", params=["on the menu", "set aside"])
def returned(request: pytest.FixtureRequest) -> tuple[OpenSetRecognizer, Told, str]:
    """A class that is there, gone for 4000 instances (in which another comes and goes), and there again."""
    model = fitted(batch_size=32, max_subclasses=10 if request.param == "on the menu" else 1)
    parts = [(300, []), (300, [NEW]), (2000, []), (600, [(-12.0, -12.0)]), (2400, []), (300, [NEW])]
    return model, run(model, parts), request.param


def test_a_class_that_returns_recurs_under_its_old_id(returned):
    model, (decisions, events), _ = returned
    home = Counter(d.subclass_id for d in decisions[300:600] if d.label == "unknown").most_common(1)[0][0]
    mine = [e for e in events if getattr(e, "subclass_id", None) == home]
    emerged, dormant, recurred = (e for e in mine if not isinstance(e, SubclassGrew))
    assert (type(emerged), type(dormant), type(recurred)) == (SubclassEmerged, SubclassDormant, SubclassRecurred)
    assert 300 <= emerged.seq < 400 < 600 < dormant.seq < 5600 <= recurred.seq < 5720
    assert emerged.first_seen == recurred.first_seen
    assert recurred.support > 0 == dormant.support
    assert recurred.trend > dormant.trend
    assert not [e for e in events if isinstance(e, SubclassEmerged) and e.seq >= 5600 and near(e, NEW)]
    back = [d.subclass_id for d in decisions[5600:] if d.label == "unknown" and d.distance > 8]
    assert len(back) > 60
    assert back.count(home) > 0.8 * len(back)
    assert dict(model.value.stream.life.subclasses)[home].dormant is False


def near(event: SubclassEmerged, place: Point) -> bool:
    mean = event.explanation.mean
    return abs(mean["a"] - place[0]) < 3 and abs(mean["b"] - place[1]) < 3


def test_what_is_set_aside_is_not_on_the_menu(returned):
    model, (_, events), where = returned
    chain = model.value.stream.chains[0]
    asleep = {e.subclass_id for e in events if isinstance(e, SubclassDormant)}
    asleep -= {e.subclass_id for e in events if isinstance(e, SubclassRecurred | SubclassMerged)}
    assert asleep
    assert (len(chain.dormant.ids) > 0) == (where == "set aside")
    assert set(chain.dormant.ids.tolist()) <= asleep
    summary = {key: announced for key, _, announced in model.summary().emerging}
    assert all(summary[key] for key in asleep)


@pytest.fixture
def two() -> Chain:
    """The first chain of a stream in which two classes have emerged, both with guests in the window."""
    model = fitted(batch_size=32, chains=1)
    run(model, [(150, []), (300, [NEW, (-12.0, -12.0)])])
    return model.value.stream.chains[0]


def largest(chain: Chain) -> list[int]:
    order = np.argsort(-chain.state.dishes.size)
    return sorted(int(chain.state.ids[at]) for at in order[:2])


def test_set_aside_and_brought_back(two):
    older, younger = largest(two)
    prior, n_classes = two.known.prior, len(two.known.size)
    state = two.state
    at = edit.slot_of(state, older)
    statistics = statistics_of(state.dishes, np.array([at]))
    aside = lifecycle_moves.DormantSubclasses(
        np.array([older, 900]), both(statistics, statistics_of(state.dishes, np.array([0])))
    )
    # as if it had been set aside, and came back into the younger one
    rest = edit.merge(state, younger, older, prior)
    before = int(rest.dishes.size[edit.slot_of(rest, younger)])
    back, left = lifecycle_moves.bring_back(rest, aside, older, younger, prior)
    assert left.ids.tolist() == [900]
    assert int(back.dishes.size[edit.slot_of(back, older)]) == before + statistics.size[0]
    assert younger not in back.ids
    # and with nobody at a table
    alone, left = lifecycle_moves.bring_back(back, left, 900, None, prior)
    assert not len(left.ids)
    slot = edit.slot_of(alone, 900)
    assert edit.tables_of(alone)[slot] == 0
    assert alone.franchise.held[n_classes + slot] == 1
    assert alone.franchise.total[0] == pytest.approx(back.franchise.total[0] + 1)
    check_chain(two._replace(state=alone._replace(next_id=901), life=lifecycle()), n_classes)
    away, kept = lifecycle_moves.make_dormant(alone, left, {900})
    assert kept.ids.tolist() == [900]
    np.testing.assert_array_equal(kept.statistics.matrix[0], alone.dishes.matrix[slot])
    assert 900 not in away.ids
    assert away.franchise.total[0] == pytest.approx(back.franchise.total[0])


def test_a_late_label_takes_its_instance_out_of_what_is_set_aside():
    model = fitted(batch_size=32, max_subclasses=1)
    decisions, _ = run(model, [(200, []), (200, [(-12.0, -12.0)]), (300, [NEW]), (2500, [])])
    aside = model.value.stream.chains[0].dormant
    assert len(aside.ids)
    key = int(aside.ids[0])
    size = int(aside.statistics.size[0])
    late = next(d.key for d in decisions if d.subclass_id == key)
    model.learn_label(late, "left")
    model.flush()
    check_stream(model.value.stream)
    check_statistics(model.value.stream)
    assert model.value.stream.chains[0].dormant.statistics.size[0] == size - 1


def test_two_halves_of_one_class_are_joined_and_the_older_id_goes_on():
    model = fitted(batch_size=32, chains=1, ensemble="drawn")  # the coarse model would rather have two
    run(model, [(150, []), (300, [NEW])])
    stream = model.value.stream
    chain = stream.chains[0]
    key = int(chain.state.ids[np.argmax(chain.state.dishes.size)])
    seqs, rows, keys = sampled(stream.recent, remembered(stream.recent, 0, key))
    half = np.arange(len(seqs)) % 2 == 0
    state = edit.split(chain.state, key, rows[half], seqs[half], chain.known.prior)  # as if it were two
    new, life = chain.state.next_id, chain.life.subclasses[key]
    parts = {
        one: life._replace(announced_size=int(mine.sum()), kept=keep(seqs[mine], rows[mine], keys[mine]))
        for one, mine in ((key, ~half), (new, half))
    }
    apart = chain._replace(state=state, life=histories.with_lives(chain.life, parts))
    past = reseat(stream.recent, 0, seqs[half], new)
    check_statistics(stream._replace(chains=(apart,), recent=past))
    grown = LifecycleChanges((), (new,), (), ())
    followed = _join_same(LifecycleUpdate(apart, past, IdentityChanges(), grown, {}, state), new)
    assert followed.identities.merged == {new: key}
    assert followed.changes == LifecycleChanges((), (), (), ())
    joined = stream._replace(chains=(followed.chain,), recent=followed.recent)
    check_stream(joined)
    check_statistics(joined)
    assert new not in joined.state.ids
    np.testing.assert_allclose(joined.state.dishes.size.sum(), chain.state.dishes.size.sum())
    # of two classes each stays itself
    far = fitted(batch_size=32, chains=1, ensemble="drawn")
    run(far, [(150, []), (300, [NEW, (-12.0, -12.0)])])
    both = far.value.stream.chains[0]
    alone = LifecycleUpdate(both, far.value.stream.recent, IdentityChanges(), grown, {}, both.state)
    assert _join_same(alone, largest(both)[0]) is alone


def test_a_subclass_that_turns_out_to_be_two_is_parted():
    model = fitted(batch_size=32, chains=1)
    places = [NEW, (-12.0, -12.0)]
    run(model, [(150, []), (300, places)])
    stream = model.value.stream
    chain = stream.chains[0]
    older, younger = largest(chain)
    state = edit.merge(chain.state, older, younger, chain.known.prior)  # as if both had been taken for one
    stream = stream._replace(
        chains=(chain._replace(state=state, life=histories.without_lives(chain.life, [younger])),),
        recent=relabel(stream.recent, 0, {younger: older}),
    )
    model.value = replace(model.value, stream=stream)
    decisions, events = run(model, [(800, places)], seed=1)
    (split,) = [e for e in events if isinstance(e, SubclassSplit)]
    assert split.subclass_id == older
    assert split.new_id >= state.next_id
    assert split.sizes[0] >= split.sizes[1] >= 8
    assert not [e for e in events if isinstance(e, SubclassEmerged) and e.subclass_id == split.new_id]
    assert set(split.exemplars) <= set(range(1250))
    parted = model.value.stream
    check_stream(parted)
    check_statistics(parted)
    slots = [edit.slot_of(parted.state, key) for key in (older, split.new_id)]
    means = parted.state.dishes.matrix[slots, -1, :-1] / parted.state.dishes.size[slots, None]
    spaces = [np.abs(means - whiten(model.trained.whitening, np.array([place]))).max(axis=1) for place in places]
    assert sorted(np.argmin(spaces, axis=0).tolist()) == [0, 1]
    assert np.min(spaces, axis=0).max() < 0.6, "each part is one of the two classes"
    later = [d for d in decisions if d.seq > split.seq and d.subclass_id == split.new_id]
    assert len(later) > 20


def test_exemplars_are_the_most_typical_of_the_rows_that_are_kept(returned):
    model = returned[0]
    chain = model.value.stream.chains[0]
    for key, life in chain.life.subclasses.items():
        if life.emerged and key in chain.state.ids:
            slot = edit.slot_of(chain.state, key)
            mean = chain.state.dishes.matrix[slot, -1, :-1] / chain.state.dishes.size[slot]
            named = exemplars(chain.state.dishes, slot, life.kept, chain.known)
            distance = dict(zip(life.kept.keys, np.linalg.norm(life.kept.rows - mean, axis=1), strict=True))
            assert len(named) == min(5, len(distance))
            assert np.mean([distance[name] for name in named]) <= np.mean(list(distance.values()))

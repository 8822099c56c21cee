"""Lives of emerging subclasses in real streams: joined, split, set aside, brought back; nothing lost or doubled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_osr import (
    Decision,
    Event,
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
from stream_osr.discovery.lifecycle import LifecycleChanges
from stream_osr.discovery.reservoir import keep
from stream_osr.model import edit
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.stream import Stream
from stream_osr.stream.chain import Chain, IdentityChanges, LifecycleUpdate
from stream_osr.stream.recent_instances import as_batches, relabel, remembered, reseat, sampled
from stream_osr.stream.subclass_changes import _join_same
from tests.blobs import KNOWN, NEW, check_stream, drained, fitted, fitted_once, instances, play

Point = tuple[float, float]
OTHER: Point = (-12.0, -12.0)
"""A second new class."""


def run(
    model: OpenSetRecognizer, parts: list[tuple[int, list[Point]]], seed: int = 0
) -> tuple[list[Decision], list[Event]]:
    """Stream parts, each from known classes and some more centres; keys are positions."""
    rng = np.random.default_rng([seed, 3])
    rows = [(x, None) for n, more in parts for x in instances(n, rng, [*KNOWN.values(), *more])]
    play(model, rows, model.value.stream.state.seen).flush()
    return drained(model)


def seats(stream: Stream, number: int) -> dict[int, dict[int, np.ndarray]]:
    """Row of each remembered instance by its position, by the emerging subclass that it sits in."""
    out: dict[int, dict[int, np.ndarray]] = {}
    for chunk in as_batches(stream.recent):
        for at, key in enumerate(chunk.subclass[number].tolist()):
            if key >= 0:
                out.setdefault(key, {})[chunk.seq + at] = chunk.rows[at]
    return out


def check_statistics(stream: Stream) -> None:
    """Check that statistics and samples are those of the instances that sit there, if all are remembered."""
    for number, chain in enumerate(stream.chains):
        inside = seats(stream, number)
        for ids, held in ((chain.state.ids, chain.state.dishes), (chain.dormant.ids, chain.dormant.statistics)):
            for key, size, matrix in zip(ids.tolist(), held.size.tolist(), held.matrix, strict=True):
                assert size == len(inside[key]), f"chain {number}, subclass {key}"
                np.testing.assert_allclose(matrix[-1, :-1], sum(inside[key].values()), atol=1e-6)
        kept = {key: life.kept for key, life in chain.life.subclasses.items() if life.kept is not None}
        for key, sample in kept.items():
            assert set(sample.seq.tolist()) <= set(inside[key]), "rows of others"
            assert (len(inside[key]) >= 8) * 4 <= len(sample.seq) <= 16
            for seq, row in zip(sample.seq.tolist(), sample.rows, strict=True):
                np.testing.assert_array_equal(row, inside[key][seq])


@pytest.mark.thorough
@pytest.mark.parametrize("chains", [1, pytest.param(4, marks=pytest.mark.thorough)])
def test_counts_and_statistics_agree_while_classes_come_and_go(chains):
    """Five classes, two at a time, some near each other."""
    model = fitted_once(
        batch_size=32, max_subclasses=2, max_dormant=3, half_life=20, window=48, chains=chains, seed=chains
    )
    happened: Counter[str] = Counter()
    ended: set[int] = set()
    rng = np.random.default_rng(4)
    places = [(4.0, 14.0), (-12.0, 9.0), (4.0, -14.0), (7.0, 16.0), (-12.0, -12.0)]
    centres = [[*KNOWN.values(), places[i % 5], places[(2 * i) % 5]] for i in range(12)]
    rows = [(x, None) for some in centres for x in instances(240, rng, some)]
    for begin in range(0, len(rows), 32):
        play(model, rows[begin : begin + 32], begin)
        decisions, events = drained(model)
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
        assert {d.subclass_id for d in decisions} <= {*alive, *stream.known.ids.tolist(), None} - ended
    assert happened["SubclassDormant"] >= 5
    assert happened["SubclassRecurred"] >= 1


@pytest.fixture(scope="module", params=["set aside", pytest.param("on the menu", marks=pytest.mark.thorough)])
def returned(request: pytest.FixtureRequest) -> tuple[OpenSetRecognizer, list[Decision], list[Event], str]:
    """A class that is there, gone for 4000 instances (in which another comes and goes), and there again."""
    model = fitted(batch_size=32, max_subclasses=10 if request.param == "on the menu" else 1)
    parts = [(300, []), (300, [NEW]), (2000, []), (600, [(-12.0, -12.0)]), (2400, []), (300, [NEW])]
    return model, *run(model, parts), request.param


def test_a_class_that_returns_recurs_under_its_old_id(returned):
    model, decisions, events, _ = returned
    home = Counter(d.subclass_id for d in decisions[300:600] if d.label == "unknown").most_common(1)[0][0]
    own = [e for e in events if getattr(e, "subclass_id", None) == home]
    emerged, dormant, recurred = (e for e in own if not isinstance(e, SubclassGrew))
    assert (type(emerged), type(dormant), type(recurred)) == (SubclassEmerged, SubclassDormant, SubclassRecurred)
    assert 300 <= emerged.seq < 400 < 600 < dormant.seq < 5600 <= recurred.seq < 5720
    assert emerged.first_seen == recurred.first_seen
    assert recurred.support > 0 == dormant.support
    assert recurred.trend > dormant.trend
    late = [e.explanation.mean for e in events if isinstance(e, SubclassEmerged) and e.seq >= 5600]
    assert not [mean for mean in late if abs(mean["a"] - NEW[0]) < 3 and abs(mean["b"] - NEW[1]) < 3]
    back = [d.subclass_id for d in decisions[5600:] if d.label == "unknown" and d.distance > 8]
    assert len(back) > 60
    assert back.count(home) > 0.8 * len(back)
    assert dict(model.value.stream.life.subclasses)[home].dormant is False


def test_subclasses_that_are_set_aside_are_dormant_and_in_the_summary(returned):
    model, _, events, where = returned
    aside = model.value.stream.chains[0].dormant.ids
    asleep = {e.subclass_id for e in events if isinstance(e, SubclassDormant)}
    asleep -= {e.subclass_id for e in events if isinstance(e, SubclassRecurred | SubclassMerged)}
    assert asleep
    assert (len(aside) > 0) == (where == "set aside")
    assert set(aside.tolist()) <= asleep
    assert asleep <= {key for key, _, announced in model.summary().emerging if announced}


def two_new_classes(**arguments: Any) -> Stream:
    """A stream in which two classes have emerged, both with guests in the window."""
    model = fitted_once(batch_size=32, chains=1, **arguments)
    run(model, [(150, []), (300, [NEW, OTHER])])
    return model.value.stream


def largest(chain: Chain) -> list[int]:
    order = np.argsort(-chain.state.dishes.size)
    return sorted(int(chain.state.ids[at]) for at in order[:2])


def test_a_late_label_takes_its_instance_out_of_a_subclass_that_is_set_aside():
    model = fitted_once(batch_size=32, max_subclasses=1)
    decisions, _ = run(model, [(200, []), (200, [OTHER]), (300, [NEW]), (2500, [])])
    aside = model.value.stream.chains[0].dormant
    late = next(d.key for d in decisions if d.subclass_id == aside.ids[0])
    model.learn_label(late, "left")
    model.flush()
    check_stream(model.value.stream)
    check_statistics(model.value.stream)
    assert model.value.stream.chains[0].dormant.statistics.size[0] == aside.statistics.size[0] - 1


def test_two_halves_of_one_class_are_joined_and_the_older_id_goes_on():
    model = fitted_once(batch_size=32, chains=1, ensemble="drawn")  # the coarse model would rather have two
    run(model, [(150, []), (300, [NEW])])
    stream = model.value.stream
    chain = stream.chains[0]
    key = int(chain.state.ids[np.argmax(chain.state.dishes.size)])
    seqs, rows, keys = sampled(stream.recent, remembered(stream.recent, 0, key))
    half = np.arange(len(seqs)) % 2 == 0
    state = edit.split(chain.state, key, rows[half], seqs[half], chain.known.prior)  # as if it were two
    new, life = chain.state.next_id, chain.life.subclasses[key]
    parts = {
        one: life._replace(announced_size=int(part.sum()), kept=keep(seqs[part], rows[part], keys[part]))
        for one, part in ((key, ~half), (new, half))
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
    # two classes stay apart
    far = two_new_classes(ensemble="drawn")
    alone = LifecycleUpdate(far.chains[0], far.recent, IdentityChanges(), grown, {}, far.state)
    assert _join_same(alone, largest(far.chains[0])[0]) is alone


def test_a_subclass_that_turns_out_to_be_two_is_split():
    model, stream = fitted_once(batch_size=32, chains=1), two_new_classes()
    places, chain = [NEW, OTHER], stream.chains[0]
    older, younger = largest(chain)
    state = edit.merge(chain.state, older, younger, chain.known.prior)  # as if both were one
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
    assert sum(d.seq > split.seq and d.subclass_id == split.new_id for d in decisions) > 20


def test_exemplars_are_the_most_typical_of_the_rows_that_are_kept(returned):
    chain = returned[0].value.stream.chains[0]
    state, lives = chain.state, chain.life.subclasses
    emerged = [key for key, life in lives.items() if life.emerged and key in state.ids]
    assert emerged
    for key in emerged:
        slot, kept = edit.slot_of(state, key), lives[key].kept
        mean = state.dishes.matrix[slot, -1, :-1] / state.dishes.size[slot]
        distance = dict(zip(kept.keys, np.linalg.norm(kept.rows - mean, axis=1), strict=True))
        named = exemplars(state.dishes, slot, kept, chain.known)
        assert len(named) == min(5, len(distance))
        assert np.mean([distance[name] for name in named]) <= np.mean(list(distance.values()))

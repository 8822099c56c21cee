"""Naming what emerged, muting it, and taking that back: the model goes on with what it has learnt."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.paper.protocol import split
from stream_osr import (
    ActionUndone,
    Decision,
    ModelOptions,
    NewClassesChanged,
    OpenSetRecognizer,
    SubclassEmerged,
    SubclassMuted,
    SubclassPromoted,
    TrainedModel,
    UnknownRateJumped,
)
from stream_osr.config import grouped
from stream_osr.errors import InvalidLabel, InvalidSubclass, NothingToUndo, NotTrained
from tests.blobs import KNOWN, NEW, check_stream, fitted, learn_all, stream_part, told, training_part
from tests.data import need_data
from tests.doors.model import restated
from tests.doors.stream import RecentInstances, as_batches, counterparts, from_batches, remembered

PARAMETERS: dict[str, Any] = {"batch_size": 32, "window": 64, "half_life": 100.0, "seed": 5}
ABOVE = {"a": NEW[0], "b": NEW[1]}
LONGEST = 640
FAR = {"a": -30.0, "b": -30.0}


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted(training_sweeps=10).trained


def recognizer(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(trained, **grouped(**{**PARAMETERS, **arguments}))


def play(model: OpenSetRecognizer, end: int, start: int = 0, **arguments: Any) -> OpenSetRecognizer:
    """Stream the instances from number ``start`` on, up to ``end``."""
    for i, (x, _) in enumerate(stream_part(LONGEST, **arguments)[start:end], start=start):
        model.learn_one(x, t=float(i), key=i)
    return model


def emerged(model: OpenSetRecognizer) -> tuple[int, ...]:
    """Subclasses of the largest candidate class."""
    return model.new_classes().candidates[0].subclasses


def truth(decisions: list[Decision]) -> list[tuple[str, Decision]]:
    labels = [y for _, y in stream_part(LONGEST)]
    return [(labels[d.key], d) for d in decisions]


def content(model: OpenSetRecognizer) -> str:
    """Everything that the stream holds, to the last bit, but for what can be taken back."""
    assert model.value.stream is not None
    return repr(model.value.stream._replace(undo_log=()))


def outcome(model: OpenSetRecognizer) -> str:
    return repr((told(model), model.value.stream, model.predict_proba_one(ABOVE)))


# Promotion


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"chains": 1},
        {"ensemble": "drawn", "chains": 2},
        {"broad": False, "chains": 2},
        {"window": 0, "chains": 2},
        {"decision_delay": 40, "chains": 2},
        {"label_horizon": 0, "chains": 2},
        {"follow_drift": True, "chains": 2},
    ],
    ids=str,
)
def test_next_batch_recognizes_what_was_named(arguments):
    model = play(fitted(training_sweeps=10, **{**PARAMETERS, **arguments}), 160)
    told(model)
    ids = emerged(model)
    twin = play(pickle.loads(pickle.dumps(model)), 256, 160)
    twin.flush()
    model.promote(ids, "above")
    check_stream(model.value.stream)
    assert model.predict_one(ABOVE) == "above"
    events = told(model)[1]
    play(model, 256, 160)
    model.flush()
    check_stream(model.value.stream)
    decisions = [(y, d) for y, d in truth(list(model.drain())) if d.key >= 160]
    new = [d for y, d in decisions if y == "new"]
    assert len(new) > 20
    assert np.mean([d.label == "above" for d in new]) > 0.9
    assert np.mean([d.probabilities["above"] for d in new]) > 0.9
    assert {d.subclass_id for d in new if d.label == "above"} <= set(ids)
    unnamed = {d.key: d.label for d in twin.drain()}
    known = [(y, d) for y, d in decisions if y != "new"]
    assert np.mean([d.label == y for y, d in known]) > np.mean([unnamed[d.key] == y for y, d in known]) - 0.1
    assert sum(y != "new" and d.label == "above" for y, d in decisions) <= 2
    assert [e.subclass_id for e in events if isinstance(e, SubclassPromoted)] == list(ids)
    assert not [e for e in told(model)[1] if getattr(e, "subclass_id", None) in ids]


@pytest.mark.parametrize("coming", [4, 16])
@pytest.mark.parametrize("seed", range(3))
def test_a_class_of_few_instances_is_recognized(trained, coming, seed):
    # its density does not absorb them; without a broad term those that come would be a subclass of their own
    rng = np.random.default_rng([seed, 8])
    model = recognizer(trained)
    for a, b in rng.normal(NEW, size=(8, 2)):
        model.learn_one({"a": a, "b": b})
    model.flush()
    model.promote(model.value.stream.state.ids.tolist(), "above")
    told(model)
    for a, b in rng.normal(NEW, size=(coming, 2)):
        model.learn_one({"a": a, "b": b})
    model.flush()
    assert np.mean([d.probabilities["above"] for d in model.drain()]) > 0.7
    check_stream(model.value.stream)


def test_promotion_into_a_known_class(trained):
    model = play(recognizer(trained), 160)
    told(model)
    ids = emerged(model)
    size = [chain.known.size.copy() for chain in model.value.stream.chains]
    ranks = model.value.stream.known.ranks.copy()
    model.promote(ids, "left")
    check_stream(model.value.stream)
    assert model.value.stream.labels == ("left", "right")
    for before, chain in zip(size, model.value.stream.chains, strict=True):
        assert chain.known.size[0] > before[0] + 30
        assert chain.known.size[1] == before[1]
    np.testing.assert_array_equal(model.value.stream.known.ranks[1], ranks[1])
    assert (np.diff(model.value.stream.known.ranks[0]) >= 0).all()
    told(model)
    play(model, 256, 160)
    decisions = truth(list(model.drain()))
    assert np.mean([d.label == {"new": "left"}.get(y, y) for y, d in decisions]) > 0.95
    assert np.mean([d.probabilities["left"] for y, d in decisions if y == "new"]) > 0.9


def test_a_small_subclass_counts_in_a_large_class():
    # below the share epsilon of its class a trained subclass is dropped; one that was named is not
    model = learn_all(OpenSetRecognizer(**grouped(**{**PARAMETERS, "training_sweeps": 5})), training_part(1200))
    model.freeze()
    for a, b in np.random.default_rng(3).normal(NEW, size=(10, 2)):
        model.learn_one({"a": a, "b": b})
    model.flush()
    assert model.predict_one(ABOVE) == "unknown"
    model.promote(model.value.stream.state.ids.tolist(), "left")
    assert model.predict_proba_one(ABOVE)["left"] > 0.9


def test_several_classes_one_after_the_other(trained):
    model = recognizer(trained)
    rng = np.random.default_rng(4)
    centres = {"above": NEW, "below": (5.0, -15.0), "beside": (30.0, 0.0)}
    for number in range(160):
        centre = [*KNOWN.values(), *centres.values()][number % 5]
        model.learn_one(dict(zip("ab", rng.normal(centre), strict=True)), key=number)
    model.flush()
    decisions = list(model.drain())
    for number, label in enumerate(centres, start=2):
        ids = {d.subclass_id for d in decisions if d.key % 5 == number and d.key >= 100} - {None}
        model.promote([key for key in ids if key in model.value.stream.state.ids], label)
        check_stream(model.value.stream)
    assert model.value.stream.labels == ("left", "right", *centres)
    for label, centre in centres.items():
        proba = model.predict_proba_one(dict(zip("ab", centre, strict=True)))
        assert proba[label] > 0.8
    model.undo()
    model.undo()
    check_stream(model.value.stream)
    assert model.value.stream.labels == ("left", "right", "above")


def test_statistics_and_seats_go_with_it(trained):
    model = play(recognizer(trained), 160)
    before = model.value.stream
    key = emerged(model)[0]
    model.promote([key], "above")
    slot, k = before.state.ids.tolist().index(key), model.value.stream.known.ids.tolist().index(key)
    for name in ("size", "matrix", "inverse", "log_det"):
        old, new = getattr(before.state.dishes, name)[slot], getattr(model.value.stream.known.dishes, name)[k]
        np.testing.assert_array_equal(new, old)
    assert model.value.stream.state.franchise.seated[0, 2] == before.state.franchise.seated[0, 2 + slot]
    assert model.value.stream.known.seated[2, k] == before.state.dishes.size[slot]
    assert key not in model.value.stream.life.subclasses
    ranks = model.value.stream.known.ranks[2]
    assert ranks[0] < ranks[50] < ranks[100] < 0


def test_event_says_what_the_others_say(trained):
    model = play(recognizer(trained), 160)
    events = told(model)[1]
    ids = emerged(model)
    first = next(e for e in events if getattr(e, "subclass_id", None) == ids[0])
    model.promote(ids, "above")
    promoted, *others = told(model)[1]
    assert isinstance(promoted, SubclassPromoted)
    assert (promoted.subclass_id, promoted.label, promoted.model) == (ids[0], "above", trained.fingerprint)
    assert (promoted.batch, promoted.seq) == (4, 159)
    assert promoted.first_seen == first.first_seen
    assert promoted.size >= first.size
    assert promoted.explanation.nearest_class in KNOWN
    changed = [e for e in others if isinstance(e, NewClassesChanged)]
    assert [e.delta for e in changed] == [model.summary().delta]


def test_other_chains_find_what_stands_for_the_same_instances(trained):
    model = play(recognizer(trained), 320)
    stream = model.value.stream
    key = emerged(model)[0]
    found = counterparts(stream, [key])
    assert found[0] == (key,)
    seats = stream.recent.subclass
    for number, own in enumerate(found):
        for other in stream.chains[number].state.ids.tolist():
            inside = seats[0, seats[number] == other] == key
            if len(inside):
                assert (other in own) == (inside.mean() > 0.5)


def test_counterparts_without_remembered_instances_lie_in_the_same_place(trained):
    model = play(recognizer(trained), 320)
    key = emerged(model)[0]
    remembered = counterparts(model.value.stream, [key])
    assert counterparts(model.value.stream._replace(recent=from_batches((), 4, 2)), [key]) == remembered


def test_a_chain_without_a_counterpart_gets_one(trained):
    model = play(recognizer(trained), 160)
    key = emerged(model)[0]
    stream = model.value.stream
    homes = counterparts(stream, [key])
    past = as_batches(stream.recent)
    shared = 0
    for chunk in past:  # the first chain holds a third of what sits together in the others
        inside = np.flatnonzero(chunk.subclass[0] == key)
        chunk.subclass[0][inside[np.arange(len(inside)) % 3 > 0]] = -1
        shared += int(np.isin(chunk.subclass[1][inside[::3]], homes[1]).sum())
    model.value = replace(model.value, stream=stream._replace(recent=from_batches(past, 4, 2)))
    assert counterparts(model.value.stream, [key])[1:] == ((), (), ())
    model.promote([key], "above")
    check_stream(model.value.stream)
    size = stream.state.dishes.size[stream.state.ids.tolist().index(key)]
    fresh = [chain.state.next_id for chain in stream.chains[1:]]
    assert model.value.stream.undo_log[-1].subclasses == ((key,), *((each,) for each in fresh))
    for before, chain, own in zip(stream.chains[1:], model.value.stream.chains[1:], fresh, strict=True):
        assert chain.known.size[2] == size
        assert chain.state.next_id == own + 1
        assert chain.state.franchise.seated[0, 2] > 0
        assert chain.state.franchise.seated.sum() == pytest.approx(before.state.franchise.seated.sum())
    old, new = (each.chains[1].state for each in (stream, model.value.stream))
    slots = [each.ids.tolist().index(homes[1][0]) for each in (old, new)]
    assert new.dishes.size[slots[1]] >= old.dishes.size[slots[0]] - shared > 0
    assert model.predict_proba_one(ABOVE)["above"] > 0.3  # the first chain alone says a quarter
    model.undo()
    check_stream(model.value.stream)
    assert all(own in chain.state.ids for chain, own in zip(model.value.stream.chains[1:], fresh, strict=True))
    play(model, 224, 160)
    check_stream(model.value.stream)


def test_statistics_under_another_base_measure():
    for drawn in ("drawn",):
        model = play(fitted(training_sweeps=5, ensemble=drawn, **PARAMETERS), 96)
        state, prior = model.value.stream.state, model.value.stream.known.prior
        other = prior._replace(nu=prior.nu + 7.0, psi=prior.psi * 3.0, beta=prior.beta * 0.5)
        moved = restated(state.dishes, 0, prior, other)
        back = restated(moved, 0, other, prior)
        corner = moved.matrix[0] - state.dishes.matrix[0]
        np.testing.assert_allclose(np.diag(corner), [*[other.psi - prior.psi] * 2, other.beta - prior.beta])
        assert moved.constant[0, 0] != state.dishes.constant[0, 0]
        for name in ("matrix", "log_det", "constant"):
            np.testing.assert_allclose(getattr(back, name)[0], getattr(state.dishes, name)[0], rtol=1e-9)


@pytest.mark.parametrize("name", ["PENDIGITS"])
def test_real_classes_are_recognized_once_named(name):
    data = need_data(name)
    part = split(data.X, data.y, 5, 5, seed=0)
    model = OpenSetRecognizer(batch_size=128, seed=1, model=ModelOptions(training_sweeps=10))
    keys = [f"f{i}" for i in range(part.X_train.shape[1])]
    for x, y in zip(part.X_train.tolist(), part.y_train.tolist(), strict=True):
        model.learn_one(dict(zip(keys, x, strict=True)), f"c{y}")
    model.freeze()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(part.X_test))[:1536]
    X, y = part.X_test[order], part.y_test[order]
    known = set(part.y_train.tolist())
    unknown = sorted(set(y.tolist()) - known)
    decisions = []
    for i in range(768):
        model.learn_one(dict(zip(keys, X[i].tolist(), strict=True)), key=i)
        decisions += model.drain()
    state = model.value.stream.state
    owner: dict[int, list[int]] = {key: [] for key in state.ids.tolist()}
    for chunk in as_batches(model.value.stream.recent):
        for at, key in enumerate(chunk.subclass[0].tolist()):
            if key in owner and y[chunk.seq + at] in unknown:
                owner[key].append(int(y[chunk.seq + at]))
    for label in unknown:
        ids = [key for key, inside in owner.items() if inside and np.mean(np.array(inside) == label) > 0.5]
        model.promote(ids, f"c{label}")
        check_stream(model.value.stream)
    told(model)
    for i in range(768, 1536):
        model.learn_one(dict(zip(keys, X[i].tolist(), strict=True)), key=i)
    after = list(model.drain())
    check_stream(model.value.stream)
    named = np.mean([d.label == f"c{y[d.key]}" for d in after if y[d.key] in unknown])
    others = np.mean([d.label == f"c{y[d.key]}" for d in after if y[d.key] in known])
    assert named > 0.8
    assert others > 0.85


# Errors: nothing changes


@pytest.mark.parametrize(
    ("ids", "label", "error", "message"),
    [
        ([], "x", InvalidSubclass, r"no subclass id was given; name those to be promoted, such as \[7\]"),
        ([10**6], "x", InvalidSubclass, "subclass 1000000 does not exist; the emerging subclasses are: "),
        ([-1], "x", InvalidSubclass, "subclass -1 does not exist"),
        ([0], "x", InvalidSubclass, "subclass 0 is one of the known class 'left'; only emerging subclasses can be"),
        (7, "x", InvalidSubclass, r"subclass_ids is 7 \(int\); expected a list of ids, such as \[7\]"),
        ("7", "x", InvalidSubclass, r"subclass_ids is '7' \(str\); expected a list of ids"),
        ([1.5], "x", InvalidSubclass, r"subclass id is 1.5 \(float\); expected whole numbers"),
        ([None], "x", InvalidSubclass, r"subclass id is None \(NoneType\)"),
        (None, "unknown", InvalidLabel, "is the label of unknown instances"),
        (None, 3, InvalidLabel, "use labels of one type"),
        (None, 2.5, InvalidLabel, "expected str, int or bool"),
    ],
)
def test_what_cannot_be_named_is_an_error(trained, ids, label, error, message):
    model = play(recognizer(trained), 96)
    before = pickle.dumps(model)
    with pytest.raises(error, match=message):
        model.promote(emerged(model) if ids is None else ids, label)
    assert pickle.dumps(model) == before
    if error is InvalidSubclass:
        with pytest.raises(error, match=message.replace("promoted", "muted")):
            model.mute(ids)


def test_one_bad_id_spoils_all(trained):
    model = play(recognizer(trained), 96)
    before = content(model)
    with pytest.raises(InvalidSubclass):
        model.promote([*emerged(model), 10**6], "above")
    assert content(model) == before


def test_a_subclass_is_promoted_once(trained):
    model = play(recognizer(trained), 96)
    ids = emerged(model)
    model.promote([*ids, *ids], "above")
    assert model.value.stream.known.ids.tolist().count(ids[0]) == 1
    with pytest.raises(InvalidSubclass, match="is one of the known class 'above'"):
        model.promote(ids, "above")


def test_a_subclass_that_has_gone_is_named_in_the_error(trained):
    model = play(recognizer(trained, half_life=10.0, window=0), 64)
    gone = sorted(
        set(range(len(trained.known.ids), model.value.stream.state.next_id))
        - set(model.value.stream.state.ids.tolist())
    )
    if gone:
        with pytest.raises(InvalidSubclass, match=f"subclass {gone[0]} has left the model"):
            model.promote(gone[:1], "above")


def test_nothing_is_named_before_training_has_ended():
    model = learn_all(OpenSetRecognizer(), training_part(5))
    for ask in (lambda: model.promote([1], "x"), lambda: model.mute([1]), model.undo):
        with pytest.raises(NotTrained, match=r"call freeze\(\) first"):
            ask()


# Undoing


@pytest.mark.parametrize("label", ["above", "left"])
@pytest.mark.parametrize("arguments", [{}, {"decision_delay": 40, "chains": 2}], ids=str)
def test_undoing_a_promotion_at_once_leaves_nothing_behind(label, arguments):
    model = play(fitted(training_sweeps=5, **{**PARAMETERS, **arguments}), 170)
    told(model)
    before = content(model)
    model.promote(emerged(model), label)
    assert content(model) != before
    model.undo()
    assert content(model) == before
    events = [e for e in told(model)[1] if isinstance(e, ActionUndone)]
    assert [(e.action, e.label) for e in events] == [("promotion", label)]


def test_undoing_a_promotion_after_batches_keeps_what_was_learnt_since(trained):
    model = play(recognizer(trained), 160)
    ids = emerged(model)
    before = {
        key: model.value.stream.state.dishes.size[model.value.stream.state.ids.tolist().index(key)] for key in ids
    }
    model.promote(ids, "above")
    play(model, 224, 160)
    model.undo()
    check_stream(model.value.stream)
    state = model.value.stream.state
    assert set(ids) <= set(state.ids.tolist())
    for key, size in before.items():  # and those beside them in the window
        assert state.dishes.size[state.ids.tolist().index(key)] >= size - 3
    assert model.value.stream.labels == ("left", "right", "above")  # decisions have named it
    assert not any(chain.known.size[2] for chain in model.value.stream.chains)
    assert model.predict_one(ABOVE) == "unknown"
    assert model.predict_proba_one(ABOVE)["above"] == 0.0
    assert all(model.value.stream.life.subclasses[key].emerged for key in ids)
    told(model)
    play(model, 320, 224)
    check_stream(model.value.stream)
    decisions, events = told(model)
    found = [d for y, d in truth(decisions) if y == "new"]
    assert np.mean([d.label == "unknown" for d in found]) > 0.95
    assert np.mean([d.subclass_id in ids for d in found]) > 0.8
    assert not [e for e in events if isinstance(e, SubclassEmerged)]
    model.promote(ids, "above")  # the name is still there
    assert model.value.stream.labels == ("left", "right", "above")
    assert model.predict_one(ABOVE) == "above"


def test_undoing_a_promotion_into_a_known_class_after_batches(trained):
    model = play(recognizer(trained), 160)
    ids, known = emerged(model), model.value.stream.chains
    model.promote(ids, "left")
    play(model, 224, 160)
    model.undo()
    check_stream(model.value.stream)
    for before, chain in zip(known, model.value.stream.chains, strict=True):
        np.testing.assert_array_equal(chain.known.ids, before.known.ids)
        np.testing.assert_array_equal(chain.known.ranks, before.known.ranks)
        np.testing.assert_array_equal(chain.known.size, before.known.size)
    told(model)
    play(model, 320, 224)
    check_stream(model.value.stream)
    found = [d for y, d in truth(list(model.drain())) if y == "new"]
    assert np.mean([d.label == "unknown" for d in found]) > 0.9


@pytest.mark.parametrize("kind", ["new instance", "in the window", "settled", "promoted"])
@pytest.mark.parametrize("label", ["left", "fresh"])
def test_undoing_a_label_puts_everything_back(trained, kind, label):
    model = play(recognizer(trained), 192)
    stream = model.value.stream
    ids = emerged(model)
    at = {"in the window": range(191, 127, -1), "settled": range(100, 0, -1), "promoted": range(191, 0, -1)}
    places = {
        seq: (chunk, seq - chunk.seq)
        for chunk in as_batches(stream.recent)
        for seq in range(chunk.seq, chunk.seq + len(chunk.keys))
    }
    key = None
    if kind != "new instance":
        key = next(s for s in at[kind] if places[s][0].subclass[0, places[s][1]] in ids)
    if kind == "promoted":
        model.promote(ids, "above")
    stream = model.value.stream
    probes = [ABOVE, FAR, {"a": 0.0, "b": 0.0}, {"a": 10.0, "b": 1.0}]
    before = [model.predict_proba_one(x) for x in probes]
    if key is None:
        model.learn_one(FAR, label)
    else:
        model.learn_label(key, label)
    model.flush()
    check_stream(model.value.stream)
    assert [model.predict_proba_one(x) for x in probes] != before
    model.undo()
    check_stream(model.value.stream)
    after = [model.predict_proba_one(x) for x in probes]
    for old, new in zip(before, after, strict=True):
        assert old.keys() == new.keys()
        np.testing.assert_allclose(list(new.values()), list(old.values()), rtol=1e-9, atol=1e-12)
    assert model.value.stream.labels == stream.labels
    np.testing.assert_array_equal(model.value.stream.state.window_seq, stream.state.window_seq)
    assert repr(as_batches(model.value.stream.recent)) == repr(as_batches(stream.recent))
    play(model, 256, 192)
    check_stream(model.value.stream)


def test_a_queued_label_is_dropped(trained):
    model = play(recognizer(trained), 96)
    before = content(model)
    model.learn_one(FAR, "far")
    model.undo()
    model.flush()
    assert content(model) == before
    with pytest.raises(NothingToUndo, match="no promotion, mute or late label is left"):
        model.undo()


def test_what_was_asked_last_is_taken_back_first(trained):
    model = play(recognizer(trained), 96)
    ids = emerged(model)
    model.learn_one(FAR, "far")  # waits
    model.promote(ids, "above")
    model.learn_one(FAR, "farther")  # waits
    model.undo()
    assert [e.label for e in model.value.evidence] == ["far"]
    assert "above" in model.value.stream.labels
    model.undo()
    assert "above" not in model.value.stream.labels
    assert [e.label for e in model.value.evidence] == ["far"]
    model.flush()
    assert model.value.stream.labels == ("left", "right", "far")
    model.undo()
    assert model.value.stream.labels == ("left", "right")
    check_stream(model.value.stream)


def test_a_label_asked_before_a_promotion_and_learnt_after_it(trained):
    model = play(recognizer(trained), 96)
    ids = emerged(model)
    model.learn_one(ABOVE, "above")
    model.promote(ids, "above")
    model.flush()  # the label takes effect in the subclass that was promoted
    check_stream(model.value.stream)
    model.undo()
    check_stream(model.value.stream)
    assert set(ids) <= set(model.value.stream.state.ids.tolist())
    model.undo()
    check_stream(model.value.stream)
    assert model.value.stream.labels == ("left", "right")
    with pytest.raises(NothingToUndo):
        model.undo()


def test_a_hundred_actions_can_be_taken_back(trained):
    model = recognizer(trained, chains=1)
    for _ in range(103):
        model.learn_one({"a": 0.0, "b": 0.0}, "left")
    model.flush()
    for _ in range(100):
        model.undo()
    assert model.value.stream.known.size.tolist() == [43, 40]
    with pytest.raises(NothingToUndo):
        model.undo()
    check_stream(model.value.stream)


# Labels and promotions together


def test_a_late_label_takes_an_instance_out_of_a_promoted_subclass(trained):
    model = play(recognizer(trained), 160)
    ids = emerged(model)
    model.promote(ids, "above")
    stream = model.value.stream
    chunk, at = next(
        (c, i) for c in as_batches(stream.recent)[::-1] for i, k in enumerate(c.subclass[0]) if k == ids[0]
    )
    inside = [chunk.subclass[r, at] in chain.known.named for r, chain in enumerate(stream.chains)]
    model.learn_label(chunk.keys[at], "right")
    model.flush()
    check_stream(model.value.stream)
    assert inside[0]
    for before, chain, own in zip(stream.chains, model.value.stream.chains, inside, strict=True):
        assert chain.known.size[2] == before.known.size[2] - own
        assert chain.known.size[1] == before.known.size[1] + 1


def test_a_promoted_subclass_may_lose_all_its_instances(trained):
    model = recognizer(trained, chains=2)
    rng = np.random.default_rng(3)
    for key, (a, b) in enumerate(rng.normal(NEW, size=(4, 2))):
        model.learn_one({"a": a, "b": b}, key=key)
    model.flush()
    model.promote(model.value.stream.state.ids.tolist(), "above")
    for key in range(4):
        model.learn_label(key, "right")
    model.flush()
    check_stream(model.value.stream)
    assert [chain.known.size[2] for chain in model.value.stream.chains] == [0, 0]
    play(model, 96)
    check_stream(model.value.stream)
    for _ in range(5):
        model.undo()
        check_stream(model.value.stream)
    play(model, 160, 96)
    check_stream(model.value.stream)


def members_of(past: RecentInstances, number: int, key: int) -> int:
    return len(remembered(past, number, key))


def test_every_instance_counts_once(trained):
    # one that leaves a promoted subclass for an emerging one leaves its statistics too
    model = play(recognizer(trained, window=128, label_horizon=10_000), 160, new_share=0.6)
    for key in model.value.stream.state.ids.tolist()[:3]:
        if key in model.value.stream.state.ids:
            model.promote([key], f"c{key}")
    play(model, 320, 160, new_share=0.6)
    check_stream(model.value.stream)
    for number, chain in enumerate(model.value.stream.chains):
        for k, key in enumerate(chain.known.ids.tolist()):
            if key in chain.known.named:
                assert chain.known.dishes.size[k] == members_of(model.value.stream.recent, number, key)
        for k, key in enumerate(chain.state.ids.tolist()):
            assert chain.state.dishes.size[k] == members_of(model.value.stream.recent, number, key)
    while model.value.stream.undo_log:
        model.undo()
        check_stream(model.value.stream)
        for number, chain in enumerate(model.value.stream.chains):
            for k, key in enumerate(chain.state.ids.tolist()):
                assert chain.state.dishes.size[k] == members_of(model.value.stream.recent, number, key)


def test_instances_that_leave_a_promoted_subclass_leave_its_statistics():
    # without a broad term a class of eight instances loses them, in the window, to what comes next
    model = fitted(training_sweeps=5, broad=False, **PARAMETERS)
    rng = np.random.default_rng(3)
    for number in range(40):
        if number == 8:
            model.flush()
            ids = model.value.stream.state.ids.tolist()
            model.promote(ids, "above")
        model.learn_one(dict(zip("ab", rng.normal(NEW), strict=True)), key=number)
    model.flush()
    check_stream(model.value.stream)
    assert any(chain.known.size[2] < 8 for chain in model.value.stream.chains)
    for undone in (False, True):
        if undone:
            model.undo()
            check_stream(model.value.stream)
        for number, chain in enumerate(model.value.stream.chains):
            for dishes, keys in ((chain.known.dishes, chain.known.ids), (chain.state.dishes, chain.state.ids)):
                for size, key in zip(dishes.size.tolist(), keys.tolist(), strict=True):
                    if key in chain.known.named or dishes is chain.state.dishes:
                        assert size == members_of(model.value.stream.recent, number, key)


# Muting


def test_nothing_is_told_of_what_is_muted(trained):
    model = play(recognizer(trained), 128)
    told(model)
    ids = emerged(model)
    model.mute(ids)
    events = told(model)[1]
    assert [e.subclass_id for e in events if isinstance(e, SubclassMuted)] == list(ids)
    assert model.summary().delta == model.new_classes().number == 0
    assert model.new_classes().candidates == ()
    play(model, 640, 128)
    check_stream(model.value.stream)
    decisions, events = told(model)
    found = [d for y, d in truth(decisions) if y == "new"]
    assert np.mean([d.label == "unknown" for d in found]) > 0.95
    assert np.mean([d.subclass_id in ids for d in found]) > 0.9
    assert not [e for e in events if getattr(e, "subclass_id", None) in ids]
    assert not [e for e in events if isinstance(e, NewClassesChanged) and set(e.subclasses) & set(ids)]
    with pytest.raises(InvalidSubclass, match=f"subclass {ids[0]} is muted already"):
        model.mute(ids)
    model.undo()
    assert ids[0] in model.new_classes().candidates[0].subclasses
    undone = next(e for e in told(model)[1] if isinstance(e, ActionUndone))
    still = tuple(key for key in ids if key in model.value.stream.state.ids)
    assert (undone.action, undone.subclass_ids, undone.label) == ("mute", still, None)


def test_muting_before_it_has_emerged_keeps_it_from_emerging(trained):
    model = recognizer(trained, batch_size=4)
    rng = np.random.default_rng(1)
    for a, b in rng.normal(NEW, size=(4, 2)):
        model.learn_one({"a": a, "b": b})
    model.mute(model.value.stream.state.ids.tolist())
    for a, b in rng.normal(NEW, size=(40, 2)):
        model.learn_one({"a": a, "b": b})
    decisions, events = told(model)
    assert {type(e) for e in events} - {UnknownRateJumped} == {SubclassMuted}
    assert {d.label for d in decisions} == {"unknown"}


def test_a_muted_subclass_is_still_there_after_a_long_time(trained):
    model = play(recognizer(trained, max_subclasses=1, window=16, half_life=20.0), 128)
    ids = emerged(model)
    model.mute(ids[:1])
    told(model)
    play(model, 400, seed=3, new_share=0.0)
    rng = np.random.default_rng(1)
    for a, b in rng.normal((40.0, 40.0), size=(64, 2)):  # another one that is better supported
        model.learn_one({"a": a, "b": b})
    play(model, 400, seed=4, new_share=0.0)
    assert ids[0] in model.value.stream.state.ids
    told(model)
    for a, b in rng.normal(NEW, size=(32, 2)):
        model.learn_one({"a": a, "b": b})
    decisions, events = told(model)
    assert not [e for e in events if isinstance(e, SubclassEmerged)]
    assert np.mean([d.subclass_id == ids[0] for d in decisions]) > 0.9


def test_a_muted_subclass_can_be_promoted_and_given_back_muted(trained):
    model = play(recognizer(trained), 128)
    ids = emerged(model)
    model.mute(ids)
    model.promote(ids, "above")
    assert model.predict_one(ABOVE) == "above"
    model.undo()
    assert all(model.value.stream.life.subclasses[key].muted for key in ids)
    assert model.predict_one(ABOVE) == "unknown"


# Replaying


def test_saving_in_between_gives_the_same_bits(tmp_path, trained):
    def run(saves: bool) -> str:
        model = recognizer(trained)

        def stop() -> None:
            nonlocal model
            if saves:
                model.save(tmp_path / "model.osr")
                model = OpenSetRecognizer.load(tmp_path / "model.osr")

        play(model, 150)
        ids = emerged(model)
        model.learn_label(145, "right")  # waits for its batch
        stop()
        model.promote(ids[:1], "above")
        stop()
        play(model, 200, 150)
        stop()
        if model.value.stream.state.ids.size:
            model.mute(model.value.stream.state.ids.tolist()[:1])
            stop()
        model.learn_label(100, "above")
        play(model, 232, 200)
        for _ in range(3):
            stop()
            model.undo()
        stop()
        play(model, 290, 232)
        return outcome(model)

    assert run(saves=True) == run(saves=False)


def test_place_within_a_batch_does_not_matter(trained):
    # whoever replays the calls between the same batches gets the same bits
    def run(shift: int) -> str:
        model = play(recognizer(trained), 160)
        ids = emerged(model)
        play(model, 164 + shift, 160)
        model.promote(ids, "above")
        model.learn_one(ABOVE, "above")
        play(model, 256, 164 + shift)
        play(model, 260 + shift, 256)
        model.undo()
        model.undo()
        play(model, 330, 260 + shift)
        return outcome(model)

    assert run(0) == run(20)

"""Promoting and muting what emerged, and undoing that: the model keeps what it has learnt."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_osr import (
    ActionUndone,
    Decision,
    NewClassesChanged,
    OpenSetRecognizer,
    SubclassEmerged,
    SubclassMuted,
    SubclassPromoted,
    TrainedModel,
)
from stream_osr.config import grouped
from stream_osr.errors import InvalidLabel, InvalidSubclass, NothingToUndo
from stream_osr.stream import Stream
from stream_osr.stream.naming import counterparts
from stream_osr.stream.recent_instances import as_batches, from_batches, remembered
from tests.blobs import KNOWN, NEW, archived, around, check_stream, drained, ended, fitted, learn_all, stream_part
from tests.blobs import play as play_all
from tools.golden import plain

PARAMETERS: dict[str, Any] = {"batch_size": 32, "window": 64, "half_life": 100.0, "seed": 5}
ABOVE = {"a": NEW[0], "b": NEW[1]}
FAR = {"a": -30.0, "b": -30.0}
TRUTH = [y for _, y in stream_part(640)]


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return fitted(training_sweeps=10).trained


def recognizer(trained: TrainedModel, **arguments: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(trained, **grouped(**{**PARAMETERS, **arguments}))


def play(model: OpenSetRecognizer, end: int, start: int = 0, **arguments: Any) -> OpenSetRecognizer:
    """Stream the instances from number ``start`` on, up to ``end``."""
    return play_all(model, stream_part(640, **arguments)[start:end], start)


def emerged(model: OpenSetRecognizer) -> tuple[int, ...]:
    """Subclasses of the largest candidate class."""
    return model.new_classes().candidates[0].subclasses


@pytest.fixture
def begun(trained: TrainedModel) -> OpenSetRecognizer:
    """A recognizer after five batches, in whose stream a new class has emerged."""
    return play(recognizer(trained), 160)


def content(model: OpenSetRecognizer) -> Any:
    """Everything that the stream holds, to the last bit, but for what can be taken back."""
    stream = archived(model.value.stream)
    return plain(stream._replace(undo_log=(), recent=as_batches(stream.recent)))


def stream_of(model: OpenSetRecognizer) -> Stream:
    """The stream, once its counts are checked."""
    check_stream(model.value.stream)
    return model.value.stream


def found(model: OpenSetRecognizer) -> list[Decision]:
    """Decisions that wait about instances of the new class."""
    return [d for d in model.drain() if TRUTH[d.key] == "new"]


def outcome(model: OpenSetRecognizer) -> Any:
    return plain((drained(model), model.value.stream.undo_log, model.predict_proba_one(ABOVE))), content(model)


# Promotion


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        pytest.param({"chains": 1, "window": 0}, marks=pytest.mark.thorough),
        pytest.param({"ensemble": "drawn", "chains": 2, "decision_delay": 40}, marks=pytest.mark.thorough),
        pytest.param({"broad": False, "chains": 2, "label_horizon": 0}, marks=pytest.mark.thorough),
        pytest.param({"follow_drift": True, "chains": 2}, marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_the_next_batch_recognizes_what_was_promoted(arguments):
    model = play(fitted(training_sweeps=10, **{**PARAMETERS, **arguments}), 160)
    drained(model)
    ids = emerged(model)
    twin = play(pickle.loads(pickle.dumps(model)), 256, 160)
    twin.flush()
    model.promote(ids, "above")
    assert stream_of(model).labels[-1] == model.predict_one(ABOVE) == "above"
    events = drained(model)[1]
    play(model, 256, 160).flush()
    check_stream(model.value.stream)
    decisions = [d for d in model.drain() if d.key >= 160]
    new = [d for d in decisions if TRUTH[d.key] == "new"]
    assert len(new) > 20
    assert np.mean([d.label == "above" for d in new]) > 0.9
    assert np.mean([d.probabilities["above"] for d in new]) > 0.9
    assert {d.subclass_id for d in new if d.label == "above"} <= set(ids)
    known, unnamed = [d for d in decisions if d not in new], {d.key: d.label for d in twin.drain()}
    before = np.mean([unnamed[d.key] == TRUTH[d.key] for d in known])
    assert np.mean([d.label == TRUTH[d.key] for d in known]) > before - 0.1
    assert sum(d.label == "above" for d in known) <= 2
    assert [e.subclass_id for e in events if isinstance(e, SubclassPromoted)] == list(ids)
    assert not [e for e in drained(model)[1] if getattr(e, "subclass_id", None) in ids]


@pytest.mark.parametrize(("coming", "seed"), [(4, 0), pytest.param(16, 1, marks=pytest.mark.thorough)])
def test_a_class_of_few_instances_is_recognized(trained, coming, seed):
    # its density does not absorb them; without a broad term those that come would be a subclass of their own
    rng = np.random.default_rng([seed, 8])
    model = recognizer(trained)
    learn_all(model, [(x, None) for x in around(NEW, 8, rng)]).flush()
    model.promote(model.value.stream.state.ids.tolist(), "above")
    drained(model)
    learn_all(model, [(x, None) for x in around(NEW, coming, rng)])
    assert np.mean([d.probabilities["above"] for d in ended(model)]) > 0.7
    check_stream(model.value.stream)


def test_a_promotion_into_a_known_class_and_its_undo_after_batches(begun):
    drained(begun)
    before = begun.value.stream
    begun.promote(emerged(begun), "left")
    after = stream_of(begun)
    assert after.labels == ("left", "right")
    for old, new in zip(before.chains, after.chains, strict=True):
        assert new.known.size[0] > old.known.size[0] + 30
        assert new.known.size[1] == old.known.size[1]
    np.testing.assert_array_equal(after.known.ranks[1], before.known.ranks[1])
    assert (np.diff(after.known.ranks[0]) >= 0).all()
    decisions = list(play(begun, 256, 160).drain())
    assert np.mean([d.label == {"new": "left"}.get(TRUTH[d.key], TRUTH[d.key]) for d in decisions]) > 0.95
    assert np.mean([d.probabilities["left"] for d in decisions if TRUTH[d.key] == "new"]) > 0.9
    begun.undo()
    for old, chain in zip(before.chains, stream_of(begun).chains, strict=True):
        for name in ("ids", "ranks", "size"):
            np.testing.assert_array_equal(getattr(chain.known, name), getattr(old.known, name))
    check_stream(play(begun, 352, 256).value.stream)
    assert np.mean([d.label == "unknown" for d in found(begun)]) > 0.9


@pytest.mark.thorough
def test_a_small_subclass_counts_in_a_large_class_or_beside_it():
    # below the share epsilon of its class a trained subclass is dropped; one that was named is not
    model = fitted(1200, **{**PARAMETERS, "training_sweeps": 5})
    learn_all(model, [(x, None) for x in around(NEW, 10, np.random.default_rng(3))])
    model.flush()
    assert model.predict_one(ABOVE) == "unknown"
    for label in ("left", "above"):  # references are weighted: they stand for more instances than are kept
        model.promote(model.value.stream.state.ids.tolist(), label)
        assert model.predict_proba_one(ABOVE)[label] > 0.9
        check_stream(model.value.stream)
        model.undo()


def test_a_promotion_moves_statistics_and_seats_once_and_is_an_event(begun):
    before, ids = begun.value.stream, emerged(begun)
    first = next(e for e in drained(begun)[1] if getattr(e, "subclass_id", None) == ids[0])
    begun.promote([*ids, *ids], "above")
    after, key = begun.value.stream, ids[0]
    slot, k = before.state.ids.tolist().index(key), after.known.ids.tolist().index(key)
    for name in ("size", "matrix", "inverse", "log_det"):
        old, new = getattr(before.state.dishes, name)[slot], getattr(after.known.dishes, name)[k]
        np.testing.assert_array_equal(new, old)
    assert after.state.franchise.seated[0, 2] == before.state.franchise.seated[0, 2 + slot]
    assert after.known.seated[2, k] == before.state.dishes.size[slot]
    assert key not in after.life.subclasses
    ranks = after.known.ranks[2]
    assert ranks[0] < ranks[50] < ranks[100] < 0
    promoted, *others = drained(begun)[1]
    assert isinstance(promoted, SubclassPromoted)
    assert (promoted.subclass_id, promoted.label, promoted.model) == (key, "above", begun.trained.fingerprint)
    assert (promoted.batch, promoted.seq) == (4, 159)
    assert promoted.first_seen == first.first_seen
    assert promoted.size >= first.size
    assert promoted.explanation.nearest_class in KNOWN
    assert [e.delta for e in others if isinstance(e, NewClassesChanged)] == [begun.summary().delta]
    assert after.known.ids.tolist().count(key) == 1
    with pytest.raises(InvalidSubclass, match="belongs to the known class 'above'"):
        begun.promote(ids, "above")


def test_a_chain_without_a_counterpart_gets_one(begun):
    model, key = begun, emerged(begun)[0]
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
    check_stream(play(model, 224, 160).value.stream)


# Errors: nothing changes


@pytest.mark.parametrize(
    ("ids", "label", "error", "message"),
    [
        ([], "x", InvalidSubclass, r"no subclass id was given. Give the subclasses to be promoted, such as \[7\]"),
        ([10**6], "x", InvalidSubclass, "subclass 1000000 does not exist. The emerging subclasses are: "),
        ([-1], "x", InvalidSubclass, "subclass -1 does not exist"),
        ([0], "x", InvalidSubclass, "subclass 0 belongs to the known class 'left'. Only emerging subclasses can be"),
        ("7", "x", InvalidSubclass, r"subclass_ids is '7' \(str\): expected a list of ids, such as \[7\]"),
        ([1.5], "x", InvalidSubclass, r"subclass id is 1.5 \(float\): expected whole numbers"),
        (None, "unknown", InvalidLabel, "is the label of unknown instances"),
        (None, 3, InvalidLabel, "Use labels of one type"),
        (None, 2.5, InvalidLabel, "expected str, int or bool"),
    ],
)
def test_what_cannot_be_named_is_an_error(trained, ids, label, error, message):
    model = play(recognizer(trained), 96)
    if ids is None or (ids and isinstance(ids, list)):
        ids = [*emerged(model), *(ids or [])]  # one that is bad spoils all
    before = pickle.dumps(model)
    with pytest.raises(error, match=message):
        model.promote(ids, label)
    assert pickle.dumps(model) == before
    if error is InvalidSubclass:
        with pytest.raises(error, match=message.replace("promoted", "muted")):
            model.mute(ids)


def test_a_subclass_that_has_gone_is_named_in_the_error(trained):
    model = recognizer(trained, half_life=10.0, window=0)
    learn_all(model, [(FAR, None)]).flush()
    (gone,) = model.value.stream.state.ids.tolist()
    play(model, 320, new_share=0.0)
    with pytest.raises(InvalidSubclass, match=f"subclass {gone} has left the model"):
        model.promote([gone], "above")


# Undoing


@pytest.mark.parametrize(("label", "arguments"), [("above", {}), ("left", {"decision_delay": 40, "chains": 2})])
def test_undoing_a_promotion_at_once_leaves_nothing_behind(label, arguments):
    model = play(fitted(training_sweeps=5, **{**PARAMETERS, **arguments}), 170)
    drained(model)
    before = content(model)
    model.promote(emerged(model), label)
    assert content(model) != before
    model.undo()
    assert content(model) == before
    events = [e for e in drained(model)[1] if isinstance(e, ActionUndone)]
    assert [(e.action, e.label) for e in events] == [("promotion", label)]


def test_undoing_a_promotion_after_batches_keeps_what_was_learnt_since(begun):
    model, ids, earlier = begun, emerged(begun), begun.value.stream.state
    model.promote(ids, "above")
    play(model, 224, 160)
    model.undo()
    stream = stream_of(model)
    for key in ids:  # and those beside them in the window
        sizes = [state.dishes.size[state.ids.tolist().index(key)] for state in (earlier, stream.state)]
        assert sizes[1] >= sizes[0] - 3
    assert stream.labels == ("left", "right", "above")  # decisions have named it
    assert not any(chain.known.size[2] for chain in stream.chains)
    assert model.predict_one(ABOVE) == "unknown"
    assert model.predict_proba_one(ABOVE)["above"] == 0.0
    assert all(stream.life.subclasses[key].emerged for key in ids)
    drained(model)
    check_stream(play(model, 320, 224).value.stream)
    decisions = found(model)
    assert np.mean([d.label == "unknown" for d in decisions]) > 0.95
    assert np.mean([d.subclass_id in ids for d in decisions]) > 0.8
    assert not [e for e in drained(model)[1] if isinstance(e, SubclassEmerged)]
    model.promote(ids, "above")  # the name is still there
    assert model.value.stream.labels == ("left", "right", "above")
    assert model.predict_one(ABOVE) == "above"


@pytest.mark.parametrize("kind", ["new instance", "in the window", "settled", "promoted"])
@pytest.mark.parametrize("label", ["left", pytest.param("fresh", marks=pytest.mark.thorough)])
def test_undoing_a_label_puts_everything_back(trained, kind, label):
    model = play(recognizer(trained), 192)
    ids = emerged(model)
    if kind == "promoted":
        model.promote(ids, "above")
    stream = model.value.stream
    inside = [seq for key in ids for seq in remembered(stream.recent, 0, key).tolist()]
    probes = [ABOVE, FAR, {"a": 0.0, "b": 0.0}, {"a": 10.0, "b": 1.0}]
    before = [model.predict_proba_one(x) for x in probes]
    if kind == "new instance":
        model.learn_one(FAR, label)
    else:
        model.learn_label(max(seq for seq in inside if seq <= (100 if kind == "settled" else 191)), label)
    model.flush()
    check_stream(model.value.stream)
    assert [model.predict_proba_one(x) for x in probes] != before
    model.undo()
    for old, x in zip(before, probes, strict=True):
        new = model.predict_proba_one(x)
        assert old.keys() == new.keys()
        np.testing.assert_allclose(list(new.values()), list(old.values()), rtol=1e-9, atol=1e-12)
    after = stream_of(model)
    assert after.labels == stream.labels
    np.testing.assert_array_equal(after.state.window_seq, stream.state.window_seq)
    assert plain(as_batches(after.recent)) == plain(as_batches(stream.recent))
    check_stream(play(model, 256, 192).value.stream)


def test_the_last_action_is_undone_first(trained):
    model = play(recognizer(trained), 96)
    ids = emerged(model)
    before = content(model)
    model.learn_one(FAR, "far")  # waits
    model.promote(ids, "above")
    model.learn_one(FAR, "farther")  # waits
    for labels in (("left", "right", "above"), ("left", "right")):
        model.undo()
        assert [e.label for e in model.value.evidence] == ["far"]
        assert model.value.stream.labels == labels
    twin = pickle.loads(pickle.dumps(model))
    model.flush()
    assert model.value.stream.labels == ("left", "right", "far")
    model.undo()
    assert stream_of(model).labels == ("left", "right")
    twin.undo()  # before it has taken effect
    twin.flush()
    assert content(twin) == before
    with pytest.raises(NothingToUndo, match="no promotion, mute, late label or verdict on a moved frame to undo"):
        twin.undo()


def test_a_label_that_waits_is_learnt_after_a_promotion(trained):
    model = play(recognizer(trained), 96)
    ids = emerged(model)
    model.learn_one(ABOVE, "above")
    model.promote(ids, "above")
    model.flush()  # the label takes effect in the subclass that was promoted
    check_stream(model.value.stream)
    model.undo()
    assert set(ids) <= set(stream_of(model).state.ids.tolist())
    model.undo()
    assert stream_of(model).labels == ("left", "right")
    with pytest.raises(NothingToUndo):
        model.undo()


def test_a_hundred_actions_can_be_taken_back(trained):
    model = recognizer(trained, chains=1)
    for _ in range(103):
        model.learn_one({"a": 0.0, "b": 0.0}, "left")
    model.flush()
    for _ in range(100):
        model.undo()
    assert stream_of(model).known.size.tolist() == [43, 40]
    with pytest.raises(NothingToUndo):
        model.undo()


# Labels and promotions together


def test_late_labels_may_take_all_instances_out_of_a_promoted_subclass(trained):
    model = recognizer(trained, chains=2)
    play_all(model, [(x, None) for x in around(NEW, 4, np.random.default_rng(3))])
    model.flush()
    model.promote(model.value.stream.state.ids.tolist(), "above")
    for key in range(4):
        model.learn_label(key, "right")
    model.flush()
    assert [chain.known.size.tolist() for chain in stream_of(model).chains] == [[40, 44, 0]] * 2
    play(model, 96)
    for _ in range(5):
        check_stream(model.value.stream)
        model.undo()
    check_stream(model.value.stream)
    check_stream(play(model, 160, 96).value.stream)


def check_counts(model: OpenSetRecognizer) -> None:
    """Each subclass that emerged or was named holds, in each chain, the instances that sit in it."""
    stream = stream_of(model)
    for number, chain in enumerate(stream.chains):
        dishes = [*zip(chain.state.ids.tolist(), chain.state.dishes.size.tolist(), strict=True)]
        dishes += zip(chain.known.ids.tolist(), chain.known.dishes.size.tolist(), strict=True)
        for key, size in dishes:
            if key in chain.known.named or key in chain.state.ids:
                assert size == len(remembered(stream.recent, number, key))


@pytest.mark.thorough
def test_every_instance_counts_once(trained):
    # one that leaves a promoted subclass for an emerging one leaves its statistics too
    model = play(recognizer(trained, window=128, label_horizon=10_000), 160, new_share=0.6)
    for key in model.value.stream.state.ids.tolist()[:3]:
        if key in model.value.stream.state.ids:
            model.promote([key], f"c{key}")
    check_counts(play(model, 320, 160, new_share=0.6))
    while model.value.stream.undo_log:
        model.undo()
        check_counts(model)


# Muting


def test_a_muted_subclass_has_no_events_until_it_is_promoted_or_the_muting_is_undone(trained):
    model = play(recognizer(trained), 128)
    drained(model)
    ids = emerged(model)
    model.mute(ids)
    events = drained(model)[1]
    assert [e.subclass_id for e in events if isinstance(e, SubclassMuted)] == list(ids)
    assert model.summary().delta == model.new_classes().number == 0
    assert model.new_classes().candidates == ()
    model.promote(ids, "above")
    assert model.predict_one(ABOVE) == "above"
    model.undo()
    assert all(model.value.stream.life.subclasses[key].muted for key in ids)
    assert model.predict_one(ABOVE) == "unknown"
    drained(model)
    check_stream(play(model, 640, 128).value.stream)
    decisions = found(model)
    assert np.mean([d.label == "unknown" for d in decisions]) > 0.95
    assert np.mean([d.subclass_id in ids for d in decisions]) > 0.9
    events = drained(model)[1]
    assert not [e for e in events if getattr(e, "subclass_id", None) in ids]
    assert not [e for e in events if isinstance(e, NewClassesChanged) and set(e.subclasses) & set(ids)]
    with pytest.raises(InvalidSubclass, match=f"subclass {ids[0]} is muted already"):
        model.mute(ids)
    model.undo()
    assert ids[0] in model.new_classes().candidates[0].subclasses
    undone = next(e for e in drained(model)[1] if isinstance(e, ActionUndone))
    still = tuple(key for key in ids if key in model.value.stream.state.ids)
    assert (undone.action, undone.subclass_ids, undone.label) == ("mute", still, None)


# Replaying


def test_saving_in_between_gives_the_same_bits(tmp_path, trained):
    steps = [
        lambda model: play(model, 150).learn_label(145, "right"),  # waits for its batch
        lambda model: model.mute(model.value.stream.state.ids.tolist()[:1]),
        lambda model: model.promote(model.value.stream.state.ids.tolist()[:1], "above"),
        lambda model: play(model, 200, 150),
        lambda model: model.learn_label(100, "above"),
        lambda model: play(model, 232, 200),
        *[OpenSetRecognizer.undo] * 4,
        lambda model: play(model, 290, 232),
    ]
    one, saved = recognizer(trained), recognizer(trained)
    for step in steps:
        step(one)
        step(saved)
        saved.save(tmp_path / "model.osr")
        saved = OpenSetRecognizer.load(tmp_path / "model.osr")
    assert outcome(saved) == outcome(one)

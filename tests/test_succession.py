"""A stream continues with a model that was trained anew: what has emerged keeps ids, statistics and lives."""

from __future__ import annotations

from collections import Counter
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import (
    NewClassesChanged,
    OpenSetRecognizer,
    SubclassDormant,
    SubclassEmerged,
    SubclassForgotten,
    SubclassRecurred,
)
from stream_osr.config import grouped
from stream_osr.errors import InvalidLabel, InvalidParameter, NothingToUndo
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.model.marginal import of_nobody
from stream_osr.model.prior import homogeneous
from stream_osr.stream import Stream
from stream_osr.stream.recent_instances import as_batches, remembered
from tests.blobs import KNOWN, NEW, around, check_stream, drained, learn_all, members, stream_part, training_part
from tests.blobs import play as play_all
from tests.data import need_data
from tools.golden import plain

SETTINGS: dict[str, Any] = {"batch_size": 32, "window": 32, "half_life": 100.0, "chains": 2, "training_sweeps": 10}
ABOVE = {"a": NEW[0], "b": NEW[1]}
FAR = (-30.0, 25.0)
LENGTH = 256
DIFFERENT = {"nu": 6.0, "scale": 0.3, "beta": 0.5}


@cache
def _fitted(seed: int, extra: tuple[str, tuple[float, ...]] | None, arguments: tuple[Any, ...]) -> OpenSetRecognizer:
    model = OpenSetRecognizer(**grouped(**{**SETTINGS, "seed": seed, **dict(arguments)}))
    learn_all(model, training_part(50, seed))
    if extra:
        label, centre = extra
        learn_all(model, [(x, label) for x in around(centre, 50, np.random.default_rng([seed, 7]))])
    model.freeze()
    return model


def fitted(seed: int = 0, extra: tuple[str, tuple[float, ...]] | None = None, **arguments: Any) -> OpenSetRecognizer:
    """A recognizer trained on a sample of its own, perhaps on one class more."""
    return copy(_fitted(seed, extra, tuple(arguments.items())))


def play(model: OpenSetRecognizer, seed: int = 0, begin: int = 0, n: int = LENGTH) -> OpenSetRecognizer:
    return play_all(model, stream_part(n, seed), begin)


def play_at(model: OpenSetRecognizer, centre: tuple[float, ...], n: int, begin: int) -> OpenSetRecognizer:
    return play_all(model, [(x, None) for x in around(centre, n, np.random.default_rng([n, begin]))], begin)


@pytest.fixture
def earlier() -> OpenSetRecognizer:
    """A recognizer in whose stream a subclass has emerged."""
    return play(fitted(0))


def carried(earlier: OpenSetRecognizer, model: OpenSetRecognizer) -> OpenSetRecognizer:
    earlier.flush()
    drained(earlier)
    model.carry_over(earlier)
    check_stream(stream_of(model))
    return model


def stream_of(model: OpenSetRecognizer) -> Stream:
    assert model.value.stream is not None
    return model.value.stream


def content(model: OpenSetRecognizer) -> Any:
    """Everything that the stream holds, to the last bit."""
    return plain(stream_of(model)._replace(recent=as_batches(stream_of(model).recent)))


def known_seats(model: OpenSetRecognizer) -> np.ndarray:
    """Seats of each known class."""
    stream = stream_of(model)
    return stream.state.franchise.seated[0, : len(stream.labels)]


def emerged_id(model: OpenSetRecognizer) -> int:
    """Id of the largest subclass that has emerged."""
    statistics = model.value.emerged_statistics()
    return max(statistics, key=lambda key: int(statistics[key].size[0]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {}),
        pytest.param({"chains": 4, "pca_components": 2}, {"chains": 1}, marks=pytest.mark.thorough),
        pytest.param({"chains": 1}, {"chains": 3}, marks=pytest.mark.thorough),
        pytest.param({"ensemble": "drawn"}, DIFFERENT, marks=pytest.mark.thorough),
    ],
)
def test_a_retrained_model_goes_on_with_what_has_emerged(old: dict[str, Any], new: dict[str, Any]) -> None:
    earlier = play(fitted(0, **old))
    emerged = {e.subclass_id for e in drained(earlier)[1] if isinstance(e, SubclassEmerged)}
    key = emerged_id(earlier)
    assert key in emerged
    model = carried(earlier, fitted(1, **new))
    assert not np.allclose(model.trained.whitening.center, earlier.trained.whitening.center)
    before = stream_of(model).state.next_id
    assert model.predict_one(ABOVE) == "unknown"
    decisions, events = drained(play(model, seed=3, begin=LENGTH))
    truth = [label for _, label in stream_part(LENGTH, 3)]
    check_stream(stream_of(model))
    mine = [d.subclass_id for d in decisions if truth[d.key - LENGTH] == "new"]
    assert mine.count(key) > 0.95 * len(mine)
    assert not [e for e in events if isinstance(e, SubclassEmerged)]
    assert [d.seq for d in decisions] == list(range(LENGTH, 2 * LENGTH))
    assert decisions[0].batch == stream_of(earlier).state.batches, (
        "batches have other random numbers than those before"
    )
    assert all(d.subclass_id is None or d.subclass_id == key or d.subclass_id > before - 20 for d in decisions)
    assert np.mean([d.label == y for d, y in zip(decisions, truth, strict=True) if y != "new"]) > 0.95


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {}),
        pytest.param({"ensemble": "drawn"}, DIFFERENT, marks=pytest.mark.thorough),
        pytest.param({"pca_components": 2}, {"pca_components": 1}, marks=pytest.mark.thorough),
    ],
)
def test_statistics_are_those_of_the_instances(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Exactly what whitening the instances by the new model gives."""
    earlier = play(fitted(0, **old), n=250)
    model = carried(earlier, fitted(1, **new))
    raw = np.array([[x["a"], x["b"]] for x, _ in stream_part(250)])
    rows = homogeneous(whiten(model.trained.whitening, raw))
    its, own = stream_of(earlier), stream_of(model)
    seen = 0
    for number, chain in enumerate(own.chains):
        inside = members(its, number)
        prior = chain.known.prior
        for slot, key in enumerate(chain.state.ids.tolist()):
            mine = rows[inside[key]]
            sums = mine.T @ mine
            found = chain.state.dishes.matrix[slot] - of_nobody(prior)
            np.testing.assert_allclose(found, sums, rtol=1e-9, atol=1e-8)
            assert chain.state.dishes.size[slot] == len(mine)
            seen += len(mine)
        np.testing.assert_array_equal(members(own, number)[key], inside[key])
    np.testing.assert_allclose(own.recent.rows, rows[:, :-1], atol=1e-9)
    life, kept = own.life.subclasses[emerged_id(model)], its.life.subclasses[emerged_id(earlier)].kept
    np.testing.assert_allclose(life.kept.rows, rows[kept.seq, :-1], atol=1e-9)
    assert life.kept.keys.tolist() == kept.keys.tolist()
    assert seen > 100


@pytest.mark.parametrize("arguments", [{}, {"pca_components": 1}])
def test_over_the_same_trained_part_statistics_are_the_same_bits(arguments: dict[str, Any]) -> None:
    """Other settings are another model to the service; whatever the PCA is, nothing has to be mapped."""
    earlier = play(fitted(0, **arguments))
    model = OpenSetRecognizer.from_trained(earlier.trained, **grouped(**{**SETTINGS, **arguments, "seed": 9}))
    carried(earlier, model)
    for old, new in zip(stream_of(earlier).chains, stream_of(model).chains, strict=True):
        np.testing.assert_array_equal(new.state.ids, old.state.ids)
        np.testing.assert_array_equal(new.state.dishes.matrix, old.state.dishes.matrix)
        assert plain(new.life.subclasses) == plain(old.life.subclasses)
        assert len(new.state.ids)


def test_it_is_a_value_and_survives_saving(earlier: OpenSetRecognizer, tmp_path: Path) -> None:
    earlier.flush()
    state = content(earlier)
    model = carried(earlier, fitted(1))
    assert content(earlier) == state, "the earlier recognizer stays as it is"
    model.save(tmp_path / "m.osr")
    earlier.save(tmp_path / "e.osr")
    again = carried(OpenSetRecognizer.load(tmp_path / "e.osr"), fitted(1))
    loaded = OpenSetRecognizer.load(tmp_path / "m.osr")
    assert content(model) == content(again) == content(loaded)
    expected = drained(play(model, seed=3, begin=LENGTH))
    assert drained(play(loaded, seed=3, begin=LENGTH)) == expected
    assert drained(play(again, seed=3, begin=LENGTH)) == expected


# Lives


def test_trends_and_dormancy_go_on() -> None:
    earlier = play(fitted(0, half_life=30.0))
    key = emerged_id(earlier)
    play_at(earlier, KNOWN["left"], 160, LENGTH)
    assert not [e for e in drained(earlier)[1] if isinstance(e, SubclassDormant)]
    life = stream_of(earlier).life.subclasses[key]
    model = carried(earlier, fitted(1, half_life=30.0))
    begun = stream_of(model)
    assert begun.life.subclasses[key]._replace(kept=None) == life._replace(kept=None)
    old, new = stream_of(earlier).state, begun.state
    of_subclass = [float(s.franchise.seated[0, 2 + s.ids.tolist().index(key)]) for s in (old, new)]
    assert of_subclass[0] == pytest.approx(of_subclass[1])
    np.testing.assert_allclose(known_seats(model), known_seats(earlier) + known_seats(fitted(1)), rtol=1e-9)
    np.testing.assert_array_equal(new.franchise.alpha, old.franchise.alpha)
    events = drained(play_at(model, KNOWN["left"], 320, LENGTH + 160))[1]
    assert [e.subclass_id for e in events if isinstance(e, SubclassDormant)] == [key]
    third = carried(model, fitted(2, half_life=30.0))
    decisions, events = drained(play_at(third, NEW, 32, LENGTH + 480))
    assert [e.subclass_id for e in events if isinstance(e, SubclassRecurred)] == [key]
    assert [d.subclass_id for d in decisions] == [key] * 32


def test_what_was_set_aside_comes_back() -> None:
    earlier = play(fitted(0, half_life=20.0, max_subclasses=1))
    key = emerged_id(earlier)
    play_at(earlier, FAR, 256, LENGTH)
    assert stream_of(earlier).chains[0].dormant.ids.tolist() == [key]
    model = carried(earlier, fitted(1, half_life=20.0, max_subclasses=1))
    assert stream_of(model).chains[0].dormant.ids.tolist() == [key]
    events = drained(play_at(model, NEW, 64, LENGTH + 256))[1]
    assert key in [e.subclass_id for e in events if isinstance(e, SubclassRecurred)]
    assert not [e for e in events if isinstance(e, SubclassEmerged)]


def test_candidates_are_announced_when_they_have_support(earlier: OpenSetRecognizer) -> None:
    play_at(earlier, FAR, 3, LENGTH)
    earlier.flush()
    assert len([e for e in drained(earlier)[1] if isinstance(e, SubclassEmerged)]) == 1
    (candidate,) = set(as_batches(stream_of(earlier).recent)[-1].subclass[0].tolist())
    model = carried(earlier, fitted(1))
    decisions, events = drained(play_at(model, FAR, 32, LENGTH + 3))
    assert [(e.subclass_id, e.size) for e in events if isinstance(e, SubclassEmerged)] == [(candidate, 35)]
    assert {d.subclass_id for d in decisions} == {candidate}


def test_muted_ones_stay_muted(earlier: OpenSetRecognizer) -> None:
    key = emerged_id(earlier)
    earlier.mute([key])
    model = carried(earlier, fitted(1))
    assert model.new_classes().number == 0
    decisions, events = drained(play_at(model, NEW, 64, LENGTH))
    assert {d.subclass_id for d in decisions} == {key}
    assert {type(event).__name__ for event in events} <= {"UnknownRateJumped"}
    with pytest.raises(NothingToUndo):
        model.undo()


def test_counts_go_on(earlier: OpenSetRecognizer) -> None:
    earlier.learn_one({"a": 1.0})
    model = carried(earlier, fitted(1))
    own = play(fitted(1), n=1).signals.dependence
    expected = earlier.signals._replace(expected_recall=None, dependence=own)
    assert model.signals == expected, "the new model has its own references and neighbours"
    assert model.signals.novelty == model.signals.data_quality == 1
    assert model.summary().stream_size == LENGTH + 1
    assert model.summary().unknown_share == earlier.summary().unknown_share


# Names


def test_a_name_that_the_new_model_does_not_know_stays(earlier: OpenSetRecognizer) -> None:
    key = emerged_id(earlier)
    earlier.promote([key], "above")
    model = carried(earlier, fitted(1))
    stream = stream_of(model)
    assert stream.labels == ("left", "right", "above")
    assert key in stream.known.named
    assert all(chain.known.named for chain in stream.chains)
    assert known_seats(model)[2] == pytest.approx(known_seats(earlier)[2])
    assert model.predict_one(ABOVE) == "above"
    decisions, _ = drained(play(model, seed=3, begin=LENGTH))
    truth = [label for _, label in stream_part(LENGTH, 3)]
    named = [d for d in decisions if truth[d.key - LENGTH] == "new"]
    assert np.mean([d.label == "above" and d.subclass_id == key for d in named]) > 0.9
    third = carried(model, fitted(2))
    assert third.predict_one(ABOVE) == "above", "and once more"
    assert key in third.value.stream.known.named  # type: ignore[union-attr]


def test_a_class_that_labels_have_opened_stays(earlier: OpenSetRecognizer) -> None:
    learn_all(earlier, [(x, "far") for x in around(FAR, 12, np.random.default_rng(1))])
    model = carried(earlier, fitted(1))
    assert model.predict_one(dict(zip("ab", FAR, strict=True))) == "far"
    known = [chain.known.size[-1] for chain in stream_of(model).chains]
    assert known == [12.0, 12.0]


def test_a_trained_class_is_gone_when_the_new_model_is_not_trained_on_it() -> None:
    earlier = play(fitted(0, ("third", (20.0, 20.0))))
    earlier.promote([emerged_id(earlier)], "third")
    learn_all(earlier, [(x, "third") for x in around((40.0, 40.0), 12, np.random.default_rng(1))])
    model = fitted(1)
    earlier.flush()
    model.carry_over(earlier)
    assert stream_of(model).labels == ("left", "right", "third"), "what was named stays"
    assert model.predict_one(ABOVE) == "third"
    assert model.predict_one({"a": 20.0, "b": 20.0}) == "unknown"
    assert model.predict_one({"a": 40.0, "b": 40.0}) == "unknown"


@pytest.mark.parametrize("promoted", [False, True])
def test_what_the_new_model_was_trained_on_is_its_own(earlier: OpenSetRecognizer, promoted: bool) -> None:
    key = emerged_id(earlier)
    if promoted:
        earlier.promote([key], "above")
    model = carried(earlier, fitted(1, ("above", NEW)))
    events = list(model.drain_events())
    stream, its = stream_of(model), stream_of(earlier).state
    assert stream.labels == model.trained.labels == ("left", "right", "above")
    assert all(key not in chain.known.ids for chain in stream.chains)
    if promoted:
        assert events == []
    else:
        assert [e.subclass_id for e in events if isinstance(e, SubclassForgotten)] == [key]
        assert [(e.before, e.delta) for e in events if isinstance(e, NewClassesChanged)] == [(1, 0)]
        assert {e.model for e in events} == {model.trained.fingerprint}
        assert key not in stream.recent.subclass
        gone = float(its.franchise.seated[0, 2 + its.ids.tolist().index(key)])
        fresh = known_seats(fitted(1, ("above", NEW)))[2]
        assert known_seats(model)[2] == pytest.approx(fresh + gone), "its seats are the class's"
    decisions, events = drained(play_at(model, NEW, 64, LENGTH))
    assert {d.label for d in decisions} == {"above"}
    assert events == []


def test_a_label_comes_late_for_an_instance_of_the_earlier_model(earlier: OpenSetRecognizer) -> None:
    key = emerged_id(earlier)
    model = carried(earlier, fitted(1))
    mine = stream_of(model).recent.keys[remembered(stream_of(model).recent, 0, key)].tolist()
    size = int(model.value.emerged_statistics()[key].size[0])
    model.learn_label(mine[0], "odd")
    model.flush()
    assert int(model.value.emerged_statistics()[key].size[0]) == size - 1
    assert stream_of(model).labels[-1] == "odd"
    assert model.counters["unknown_keys"] == 0


# What does not go


def test_models_that_do_not_fit_together(earlier: OpenSetRecognizer) -> None:
    earlier.flush()
    other = OpenSetRecognizer(**grouped(**SETTINGS))
    learn_all(other, [({"a": x["a"], "c": x["b"]}, y) for x, y in training_part()]).freeze()
    with pytest.raises(InvalidParameter, match=r"earlier model has 'b' and the new one has 'c'\. Train on the same"):
        other.carry_over(earlier)
    cut = play(fitted(0, pca_components=1), n=64)
    cut.flush()
    fitted(1, pca_components=1).carry_over(cut)  # a PCA is no hindrance


def test_only_from_a_stream_that_has_ended_to_one_that_has_not_begun() -> None:
    earlier = play(fitted(0, decision_delay=10), n=70)
    with pytest.raises(InvalidParameter, match="holds back 16 decisions"):
        fitted(1).carry_over(earlier)
    earlier.flush()
    for n in (64, 1):
        with pytest.raises(InvalidParameter, match="has begun a stream"):
            play(fitted(1), n=n).carry_over(earlier)
    earlier.promote([emerged_id(earlier)], "other")
    model = fitted(1, unknown="other")
    with pytest.raises(InvalidLabel):
        model.carry_over(earlier)
    assert stream_of(model).state.seen == 0


LETTER = pytest.param("LETTER", 10, 2, marks=pytest.mark.long)


@pytest.mark.needs("data")
@pytest.mark.parametrize(("name", "n_known", "most"), [("PENDIGITS", 5, 0), LETTER])
def test_the_class_that_was_trained_since_takes_its_subclasses_and_no_others(
    name: str, n_known: int, most: int
) -> None:
    """Of real classes, trained anew on other instances and one class more; ``most`` may go wrong."""
    data = need_data(name)
    order = np.random.default_rng(0).permutation(len(data.X))
    instances = [(dict(enumerate(data.X[at].tolist())), str(data.y[at])) for at in order]
    classes = list(dict.fromkeys(y for _, y in instances))

    def trained_on(first: int, names: list[str]) -> OpenSetRecognizer:
        model = OpenSetRecognizer(**grouped(**{**SETTINGS, "batch_size": 64, "chains": 1, "window": 256}))
        learn_all(model, [(x, y) for x, y in instances[first : first + 3000] if y in names]).freeze()
        return model

    earlier = play_all(trained_on(0, classes[:n_known]), instances[4000:5600], 4000)
    earlier.flush()
    kept = {key: life.kept.keys for key, life in stream_of(earlier).life.subclasses.items() if life.kept is not None}
    owner = {key: Counter(instances[k][1] for k in keys).most_common(1)[0][0] for key, keys in kept.items()}
    assert classes[n_known] in owner.values()
    assert len(set(owner.values())) > 3
    for more in (0, 1):
        model = trained_on(1000, classes[: n_known + more])
        model.carry_over(earlier)
        left = {e.subclass_id for e in model.drain_events() if isinstance(e, SubclassForgotten)}
        assert len(left ^ {key for key, label in owner.items() if label in classes[n_known : n_known + more]}) <= most

"""One offset of all known classes is found in a window of the stream. A new class is no such offset."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from stream_osr import FrameMoved, OpenSetRecognizer
from stream_osr.model import offset_fit
from stream_osr.model.class_places import (
    Places,
    further,
    is_typical,
    left_out,
    log_ratio,
    moved,
    places_of_classes,
    returned,
    split,
    unmoved,
)
from stream_osr.model.feature_space.whitening import Whitening, whiten
from stream_osr.model.offset_fit import HEATS, fit_place, window_of
from stream_osr.model.shared_offset import SharedOffset, features_that_moved, find_shared_offset, is_narrow, stay

D = 18
CENTRES = 1.2 * np.random.default_rng(7).normal(size=(5, D))
UNITS = np.tile([1.0, 10.0, 0.1], 6)


class Trained(NamedTuple):
    """Four known classes: places, whitening, and standard deviations of the features in training."""

    places: Places
    whitening: Whitening
    deviation: np.ndarray


def drawn(n: int, seed: int, shares: Any = (1.0, 1.0, 1.0, 1.0, 0.0)) -> tuple[np.ndarray, np.ndarray]:
    """Draw instances of Gaussian classes with the given shares. The last class is new."""
    rng = np.random.default_rng(seed)
    y = rng.choice(5, size=n, p=np.array(shares) / np.sum(shares))
    return UNITS * (CENTRES[y] + rng.normal(size=(n, D))), y


@cache
def trained() -> Trained:
    X, y = drawn(800, 0)
    model = OpenSetRecognizer(chains=1, seed=1)
    model.learn_many(X, y.tolist())
    model.freeze()
    known, whitening, references = model.trained.known, model.trained.whitening, model.trained.references
    return Trained(places_of_classes(known, whitening, references.rows), whitening, X.std(axis=0))


def found(X: np.ndarray, **arguments: Any) -> SharedOffset:
    places, whitening, _ = trained()
    arguments.setdefault("now", np.zeros((2, D)))
    return find_shared_offset(places, whiten(whitening, X), **arguments)


@pytest.mark.parametrize("column", range(0, D, 3))
def test_an_offset_in_one_column_is_found_and_followed_to_its_size(column: int) -> None:
    deviation, (X, _) = trained().deviation, drawn(256, 10 + column)
    X[:, column] += 3.0 * deviation[column]
    for n in (64, 256):
        one = found(X[:n])
        assert one.has_moved
        named = features_that_moved(trained().places, one.place).tolist()
        assert named == [column] if n == 256 else column in named
        assert one.before < 0.7 < 0.9 < one.after
        assert one.classes == 4
    assert one.place[0][column] / deviation[column] == pytest.approx(3.0, abs=0.2)
    followed = found(X, now=one.place, track=True)
    assert features_that_moved(trained().places, followed.place).tolist() == [column]
    assert followed.place[0][column] / deviation[column] == pytest.approx(3.0, abs=0.1)


def test_offsets_of_several_columns_are_found_and_no_others() -> None:
    deviation, (X, _) = trained().deviation, drawn(256, 1)
    by = np.zeros(D)
    by[[0, 2, 5]] = 2.0, -3.0, 1.0
    X += by * deviation
    one = found(X)
    assert one.has_moved
    np.testing.assert_allclose(one.place[0] / deviation, by, atol=0.15)
    assert features_that_moved(trained().places, one.place).tolist() == [0, 2, 5]


def test_a_new_class_beside_a_move_does_not_hide_it() -> None:
    deviation, (X, _) = trained().deviation, drawn(256, 2, (1.0, 1.0, 1.0, 1.0, 0.7))
    X[:, 0] += 3.0 * deviation[0]
    one = found(X)
    assert one.has_moved
    assert features_that_moved(trained().places, one.place).tolist() == [0]
    assert one.place[0][0] / deviation[0] == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("by", [0.0, 3.0])
def test_a_new_class_far_from_all_others_hides_no_move_and_is_none(seed: int, by: float) -> None:
    deviation, (X, y) = trained().deviation, drawn(256, 40 + seed, (1.0, 1.0, 1.0, 1.0, 2.0))
    X[y == 4] += 40.0 * UNITS
    X[:, 0] += by * deviation[0]
    one = found(X)
    assert one.has_moved == (by > 0.0)
    if by:
        assert one.place[0, 0] / deviation[0] == pytest.approx(by, abs=0.2)


@pytest.mark.parametrize(("gain", "by"), [(1.2, 1.0), (1.5, 0.0), (1.5, 1.0)])
def test_gains_are_found_beside_offsets_and_undone(gain: float, by: float) -> None:
    (places, whitening, deviation), (X, _) = trained(), drawn(256, 9)
    centre, moving = drawn(800, 0)[0].mean(axis=0), np.arange(D) < 12
    there = np.where(moving, centre + gain * (X - centre) + by * deviation, X)
    one = found(there)
    assert one.has_moved
    assert one.place[1, :12] == pytest.approx(gain - 1.0, abs=0.25)
    assert one.place[0, :12] / deviation[:12] == pytest.approx(by, abs=0.35)
    assert not one.place[1, 12:].any() or np.abs(one.place[1, 12:]).max() < 0.25
    rows = unmoved(places, whiten(whitening, there), one.place)
    assert is_typical(places, rows).mean() > is_typical(places, whiten(whitening, there)).mean() + 0.1
    np.testing.assert_allclose(moved(places, rows, one.place), whiten(whitening, there), atol=1e-9)


def test_the_spread_of_few_dependent_neighbours_shows_no_gain() -> None:
    """Rows of a bout are closer to each other than their class is wide."""
    rng = np.random.default_rng(11)
    X = UNITS * (CENTRES[np.arange(256) % 4] + 3.0 * np.eye(D)[0] + 0.3 * rng.normal(size=(256, D)))
    rows = whiten(trained().whitening, X)
    places = trained().places
    assert is_narrow(places, rows, 0.01)
    assert not is_narrow(places, rows, 0.5)
    assert not is_narrow(places, rows[:4], 1.0)
    assert not found(X, independent=0.01).place[1].any()


@pytest.mark.parametrize("factor", [1.3, 1.5, 2.0])
def test_one_factor_of_all_features_is_found_from_a_single_class(factor: float) -> None:
    (places, whitening, _), (X, y) = trained(), drawn(512, 12)
    one = find_shared_offset(places, whiten(whitening, factor * X[y == 1][:64]), np.zeros((2, D)))
    assert one.has_moved
    assert one.is_one_enough
    assert one.place[1] == pytest.approx(factor - 1.0, abs=0.1)
    assert len(features_that_moved(places, one.place)) == D


def test_the_instances_of_all_classes_count_together_for_one_factor() -> None:
    (places, whitening, _), (X, _) = trained(), drawn(240, 14)
    rows = whiten(whitening, 2.0 * X)
    assert find_shared_offset(places, rows, np.zeros((2, D)), 0.005).has_moved
    assert not find_shared_offset(places, rows[:160], np.zeros((2, D)), 0.005).has_moved


def skewed(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw instances of the known classes, whose first six features are logarithmic."""
    X, y = drawn(n, seed)
    X[:, :6] = np.exp(0.7 * X[:, :6] / UNITS[:6])
    return X, y


@cache
def trained_on_skewed() -> tuple[Places, Whitening]:
    X, y = skewed(800, 0)
    model = OpenSetRecognizer(chains=1, seed=1)
    model.learn_many(X, y.tolist())
    model.freeze()
    known, whitening, references = model.trained.known, model.trained.whitening, model.trained.references
    return places_of_classes(known, whitening, references.rows), whitening


def test_the_offset_of_a_skewed_feature_is_the_same_for_all_its_values() -> None:
    """The offset of a feature is constant in the caller's units, and not after the power transformation."""
    places, whitening = trained_on_skewed()
    assert set(range(6)) <= set(places.yeo_johnson.columns.tolist())
    X, _ = skewed(256, 5)
    offset = np.zeros(D)
    offset[[0, 3, 10]] = 4.0 * X.std(axis=0)[[0, 3, 10]]
    rows = whiten(whitening, X + offset)
    one = find_shared_offset(places, rows, np.zeros((2, D)))
    assert one.has_moved
    assert set(features_that_moved(places, one.place).tolist()) == {0, 3, 10}
    assert one.place[0] / X.std(axis=0) == pytest.approx(offset / X.std(axis=0), abs=0.2)
    assert not one.place[1].any()
    np.testing.assert_allclose(
        unmoved(places, rows, np.stack([offset, offset * 0.0])), whiten(whitening, X), atol=1e-6
    )


@pytest.mark.parametrize("deviations", [30.0, 1000.0])
def test_an_offset_of_hundreds_of_deviations_is_found(deviations: float) -> None:
    """Kelvin in place of degrees Celsius: the prior of an offset does not hold it back."""
    deviation, (X, _) = trained().deviation, drawn(128, 9)
    X[:, [2, 7]] += deviations * deviation[[2, 7]]
    one = found(X)
    assert one.has_moved
    assert set(features_that_moved(trained().places, one.place).tolist()) == {2, 7}
    assert one.place[0, [2, 7]] / deviation[[2, 7]] == pytest.approx(deviations, rel=0.01)


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_missing_values_of_moved_features_hide_no_move(share: float) -> None:
    """A value that is missing is at no place. Before, the values drawn for it were at the place before."""
    places, whitening = trained_on_skewed()
    (X, _), rng = skewed(256, 8), np.random.default_rng(8)
    offset = np.zeros(D)
    offset[[1, 10]] = 4.0 * X.std(axis=0)[[1, 10]]
    missing = rng.random(X.shape) < share
    rows = np.hstack([whiten(whitening, np.where(missing, X, X + offset)), missing])
    one = find_shared_offset(places, rows, np.zeros((2, D)))
    assert one.has_moved
    assert set(features_that_moved(places, one.place).tolist()) == {1, 10}
    assert one.place[0, [1, 10]] == pytest.approx(offset[[1, 10]], rel=0.1)
    whole = np.hstack([whiten(whitening, X + offset), missing])
    again = find_shared_offset(places, whole, np.zeros((2, D)))
    assert again.place[0, [1, 10]] == pytest.approx(one.place[0, [1, 10]], rel=0.01), "whatever the number"


def test_the_number_in_place_of_a_missing_value_changes_nothing() -> None:
    places, whitening = trained_on_skewed()
    (X, _), rng = skewed(64, 3), np.random.default_rng(3)
    missing = rng.random(X.shape) < 0.3
    place = np.zeros((2, D))
    place[:, [1, 10]] = [[3.0, 20.0], [0.5, 1.0]]
    one, other = (
        log_ratio(places, np.hstack([whiten(whitening, np.where(missing, fill, X)), missing]), place, place * 0.0)
        for fill in (X, X + 5.0)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)
    only = np.zeros(X.shape, bool)
    only[:, [1, 10]] = True
    lacking = np.hstack([whiten(whitening, X), only])
    np.testing.assert_allclose(log_ratio(places, lacking, place, place * 0.0), 0.0, atol=1e-6)


def test_rows_of_dependent_features_return_to_where_they_came_from() -> None:
    rng = np.random.default_rng(5)
    X, y = skewed(600, 4)
    X = np.column_stack([X[:, :4], X[:, 0], X[:, 1] + X[:, 2]])
    model = OpenSetRecognizer(chains=1, seed=1)
    model.learn_many(X, y.tolist())
    model.freeze()
    whitening = model.trained.whitening
    rows, place = whiten(whitening, X[:50]), np.zeros((2, 6))
    place[:, [0, 5]] = [[1.0, -0.5], [0.5, 0.3]]
    np.testing.assert_allclose(unmoved(whitening, moved(whitening, rows, place), place), rows, atol=1e-6)
    shift = np.stack([0.3 * rng.random(6), np.zeros(6)])
    np.testing.assert_allclose(unmoved(whitening, moved(whitening, rows, shift), shift), rows, atol=1e-6)


def test_rows_that_lack_the_moved_feature_do_not_show_the_classes_at_their_place() -> None:
    places, whitening, deviation = trained()
    X, _ = drawn(64, 6)
    missing = np.zeros((64, D))
    missing[:30, 4] = 1.0
    X[:, 4] += 4.0 * deviation[4]
    rows = np.hstack([whiten(whitening, X), missing])
    assert not stay(places, rows, np.zeros((2, D)))
    assert not stay(places, rows[:34], np.zeros((2, D)))


def test_a_row_without_any_value_is_typical() -> None:
    places, whitening = trained_on_skewed()
    rows = np.hstack([whiten(whitening, skewed(3, 1)[0] + 100.0), np.ones((3, D))])
    back = returned(places, split(places, rows)[1], np.zeros((2, D)))
    assert is_typical(places, back).all()


def test_all_skewed_features_times_one_factor() -> None:
    places, whitening = trained_on_skewed()
    X, _ = skewed(256, 6)
    one = find_shared_offset(places, whiten(whitening, 1.5 * X), np.zeros((2, D)))
    assert one.has_moved
    back = unmoved(places, whiten(whitening, 1.5 * X), one.place)
    assert is_typical(places, back).mean() > 0.9
    assert np.abs(back - whiten(whitening, X)).mean() < 0.2


def test_offsets_that_no_number_can_hold_are_bounded() -> None:
    places, whitening = trained_on_skewed()
    far = further(places, np.zeros((2, D)), np.full(D, 1e200), np.full(D, 1e200))
    assert np.isfinite(far).all()
    assert np.isfinite(unmoved(places, whiten(whitening, skewed(8, 1)[0]), far)).all()


def test_a_dominant_class_shows_a_move_alone() -> None:
    """A new class comes beside the class that has most instances, and does not replace it."""
    found_by = {}
    for most in (0.25, 0.95):
        X, y = drawn(800, 3, (most, *3 * [(1.0 - most) / 3], 0.0))
        model = OpenSetRecognizer(chains=1, seed=1)
        model.learn_many(X, y.tolist())
        model.freeze()
        known, whitening, references = model.trained.known, model.trained.whitening, model.trained.references
        places = places_of_classes(known, whitening, references.rows)
        rows = whiten(whitening, drawn(256, 4, (1.0, 0.0, 0.0, 0.0, 0.0))[0] + 4.0 * X.std(axis=0) * np.eye(D)[2])
        found_by[most] = find_shared_offset(places, rows, np.zeros((2, D)))
    assert found_by[0.95].has_moved
    assert not found_by[0.25].has_moved


def test_categories_tell_the_classes_apart_wherever_these_have_moved() -> None:
    """By its one number alone, no instance surely belongs to a class."""
    rng = np.random.default_rng(2)

    def table(n: int) -> tuple[pd.DataFrame, np.ndarray]:
        y = rng.integers(3, size=n)
        values = np.array(list("abc"))[np.where(rng.random(n) < 0.95, y, rng.integers(3, size=n))]
        return pd.DataFrame({"number": rng.normal(size=n) + 0.3 * y, "value": values, "other": values}), y

    X, y = table(600)
    model = OpenSetRecognizer(chains=1, seed=1)
    model.learn_many(X, [str(label) for label in y])
    model.freeze()
    later, y = table(600)
    later["number"] += 4.0
    model.learn_many(later)
    model.flush()
    labels = [decision.label for decision in model.drain()]
    assert np.mean(np.array(labels) == y.astype(str)) > 0.9
    assert [event.columns for event in model.drain_events() if isinstance(event, FrameMoved)] == [("number",)]


@pytest.mark.parametrize("seed", range(4))
def test_classes_that_move_each_its_own_way_share_no_offset(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ways = rng.normal(size=(4, D))
    ways -= ways.mean(axis=0)
    X, y = drawn(256, 60 + seed)
    for n in (64, 256):
        one = found((X + 4.0 * UNITS * (ways / np.linalg.norm(ways, axis=1)[:, None])[y])[:n])
        assert not one.has_moved


def test_instances_near_a_class_show_that_the_classes_stay() -> None:
    (places, whitening, deviation), (X, _) = trained(), drawn(64, 13, (1.0, 1.0, 1.0, 1.0, 3.0))
    assert stay(places, whiten(whitening, X), np.zeros((2, D)))
    X[:, 0] += 3.0 * deviation[0]
    assert not stay(places, whiten(whitening, X), np.zeros((2, D)))


@pytest.mark.parametrize("n", [64, 256])
@pytest.mark.parametrize("seed", range(4))
def test_a_stream_at_its_place_has_not_moved(n: int, seed: int) -> None:
    assert not found(drawn(n, 20 + seed)[0]).has_moved


@pytest.mark.parametrize("known", [1.0, 0.5, 0.1, 0.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_new_class_is_no_move_whatever_its_share(known: float, seed: int) -> None:
    X, _ = drawn(256, 30 + seed, (known, known, known, known, 4.0 * (1.0 - known)))
    assert not found(X).has_moved


@pytest.mark.parametrize("only", range(4))
def test_a_move_of_one_class_alone_may_be_a_new_class(only: int) -> None:
    deviation, (X, _) = trained().deviation, drawn(256, 3, np.eye(5)[only])
    X[:, 0] += 3.0 * deviation[0]
    one = found(X)
    assert one.after > 0.9
    assert one.classes == 1
    assert not one.has_moved


def test_classes_that_stay_refute_a_move_of_the_others() -> None:
    deviation, (X, y) = trained().deviation, drawn(256, 4)
    X[y >= 2, 0] += 3.0 * deviation[0]
    one = found(X)
    assert one.stayed > 0.1
    assert not one.has_moved


def test_many_small_classes_show_a_common_offset_together() -> None:
    """Of 26 classes none has a twentieth of the stream."""
    rng = np.random.default_rng(0)
    centres = 2.0 * rng.normal(size=(26, D))

    def some(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(26, size=n)
        return centres[y] + rng.normal(size=(n, D)), y

    X, y = some(1500)
    model = OpenSetRecognizer(chains=1, seed=1)
    model.learn_many(X, y.tolist())
    model.freeze()
    known, whitening, references = model.trained.known, model.trained.whitening, model.trained.references
    places = places_of_classes(known, whitening, references.rows)
    X, _ = some(256)
    assert not find_shared_offset(places, whiten(whitening, X), np.zeros((2, D))).has_moved
    X[:, 5] += 3.0 * places.deviation[5]
    one = find_shared_offset(places, whiten(whitening, X), np.zeros((2, D)))
    assert one.has_moved
    assert features_that_moved(places, one.place).tolist() == [5]


@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_the_distance_of_a_reference_is_that_without_it(kept: float) -> None:
    """Each row is taken from the statistics of a Gaussian in turn. Tempered rows count less."""
    rng, n, d, beta, nu = np.random.default_rng(0), 30, 4, 0.5, 7.0
    rows = rng.normal(size=(n, d)) * [1.0, 2.0, 0.5, 1.0]

    def posterior(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count = beta + weight.sum()
        mean = weight @ rows / count
        scatter = 3.0 * np.eye(d) + (weight * rows.T) @ rows - count * np.outer(mean, mean)
        return mean, scatter / (nu + weight.sum() - d - 1.0)

    weight = np.full(n, kept)
    mean, covariance = posterior(weight)
    factor = np.linalg.cholesky(np.linalg.inv(covariance))[None]
    one = trained().places._replace(factor=factor, whitened=mean @ factor)
    degrees, count = np.array([nu + weight.sum() - d - 1.0]), np.array([beta + weight.sum()])
    distance = left_out(one, rows, degrees, count, kept)
    for i in range(n):
        rest = weight.copy()
        rest[i] = 0.0
        own, spread = posterior(rest)
        assert distance[i] == pytest.approx((rows[i] - own) @ np.linalg.solve(spread, rows[i] - own))


def test_a_wide_table_is_fitted_in_whitened_coordinates() -> None:
    """The offset is the same whether the features or the whitened coordinates are the parameters."""
    places, whitening, deviation = trained()
    X, _ = drawn(256, 8)
    X += 0.7 * deviation
    rows, nowhere = whiten(whitening, X), np.zeros((2, D))
    window, free = window_of(places, rows, nowhere), np.stack([np.ones(D, bool), np.zeros(D, bool)])
    own = fit_place(places, window, nowhere, free, HEATS)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_fit, "MOST_FEATURES", D - 1)
        other = fit_place(places, window, nowhere, free, HEATS)[0]
    np.testing.assert_allclose(other[0] / deviation, own[0] / deviation, atol=0.02)


def test_a_few_dependent_instances_are_no_evidence_of_a_class() -> None:
    deviation, (X, _) = trained().deviation, drawn(256, 5)
    X[:, 0] += 3.0 * deviation[0]
    assert found(X, independent=0.1).classes == 4
    few = found(X, independent=0.01)
    assert few.classes == 0
    assert not few.has_moved


def test_a_known_offset_is_followed_and_left() -> None:
    deviation, (X, _) = trained().deviation, drawn(256, 6)
    X[:, 0] += 3.3 * deviation[0]
    now = np.stack([np.where(np.arange(D) == 0, 3.0 * deviation, 0.0), np.zeros(D)])
    followed = found(X, now=now, track=True)
    assert followed.place[0][0] / deviation[0] == pytest.approx(3.3, abs=0.1)
    assert features_that_moved(trained().places, followed.place).tolist() == [0]
    back = found(drawn(256, 7)[0], now=now)
    assert back.has_moved
    assert not back.place.any()


def test_where_the_offset_began_is_where_its_likelihood_becomes_larger() -> None:
    places, whitening, deviation = trained()
    X, _ = drawn(200, 8)
    X[120:, 3] += 3.0 * deviation[3]
    rows, none = whiten(whitening, X), np.zeros((2, D))
    offset = np.stack([np.where(np.arange(D) == 3, 3.0 * deviation, 0.0), np.zeros(D)])
    gain = log_ratio(places, rows, offset, none)
    assert np.cumsum(gain[::-1])[::-1].argmax() == 120
    np.testing.assert_allclose(log_ratio(places, rows, none, offset).shape, (200,))
    typical = is_typical(places, rows)
    assert typical[:120].mean() > 0.94
    assert typical[120:].mean() < 0.6

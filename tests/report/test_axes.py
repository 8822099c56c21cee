"""The plane: distances, ellipses and directions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.summary.axes import INSIDE, discriminants, planes
from tests.blobs import fitted_once, learn_all, stream_part


def within(groups: list[np.ndarray]) -> np.ndarray:
    scatter = sum((g - g.mean(axis=0)).T @ (g - g.mean(axis=0)) for g in groups)
    return np.asarray(scatter / sum(map(len, groups)))


def test_distances_of_three_classes_are_those_of_the_whole_space(run):
    plane = planes(run.model.value.running[1])[0]
    inverse = np.linalg.inv(within(list(run.training.values())))
    assert set(plane.classes) == set(run.training)
    for a, b in combinations(run.training, 2):
        off = run.training[a].mean(axis=0) - run.training[b].mean(axis=0)
        distance = np.linalg.norm(plane.classes[a] - plane.classes[b])
        assert distance == pytest.approx(np.sqrt(off @ inverse @ off), rel=0.12)  # subclasses are narrowed


def test_axes_are_the_discriminants_of_linear_algebra():
    from scipy.linalg import eigh

    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    within, points = root @ root.T, rng.normal(size=(7, 5)) * [1, 5, 2, 9, 3]
    axes = discriminants([points], within)
    np.testing.assert_allclose(axes.T @ within @ axes, np.eye(2), atol=1e-9)
    _, vectors = eigh(np.cov(points.T, bias=True), within)
    np.testing.assert_allclose(abs(axes), abs(vectors[:, [-1, -2]]), rtol=1e-6)


def test_the_second_plane_parts_known_and_new_further_than_the_first(run):
    def spread(plane):
        new = [spot.centre for spot in plane.spots if spot.label is None]
        return np.var([*plane.classes.values(), *new], axis=0).sum()

    known, both = planes(run.model.value.running[1])
    assert {spot.id for spot in known.spots} == {spot.id for spot in both.spots}
    assert spread(both) > 1.02 * spread(known)


def test_an_ellipse_holds_its_share_of_the_stream(run):
    for plane in planes(run.model.value.running[1]):
        spot = max((s for s in plane.spots if s.label is None), key=lambda s: s.size)
        off = plane.dots[plane.seats == spot.id] - spot.centre
        corners = spot.outline - spot.centre
        shape = 2 * corners.T @ corners / len(corners)  # of points spread evenly over an ellipse
        inside = np.einsum("na,ab,nb->n", off, np.linalg.inv(shape), off) <= 1.0
        assert len(off) > 80
        assert inside.mean() == pytest.approx(INSIDE, abs=0.08)


def test_two_known_classes_still_give_a_plane():
    (before,) = planes(fitted_once(batch_size=32).value.running[1])
    assert (len(before.dots), {spot.label for spot in before.spots}) == (0, {"left", "right"}), (
        "nothing of the stream"
    )
    model = learn_all(fitted_once(batch_size=32), [(x, None) for x, _ in stream_part(200)])
    model.flush()
    found = planes(model.value.running[1])
    assert len(found) == 2
    for plane in found:
        outlines = np.concatenate([spot.outline for spot in plane.spots])
        assert np.isfinite(outlines).all()
        assert (np.ptp(outlines, axis=0) > 1.0).all()
        assert {spot.label for spot in plane.spots} == {"left", "right", None}


def test_a_single_feature_has_no_plane():
    model = OpenSetRecognizer(seed=1)
    rng = np.random.default_rng(0)
    for value in rng.normal(size=40):
        model.learn_one({"a": value}, "low")
        model.learn_one({"a": value + 9}, "high")
    model.freeze()
    assert planes(model.value.running[1]) == ()

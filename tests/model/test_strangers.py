"""The search for hidden classes finds what it finds group by group, written from the textbook."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stream_osr.model import noise, unassigned
from stream_osr.model.student_t import CONJUGATE
from tests.model.problems import fill, make_base
from tests.oracles import strangers as oracle

D, ALPHA = 3, 1.5
LIMITS = oracle.Limits(
    unassigned.SIZES, unassigned.LATELY, unassigned.LOG_CANDIDATES, noise.NARROWEST, unassigned.PASSES
)


def case(rng: np.random.Generator) -> tuple[Any, ...]:
    """Noise and one cluster, tight or not; some of both sit in emerging subclasses, large or small, or lost."""
    prior, measure = make_base(D)
    known = [rng.normal(rng.normal(size=D) * 8, 1.0, size=(40, D)) for _ in range(4)]
    n, hidden = int(rng.integers(5, 30)), int(rng.integers(6, 20))
    centre = rng.normal(size=D) * 8 if rng.random() < 0.8 else known[0].mean(axis=0) + 4
    rows = np.concatenate(
        [rng.normal(size=(n, D)) * 10, rng.normal(centre, rng.choice([0.3, 0.6, 2]), size=(hidden, D))]
    )
    rows = rows[rng.permutation(len(rows))]
    seat = rng.integers(10, 16, len(rows))
    near = np.linalg.norm(rows - centre, axis=1) < 6
    seat[near] = rng.choice([10, 11], near.sum())
    more = {key: rng.normal(centre, 3, size=(int(rng.choice([0, 0, 0, 40])), D)) for key in range(10, 14)}
    emerging = {key: np.concatenate([rows[seat == key], more[key]]) for key in more if (seat == key).any()}
    seqs = np.cumsum(rng.integers(1, int(rng.choice([2, 30, 300])) + 1, len(rows)))
    arrived = np.sort(rng.choice(len(rows), min(4, len(rows)), replace=False))
    announced = np.array([10]) if rng.random() < 0.3 else np.zeros(0, np.int64)
    background = noise.Background(rng.normal(size=D), np.diag([150.0, 100.0, 80.0]) + 20.0)
    world = oracle.World(measure, known, emerging, *background, ALPHA)
    state = SimpleNamespace(
        dishes=fill(prior, list(emerging.values())),
        ids=np.array(list(emerging), np.int64),
        franchise=SimpleNamespace(alpha=np.array([ALPHA])),
    )
    around: Any = unassigned.Alternatives(
        SimpleNamespace(prior=prior, location=CONJUGATE, dishes=fill(prior, known)),
        state,
        noise.noise_model_of(background),
    )
    return unassigned.UnassignedRows(seqs, rows, seat), arrived, around, announced, world


@pytest.mark.thorough
def test_finds_what_is_found_group_by_group() -> None:
    rng, found = np.random.default_rng(4), []
    for _ in range(60):
        strangers, arrived, around, announced, world = case(rng)
        group = unassigned.find_group(strangers, arrived, around, announced)
        expected = oracle.find(world, LIMITS, *strangers, arrived.tolist(), set(announced.tolist()))
        assert ([] if group is None else group.tolist()) == expected
        found.append(len(expected))
    assert 8 <= np.count_nonzero(found) <= 52
    assert len(set(found)) > 5


@pytest.mark.parametrize(("hidden", "is_found"), [(90, True), (60, False)])
def test_dependent_rows_are_a_class_with_the_information_of_sixteen_independent_ones(
    hidden: int, is_found: bool
) -> None:
    """Rows that the sampler has seated in a known class have no subclass; each has the information of 0.2."""
    rng = np.random.default_rng(0)
    around = case(rng)[1 + 1]
    rows = np.concatenate([rng.normal(size=(60, D)) * 30, rng.normal(90.0, 0.5, size=(hidden, D))])
    strangers = unassigned.UnassignedRows(np.arange(len(rows)), rows, np.full(len(rows), -1))
    arrived, nobody = np.array([len(rows) - 2, len(rows) - 1]), np.zeros(0, np.int64)
    group = unassigned.find_group(strangers, arrived, around, nobody, independent=0.2)
    assert (group is not None) == is_found
    if group is not None:
        assert np.isin(np.arange(60, len(rows)), group).all()
    sparse = unassigned.UnassignedRows(8 * np.arange(300), rng.normal(size=(300, D)) * 10, np.full(300, -1))
    assert unassigned.find_group(sparse, np.array([299]), around, nobody, independent=0.2) is None, "noise"
    outlier = np.array([0])
    assert unassigned.find_group(strangers, outlier, around, nobody, independent=0.2) is None

"""The promise for each class: no more than a given share of it is called unknown, whatever its distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.parameters import parameters
from stream_osr.trust.false_unknown_bound import call_known, plausible
from stream_osr.trust.references import References, choose_references
from tests.blobs import ended, further

SETTINGS: dict[str, Any] = {"training_sweeps": 5, "chains": 2, "references": 2000}


def references_with(own: list[np.ndarray]) -> References:
    """Keep references of these log densities under their own class."""
    group = np.repeat(np.arange(len(own)), [len(each) for each in own])
    log_density = np.full((len(group), len(own)), -99.0)
    log_density[np.arange(len(group)), group] = np.concatenate(own)
    order = np.random.default_rng(0).permutation(len(group))
    return References(np.zeros((len(group), 1)), group[order], (log_density[order],))


def test_plausible_is_the_conformal_p_value_above_the_bound() -> None:
    rng = np.random.default_rng(0)
    own = [rng.normal(size=19), rng.normal(size=60)]
    queries = rng.normal(size=(50, 2)) - 1.5
    for bound in (0.05, 0.1, 0.3):
        found = plausible(references_with(own), queries, bound)
        for i, j in np.ndindex(50, 2):
            p_value = (1 + (own[j] <= queries[i, j]).sum()) / (len(own[j]) + 1)
            assert found[i, j] == (p_value > bound), (i, j, bound)


def test_a_class_with_too_few_references_is_never_plausible() -> None:
    found = plausible(references_with([np.zeros(8), np.zeros(9)]), np.full((1, 2), 5.0), 0.1)
    assert found.tolist() == [[False, True]]
    assert not plausible(references_with([np.zeros(98)]), np.full((1, 1), 5.0), 0.01).any()
    assert plausible(references_with([np.zeros(99)]), np.full((1, 1), 5.0), 0.01).all()


def test_averaged_models_are_ranked_by_their_mean() -> None:
    references = references_with([np.arange(9.0)])
    both = references._replace(log_density=(references.log_density[0] + 5.0, references.log_density[0] - 5.0))
    np.testing.assert_array_equal(
        plausible(both, np.array([[-0.5], [0.5]]), 0.1), plausible(references, np.array([[-0.5], [0.5]]), 0.1)
    )


def test_what_is_called_unknown_goes_to_the_plausible_classes() -> None:
    p = np.array([[0.3, 0.1, 0.6], [0.3, 0.1, 0.6], [0.3, 0.1, 0.6], [0.0, 0.0, 1.0]])
    out = call_known(p, np.array([[True, True], [False, True], [False, False], [True, False]]))
    np.testing.assert_allclose(out, [[0.75, 0.25, 0], [0.3, 0.7, 0], [0.3, 0.1, 0.6], [1, 0, 0]])
    np.testing.assert_allclose(p.sum(axis=1), out.sum(axis=1))


@pytest.mark.parametrize("bound", [0.1, *further(0.01)])
def test_no_class_loses_more_than_promised_in_a_stream(bound: float) -> None:
    """Heavy-tailed classes that no Gaussian describes, and a new one that would take from them."""
    rng = np.random.default_rng(7)
    centre, scale = np.array([[0.0, 0.0], [14.0, 0.0], [0.0, 14.0]]), np.array([1.0, 2.0, 0.5])
    degrees = np.array([2.0, 3.0, 2.5])

    def draw(j: np.ndarray) -> np.ndarray:
        away = rng.normal(size=(len(j), 2)) / np.sqrt(rng.chisquare(degrees[j]) / degrees[j])[:, None]
        return centre[j] + scale[j, None] * away

    model = OpenSetRecognizer(**grouped(max_false_unknown=bound, **SETTINGS))
    group = np.repeat(np.arange(3), 400)
    model.learn_many(draw(group), np.char.add("c", group.astype(str)))
    truth = rng.integers(4, size=3000)
    X = rng.normal([25.0, 25.0], 0.5, size=(3000, 2))
    X[truth < 3] = draw(truth[truth < 3])
    model.learn_many(X)
    unknown = np.array([d.label == "unknown" for d in ended(model)])
    assert unknown[truth == 3].mean() > 0.95
    for j in range(3):
        own = truth == j
        # the references are a sample, too: the share that they keep out has a standard error of its own
        error = np.sqrt(bound * (1 - bound) * (1 / own.sum() + 1 / 400))
        assert unknown[own].mean() <= bound + 3 * error, f"class {j}"


@pytest.mark.thorough
@pytest.mark.parametrize("bound", [0.01, 0.05, 0.2])
def test_weighted_references_keep_the_promise(bound: float) -> None:
    rng = np.random.default_rng(int(1000 * bound))
    count = 0
    for _ in range(40):
        values = rng.standard_t(1.5, size=2500)
        own, group = values[:2000, None], np.zeros(2000, int)
        references = choose_references(np.zeros((2000, 1)), group, [own], parameters(references=300))
        assert references is not None
        assert references.weight is not None
        count += int((~plausible(references, values[2000:, None], bound)).sum())
    assert count / 20_000 == pytest.approx(bound, rel=0.15)

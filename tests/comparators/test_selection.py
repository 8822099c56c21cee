"""Selection on the paper's validation split."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.openset.comparators import METHODS, VARIANTS, micro_f, select, select_family
from benchmarks.openset.comparators.check import PUBLISHED, figures
from benchmarks.openset.comparators.margin_classifier import MachinePool
from benchmarks.openset.comparators.weibull_machines import PISVM, WSVM
from benchmarks.paper.protocol import validation_split
from stream_osr.evaluation import OpenSetReport
from tests.data import need_data


def four_gaussians(n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = [[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]]
    return np.concatenate([rng.normal(c, 1.0, (n, 2)) for c in centres]), np.repeat(np.arange(4), n)


def test_micro_f_is_that_of_the_report():
    rng = np.random.default_rng(2)
    true, predicted = rng.integers(-1, 4, 300), rng.integers(-1, 4, 300)
    report = OpenSetReport(known=range(4), unknown=-1)
    report.update_many(true.tolist(), predicted.tolist())
    assert micro_f(true, predicted) == pytest.approx(report.micro_f)


@pytest.mark.parametrize("method", [*METHODS, *VARIANTS])
def test_a_selected_model_knows_its_classes(method):
    X, y = four_gaussians()
    model = select(method, X, y, seed=0)
    predicted = model.predict(X)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert (predicted == y).mean() > 0.5
    assert set(predicted.tolist()) <= {-1, 0, 1, 2, 3}
    assert model.score_unknown(X).shape == (len(X),)


def test_the_parameters_selected_are_the_best_of_the_grid():
    X, y = four_gaussians()
    parts = validation_split(X, y, 0)
    truth = np.where(np.isin(parts.y_test, np.array(parts.known)), parts.y_test, -1)
    values = {}
    for sigma in METHODS["OSNN"].cuts[1]:
        model = METHODS["OSNN"].make(sigma=sigma).fit(parts.X_train, parts.y_train)
        open_f = micro_f(truth, model.predict(parts.X_test))
        values[sigma] = open_f + micro_f(truth[truth >= 0], model.predict(parts.X_test[truth >= 0]))
    assert values[select("OSNN", X, y, seed=0).get_params()["sigma"]] == max(values.values())


@pytest.mark.parametrize("scaling", ["each", "one", "none"])
def test_shared_machines_decide_as_a_model_fitted_alone(scaling):
    X, y = four_gaussians()
    X = X * [1.0, 0.2]
    parts = validation_split(X, y, 1)
    pool = MachinePool(parts.X_train, parts.y_train, parts.X_test, parts.X_train)
    for other in ("each", "one", "none"):  # what the pool keeps of another scaling must not leak
        pool(PISVM(gamma=1.0, scaling=other).requests()[0])
    model = WSVM(C=2.0, gamma=1.0, cap_gamma=0.5, scaling=scaling)
    opinions = []
    for request in model.requests():
        trained, margins = pool(request)
        opinions.append(model.opinion(request, model.calibrate(request, trained, parts.y_train), margins))
    shared = model.combine(opinions, np.unique(parts.y_train))
    alone = model.fit(parts.X_train, parts.y_train).decide(parts.X_test)
    assert shared.label.tolist() == alone.label.tolist()
    assert shared.unknownness == pytest.approx(alone.unknownness)


def test_a_family_is_selected_like_each_member_alone():
    X, y = four_gaussians(20)
    together = select_family(["W-OSVM", "1-vs-Set rbf", "1-vs-Set rbf tuned", "P_I-SVM"], X * [5.0, 1.0], y, seed=2)
    for name, model in together.items():
        alone = select(name, X * [5.0, 1.0], y, seed=2)
        assert alone.get_params() == model.get_params()
        assert alone.score_unknown(X) == pytest.approx(model.score_unknown(X))


def wide_and_narrow(wide: int, narrow: int, telling: str) -> tuple[np.ndarray, np.ndarray]:
    """Eight classes on a cube of three wide or of three narrow features; all others are noise."""
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(8), 25)
    corners = np.array([[j & 1, j >> 1 & 1, j >> 2] for j in range(8)]) * 2.0 - 1
    cube = corners[y] + rng.normal(0, 0.1, (len(y), 3))
    features = {"wide": rng.uniform(-1, 1, (len(y), wide)), "narrow": rng.uniform(-1, 1, (len(y), narrow))}
    features[telling][:, :3] = cube
    return np.hstack([features["wide"] * 100, features["narrow"]]), y


@pytest.mark.parametrize(
    ("method", "problem", "better", "worse"),
    [
        # Principal components: the first ones separate the classes, many last ones are noise of small range.
        ("W-OSVM", (3, 30, "wide"), "one", "each"),
        # Units of their own: the narrow features separate the classes, those of great range are noise.
        ("P_I-SVM", (3, 3, "narrow"), "each", "one"),
    ],
    ids=["principal components", "units"],
)
def test_the_scaling_chosen_is_the_better_one(method, problem, better, worse):
    X, y = wide_and_narrow(*problem)
    test = np.arange(len(y)) % 5 > 2
    known = y < 4
    truth = np.where(known, y, -1)[test]

    def found(held: dict[str, str]) -> tuple[str, float]:
        model = select_family([method], X[known & ~test], y[known & ~test], 0, held)[method]
        return model.get_params()["scaling"], micro_f(truth, model.predict(X[test]))

    scaling, f = found({})
    assert scaling == better
    assert (scaling, f) == found({"scaling": better})
    assert f > found({"scaling": worse})[1] + 0.05


@pytest.mark.needs("data")
@pytest.mark.parametrize("method", ["OSNN", "EVM", "QDA + chi2"])
def test_coil20_comes_near_the_figures_on_record(method):
    need_data("COIL20")
    found = np.mean([figures("COIL20", [method], seed, on_whole=True)[method][0] for seed in range(3)], axis=0)
    assert found[0] == pytest.approx(PUBLISHED[method]["COIL20"][0], abs=0.05)
    assert found[2] > PUBLISHED[method]["COIL20"][2] - 0.12

"""Selection on the paper's validation split."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.openset.comparators import METHODS, VARIANTS, micro_f, select, select_family
from benchmarks.openset.comparators.check import PUBLISHED, figures
from benchmarks.openset.comparators.margin_classifier import MachinePool
from benchmarks.openset.comparators.margins import make_scaling
from benchmarks.openset.comparators.selection import choose_parameters
from benchmarks.openset.comparators.w_svm import WSVM
from stream_osr.errors import InvalidParameter
from stream_osr.evaluation import KNOWN_CLASSES, OpenSetReport, validation_split
from tests.data import need_data


def four_gaussians(n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = [[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]]
    return np.concatenate([rng.normal(c, 1.0, (n, 2)) for c in centres]), np.repeat(np.arange(4), n)


def test_every_method_has_figures_on_record():
    assert set(PUBLISHED) == set(METHODS)
    assert all(set(row) == set(KNOWN_CLASSES) for row in PUBLISHED.values())


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
    truth = np.where(np.isin(parts.y_open, np.array(parts.known)), parts.y_open, -1)

    def value(sigma: float) -> float:
        model = METHODS["OSNN"].make(sigma=sigma).fit(parts.X_fit, parts.y_fit)
        open_f = micro_f(truth, model.predict(parts.X_open))
        closed_f = micro_f(parts.y_closed, model.predict(parts.X_closed))
        return (open_f + closed_f) / 2

    assert METHODS["OSNN"].cuts is not None
    values = {sigma: value(sigma) for sigma in METHODS["OSNN"].cuts[1]}
    chosen = select("OSNN", X, y, seed=0).get_params()["sigma"]
    assert values[chosen] == max(values.values())


def test_shared_machines_decide_as_a_model_fitted_alone():
    X, y = four_gaussians()
    parts = validation_split(X, y, 1)
    scaling = make_scaling(X)
    pool = MachinePool(parts.X_fit, parts.y_fit, parts.X_open, scaling)
    model = WSVM(C=2.0, gamma=1.0, cap_gamma=0.5, scaling=scaling)
    opinions = []
    for request in model.requests():
        trained, margins = pool(request)
        opinions.append(model.opinion(request, model.calibrate(request, trained, parts.y_fit), margins))
    shared = model.combine(opinions, np.unique(parts.y_fit))
    alone = model.fit(parts.X_fit, parts.y_fit).decide(parts.X_open)
    assert shared.label.tolist() == alone.label.tolist()
    assert shared.unknownness == pytest.approx(alone.unknownness)


def test_a_family_gets_what_each_member_gets():
    X, y = four_gaussians(20)
    together = select_family(["W-OSVM", "P_I-SVM"], X, y, seed=2)
    for name, model in together.items():
        alone = select(name, X, y, seed=2)
        assert alone.score_unknown(X) == pytest.approx(model.score_unknown(X))


def test_a_refitted_model_scales_as_the_selection_did():
    X, y = four_gaussians()
    parts = validation_split(X, y, 0)
    pool = MachinePool(parts.X_fit, parts.y_fit, parts.X_open, make_scaling(X))
    chosen = choose_parameters("P_I-SVM", parts, pool)
    model = select("P_I-SVM", X, y, seed=0)
    assert {key: model.get_params()[key] for key in chosen} == chosen
    assert model.scaling_.centre.tolist() == make_scaling(X).centre.tolist()


def test_an_unheard_of_method_is_named():
    with pytest.raises(InvalidParameter, match="no method 'SVM': expected one of 1-vs-Set linear"):
        select("SVM", *four_gaussians(), seed=0)


@pytest.mark.parametrize("method", ["OSNN", "EVM", "QDA + chi2"])
def test_coil20_comes_near_the_figures_on_record(method):
    need_data("COIL20")
    found = np.mean([figures("COIL20", [method], seed, on_whole=True)[method][0] for seed in range(3)], axis=0)
    assert found[0] == pytest.approx(PUBLISHED[method]["COIL20"][0], abs=0.05)
    assert found[2] > PUBLISHED[method]["COIL20"][2] - 0.12

"""Arguments of the constructor: what passes, and messages that name argument, value and expectation."""

from __future__ import annotations

import inspect
import math
import pickle
from typing import Any

import numpy as np
import pytest

from stream_osr import Input, Limits, ModelOptions, OpenSetRecognizer
from stream_osr.config import REPRODUCTION, archived, grouped, plain
from stream_osr.errors import InvalidParameter
from stream_osr.parameters import Parameters, parameters


@pytest.fixture(params=["recognizer", "classifier"])
def cls(request: pytest.FixtureRequest) -> Any:
    """Each class whose constructor has the parameters."""
    from stream_osr.sklearn import OpenSetClassifier

    return OpenSetRecognizer if request.param == "recognizer" else OpenSetClassifier


def test_defaults_are_those_of_the_constructor():
    assert OpenSetRecognizer().value.parameters == Parameters()
    assert parameters(**plain(OpenSetRecognizer())) == Parameters()
    assert plain(OpenSetRecognizer(input=Input(), limits=Limits(), model=ModelOptions())) == Parameters().model_dump()
    assert len(inspect.signature(OpenSetRecognizer).parameters) == 16


REFUSED = (
    ({"batch_size": 0}, "batch_size is 0: input should be greater than or equal to 1"),
    ({"batch_size": True}, "batch_size is True: input should be a valid integer"),
    ({"batch_size": np.array([1, 2])}, r"batch_size is array\(\[1, 2\]\): input should be a valid integer"),
    ({"chains": 0}, "chains is 0: input should be greater than or equal to 1"),
    ({"decision_delay": -1}, "decision_delay is -1: input should be greater than or equal to 0"),
    ({"decision_delay": 65, "window": 64}, "decision_delay is 65 and window 64: .*Make the window as long as"),
    ({"decision_delay": 8, "sweeps": 0}, "decision_delay waits for re-seating sweeps, and sweeps is 0"),
    ({"ensemble": "some"}, "ensemble is 'some': input should be 'mixed' or 'drawn'"),
    ({"min_probability": 1.1}, r"min_probability is 1\.1: input should be less than or equal to 1"),
    ({"max_wait": 0}, "max_wait is 0: input should be greater than 0"),
    ({"unknown": 1.5}, r"unknown is 1\.5: input should be of type bool or int or str"),
    ({"pca": 0}, "pca is 0: give a number of components, 1 or more, or a share of the variance"),
    ({"pca": 1.5}, r"pca is 1\.5: give a number of components"),
    ({"pca": True}, "pca is True: input should be of type int or float"),
    ({"input": {"missing": ["-9"]}}, r"input is {'missing': \['-9'\]}: give Input\(\.\.\.\)"),
    ({"model": Limits()}, r"model is Limits\(\): give ModelOptions"),
    ({"nu": -1}, "nu is -1: input should be greater than 0"),
    ({"epsilon": 1.0}, r"epsilon is 1\.0: input should be less than 1"),
    ({"epsilon": -0.1}, r"epsilon is -0\.1: input should be greater than or equal to 0"),
    ({"sweeps": -1}, "sweeps is -1: input should be greater than or equal to 0"),
    ({"window": -1}, "window is -1: input should be greater than or equal to 0"),
    ({"half_life": math.nan}, "half_life is nan: input should be greater than 0"),
    ({"max_training": 0}, "max_training is 0: input should be greater than or equal to 1"),
    ({"label_horizon": -1}, "label_horizon is -1: input should be greater than or equal to 0"),
    ({"drift_interval": 999.0}, r"drift_interval is 999\.0: input should be greater than or equal to 1000"),
    ({"broad": None}, "background_component is None: input should be a valid boolean"),
    ({"categorical": [1.5]}, r"categorical is .*1\.5.*: give a list of names of features"),
    ({"freezing": "never"}, "freezing is 'never': input should be 'auto' or 'manual'"),
    ({"on_missing": "drop"}, "on_missing is 'drop': input should be 'impute', 'error' or 'skip'"),
    ({"seed": -1}, "seed is -1: input should be greater than or equal to 0"),
)


def test_values_that_do_not_fit_are_refused():
    for arguments, message in REFUSED:
        with pytest.raises(InvalidParameter, match=f"^{message}"):
            OpenSetRecognizer(**grouped(**arguments))
    with pytest.raises(InvalidParameter, match="batchsize is 3: extra inputs are not permitted"):
        parameters(batchsize=3)


def test_an_unknown_argument_is_an_error_of_the_class_that_was_called(cls):
    name = cls.__name__
    with pytest.raises(TypeError, match=f"^{name} has no parameter 'n_estimators'; .* lists all parameters"):
        cls(n_estimators=0)
    with pytest.raises(TypeError, match=f"^{name} has no parameter 'batchsize'; did you mean 'batch_size'"):
        cls(batchsize=3)
    with pytest.raises(TypeError, match=r"no parameter 'sweps'; did you mean model=ModelOptions\(sweeps=...\)\?$"):
        cls(sweps=3)


# Groups, and plain names


def test_groups_are_values_that_are_checked_at_once():
    assert Input(categorical={"b", "a"}) == Input(categorical=["a", "b"])
    assert len({Limits(max_classes=3), Limits(max_classes=3), Limits()}) == 2
    assert pickle.loads(pickle.dumps(ModelOptions(sweeps=3))) == ModelOptions(sweeps=3)
    assert repr(ModelOptions(sweeps=3, window=None)) == "ModelOptions(sweeps=3)"
    with pytest.raises(InvalidParameter, match=r"^max_classes is 0: input should be greater than or equal to 1"):
        Limits(max_classes=0)
    with pytest.raises(InvalidParameter, match=r"^numeric and categorical both have 'a'"):
        Input(numeric=["a"], categorical=["a"])
    with pytest.raises(AttributeError):
        Limits().max_classes = 3


def test_categories_are_given_in_one_place():
    assert OpenSetRecognizer(input=Input(categorical=["a"])).value.parameters.categorical == ("a",)
    with pytest.raises(InvalidParameter, match="categorical is given twice"):
        OpenSetRecognizer(categorical=["a"], input=Input(categorical=["a"]))
    with pytest.raises(InvalidParameter, match="numeric and categorical both have 'a'"):
        OpenSetRecognizer(categorical=["a"], input=Input(numeric=["a"]))


EARLIER = {
    **{"covariance": "full", "pca_components": 2, "nu": 30.0, "scale": 0.5, "beta": 0.1, "epsilon": 0.1},
    **{"exclusive": True, "ensemble": "drawn", "broad": False, "learn_odds": False, "select": "evidence"},
    **{"training_sweeps": 3, "sweeps": 2, "window": 9, "order": "shuffled", "max_training": 50, "max_classes": 9},
    **{"max_subclasses": 8, "max_dormant": 7, "label_horizon": 6, "references": 5, "drift_interval": 2e3},
    **{
        "freezing": "manual",
        "numeric": ("a",),
        "alarms": ("b",),
        "missing": ("-9",),
        "on_missing": "skip",
        "absent": "zero",
    },
}
"""Every name that is not the constructor's any more, with another value than the default where there may be one."""


def test_plain_names_are_taken_with_a_warning_and_can_be_read(cls):
    for name, value in EARLIER.items():
        with pytest.warns(DeprecationWarning, match=f"^{name} is .*The plain name will be removed in 0.2"):
            model = cls(**{name: value})
        assert grouped(**{name: value}).items() <= model.arguments.items()
        if name not in REPRODUCTION:
            assert getattr(model, name) == value
    with pytest.warns(DeprecationWarning, match="window is model=ModelOptions"):
        model = cls(model=ModelOptions(sweeps=1), seed=3, window=7)
    assert (model.model, model.seed) == (ModelOptions(sweeps=1, window=7), 3)
    assert not hasattr(model, "window_")


def test_archives_have_the_plain_names():
    model = OpenSetRecognizer(**grouped(**EARLIER, seed=4))
    names = {*inspect.signature(OpenSetRecognizer).parameters, *EARLIER, "pca_variance"}
    assert archived(model).keys() == names - {"pca", "input", "limits", "model"}
    assert archived(OpenSetRecognizer(**grouped(**archived(model)))) == archived(model)
    assert archived(model).items() >= EARLIER.items()
    assert archived(OpenSetRecognizer(pca=1.0))["pca_variance"] == 1.0


def test_options_of_the_papers_method_and_two_sizes_of_a_projection_are_refused():
    for name, value in (("exclusive", False), ("select", "validation")):
        with pytest.raises(InvalidParameter, match=f"^{name} is {value!r}: expected "):
            grouped(**{name: value})
    with pytest.raises(InvalidParameter, match="pca_components and pca_variance are both given: give one of them"):
        grouped(pca_components=2, pca_variance=0.5)
    assert grouped(pca_components=None, pca_variance=1) == {"pca": 1.0}


def test_grids_of_parameters_may_have_plain_names():
    from river import utils
    from sklearn.base import clone

    from stream_osr.sklearn import OpenSetClassifier

    model = OpenSetRecognizer(seed=3, model=ModelOptions(sweeps=1, window=7))
    clones = utils.expand_param_grid(model, {"sweeps": [2, 3], "min_probability": [0.5]})
    assert [each.model for each in clones] == [ModelOptions(sweeps=n, window=7) for n in (2, 3)]
    assert {(each.seed, each.min_probability) for each in clones} == {(3, 0.5)}
    classifier = OpenSetClassifier(model=ModelOptions(window=7)).set_params(sweeps=2, chains=1)
    assert (classifier.model, classifier.chains) == (ModelOptions(sweeps=2, window=7), 1)
    assert clone(classifier).get_params() == classifier.get_params()


def test_numbers_of_numpy_and_whole_numbers_for_floats_are_taken():
    model = OpenSetRecognizer(
        batch_size=np.int64(8),
        half_life=np.float32(100),
        model=ModelOptions(epsilon=np.float64(0.5), nu=30),
        unknown=np.str_("new"),
        seed=np.uint8(3),
    )
    given = {"batch_size": 8, "half_life": 100.0, "epsilon": 0.5, "nu": 30.0, "unknown": "new", "seed": 3}
    assert model.value.parameters == Parameters(**given)
    assert parameters(half_life=math.inf).half_life == math.inf, "seats may last for ever"

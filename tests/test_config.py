"""Arguments of the constructor: what passes, and messages that name argument, value and expectation."""

from __future__ import annotations

import inspect
import math
import pickle

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import Parameters, parameters
from stream_osr.errors import InvalidParameter
from stream_osr.sklearn import OpenSetClassifier


def test_defaults_are_those_of_the_constructor():
    signature = inspect.signature(OpenSetRecognizer)
    assert {name: p.default for name, p in signature.parameters.items()} == Parameters().model_dump()
    assert OpenSetRecognizer().value.parameters == Parameters()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0: input should be greater than or equal to 1"),
        ({"batch_size": 2.0}, r"batch_size is 2\.0: input should be a valid integer"),
        ({"batch_size": "64"}, "batch_size is '64': input should be a valid integer"),
        ({"batch_size": True}, "batch_size is True: input should be a valid integer"),
        ({"batch_size": None}, "batch_size is None: input should be a valid integer"),
        ({"batch_size": np.array([1, 2])}, r"batch_size is array\(\[1, 2\]\): input should be a valid integer"),
        ({"max_wait": 0}, "max_wait is 0: input should be greater than 0"),
        ({"max_wait": math.nan}, "max_wait is nan: input should be a finite number"),
        ({"unknown": 1.5}, r"unknown is 1\.5: input should be of type bool or int or str"),
        ({"unknown": b"x"}, "unknown is b'x': input should be of type bool or int or str"),
        ({"pca_components": 0}, "pca_components is 0: input should be greater than or equal to 1"),
        ({"pca_variance": 1.5}, r"pca_variance is 1\.5: input should be less than or equal to 1"),
        ({"pca_variance": 0.0}, r"pca_variance is 0\.0: input should be greater than 0"),
        (
            {"pca_components": 2, "pca_variance": 0.5},
            "pca_components and pca_variance are both given: give one of them",
        ),
        ({"nu": -1}, "nu is -1: input should be greater than 0"),
        ({"nu": math.inf}, "nu is inf: input should be a finite number"),
        ({"scale": math.inf}, "scale is inf: input should be a finite number"),
        ({"beta": math.nan}, "beta is nan: input should be a finite number"),
        ({"epsilon": 1.0}, r"epsilon is 1\.0: input should be less than 1"),
        ({"epsilon": -0.1}, r"epsilon is -0\.1: input should be greater than or equal to 0"),
        ({"exclusive": 1}, "exclusive is 1: input should be a valid boolean"),
        ({"training_sweeps": -1}, "training_sweeps is -1: input should be greater than or equal to 0"),
        ({"sweeps": -1}, "sweeps is -1: input should be greater than or equal to 0"),
        ({"window": -1}, "window is -1: input should be greater than or equal to 0"),
        ({"half_life": 0}, "half_life is 0: input should be greater than 0"),
        ({"half_life": math.nan}, "half_life is nan: input should be greater than 0"),
        ({"max_training": 0}, "max_training is 0: input should be greater than or equal to 1"),
        ({"max_subclasses": 0}, "max_subclasses is 0: input should be greater than or equal to 1"),
        ({"label_horizon": -1}, "label_horizon is -1: input should be greater than or equal to 0"),
        ({"drift_interval": 999.0}, r"drift_interval is 999\.0: input should be greater than or equal to 1000"),
        ({"drift_interval": math.nan}, "drift_interval is nan: input should be"),
        ({"freezing": "never"}, "freezing is 'never': input should be 'auto' or 'manual'"),
        ({"on_missing": "drop"}, "on_missing is 'drop': input should be 'impute', 'error' or 'skip'"),
        ({"seed": -1}, "seed is -1: input should be greater than or equal to 0"),
        ({"seed": None}, "seed is None: input should be a valid integer"),
    ],
    ids=str,
)
def test_refusals(arguments, message):
    with pytest.raises(InvalidParameter, match=f"^{message}"):
        OpenSetRecognizer(**arguments)
    with pytest.raises(ValueError, match=message):
        parameters(**arguments)


def test_a_misspelt_parameter_is_named():
    with pytest.raises(InvalidParameter, match="batchsize is 3: extra inputs are not permitted"):
        parameters(batchsize=3)


@pytest.mark.parametrize("cls", [OpenSetRecognizer, OpenSetClassifier])
def test_an_argument_that_there_is_not_is_told_by_the_class_that_was_called(cls):
    name = cls.__name__
    with pytest.raises(TypeError, match=f"^{name} has no parameter 'n_estimators'; .* says which there are"):
        cls(n_estimators=0)
    with pytest.raises(TypeError, match=f"^{name} has no parameter 'batchsize'; did you mean 'batch_size'"):
        cls(batchsize=3)


def test_numbers_of_numpy_are_taken():
    model = OpenSetRecognizer(
        batch_size=np.int64(8),
        half_life=np.float32(100),
        epsilon=np.float64(0.5),
        unknown=np.str_("new"),
        seed=np.uint8(3),
    )
    assert model.value.parameters == Parameters(batch_size=8, half_life=100.0, epsilon=0.5, unknown="new", seed=3)


def test_unknown_label_of_numpy_becomes_a_plain_one():
    model = OpenSetRecognizer(unknown=np.int64(-5))
    model.learn_one({"a": 1.0}, 3)
    assert [type(label) for label in model.predict_proba_one({"a": 1.0})] == [int, int]


def test_whole_numbers_pass_for_floats():
    assert parameters(half_life=300, max_wait=2, nu=30, scale=1, beta=1, pca_variance=1).half_life == 300.0


def test_seats_may_last_for_ever():
    assert parameters(half_life=math.inf).half_life == math.inf


def test_parameters_are_a_value():
    assert parameters(seed=1) == parameters(seed=1) != parameters(seed=2)
    assert pickle.loads(pickle.dumps(parameters(seed=1))) == parameters(seed=1)
    with pytest.raises(ValueError, match="frozen"):
        parameters().seed = 3

"""A warning states the memory that training takes; training is refused if the machine has less."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from stream_osr.errors import InvalidParameter
from stream_osr.instances.features import Features
from stream_osr.model.dish_statistics import empty_dishes
from stream_osr.model.feature_space.subspace import MOST
from stream_osr.model.prior import make_prior
from stream_osr.parameters import Parameters
from stream_osr.support.memory import HOLDERS, least_bytes, physical_bytes, warn_of_memory
from stream_osr.training.trained import train_model


def test_a_large_need_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "stream_osr"):
        warn_of_memory(30, 30, 10, 4)
        assert not caplog.records
        warn_of_memory(1500, 1500, 10, 4)
    (record,) = caplog.records
    assert "1500 features" in record.message
    assert "GiB: pca=0.99" in record.message


def test_more_than_there_is_is_refused_before_the_work() -> None:
    parameters, kept = Parameters(), MOST + 1
    many = kept
    while least_bytes(many, kept, 3, parameters.chains) < physical_bytes():
        many *= 2
    X, group = np.zeros((3, many)), np.arange(3)
    expected = rf"{many} features.* GiB, and the machine has .*: pca=0.99"
    with pytest.raises(InvalidParameter, match=expected):
        train_model(Features(range(many)), X, group, (0, 1, 2), parameters)


@pytest.mark.thorough
def test_what_the_message_advises_is_not_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A PCA of few instances has few components, however many features there are."""
    X, group = np.random.default_rng(0).normal(size=(12, 3000)), np.arange(12) % 3
    with caplog.at_level(logging.WARNING, "stream_osr"):
        train_model(Features(range(3000)), X, group, (0, 1, 2), Parameters(pca=0.9, training_sweeps=0))
    assert not [message for message in caplog.messages if "GiB" in message]


def test_a_subclass_takes_what_is_said() -> None:
    dishes = empty_dishes(7, make_prior(40, nu=60.0, scale=1.0, beta=0.1))
    takes = sum(value.nbytes for value in dishes)
    said = least_bytes(0, 40, 7, 1) / HOLDERS
    assert said == pytest.approx(takes, rel=0.1)

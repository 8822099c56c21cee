"""Noise is no class and hides no class; a rare class is announced in the end, and so is a jump of the rate."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, UnknownRateJumped
from stream_osr.config import grouped
from stream_osr.model.gaussian import quadratic
from stream_osr.model.marginal import dishes_of, of_rows
from stream_osr.model.noise import NARROWEST, Background, gain, is_broad, log_density, noise_model_of
from stream_osr.model.prior import homogeneous
from tests.blobs import check_stream
from tests.model.problems import log_marginals


@pytest.fixture(scope="module")
def noise() -> ModuleType:
    from benchmarks.discovery import noise  # it imports pandas

    return noise


@pytest.fixture(scope="module")
def given(noise):
    return noise.source("Gaussians 4", 0)


def announced_in_time(noise, given, rows, kind) -> tuple[OpenSetRecognizer, dict, list]:
    """Stream rows, of which a new class must be announced after at most 40 instances."""
    model = recognizer(given)
    events = noise.listen(model, rows)
    found = noise.judge(model, events, kind)
    assert 0 < (found["late"] or 0) <= 40
    return model, found, events


def recognizer(given) -> OpenSetRecognizer:
    return OpenSetRecognizer.from_trained(given.trained, **grouped(seed=0, batch_size=64))


@pytest.mark.thorough
def test_noise_alone_is_no_class_and_its_jump_is_announced(noise, given):
    rows, kind = noise.stream(given, 1500, 0.0, 0.2, np.random.default_rng(5))
    model = recognizer(given)
    events = noise.listen(model, rows)
    assert noise.judge(model, events, kind)["announced noise"] == 0
    (jump,) = [event for event in events if isinstance(event, UnknownRateJumped)]
    assert jump.before < 0.05 < 0.12 < jump.rate < 0.4
    assert (jump.since, jump.size <= 128) == (0, True)
    assert model.signals.rate_jumps == 1


@pytest.mark.thorough
def test_a_new_class_beside_noise_is_announced(noise, given):
    for share in (0.05, 0.2):
        announced_in_time(noise, given, *noise.stream(given, 700, noise.SHARE, share, np.random.default_rng(6)))


@pytest.mark.thorough
def test_a_class_that_begins_after_a_burst_of_noise_is_announced(noise):
    given, rng = noise.source("Gaussians 2", 0), np.random.default_rng(7)
    burst, rest = noise.stream(given, noise.BURST, 0.0, 1.0, rng), noise.stream(given, 600, noise.SHARE, 0.0, rng)
    model, *_ = announced_in_time(noise, given, *map(np.concatenate, zip(burst, rest, strict=True)))
    check_stream(model.value.stream)


@pytest.mark.thorough
def test_a_class_of_one_in_four_hundred_is_announced_in_the_end(noise):
    given = noise.source("Gaussians 4", 1)
    rows, kind = noise.stream(given, noise.RARE_LENGTH, noise.RARE, 0.0, np.random.default_rng([1, 3]))
    _, found, events = announced_in_time(noise, given, rows, kind)
    assert found["announced known"] == 0
    assert not any(isinstance(event, UnknownRateJumped) for event in events)


@pytest.mark.thorough
def test_gain_of_a_subclass_over_the_background(given):
    known, background = given.trained.known, given.trained.noise_range
    noise, prior = noise_model_of(background), known.prior
    rng = np.random.default_rng(0)
    compact = rng.normal(background.mean, 1.0, size=(60, 4))
    wide = rng.multivariate_normal(background.mean, background.covariance, size=60)
    gains = []
    for rows in (compact, wide):
        sums = of_rows(homogeneous(rows), prior)
        gains.append(gain(dishes_of(sums, prior), 0, noise, prior, known.location))
        square = sum(quadratic(noise.form, row) for row in homogeneous(rows))
        one = log_density(square, 60, 4, noise.log_det, NARROWEST)
        (together,) = log_marginals(sums, prior, known.location)
        assert gains[-1] == pytest.approx(together - one, rel=1e-9)
    assert gains[0] > 10 > 0 > gains[1]
    covariance = max(square / 60 / 4, NARROWEST) * background.covariance
    away = wide - background.mean
    form = np.einsum("na,ab,nb->", away, np.linalg.inv(covariance), away)
    assert one == pytest.approx(-(form + 60 * np.linalg.slogdet(2 * np.pi * covariance)[1]) / 2, rel=1e-9)


def test_known_subclasses_are_not_broad(given):
    known = given.trained.known
    for background in (given.trained.noise_range, Background(np.zeros(4), np.eye(4) * 1e-4)):
        assert not is_broad(known.dishes, known.prior, noise_model_of(background)).any()

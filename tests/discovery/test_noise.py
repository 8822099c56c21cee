"""Noise is announced as nothing, and hides nothing; a rare class is told in the end, and so is a jump of the rate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from benchmarks.discovery.noise import BURST, RARE, RARE_LENGTH, SHARE, judge, listen, source, stream
from stream_osr import OpenSetRecognizer, UnknownRateJumped
from stream_osr.config import grouped
from stream_osr.model.gaussian import quadratic
from stream_osr.model.marginal import dishes_of, of_rows
from stream_osr.model.prior import homogeneous
from stream_osr.model.unassigned import NARROWEST, Background, gain, is_broad, log_density, noise_model_of
from tests.blobs import check_stream
from tests.model.problems import log_marginals


@pytest.fixture(scope="module")
def given():
    return source("Gaussians 4", 0)


def recognizer(given, **arguments):
    return OpenSetRecognizer.from_trained(given.trained, **grouped(seed=0, batch_size=64, **arguments))


def test_noise_alone_is_no_class_and_its_jump_is_told(given):
    rows, kind = stream(given, 1500, 0.0, 0.2, np.random.default_rng(5))
    model = recognizer(given)
    events = listen(model, rows)
    assert judge(model, events, kind)["told noise"] == 0
    (jump,) = [event for event in events if isinstance(event, UnknownRateJumped)]
    assert jump.before < 0.05 < 0.12 < jump.rate < 0.4
    assert (jump.since, jump.size <= 128) == (0, True)
    assert model.signals.rate_jumps == 1


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_a_new_class_beside_noise_is_announced(given, noise):
    rows, kind = stream(given, 700, SHARE, noise, np.random.default_rng(6))
    model = recognizer(given)
    told = judge(model, listen(model, rows), kind)
    assert 0 < (told["late"] or 0) <= 40


def test_a_class_that_begins_after_a_burst_of_noise_is_announced():
    given = source("Gaussians 2", 0)
    rng = np.random.default_rng(7)
    burst, of_burst = stream(given, BURST, 0.0, 1.0, rng)
    rows, kind = stream(given, 600, SHARE, 0.0, rng)
    model = recognizer(given)
    events = listen(model, np.concatenate([burst, rows]))
    told = judge(model, events, np.concatenate([of_burst, kind]))
    assert 0 < (told["late"] or 0) <= 40
    check_stream(model.value.stream)


def test_a_class_of_one_in_four_hundred_is_announced_in_the_end():
    given = source("Gaussians 4", 1)
    rows, kind = stream(given, RARE_LENGTH, RARE, 0.0, np.random.default_rng([1, 3]))
    model = recognizer(given)
    events = listen(model, rows)
    told = judge(model, events, kind)
    assert 0 < (told["late"] or 0) <= 40
    assert told["told known"] == 0
    assert not any(isinstance(event, UnknownRateJumped) for event in events)


def test_what_a_subclass_gains_over_the_background(given):
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
    wider = max(square / 60 / 4, NARROWEST)
    assert one == pytest.approx(
        multivariate_normal(background.mean, wider * background.covariance).logpdf(wide).sum(), rel=1e-9
    )


def test_a_subclass_is_broad_from_halfway_to_the_background_on(given):
    known = given.trained.known
    narrow = Background(np.zeros(4), np.eye(4) * 1e-4)
    for background in (given.trained.noise_range, narrow):
        assert not is_broad(known.dishes, known.prior, noise_model_of(background)).any()

"""The model does not age: after a long quiet time a new class is seen as at the start."""

from __future__ import annotations

import numpy as np
import pytest

from stream_osr import engine
from tests.ageing import after_known, first_recall, make_case

SETS = [pytest.param("LETTER", 10, 16, id="LETTER"), pytest.param("USPS", 5, 5, id="USPS")]


def losses(name: str, n_known: int, n_unknown: int, instances: int, seeds: range, **changes: float) -> np.ndarray:
    """First-20 recall at the start minus that after so many known instances, for each seed."""
    out = []
    for seed in seeds:
        case = make_case(name, n_known, n_unknown, seed)
        case = case._replace(parameters=case.parameters.model_copy(update=changes))
        fresh = first_recall(case, engine.open_stream(case.trained))
        out.append(fresh - first_recall(case, after_known(case, instances)))
    return np.array(out)


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "n_known", "n_unknown"), SETS)
def test_a_new_class_is_seen_after_a_quiet_time_as_at_the_start(name, n_known, n_unknown):
    # 5000 instances are 25 half-lives: what is older weighs less than 1e-7, so this is the state of any later time
    loss = losses(name, n_known, n_unknown, 5_000, range(10))
    assert loss.mean() < 0.05, f"lost {loss.mean():.3f} of the first-20 recall: {loss.round(3)}"


def test_seats_that_never_fade_would_age_the_model():
    # the test above can fail: without fading, 20 000 quiet instances already cost more than it allows
    loss = losses("LETTER", 10, 16, 20_000, range(1), half_life=1e12)
    assert loss.mean() > 0.05


@pytest.mark.long
@pytest.mark.parametrize(("name", "n_known", "n_unknown"), SETS)
def test_a_new_class_is_seen_after_a_million_known_instances(name, n_known, n_unknown):
    loss = losses(name, n_known, n_unknown, 1_000_000, range(1))
    assert loss.mean() < 0.05

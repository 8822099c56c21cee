"""The recognizer as river's users meet it: river's own checks, pipelines, evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from river import checks, compose, datasets, evaluate, metrics, preprocessing

from stream_osr import Decision, OpenSetRecognizer

MODELS: dict[str, Callable[[], Any]] = {
    "default": OpenSetRecognizer,
    "small-batches": lambda: OpenSetRecognizer(batch_size=16),
    "behind-a-scaler": lambda: preprocessing.MinMaxScaler() | OpenSetRecognizer(),
}


def every_check() -> list[Any]:
    """River's checks of each model, named by model, check, and number among those of one name (data sets differ)."""
    cases = []
    for name, make in MODELS.items():
        seen: Counter[str] = Counter()
        for check in checks.yield_checks(make()):
            seen[check.__name__] += 1
            cases.append(pytest.param(make, check, id=f"{name}-{check.__name__}-{seen[check.__name__]}"))
    return cases


@pytest.mark.parametrize(("make", "check"), every_check())
def test_check_of_river(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make())


@pytest.mark.parametrize("model", MODELS)
def test_no_check_is_skipped(model: str) -> None:
    assert MODELS[model]()._unit_test_skips() == set()

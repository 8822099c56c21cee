"""Benchmark data for tests that need it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests.tiers import FIRST, VARIABLE, do_without

if TYPE_CHECKING:
    from benchmarks.order.case import Case
    from benchmarks.paper.datasets import Dataset


def need_data(name: str) -> Dataset:
    """The data set, or a skipped test; under continuous integration (``CI=true``) a failed one.

    A machine that is there to run the tests must not pass because the data went missing.
    """
    from benchmarks.paper.datasets import DatasetNotFoundError, load

    _check_tier()
    try:
        return load(name)
    except DatasetNotFoundError:
        _missing(name)


def need_ordered(name: str) -> Case:
    """The case of an ordered table (:mod:`benchmarks.order.tables`), or a skipped or failed test in the same way."""
    from benchmarks.order.tables import case

    _check_tier()
    try:
        return case(name)
    except FileNotFoundError:
        _missing(name)


def _check_tier() -> None:
    if os.environ.get(VARIABLE) == FIRST:
        pytest.fail('the first tier has no data: mark the test with needs("data")', pytrace=False)


def _missing(name: str) -> NoReturn:
    from benchmarks.paper.datasets import data_directory

    do_without("data", f"{name} not found at {data_directory()}; set STREAM_OSR_DATA")

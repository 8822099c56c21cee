"""Benchmark data for tests that need it."""

from __future__ import annotations

from typing import NoReturn

from benchmarks.order.case import Case
from benchmarks.order.tables import case
from benchmarks.paper.datasets import Dataset, DatasetNotFoundError, data_directory, load
from tests.tiers import do_without


def need_data(name: str, *, full: bool = False) -> Dataset:
    """The data set, or a skipped test; under continuous integration (``CI=true``) a failed one.

    A machine that is there to run the tests must not pass because the data went missing.
    """
    try:
        return load(name, full=full)
    except DatasetNotFoundError:
        _missing(name)


def need_ordered(name: str) -> Case:
    """The case of an ordered table (:mod:`benchmarks.order.tables`), or a skipped or failed test in the same way."""
    try:
        return case(name)
    except FileNotFoundError:
        _missing(name)


def _missing(name: str) -> NoReturn:
    do_without("data", f"{name} not found at {data_directory()}; set STREAM_OSR_DATA")

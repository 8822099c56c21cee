"""Parallel work on several cores: the chains of a model, whose kernels release the interpreter lock.

Matrix products use one thread. Their last bit depends on the number of threads, and results must not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(function: Callable[[T], R], items: Sequence[T], n_jobs: int | None = None) -> list[R]:
    """Apply a function to every item in threads. Results are in the order of the items.

    Parameters
    ----------
    function
        Function whose results do not depend on the order of the calls.
    items
        The items.
    n_jobs
        Number of threads. ``None``: one for each item, at most one for each core.

    Examples
    --------
    >>> each(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    threads = min(len(items), usable_cores() if n_jobs is None else n_jobs)
    if threads <= 1:
        return [function(item) for item in items]
    return list(_pool(threads, os.getpid()).map(function, items))


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return the pool of a size. A forked process makes a new one, because it does not inherit threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="stream-osr")


@cache
def _blas() -> list[Any]:
    import scipy.linalg  # noqa: F401  (compiled kernels use its BLAS: it has to be there to be found)

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread within a ``with`` block.

    Examples
    --------
    >>> with one_thread():
    ...     pass
    """
    limited = [(library, threads) for library in _blas() if (threads := library.get_num_threads()) != 1]
    try:
        for library, _ in limited:
            library.set_num_threads(1)
        yield
    finally:
        for library, threads in limited:
            library.set_num_threads(threads)

"""Matrix products with one thread: they differ in the last bit between thread counts, and results must not."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (compiled kernels use its BLAS: it has to be there to be found)

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread within a ``with`` block.

    Examples
    --------
    >>> with one_thread():
    ...     pass
    """
    limiter: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limiter

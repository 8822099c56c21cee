"""Compiled kernels: one switch for all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numba
import numpy as np

from stream_osr.compiling import give_notice

try:
    from stream_osr.model.compiler import compiled, why_not
except (ImportError, AttributeError):  # another numba than those that the package asks for

    @cache
    def why_not() -> str | None:
        """Say why no machine code is kept."""
        return f"numba {numba.__version__} is not what this release knows: no machine code is kept"

    def compiled(function: Callable[..., object], options: dict[str, Any]) -> Any:
        """Compile by plain ``njit``; nothing is kept: numba alone does not see when a callee has changed."""
        return numba.njit(**{name: options[name] for name in ("nogil", "error_model", "fastmath")})(function)


Array = np.ndarray
F = TypeVar("F", bound=Callable[..., object])

give_notice(why_not)


def kernel(function: F) -> F:
    """Compile a function over arrays, once per machine and version of the sources.

    Division follows IEEE rules (no hidden zero checks), there is no fast-math, other threads may run, and the machine
    code is kept in ``NUMBA_CACHE_DIR``, else beside the source, else in the user's cache directory.
    """
    return _compile(function)


def fused_kernel(function: F) -> F:
    """Compile like :func:`kernel`, products and sums fused (one rounding in place of two) where the machine can.

    Nothing else that fast-math allows is allowed: no reordering, infinities and missing numbers as they should be.
    """
    return _compile(function, fastmath={"contract"})


def summing_kernel(function: F) -> F:
    """Compile like :func:`fused_kernel`, sums taken in any order: several at a time.

    The order is fixed when the kernel is compiled, so results are the same bit for bit as often as it runs. Not for
    tricks with rounding, and not for functions that make arrays.
    """
    return _compile(function, fastmath={"contract", "reassoc"}, counts_references=False)


def borrowing_kernel(function: F) -> F:
    """Compile like :func:`kernel` a function that makes no array and returns none, without counting references.

    numba counts a reference to each field that is taken out of a tuple of arrays, with an atomic instruction: in
    a small function on a large state that is most of the time. It is inlined as well: handing the state over, a word
    or two for each of some forty arrays, would take longer than its work.
    """
    return _compile(function, counts_references=False)


def fused_borrowing_kernel(function: F) -> F:
    """Compile like :func:`fused_kernel`, without counting references, as :func:`borrowing_kernel` does."""
    return _compile(function, fastmath={"contract"}, counts_references=False)


def called_kernel(function: F) -> F:
    """Compile like :func:`borrowing_kernel` a function that is called wherever it is named, and not inlined.

    For what many places name and few reach, or takes long for what it is handed: it is optimised, and has machine
    code, once in a tree of kernels. Inlined, it would as often as there are ways that lead to it.
    """
    return _compile(function, counts_references=False, inlined=False)


def fused_called_kernel(function: F) -> F:
    """Compile like :func:`fused_kernel` what :func:`called_kernel` is for."""
    return _compile(function, fastmath={"contract"}, counts_references=False, inlined=False)


def _compile(
    function: F,
    *,
    fastmath: bool | set[str] = False,
    counts_references: bool = True,
    inlined: bool | None = None,
) -> F:
    # said in either case: what is not said, a kernel has from the one that calls it first
    inlined = not counts_references if inlined is None else inlined
    options = {"_nrt": counts_references, "forceinline": inlined, "fastmath": fastmath}
    always = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None}
    out: F = compiled(function, {**always, **options})
    return out

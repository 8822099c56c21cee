"""Compiled kernels: one switch for all kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numba
import numpy as np

from stream_osr.compiling import give_notice

try:
    from stream_osr.model.compiler import compiled
    from stream_osr.model.kernel_cache import why_not
except (ImportError, AttributeError):  # another numba than those that the package asks for

    @cache
    def why_not() -> str | None:
        """Return why machine code is not cached."""
        return f"numba {numba.__version__} is not supported by this release: machine code is not cached"

    def compiled(function: Callable[..., object], options: dict[str, Any], *, unrolls: bool = False) -> Any:
        """Compile by plain ``njit`` without a cache: numba alone does not detect that a callee has changed."""
        return numba.njit(**{name: options[name] for name in ("nogil", "error_model", "fastmath")})(function)


Array = np.ndarray
F = TypeVar("F", bound=Callable[..., object])

give_notice(why_not)


def kernel(function: F) -> F:
    """Compile a function over arrays, once per machine and version of the sources.

    Division follows IEEE rules (no hidden zero checks), there is no fast-math, and other threads may run. Machine
    code is cached in ``NUMBA_CACHE_DIR``, else beside the source, else in the user's cache directory.
    """
    return _compile(function)


def fused_kernel(function: F) -> F:
    """Compile like :func:`kernel`, with products and sums fused (one rounding in place of two) where the machine can.

    Nothing else of fast-math applies: no reordering, and infinities and NaN follow IEEE rules.
    """
    return _compile(function, fastmath={"contract"})


def summing_kernel(function: F) -> F:
    """Compile like :func:`fused_kernel`, but allow sums in any order: several at a time.

    The compiler fixes the order, so repeated runs give the same bits. Do not use it for rounding tricks or for
    functions that make arrays.
    """
    return _compile(function, fastmath={"contract", "reassoc"}, counts_references=False)


def borrowing_kernel(function: F) -> F:
    """Compile like :func:`kernel` a function that makes and returns no array, without counting references.

    numba counts a reference to each field that is read from a tuple of arrays, with an atomic instruction. In a small
    function on a large state that takes most of the time. The function is also inlined: passing the state, a word or
    two for each of some forty arrays, would take longer than its work.
    """
    return _compile(function, counts_references=False)


def unrolled_kernel(function: F) -> F:
    """Compile like :func:`borrowing_kernel`, with loops that are unrolled wherever the function is called.

    Fused and summing kernels do so, too. Other loops become vector instructions, but are not unrolled.
    """
    return _compile(function, counts_references=False, unrolls=True)


def fused_borrowing_kernel(function: F) -> F:
    """Compile like :func:`fused_kernel`, without counting references, as :func:`borrowing_kernel` does."""
    return _compile(function, fastmath={"contract"}, counts_references=False)


def called_kernel(function: F) -> F:
    """Compile like :func:`borrowing_kernel` a function that is called wherever it is named, and not inlined.

    Use it for functions that many kernels name and few reach, or whose work outweighs the passing of arguments. Such
    a function is optimised and compiled once in a tree of kernels. Inlined, it would be compiled once for every path
    that leads to it.
    """
    return _compile(function, counts_references=False, inlined=False)


def fused_called_kernel(function: F) -> F:
    """Compile like :func:`fused_kernel`, but do not inline the function, as in :func:`called_kernel`."""
    return _compile(function, fastmath={"contract"}, counts_references=False, inlined=False)


def _compile(
    function: F,
    *,
    fastmath: bool | set[str] = False,
    counts_references: bool = True,
    inlined: bool | None = None,
    unrolls: bool = False,
) -> F:
    # said in either case: what is not said, a kernel has from the one that calls it first
    inlined = not counts_references if inlined is None else inlined
    options = {"_nrt": counts_references, "forceinline": inlined, "fastmath": fastmath}
    always = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None}
    out: F = compiled(function, {**always, **options}, unrolls=unrolls or bool(fastmath))
    return out

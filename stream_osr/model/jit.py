"""One switch for everything that is compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from numba.core.registry import CPUDispatcher

from stream_osr.compiling import give_notice
from stream_osr.model import shipped
from stream_osr.model.cache import KernelCache
from stream_osr.model.within import within

F = TypeVar("F", bound=Callable[..., object])

give_notice(shipped.why_not)


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


class Kernel(CPUDispatcher):
    """A compiled function; other kernels that call it have it compiled :mod:`~stream_osr.model.within` themselves."""

    @cached_property
    def within(self) -> Any:
        """What other kernels call."""
        return within(self.py_func, self.targetoptions)

    @property
    def _numba_type_(self) -> Any:
        return self.within._numba_type_


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
    dispatcher: Any = Kernel(function, targetoptions={**always, **options})
    # without a folder that can be written the kernel works all the same, and is compiled anew in each process
    with suppress(RuntimeError):
        dispatcher._cache = KernelCache(function)
    dispatcher._cache = shipped.beside(dispatcher._cache, function)
    compiled: F = dispatcher
    return compiled

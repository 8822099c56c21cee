"""Machine code that came with the package: a platform's wheel brings what a first run would have to compile.

``make wheel`` compiles it for any processor of ``x86-64-v3`` (2013 and later), and for the Python and the numba of
the machine that builds. Elsewhere, and for kernels whose sources have changed, kernels are compiled as ever. What a
machine has compiled itself goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from stream_osr.model.stamp import source_stamp

FOLDER = Path(__file__).parents[1] / "compiled"
"""Where it is, by folders as in the package; absent in a checkout and in the plain wheel."""
TARGET = "x86-64-v3"
_NEEDED = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")


@cache
def why_not() -> str | None:
    """Say why the machine code that came along is of no use here; ``None``: it is used, or none came along.

    >>> why_not()  # a checkout brings none
    """
    if not FOLDER.is_dir():
        return None
    made_with = (FOLDER / "numba").read_text().strip()
    if made_with != numba.__version__:
        return f"the machine code in this package is for numba {made_with}, here is {numba.__version__}"
    has = llvm.get_host_cpu_features()
    if missing := [name for name in _NEEDED if not has.get(name)]:
        return f"the machine code in this package is for {TARGET} processors, this one lacks {', '.join(missing)}"
    return None


class _Place(_CacheLocator):
    """The folder of a source's kernels."""

    def __init__(self, source: str, line: int) -> None:
        self.source, self.line = Path(source), line

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Place:
        return cls(py_file, py_func.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        return str(FOLDER / self.source.parent.relative_to(FOLDER.parent))

    def get_source_stamp(self) -> str:
        return source_stamp(self.source)

    def get_disambiguator(self) -> str:
        return str(self.line)


class _Impl(CompileResultCacheImpl):
    _locator_classes = [_Place]  # noqa: RUF012  # numba's own name


class _Shipped(FunctionCache):
    """What came with the package for a kernel."""

    _impl_class = _Impl

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        signature, (triple, _, _), digests = super()._index_key(sig, codegen)
        return signature, (triple, TARGET, ""), digests


def beside(own: Any, function: Callable[..., object]) -> Any:
    """Put what came with the package beside a kernel's cache on this machine, if something came and is of use."""
    came = FOLDER.is_dir() and Path(function.__code__.co_filename).is_relative_to(FOLDER.parent)
    return _Beside(own, function) if came and why_not() is None else own


class _Beside:
    """Two caches, one after the other."""

    def __init__(self, own: Any, function: Any) -> None:
        self._own = own
        self._shipped: Any = _Shipped(function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load what is compiled for a signature, from the one place or the other; ``None``: it is nowhere."""
        found = self._own.load_overload(sig, target_context)
        return self._shipped.load_overload(sig, target_context) if found is None else found

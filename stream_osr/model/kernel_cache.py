"""Cache of the machine code of kernels, with private classes of numba.

Machine code is cached on this machine until the sources change (:func:`source_stamp`). A platform's wheel contains
precompiled machine code. ``make wheel`` compiles it for the :data:`TARGETS` of the architecture, and for the Python
and numba versions of the build machine. Elsewhere, and for kernels whose sources have changed, kernels are compiled
as usual. Code that this machine compiled takes precedence.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.runtime.nrt import rtsys

ROOT = Path(__file__).parents[2]
_REPORTS: list[Any] = llvm.ffi.lib._lock._cblist
_IMPORT = re.compile(r"^\s*from (stream_osr[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)

FOLDER = Path(__file__).parents[1] / "compiled"
"""Precompiled machine code: a folder for each target, with folders as in the package.

Absent in a checkout and in the plain wheel.
"""


class Target(NamedTuple):
    """A kind of processor for which a wheel brings machine code.

    Attributes
    ----------
    name
        Its name in LLVM.
    needs
        Features that a processor of this architecture may lack.
    """

    name: str
    needs: tuple[str, ...] = ()


_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
TARGETS = {
    "x86_64": (
        Target("x86-64-v3", (*_V2, "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")),
        Target("x86-64-v2", _V2),
    ),
    "aarch64": (Target("generic"),),
}
"""Targets of the wheels for Linux, by architecture, the best first."""


@cache
def source_stamp(source: Path) -> str:
    """Digest of a kernel's own source and of all sources of this package that it imports, directly or not.

    numba checks the kernel's own file only. It would keep using a kernel whose callees, in other modules, have
    changed. The digest covers the imports of the kernel's module, which include the callees and the types of the
    arguments. It also covers :mod:`stream_osr.model.compiler`, which defines how kernels are compiled.
    """
    found, waiting = set[Path](), {source}
    while waiting:
        found |= waiting
        waiting = {path for known in waiting for path in _imported(known)} - found
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(_digest(path))
    return digest.hexdigest()


@cache
def _digest(source: Path) -> bytes:
    return hashlib.sha256(source.read_bytes()).digest()


@cache
def _imported(source: Path) -> tuple[Path, ...]:
    """Find the sources of this package that a source imports. A package counts for the modules that it imports."""
    paths = []
    for module, names in _IMPORT.findall(source.read_text()):
        for name in ["", *re.findall(r"\w+", names)]:
            place = ROOT.joinpath(*module.split("."), name)
            paths += [path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()]
    return tuple(paths)


@contextmanager
def without_reports() -> Iterator[None]:
    """Do not report calls of LLVM as events of numba."""
    own = list(_REPORTS)
    _REPORTS.clear()
    try:
        yield
    finally:
        _REPORTS.extend(own)


class _MachineCode(CompileResultCacheImpl):
    """Cached machine code, without the intermediate code that numba also caches for callers.

    Callers use the code from :func:`within` instead. Reading numba's intermediate code would take longer than all the
    rest.
    """

    def reduce(self, compiled: Any) -> Any:
        (name, kind, (code, _)), described, *rest = super().reduce(compiled)
        return (name, kind, (code, _declared(described))), described, *rest


def _declared(described: Any) -> bytes:
    """Intermediate code with only the names by which numba finds the functions in the machine code."""
    names = described.llvm_func_name, described.llvm_cpython_wrapper_name, described.llvm_cfunc_wrapper_name
    text = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in names)
    code: bytes = llvm.parse_assembly(text).as_bitcode()
    return code


class _Index(IndexDataCacheFile):
    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()
        except (AttributeError, ImportError):  # it names a class of earlier sources
            return {}
        return index

    def save(self, key: Any, data: Any) -> None:
        """Write the machine code before the index. Processes read both without a lock."""
        index = self._load_index()
        name = index.get(key) or self._data_name(len(index) + 1)
        self._save_data(name, data)
        self._save_index({**index, key: name})


def _has(cache: Any, sig: Any, context: Any) -> bool:
    """Return whether a cache has machine code for a signature."""
    return cache._index_key(sig, context.codegen()) in cache._cache_file._load_index()


class _Cache(FunctionCache):
    """Cache that loads machine code without numba's declarations for compilation. A compilation loads them itself."""

    _impl_class: Any = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for a signature, or return ``None``."""
        with without_reports(), self._guard_against_spurious_io_errors():
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)


class KernelCache(_Cache):
    """Cache of a kernel's machine code on this machine."""

    _impl_class = _MachineCode

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        stamp = source_stamp(Path(function.__code__.co_filename))
        self._cache_file = _Index(self._cache_path, self._impl.filename_base, stamp)

    def has(self, sig: Any, context: Any) -> bool:
        """Return whether this machine has the code for a signature."""
        return _has(self, sig, context)


@cache
def _common_folder() -> str:
    """Return a folder of the cache that does not depend on the kernel, or an empty text."""
    folder = ""
    with suppress(RuntimeError):  # it cannot be written
        folder = FunctionCache(beside).cache_path
    return folder


def lock_of(index: str) -> Path:
    """Return the file to lock while a process compiles a kernel.

    Parameters
    ----------
    index
        Path of the kernel's index in the cache.
    """
    return Path(_common_folder() or Path(index).parent, "compiling.lock")


@cache
def target_here() -> Target | None:
    """Return the best target that this processor can run and for which the package has machine code, if any."""
    has = llvm.get_host_cpu_features()
    for target in TARGETS.get(platform.machine(), ()):
        if (FOLDER / target.name).is_dir() and all(has.get(name) for name in target.needs):
            return target
    return None


@cache
def why_not() -> str | None:
    """Return why the precompiled machine code cannot be used here, or ``None`` if it is used or absent.

    >>> why_not()  # a checkout brings none
    """
    if not FOLDER.is_dir():
        return None
    made_with = (FOLDER / "numba").read_text().strip()
    if made_with != numba.__version__:
        return f"the machine code in this package is for numba {made_with}, here is {numba.__version__}"
    if target_here() is None:
        there = " and ".join(sorted(path.name for path in FOLDER.iterdir() if path.is_dir()))
        has = llvm.get_host_cpu_features()
        needs = [target.needs for target in TARGETS.get(platform.machine(), ()) if (FOLDER / target.name).is_dir()]
        missing = [name for name in needs[-1] if not has.get(name)] if needs else []
        lacks = f"this one lacks {', '.join(missing)}" if missing else f"this one is {platform.machine()}"
        return f"the machine code in this package is for {there} processors, {lacks}"
    return None


class _Place(_CacheLocator):
    """Folder of a source's precompiled kernels for the target of this processor."""

    def __init__(self, source: str, line: int) -> None:
        self.source, self.line = Path(source), line

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Place:
        return cls(py_file, py_func.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        target = target_here()
        assert target is not None
        return str(FOLDER / target.name / self.source.parent.relative_to(FOLDER.parent))

    def get_source_stamp(self) -> str:
        return source_stamp(self.source)

    def get_disambiguator(self) -> str:
        return str(self.line)


class _Impl(CompileResultCacheImpl):
    _locator_classes = [_Place]  # noqa: RUF012  # numba's own name


class _Shipped(_Cache):
    """Precompiled machine code of a kernel that came with the package."""

    _impl_class = _Impl

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        target = target_here()
        assert target is not None
        signature, (triple, _, _), digests = super()._index_key(sig, codegen)
        return signature, (triple, target.name, ""), digests


def beside(own: Any, function: Callable[..., object]) -> Any:
    """Add the precompiled code to a kernel's cache on this machine, if it exists and can be used."""
    came = FOLDER.is_dir() and Path(function.__code__.co_filename).is_relative_to(FOLDER.parent)
    return _Beside(own, function) if came and why_not() is None else own


class _Beside:
    """A cache that tries two caches in turn."""

    def __init__(self, own: Any, function: Any) -> None:
        self._own = own
        self._shipped: Any = _Shipped(function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def has(self, sig: Any, context: Any) -> bool:
        """Return whether one of the caches has the code for a signature."""
        return self._own.has(sig, context) or _has(self._shipped, sig, context)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for a signature from the first cache that has it, or return ``None``."""
        found = self._own.load_overload(sig, target_context)
        return self._shipped.load_overload(sig, target_context) if found is None else found

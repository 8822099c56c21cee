"""What is kept of a compiled kernel: its machine code, as long as the sources are what they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from stream_osr.model.stamp import source_stamp


class _MachineCode(CompileResultCacheImpl):
    """Without the intermediate code that numba keeps as well, for callers to be linked with.

    Those have theirs :mod:`~stream_osr.model.within` themselves, and to read it would take longer than all the rest.
    """

    def reduce(self, compiled: Any) -> Any:
        (name, kind, (code, _)), described, *rest = super().reduce(compiled)
        return (name, kind, (code, _declared(described))), described, *rest


def _declared(described: Any) -> bytes:
    """Intermediate code that has nothing but the names by which numba finds the functions in the machine code."""
    names = described.llvm_func_name, described.llvm_cpython_wrapper_name, described.llvm_cfunc_wrapper_name
    text = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in names)
    code: bytes = llvm.parse_assembly(text).as_bitcode()
    return code


class KernelCache(FunctionCache):
    """What is kept of a kernel on this machine."""

    _impl_class = _MachineCode

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = source_stamp(Path(function.__code__.co_filename))

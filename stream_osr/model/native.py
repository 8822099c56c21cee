"""Values that stay in the form of compiled code between calls.

numba converts each argument whenever Python calls a kernel. A tuple of forty arrays takes 4 us. A native value is
converted once.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.experimental import structref

from stream_osr.model.jit import kernel


class _NativeType(types.StructRef):
    """Type of a native value."""


class Native(structref.StructRefProxy):
    """A value in the form of compiled code. Kernels read its field ``value``."""

    value: Any


structref.register(_NativeType)  # type: ignore[no-untyped-call]  # numba leaves it untyped
structref.define_proxy(Native, _NativeType, ["value"])  # type: ignore[no-untyped-call]


@kernel
def native(value: Any) -> Native:
    """Convert a value, such as a tuple of arrays, once for many calls of kernels. The arrays are shared."""
    return Native(value)  # type: ignore[no-untyped-call]

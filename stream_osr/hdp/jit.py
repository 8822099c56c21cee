"""One switch for everything that is compiled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])


@cache
def source_stamp() -> str:
    """Digest of all sources of this package: what a compiled kernel depends on.

    numba looks only at the file of the kernel itself, and would go on using a kernel whose callees, in other
    modules, have changed.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def kernel(function: F) -> F:
    """Compile a function over arrays, once per machine and version of the sources.

    Division follows IEEE rules (no hidden zero checks), there is no fast-math, and the machine code is kept
    beside the source or in ``NUMBA_CACHE_DIR``.
    """
    dispatcher: Any = numba.njit(cache=True, error_model="numpy")(function)
    dispatcher._cache._cache_file._source_stamp = source_stamp()
    compiled: F = dispatcher
    return compiled

"""When machine code that is kept is that of the sources."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(r"^\s*from (stream_osr[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def source_stamp(source: Path) -> str:
    """Digest of a kernel's own source and of all of this package that it imports, however far off.

    numba looks only at the file of the kernel itself, and would go on using a kernel whose callees, in other
    modules, have changed. Its module imports what it calls, and the types of what it is handed; and this one, which
    says how kernels are compiled.
    """
    found, waiting = set[Path](), {source}
    while waiting:
        found |= waiting
        waiting = {path for known in waiting for path in _imported(known)} - found
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _imported(source: Path) -> tuple[Path, ...]:
    """Find the sources of this package that a source imports: modules, and packages for what they bring along."""
    paths = []
    for module, names in _IMPORT.findall(source.read_text()):
        for name in ["", *re.findall(r"\w+", names)]:
            place = ROOT.joinpath(*module.split("."), name)
            paths += [path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()]
    return tuple(paths)

"""Collection of garbage by a process of the command line."""

from __future__ import annotations

import gc

FIRST_COLLECTION, COLLECTION = 300_000, 10_000
"""Objects before the first collection of garbage, and between later ones. Imports leave 200,000 objects."""


def begin_imports() -> None:
    """Collect no garbage during the imports, which leave hardly any."""
    gc.set_threshold(FIRST_COLLECTION)


def end_imports() -> None:
    """Collect garbage more often from here on, but never among the present objects: modules and a model stay.

    Nothing changes in a process without :func:`begin_imports`.
    """
    if gc.get_threshold()[0] == FIRST_COLLECTION:
        gc.freeze()
        gc.set_threshold(COLLECTION)

"""How the cost of a decision grows with the active subclasses: python -m benchmarks.active [--write].

Ten known classes and many new ones, Gaussians in 16 dimensions, in batches of 64. Ten new classes come at a time. The
half-life is long, so the subclasses of earlier classes stay active.
"""

from __future__ import annotations

import typer
from threadpoolctl import threadpool_limits

from benchmarks.growth import MODELS, of_gaussians
from benchmarks.written import Write, table, tell

NEW = (10, 30, 100, 300)
EACH = 100
"""Instances of each new class."""
LASTING = 1e5
"""Half-life in instances."""


def row(n_new: int) -> tuple[str, ...]:
    """Cost and active subclasses at the end, for each model."""
    lasting = {"max_subclasses": max(200, 2 * n_new), "half_life": LASTING}
    found = [of_gaussians(10, 16, 2 * EACH * n_new, n_new, **lasting, **arguments) for arguments in MODELS.values()]
    return (f"{n_new}", *(cell for us, active in found for cell in (f"{us:.0f}", f"{active}")))


def main(write: Write = False) -> None:
    """Measure and print."""
    columns = ("new classes", *(cell for name in MODELS for cell in (f"{name}, us", "active subclasses")))
    with threadpool_limits(1):
        text = table(columns, [row(n_new) for n_new in NEW])
    tell("active", text, write)


if __name__ == "__main__":
    typer.run(main)

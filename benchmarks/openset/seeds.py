"""Which seeds may be tuned on, and which are reported: never the same.

A seed draws the known classes, what trains, the order of the stream, and the method's own randomness. Whatever is
chosen by looking at a test part (a default, a constant, a variant) is chosen on the first; whatever stands in a table
of this folder comes from the second. `tests/benchmarks/test_summary.py` holds both apart.
"""

from __future__ import annotations

TUNING = tuple(range(100, 106))
"""Splits that defaults were, and are, chosen on."""

REPORTING = tuple(range(10))
"""Splits that tables are made of."""

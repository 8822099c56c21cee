"""What a stream amounts to so far, in plain words: the last lines of ``run`` and ``inspect``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from stream_osr.showing import counted, printable

if TYPE_CHECKING:
    from stream_osr import OpenSetRecognizer

SHOWN = 12
"""Candidates, subclasses and reasons that have a place of their own."""


def account(model: OpenSetRecognizer) -> list[str]:
    """Say how much of a stream was decided how, what is new in it, and how it differs from training."""
    summary, found = model.summary(), model.new_classes()
    size = summary.stream_size
    if not size:
        return ["nothing was decided yet", *summary.unmet.told()]
    unknown = round(summary.unknown_share * size)
    emerged = [f"S{key} {count}" for key, count, announced in summary.emerging if announced]
    lines = [
        f"{counted(size, 'instance')} decided in all: {size - unknown} known, {unknown} unknown "
        f"({100 * summary.unknown_share:.1f} %)",
        f"new subclasses, with their instances: {_some(emerged)}" if emerged else "new subclasses: none",
        *repr(found).splitlines()[: SHOWN + 1],
    ]
    if len(found.candidates) > SHOWN:
        lines.append(f"and {counted(len(found.candidates) - SHOWN, 'smaller one')}")
    return [*lines, *_recall(model), *summary.unmet.told()]


def _recall(model: OpenSetRecognizer) -> list[str]:
    """Tell the recall so that nobody takes it for a figure about the whole stream."""
    now = model.expected_recall
    if now is None:
        return []
    below = "; that is below what training promised" if model.signals.recall_dropped else ""
    return [
        f"of the known instances alone, estimated share labelled right: {now.recall:.3f} ({now.low:.3f} to "
        f"{now.high:.3f}), wrongly called unknown: {now.false_unknown:.3f}{below}"
    ]


def set_aside(count: int, reasons: Mapping[str, int], where: str) -> list[str]:
    """Say how many records were set aside, and why.

    >>> set_aside(3, {"it has no label": 2}, "--errors FILE keeps them")
    ['3 set aside; --errors FILE keeps them', '  2: it has no label', '  1: reasons that were not counted']
    """
    if not count:
        return []
    most = Counter(reasons).most_common()
    kinds = [(number, printable(kind, 200)) for kind, number in most[:SHOWN]]
    rest = sum(number for _, number in most[SHOWN:])
    uncounted = count - sum(reasons.values())
    kinds += [(rest, "other reasons")] * (rest > 0) + [(uncounted, "reasons that were not counted")] * (uncounted > 0)
    return [f"{count} set aside; {where}", *(f"  {number}: {kind}" for number, kind in kinds)]


def naming(model: OpenSetRecognizer, checkpoint: Path) -> str | None:
    """Say which command names the largest candidate; ``None``: there is none."""
    candidates = model.new_classes().candidates
    if not candidates:
        return None
    ids = ",".join(map(str, candidates[0].subclasses))
    return f"next, to name {candidates[0].name}: stream-osr promote {ids} NAME --checkpoint {quote(str(checkpoint))}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")

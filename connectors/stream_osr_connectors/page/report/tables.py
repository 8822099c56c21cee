"""The discovery table (the paper's Tables 1 and 2), and decisions against true labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stream_osr.discovery.summaries import Summary
from stream_osr.evaluation.calibration import auroc, expected_calibration_error
from stream_osr_connectors.page.report.emerged import Emerged
from stream_osr_connectors.page.report.timeline import subclass_name
from stream_osr_connectors.page.report.told import Decided


class Group(NamedTuple):
    """A row of the discovery table: a known class, or one part of the stream.

    Attributes
    ----------
    name
        Label of the class, or what part of the stream it is.
    new
        It is the new part of the stream.
    size
        Instances.
    share
        Share of the stream, ``None`` for a training group.
    subclasses
        Name and share of the group of each, the largest first. Shares need not sum to 1: subclasses that were
        dropped, and instances in none, are left out.
    """

    name: str
    new: bool
    size: int
    share: float | None
    subclasses: tuple[tuple[str, float], ...]


def discovery(summary: Summary | None, told: Decided, emerged: Mapping[int, Emerged]) -> tuple[Group, ...]:
    """Put the discovery table together.

    Parameters
    ----------
    summary
        Of the model, if there is one: the known classes, and the stream unless there are decisions.
    told
        Decisions, whether there are some or none.
    emerged
        The subclasses that have emerged.
    """
    groups = []
    for group in () if summary is None else summary.known:
        shares = tuple((subclass_name(key), share) for key, share in group.subclasses)
        groups.append(Group(str(group.name), False, group.size, None, shares))
    if len(told.seq):
        n, n_new = len(told.seq), int(told.unknown.sum())
        sizes_of = np.bincount(told.label[~told.unknown], minlength=len(told.names))
        within = dict(zip(told.names, sizes_of.tolist(), strict=True))
        sizes = {key: int((told.unknown & (told.subclass == key)).sum()) for key in emerged}
    elif summary is not None and summary.stream_size:
        n = summary.stream_size
        n_new, within = round(n * summary.unknown_share), {}
        sizes = {key: size for key, size, announced in summary.emerging if announced}
    else:
        return tuple(groups)
    groups.append(Group("stream, known", False, n - n_new, (n - n_new) / n, _shares(within, n - n_new)))
    new = {subclass_name(key): size for key, size in sizes.items()}
    groups.append(Group("stream, new", True, n_new, n_new / n, _shares(new, n_new)))
    return tuple(groups)


def _shares(sizes: Mapping[str, int], whole: int) -> tuple[tuple[str, float], ...]:
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    # a subclass of the model may hold instances that were decided before they moved to it
    whole = max(whole, sum(sizes.values()), 1)
    return tuple((name, size / whole) for name, size in ordered if size)


class Judged(NamedTuple):
    """Decisions against true labels.

    Attributes
    ----------
    n
        Decisions with a true label.
    columns
        Decided labels, the unknown label last.
    rows
        True label, whether it was of no known class, and how often each label was decided.
    known_right
        Share of the instances of known classes that got their own label.
    unknown_found
        Share of the instances of unknown classes that were called unknown.
    auroc
        Area under the ROC curve of ``p_unknown``.
    calibration_error
        Expected calibration error of ``p_unknown``.
    """

    n: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, bool, tuple[int, ...]], ...]
    known_right: float
    unknown_found: float
    auroc: float
    calibration_error: float


def judge(told: Decided) -> Judged | None:
    """Hold decisions against the true labels, where there are some."""
    judged = told.judged
    if not judged.any():
        return None
    label, truth, new = told.label[judged], told.truth[judged], told.truly_unknown[judged]
    unknown, p = told.unknown[judged], told.p_unknown[judged]
    code = {name: number for number, name in enumerate(told.names)}
    called_unknown = np.unique(told.label[told.unknown])
    columns = (*told.known, told.names[int(called_unknown[0])] if len(called_unknown) else "unknown")
    wanted = [code.get(name, -2) for name in columns]
    rows = []
    for was_new in (False, True):
        names = {told.names[c] for c in np.unique(truth[new == was_new])}
        for name in [name for name in told.known if name in names] + sorted(names - set(told.known)):
            here = (truth == code[name]) & (new == was_new)
            rows.append((name, was_new, tuple(int((here & (label == c)).sum()) for c in wanted)))
    return Judged(
        n=int(judged.sum()),
        columns=columns,
        rows=tuple(rows),
        known_right=_mean((label == truth)[~new]),
        unknown_found=_mean(unknown[new]),
        auroc=auroc(p, new),
        calibration_error=expected_calibration_error(p, new),
    )


def _mean(right: np.ndarray) -> float:
    return float(right.mean()) if len(right) else math.nan

"""Figures of merit of an unknown score, threshold by threshold, as their definitions read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise


def fpr_at_recall(score: Sequence[float], is_unknown: Sequence[bool], recall: Fraction) -> float:
    known = [s for s, unknown in zip(score, is_unknown, strict=True) if not unknown]
    unknown = [s for s, unknown in zip(score, is_unknown, strict=True) if unknown]
    for threshold in sorted(known):
        if Fraction(sum(s <= threshold for s in known), len(known)) >= recall:
            return sum(s <= threshold for s in unknown) / len(unknown)
    raise AssertionError("all known instances are accepted at the largest of their scores")


def oscr(score: Sequence[float], is_unknown: Sequence[bool], right: Sequence[bool]) -> float:
    rows = list(zip(score, is_unknown, right, strict=True))
    n_unknown = sum(is_unknown)
    n_known = len(rows) - n_unknown
    curve = [(0.0, 0.0)]
    for threshold in sorted(set(score)):
        accepted = [(unknown, named) for s, unknown, named in rows if s <= threshold]
        false_positive = sum(unknown for unknown, _ in accepted) / n_unknown
        classified = sum(named and not unknown for unknown, named in accepted) / n_known
        curve.append((false_positive, classified))
    return sum((x - x0) * (y + y0) / 2 for (x0, y0), (x, y) in pairwise(curve))

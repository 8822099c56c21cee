"""Estimate of the memory of training, reported before it is allocated."""

from __future__ import annotations

import logging
import os

from stream_osr.errors import InvalidParameter

logger = logging.getLogger("stream_osr")

REPORTED_FROM = 2.0**30
"""Least memory in bytes that is reported."""

MAPS, HOLDERS = 6, 2
"""Number of square matrices over the features during fitting, and number of objects with statistics of each subclass
(the seats and the frozen classes)."""


def least_bytes(features: int, kept: int, classes: int, models: int) -> float:
    """Return the least number of bytes that training takes, with at least one subclass for each class.

    Parameters
    ----------
    features
        Number of columns of the training instances.
    kept
        Number of dimensions after the mapping.
    classes
        Number of known classes.
    models
        Number of models.

    Examples
    --------
    A thousand features, ten classes, and the four models of the defaults: megabytes.

    >>> [round(least_bytes(1000, kept, 10, 4) / 2**20) for kept in (1000, 50)]
    [1269, 49]
    """
    subclass = 16.0 * (kept + 1) ** 2
    return 8.0 * MAPS * features**2 + HOLDERS * models * classes * subclass


def physical_bytes() -> float:
    """Memory of the machine in bytes. It is infinite if the system does not report it."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return float("inf")
    return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")


def warn_of_memory(features: int, kept: int, classes: int, models: int) -> None:
    """Log a warning if training needs much memory.

    The parameters are those of :func:`least_bytes`.

    Raises
    ------
    InvalidParameter
        If training needs more memory than the machine has.
    """
    least, there = least_bytes(features, kept, classes, models), physical_bytes()
    if least < min(REPORTED_FROM, there):
        return
    text = (
        f"{features} features, {kept} dimensions, {classes} classes and {models} models take at least "
        f"{least / 2**30:.1f} GiB"
    )
    remedy = "pca=0.99, or a number of components as pca, would take less"
    if least >= there:
        raise InvalidParameter(f"{text}, and the machine has {there / 2**30:.1f}: {remedy}")
    logger.warning("%s: %s", text, remedy)

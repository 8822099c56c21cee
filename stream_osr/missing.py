"""What stands for a value that is missing."""

from __future__ import annotations

import math

import numpy as np


def is_missing(value: object) -> bool:
    """Tell None, NaN and the missing values of data frame libraries from everything else."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)

"""Measuring open-set recognition: the protocol, the data sets and the figures of merit.

``protocol`` divides a data set into known and unknown, training and test; ``datasets`` reads the sets that
the method's paper used; ``metrics`` counts decisions; ``calibration`` judges probabilities and scores.
"""

from stream_osr.evaluation.calibration import (
    ReliabilityCurve,
    auroc,
    expected_calibration_error,
    reliability_curve,
)
from stream_osr.evaluation.datasets import (
    KNOWN_CLASSES,
    NAMES,
    PCA_DIMENSIONS,
    UNKNOWN_CLASSES,
    Dataset,
    DatasetNotFoundError,
    data_directory,
    load,
)
from stream_osr.evaluation.metrics import OpenSetReport, openness
from stream_osr.evaluation.protocol import Split, ValidationSplit, split, validation_split

__all__ = [
    "KNOWN_CLASSES",
    "NAMES",
    "PCA_DIMENSIONS",
    "UNKNOWN_CLASSES",
    "Dataset",
    "DatasetNotFoundError",
    "OpenSetReport",
    "ReliabilityCurve",
    "Split",
    "ValidationSplit",
    "auroc",
    "data_directory",
    "expected_calibration_error",
    "load",
    "openness",
    "reliability_curve",
    "split",
    "validation_split",
]

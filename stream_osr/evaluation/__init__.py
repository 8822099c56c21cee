"""Measuring open-set recognition: the protocol, the data sets and the figures of merit.

``protocol`` divides a data set into known and unknown, training and test; ``datasets`` reads the sets that
the method's paper used; ``metrics`` counts decisions; ``calibration`` judges probabilities and scores.

For streams, ``prequential`` runs a recognizer and scores it with metrics that work in river's own loops too:
``novelty`` (known or novel), ``patterns`` (what the emerging subclasses are), ``detection`` (how soon).
"""

from stream_osr.evaluation.calibration import (
    ReliabilityCurve,
    auroc,
    expected_calibration_error,
    fpr_at_recall,
    oscr,
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
from stream_osr.evaluation.detection import Detection, TimeToDetection
from stream_osr.evaluation.metrics import OpenSetReport, openness
from stream_osr.evaluation.novelty import AUROC, Err, FNew, MNew, OpenSetMacroF, OpenSetMetric, OpenSetMicroF
from stream_osr.evaluation.patterns import CER, NoveltyPattern, Purity, UnkR, pattern_of
from stream_osr.evaluation.prequential import Instant, Prequential, open_set_metrics, prequential
from stream_osr.evaluation.protocol import Split, ValidationSplit, split, validation_split

__all__ = [
    "AUROC",
    "CER",
    "KNOWN_CLASSES",
    "NAMES",
    "PCA_DIMENSIONS",
    "UNKNOWN_CLASSES",
    "Dataset",
    "DatasetNotFoundError",
    "Detection",
    "Err",
    "FNew",
    "Instant",
    "MNew",
    "NoveltyPattern",
    "OpenSetMacroF",
    "OpenSetMetric",
    "OpenSetMicroF",
    "OpenSetReport",
    "Prequential",
    "Purity",
    "ReliabilityCurve",
    "Split",
    "TimeToDetection",
    "UnkR",
    "ValidationSplit",
    "auroc",
    "data_directory",
    "expected_calibration_error",
    "fpr_at_recall",
    "load",
    "open_set_metrics",
    "openness",
    "oscr",
    "pattern_of",
    "prequential",
    "reliability_curve",
    "split",
    "validation_split",
]

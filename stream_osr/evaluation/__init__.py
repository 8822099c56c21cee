"""Evaluation of open-set recognition: metrics, and streams with hidden labels.

``metrics`` counts decisions, and ``calibration`` evaluates probabilities and scores.

For streams, ``prequential`` runs a recognizer and scores it. Its metrics also work in river's own loops: ``novelty``
(known or novel), ``patterns`` (classes of the emerging subclasses), ``detection`` (time to detection).
"""

from stream_osr.evaluation.calibration import (
    ReliabilityCurve,
    auroc,
    expected_calibration_error,
    fpr_at_recall,
    oscr,
    reliability_curve,
)
from stream_osr.evaluation.detection import Detection, TimeToDetection
from stream_osr.evaluation.metrics import OpenSetReport, openness
from stream_osr.evaluation.novelty import AUROC, Err, FNew, MNew, OpenSetMacroF, OpenSetMetric, OpenSetMicroF
from stream_osr.evaluation.patterns import CER, NoveltyPattern, Purity, UnkR, pattern_of
from stream_osr.evaluation.prequential import Instant, Prequential, open_set_metrics, prequential

__all__ = [
    "AUROC",
    "CER",
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
    "TimeToDetection",
    "UnkR",
    "auroc",
    "expected_calibration_error",
    "fpr_at_recall",
    "open_set_metrics",
    "openness",
    "oscr",
    "pattern_of",
    "prequential",
    "reliability_curve",
]

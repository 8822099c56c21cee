"""What tests use of the inside of ``stream_osr.evaluation``."""

from __future__ import annotations

from stream_osr import evaluation
from stream_osr.evaluation import patterns
from stream_osr.evaluation.composition import in_words, main_class
from stream_osr.evaluation.metrics import OpenSetReport, openness

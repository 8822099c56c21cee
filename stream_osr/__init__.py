"""Open-set recognition for streams: which known class, or unknown, and what the unknown is made of.

``OpenSetRecognizer`` is the way in; ``docs/architecture.md`` shows the rest.
"""

from stream_osr.compiling import give_notice
from stream_osr.decision import Decision
from stream_osr.discovery.candidates import CandidateClass, NewClasses
from stream_osr.discovery.events import (
    ClassDrifted,
    Event,
    EventsSummed,
    NamingUndone,
    NewClassesChanged,
    RecallDropped,
    SubclassDormant,
    SubclassEmerged,
    SubclassForgotten,
    SubclassGrew,
    SubclassMerged,
    SubclassMuted,
    SubclassPromoted,
    SubclassRecurred,
    SubclassRefuted,
    SubclassSplit,
    UnknownRateJumped,
)
from stream_osr.discovery.summaries import Signals, Summary
from stream_osr.moved import keep_earlier_names
from stream_osr.recognizer import OpenSetRecognizer
from stream_osr.trained import TrainedModel
from stream_osr.training_report import TrainingReport
from stream_osr.version import __version__ as __version__

give_notice()
keep_earlier_names()

__all__ = [
    "CandidateClass",
    "ClassDrifted",
    "Decision",
    "Event",
    "EventsSummed",
    "NamingUndone",
    "NewClasses",
    "NewClassesChanged",
    "OpenSetRecognizer",
    "RecallDropped",
    "Signals",
    "SubclassDormant",
    "SubclassEmerged",
    "SubclassForgotten",
    "SubclassGrew",
    "SubclassMerged",
    "SubclassMuted",
    "SubclassPromoted",
    "SubclassRecurred",
    "SubclassRefuted",
    "SubclassSplit",
    "Summary",
    "TrainedModel",
    "TrainingReport",
    "UnknownRateJumped",
]

"""Open-set recognition of data streams.

The main class is ``OpenSetRecognizer``. ``docs/architecture.md`` describes the other modules. Names of the package
are imported on first use, so that a command that only prints help does not load the sampler.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING
from warnings import warn

from stream_osr.version import __version__ as __version__

if TYPE_CHECKING:
    from stream_osr.decision import Decision, FailedDecision
    from stream_osr.discovery.event_base import Event
    from stream_osr.discovery.events import (
        ActionUndone,
        ClassDrifted,
        ColumnFailed,
        DependenceFound,
        EventsSummed,
        FrameMoved,
        NewClassesChanged,
        RecallDropped,
        RowsRepeated,
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
    from stream_osr.discovery.new_classes import CandidateClass, NewClasses
    from stream_osr.discovery.summaries import Signals, Summary
    from stream_osr.keyed import Keyed
    from stream_osr.parameters import Input, Limits, ModelOptions
    from stream_osr.recognizer import OpenSetRecognizer
    from stream_osr.training.trained import TrainedModel
    from stream_osr.training.training_report import TrainingReport

__all__ = [
    "ActionUndone",
    "CandidateClass",
    "ClassDrifted",
    "ColumnFailed",
    "Decision",
    "DependenceFound",
    "Event",
    "EventsSummed",
    "FailedDecision",
    "FrameMoved",
    "Input",
    "Keyed",
    "Limits",
    "ModelOptions",
    "NewClasses",
    "NewClassesChanged",
    "OpenSetRecognizer",
    "RecallDropped",
    "RowsRepeated",
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

_ELSEWHERE = {
    "CandidateClass": "discovery.new_classes",
    "Decision": "decision",
    "FailedDecision": "decision",
    "Input": "parameters",
    "Keyed": "keyed",
    "Limits": "parameters",
    "ModelOptions": "parameters",
    "NewClasses": "discovery.new_classes",
    "OpenSetRecognizer": "recognizer",
    "Signals": "discovery.summaries",
    "Summary": "discovery.summaries",
    "TrainedModel": "training.trained",
    "TrainingReport": "training.training_report",
}
"""Modules of the public names that are not events."""


_RENAMED = {"NamingUndone": "ActionUndone"}
"""Old names that stay available for one release."""


def __getattr__(name: str) -> object:
    """Import a public name or a module of the package on first use."""
    if name in _RENAMED:
        warn(f"{name} is called {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name in __all__:
        value: object = getattr(import_module(f"stream_osr.{_ELSEWHERE.get(name, 'discovery.events')}"), name)
    elif name.startswith("_") or find_spec(f"stream_osr.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = import_module(f"stream_osr.{name}")
    globals()[name] = value  # from now on it is found at once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

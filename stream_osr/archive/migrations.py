"""Steps from one format version to the next.

Any change of the archive content, even an additional field, raises ``VERSION`` (``records.py``) from N to N + 1. It
adds a function to ``STEPS`` under N. The function converts the content of version N, in the form of archives, to
version N + 1. The golden set of version N (``tests/archives``) stays, and must still load and continue. The code
before the change wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from stream_osr.archive.record import numbered
from stream_osr.support.rules import RecordForm


def _from_11(content: Any) -> Any:
    """Convert version 11: one background component for each class, no spread of the base measure, no constants.

    A constant feature of a model of version 11 stays in the model, and its changes are not reported.
    """
    for _, form in list(numbered(content)):
        if not isinstance(form, RecordForm):
            continue
        values = form.values
        if form.name == "Prior":
            values.setdefault("spread", np.ones(values["n_features"]))
        elif form.name == "Known" and not all(isinstance(each, tuple) for each in values["broad"]):
            values["broad"] = tuple(() if shape is None else (_component(shape),) for shape in values["broad"])
        elif form.name == "Usual":
            values.setdefault("constant", np.full(len(values["low"]), np.nan))
        elif form.name == "Signals":
            values.setdefault("changed_columns", {})
        elif form.name == "TrainingReport":
            values["constant_features"] += values.pop("one_valued_features", ())
            for name in ("subclass_shares", "separate_groups"):
                values.setdefault(name, {})
            values.setdefault("directions", 0)
    return content


def _from_12(content: Any) -> Any:
    """Convert version 12: no alarm columns."""
    fields = content.values if isinstance(content, RecordForm) else content
    if isinstance(fields, dict):
        if isinstance(fields.get("arguments"), dict):
            fields["arguments"].setdefault("alarms", None)
        else:  # a checkpoint or a snapshot, which contains a recognizer
            for value in fields.values():
                _from_12(value)
    return content


def _from_13(content: Any) -> Any:
    """Convert version 13: no foreign values, frame or parts of references, and a count of the latest instances."""
    for _, form in list(numbered(content)):
        if isinstance(form, RecordForm):
            for name, nothing in ADDED.get(form.name, {}).items():
                form.values.setdefault(name, nothing)
            if form.name == "Arrival":
                del form.values["lately"]
    return content


def _component(shape: RecordForm) -> RecordForm:
    return RecordForm("Component", {"shape": shape, "share": 1.0})


ADDED: dict[str, dict[str, Any]] = {
    "Decision": {"odd_columns": ()},
    "Faults": {"foreign": ()},
    "Signals": {"odd_values": 0, "error_codes": {}, "frame": ""},
    "Stream": {"frame": None},
    "References": {"part": None},
    "Order": {"persistence": 0.0},
    "Arrival": {"runs": None},
}
"""Fields that versions before 14 do not have, by record."""
STEPS: dict[int, Callable[[Any], Any]] = {11: _from_11, 12: _from_12, 13: _from_13}
"""Functions by the version that they convert. Version 11 has another file format than version 10."""
LATER: dict[int, Callable[[str, Any], bool]] = {
    11: lambda path, form: (
        path.endswith(".prior.spread")
        or path == "usual.constant"
        or (isinstance(form, RecordForm) and form.name == "Component")
    )
}
"""Arrays and records of a trained model that a version does not have, by their paths."""


def as_numbered(forms: Iterable[tuple[str, Any]], version: int) -> list[Any]:
    """List the arrays and records of a trained model that an archive of this version refers to by number.

    ``forms`` are those of the present version, with their paths (:func:`stream_osr.archive.record.numbered`).
    """
    later = [lacks for number, lacks in LATER.items() if version <= number]
    return [form for path, form in forms if not any(lacks(path, form) for lacks in later)]


def bring_up(content: Any, version: int) -> Any:
    """Convert content to the present version, one step after the other."""
    while (step := STEPS.get(version)) is not None:
        content, version = step(content), version + 1
    return content

"""Intake of instances and labels: they are read, checked before any change, and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from stream_osr.errors import InvalidFeature, InvalidInstance, InvalidLabel, NotTrained
from stream_osr.instances.absent import absent_as_zero
from stream_osr.instances.blocks import frame_matrix
from stream_osr.instances.features import FeatureRow, Features, check_mapping
from stream_osr.instances.kinds import Name
from stream_osr.instances.labels import check_label, spelled_alike
from stream_osr.instances.tables import categorical_columns, column_values, frame_rows, split_columns
from stream_osr.instances.times_and_keys import group_of, key_of, time_of
from stream_osr.parameters import Label
from stream_osr.printable_text import typed
from stream_osr.stream.recognizer_state import RecognizerState
from stream_osr.support.limits import check_label_length, check_names, check_room, check_storable
from stream_osr.training.schema_check import difference, least_features
from stream_osr.training.trained import TrainedModel

logger = logging.getLogger("stream_osr")


class CheckedInstance(NamedTuple):
    """A checked instance, before any change. ``row`` is None if it is to be skipped."""

    features: Features
    row: FeatureRow | None
    label: Label | None
    t: float | None
    key: Any
    x: Mapping[Any, Any]
    group: str | float | None = None


def read(
    state: RecognizerState,
    x: object,
    y: object,
    t: object,
    key: object,
    number: int | None = None,
    earlier: Sequence[Label] = (),
    before: Features | None = None,
    declared: Collection[Name] = (),
    group: object = None,
) -> CheckedInstance:
    """Check an instance. An instance with an unusable value is counted.

    Parameters
    ----------
    state
        The recognizer.
    x, y, t, key
        Features, label, time and key, as given.
    number
        Its row in a data frame.
    earlier, before
        Labels of earlier rows that will be learnt first, and the features after the last of these rows.
    declared
        Features that are categories whatever their values look like, in addition to those in the parameters.
    group
        Person, device or day of a training instance, as given.
    """
    x = check_mapping(x)
    labels = [*state.labels, *earlier]
    label = None
    if y is not None:
        label = label_of(state, y, labels)
    elif state.training is not None and state.parameters.freezing == "manual":
        raise NotTrained("an unlabelled instance came before freeze(), and freezing='manual'. Call freeze() first")
    elif not labels:
        raise NotTrained("an unlabelled instance came before any labelled one. Learn labelled instances first")
    try:
        extended, present = label is not None or bool(earlier), _present(state, before)
        x = present.expanded(x, number, new=extended and state.training is not None)
        features = _features(state, x, present, declared, extended=extended)
        row: FeatureRow | None = row_of(state, features, x, number)
    except InvalidFeature:
        state.counters["bad_rows"] += 1
        raise
    if row is not None and row.missing and state.parameters.on_missing == "skip":
        row = None
    return CheckedInstance(features, row, label, time_of(t), key_of(key), x, group_of(group))


def read_frame(state: RecognizerState, X: Any, y: Any, t: Any, key: Any, group: Any = None) -> list[CheckedInstance]:
    """Check the rows of a data frame or array. An error names the row."""
    _, records = frame_rows(X, state.features)
    declared = categorical_columns(X) if state.training is not None else ()
    given = [column_values(v, len(records), name) for v, name in ((y, "y"), (t, "t"), (key, "key"), (group, "group"))]
    out: list[CheckedInstance] = []
    earlier: list[Label] = []
    before: Features | None = None
    for number, (record, label, time, name, unit) in enumerate(zip(records, *given, strict=True)):
        try:
            instance = read(state, record, label, time, name, number, earlier, before, declared, unit)
        except InvalidFeature:  # it names the row
            raise
        except (InvalidInstance, InvalidLabel, NotTrained) as error:
            raise type(error)(f"row {number}: {error}") from None
        out.append(instance)
        before = instance.features
        if instance.row is not None and instance.label is not None and instance.label not in earlier:
            earlier.append(instance.label)
    if state.training is not None:
        _warn_of_late_labels(given[0])
    return out


def frames_of(frames: Iterator[Any], **columns: Any) -> Iterator[tuple[int, Any, list[Any]]]:
    """Yield the number, the features and the named columns of each data frame of an iterator."""
    for name, column in columns.items():
        if not isinstance(column, str | int | None):
            raise InvalidInstance(
                f"{name} is {typed(column)}: expected the name of a column, since the rows are an iterator of frames"
            )
    for number, frame in enumerate(frames):
        with in_frame(number):
            rest, its = split_columns(frame, [*columns.values()])
        yield number, rest, its


@contextmanager
def in_frame(number: int) -> Iterator[None]:
    """Name the number of the data frame in an error about its rows."""
    try:
        yield
    except InvalidFeature as error:
        error.frame = number
        raise
    except (InvalidInstance, InvalidLabel, NotTrained) as error:
        raise type(error)(f"frame {number}: {error}") from None


def _warn_of_late_labels(labels: Sequence[Any]) -> None:
    """Warn if a row without a label ends training before labelled rows."""
    first = next((number for number, label in enumerate(labels) if label is None), len(labels))
    late = sum(label is not None for label in labels[first:])
    if late:
        logger.warning(
            "row %d has no label, which ended training: the %d labelled rows after it do not train the classes. "
            "They update the stream as late labels. Give the labelled rows first",
            first,
            late,
        )


def label_of(state: RecognizerState, y: object, known: Sequence[Label]) -> Label:
    """Check a label against the known classes. A label that opens a class must fit within the bounds."""
    label = check_label(y, known, state.parameters.unknown)
    if label not in known and (other := spelled_alike(label, known)) is not None:
        logger.warning(
            "label %a opens a class next to %a and looks the same. They differ only by white space or Unicode "
            "normalization. If they are one class, give both the same spelling",
            label,
            other,
        )
    if label not in known:
        check_label_length(label)
        check_room(label, {*known, *(e.label for e in state.evidence)}, state.parameters.max_classes)
    return label


def late_label(state: RecognizerState, y: object) -> Label:
    """Check a label that comes after training, against known and waiting labels."""
    _, stream = state.running
    return label_of(state, y, [*stream.labels, *(e.label for e in state.evidence)])


def row_of(state: RecognizerState, features: Features, x: Mapping[Any, Any], number: int | None = None) -> FeatureRow:
    """Read the features of an instance, and check whether they may be missing."""
    row = features.row(x, number)
    if row.missing and state.parameters.absent == "zero":
        row = absent_as_zero(features, row, x)
    if row.missing and state.parameters.on_missing == "error":
        name = features.names[int(np.flatnonzero(np.isnan(row.values))[0])]
        remedy = "it is missing. Give a number, or set on_missing='impute' or 'skip'"
        raise InvalidFeature(name, x.get(name), remedy, number)
    return row


def rows_of(state: RecognizerState, X: Any, on_row: Callable[[np.ndarray, Mapping[Any, Any]], None]) -> np.ndarray:
    """Read the rows of a data frame, an array, or a list of dicts to predict, shape (n, p), NaN = missing.

    ``on_row`` is called with each row that is read from a record, and with the record.
    """
    assert state.trained is not None
    features, rows = state.trained.features, list[np.ndarray]()
    if (matrix := frame_matrix(X, features)) is not None:
        return matrix[0]
    for number, record in enumerate(frame_rows(X, state.features)[1]):
        x = features.expanded(record, number)
        rows.append(row_of(state, features, x, number).values)
        on_row(rows[-1], x)
    return np.array(rows).reshape(len(rows), len(features.names))


def _present(state: RecognizerState, before: Features | None) -> Features:
    """Return the features before an instance: the model's or, in training, those of earlier instances."""
    if state.training is None:
        return state.running[0].features
    return state.training.features if before is None else before


def _features(
    state: RecognizerState,
    x: Mapping[Any, Any],
    before: Features,
    declared: Collection[Name],
    *,
    extended: bool,
) -> Features:
    """Choose the features to read: the model's, or those of training with the new ones of the instance."""
    features = before
    if extended and state.training is not None:
        features = before.extended_by(x, {*(state.parameters.categorical or ()), *declared})
        if features is not before:
            there = frozenset(before.names)
            new = [name for name in features.names if name not in there]
            check_names(new, len(features.names))
            check_storable(new)
    if state.training is not None and not features.names and not extended:
        raise InvalidInstance("the instance has no features. Give it at least one")
    return features


def count(state: RecognizerState, row: FeatureRow | None) -> None:
    """Count missing and extra features of an instance, or a skipped instance (``None``)."""
    counters = state.counters
    if row is None:
        counters.update(("skipped", "bad_rows"))
    else:
        counters["missing"] += row.missing
        counters["bad_rows"] += row.missing > 0
        counters["extra"] += row.extra


def count_mismatches(state: RecognizerState, values: np.ndarray, x: Mapping[Any, Any]) -> None:
    """Count a row that is fully imputed, or mostly although training had nearly all values. Warn once."""
    unlike = schema_problems(state.running[0], values, x)
    if unlike is None:
        return
    state.counters["unlike"] += 1
    if state.counters["unlike"] == 1:
        logger.warning('%s. Such instances are counted in counters["unlike"]. This warning appears once', unlike)


def schema_problems(trained: TrainedModel, values: np.ndarray, x: Mapping[Any, Any]) -> str | None:
    """Describe the missing features of a row that is fully or, unlike in training, mostly imputed."""
    missing = np.isnan(values)
    if len(values) - np.count_nonzero(missing) >= least_features(trained):
        return None
    lacks = difference(trained, [trained.names[at] for at in np.flatnonzero(missing)], list(x))
    return (
        f"an instance is unlike those of training: {lacks}. Its missing values are imputed, so it may "
        "look more usual than it is"
    )

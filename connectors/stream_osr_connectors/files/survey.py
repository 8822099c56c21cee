"""A survey of the columns of training data, before the first record is learnt."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_osr.instances.blocks import Block, block_of
from stream_osr.instances.embedding import flat, stacked
from stream_osr.instances.entries import LARGEST, is_index, is_marked
from stream_osr.instances.kinds import Name
from stream_osr.instances.labels import Label
from stream_osr.instances.reading import (
    MISSING_NUMBERS,
    LabelKind,
    Tally,
    Unreadable,
    kind_of_labels,
    label_as,
    number,
    spelled,
    spelled_label,
)
from stream_osr.printable_text import brief
from stream_osr.support.limits import MOST_FEATURES
from stream_osr.training.trained import TrainedModel

from ..base import BadRecord, Record, Source
from ..values import DecodeError, LabelType, category
from .columns import ColumnReader, Columns, converted, plain_numbers
from .csv_source import CsvSource
from .folder_source import FolderSource

UNITS = "it is a row of units, or another second header: it has text in each numeric column"

MOST_KNOWN = 40_000_000
"""Most bytes of numbers that stay in memory, so that they are read once."""

MOST_INDEX = 100_000
"""Most values to check of a column that may be an index by its name."""


class Survey(NamedTuple):
    """The survey of training data.

    Attributes
    ----------
    columns
        Kinds of values of each feature.
    numeric
        Features that are numbers.
    mixed
        Features with text and numbers, or with text and booleans.
    indexes
        Features that are the index of a data frame.
    labels
        Labels by their spelling, with their counts.
    label_kind
        Type of all labels.
    units
        Position of the first record if it is a row of units.
    missing
        Markers of missing values that the user named.
    left_out
        Fields with lists, none of which has numbers alone. They are no features.
    known
        Blocks after the first record, as far as all values are numbers. A reader empties them.
    """

    columns: Mapping[str, Tally]
    numeric: frozenset[str]
    mixed: frozenset[str]
    indexes: frozenset[str]
    labels: Counter[str]
    label_kind: LabelKind
    units: Any
    missing: frozenset[str]
    left_out: frozenset[str] = frozenset()
    known: deque[Columns] | None = None

    def refused(self, record: BadRecord) -> BadRecord:
        """Return a record that could not be read. If it is the row of units, that is the reason."""
        return record._replace(reason=UNITS) if self.units is not None and record.position == self.units else record

    def block(self, columns: Columns, texts: Collection[Name], but: str | None) -> tuple[Block, list[Label]] | None:
        """Convert columns of the file for the model, with their labels (:meth:`ready`).

        Parameters
        ----------
        columns
            Columns.
        texts
            Features whose numbers are categories.
        but
            Name of a column that is no feature.

        Returns
        -------
        The block and its labels. ``None``: the records must be converted one by one.
        """
        features: dict[str, Any] = {}
        for name, values in columns.features.items():
            tally = self.columns.get(name)
            mixed, comma = name in self.mixed, tally is not None and tally.comma
            if name in self.left_out or name == but:
                continue
            if not columns.as_text or isinstance(values, np.ndarray):
                numeric = not isinstance(values, list) or {int, float}.issuperset(map(type, values))
                if mixed and name in self.numeric and not numeric:
                    return None
                features[name] = values
            elif tally is not None and name not in self.numeric:
                features[name] = [*map(category, values)]
            else:
                markers = self.missing if mixed else frozenset()
                features[name] = None if comma else numbers_of_texts(values, markers)
                if features[name] is None:
                    return None
        texts = {*texts, *(self.mixed - self.numeric)}
        block = block_of(features, columns.n, texts, written=columns.written)
        labels = converted(columns.labels, lambda label: label_as(spelled_label(label), self.label_kind))
        return None if block is None else (block, labels)

    def ready(self, record: Record) -> Record:
        """Convert a record of the file for the model: its label, and numbers in numeric columns.

        Raises
        ------
        DecodeError
            If a value is not a number. The message names the column.
        """
        if self.units is not None and record.position == self.units:
            raise DecodeError(UNITS)
        features: dict[str, object] = {name: v for name, v in record.features.items() if name not in self.left_out}
        for name in self.mixed:
            value = features.get(name)
            if value is None or isinstance(value, list) or is_marked(value, self.missing):
                continue
            if name not in self.numeric:
                features[name] = value if isinstance(value, str) else spelled(value)
            elif isinstance(value, str):
                try:
                    found = number(value, comma := self.columns[name].comma)
                except Unreadable as error:
                    raise DecodeError(
                        f"column {name!r} holds {brief(value)}, which {error}, and nearly all other values of the "
                        "column are numbers. Leave it empty, name it by --missing if it stands for a missing value, "
                        f"or make the column a category with --categorical {name}"
                    ) from None
                features[name] = value if comma else found
        label = None if record.label is None else label_as(spelled_label(record.label), self.label_kind)
        return record._replace(features=features, label=label)


def survey(
    source: Source,
    *,
    numeric: Collection[str] = (),
    categorical: Collection[str] = (),
    missing: frozenset[str] = frozenset(),
    label_type: LabelType = "auto",
    minus_one: bool = False,
) -> Survey:
    r"""Read all records of a source, and return to its beginning.

    The source then reads numeric columns of a table as numbers, and the others as text.

    Parameters
    ----------
    source
        A source that can be read again, opened with the label type "str".
    numeric, categorical
        Features that the user named as numbers or as categories.
    missing
        Markers of missing values that the user named, by their spelling.
    label_type
        Type of the labels. "auto" means the type that all of them have.
    minus_one
        Whether -1 may be the name of a class.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from stream_osr_connectors.files import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "in.csv")
    ...     _ = path.write_text("a,b,y\n" + "1.5,tcp,1.0\n?,udp,2.0\n" * 5)
    ...     with open_source(path, label="y", label_type="str") as source:
    ...         found = survey(source)
    ...         first = found.ready(next(source))
    >>> sorted(found.numeric), found.labels, found.label_kind, first.features, first.label
    (['a'], Counter({'1': 5, '2': 5}), 'int', {'a': 1.5, 'b': 'tcp'}, 1)
    """
    tables = source if isinstance(source, CsvSource | FolderSource) else None
    if tables is not None:
        tables.categorical = frozenset(tables.feature_columns)  # text, as it stands there
        tables.seek(None)
    tallies, kinds, labels = defaultdict[str, Tally](Tally), defaultdict[str, set[bool]](set), Counter[str]()
    indexes, first, lists = defaultdict[str, list[float]](list), None, dict[str, bool]()
    known, room = deque[Columns](), MOST_KNOWN
    for record in (reader := ColumnReader(source)):
        if isinstance(record, BadRecord):
            room = -1
            continue
        if isinstance(record, Columns):
            if not all(map(_countable, record.features.values())):
                reader.refuse(record)
                continue
            labels.update(converted(record.labels, spelled_label))
            numbers_in = dict[str, Any]()
            for name, values in record.features.items():
                numbers_in[name] = _count_column(name, values, tallies, kinds, missing, as_text=record.as_text)
                if _has_lists(values):
                    lists[name] = True
                if is_index(name, np.arange(2.0)):
                    for value in values if isinstance(values, Sequence) else values.tolist():
                        if value is not None:
                            _follow_index({name: value}, indexes)
            room -= 8 * record.n * len(numbers_in)
            if room >= 0 and not any(column is None for column in numbers_in.values()):
                known.append(record._replace(features=numbers_in))
            else:
                room = -1  # the blocks after it do not follow the known ones
            continue
        room = room if first is None else -1
        if record.label is not None:
            labels[spelled_label(record.label)] += 1
        if first is None:
            first = record
        else:
            _count(record.features, tallies, kinds, missing)
        _follow_index(record.features, indexes)
        for name, value in record.features.items():
            if isinstance(value, list) and not lists.get(name):
                lists[name] = name not in flat({name: value})
    named = {*numeric}
    text = {name for name, tally in tallies.items() if tally.kind != "number"} - named | {*categorical}
    units = None
    if first is not None:
        if _is_units(first.features, [name for name in tallies if name not in text]):
            units = first.position
            if first.label is not None:
                labels[spelled_label(first.label)] -= 1
        else:
            _count(first.features, tallies, kinds, missing)
            text = {name for name, tally in tallies.items() if tally.kind != "number"} - named | {*categorical}
    numbers = frozenset(tallies.keys() - text)
    if tables is None:
        mixed = {name for name, its in kinds.items() if len(its) > 1 or (name in numbers and its == {True})}
    else:
        mixed = {name for name in numbers if tallies[name].comma or tallies[name].odd or missing}
        tables.categorical = frozenset(text | mixed)
    mixed -= {*categorical}
    source.seek(None)
    kind: LabelKind = kind_of_labels(+labels, minus_one=minus_one) if label_type == "auto" else label_type
    index = frozenset(name for name, values in indexes.items() if is_index(name, np.array(values)))
    without = frozenset(name for name, numeric in lists.items() if not numeric and name not in tallies)
    plain = {name for name in numbers - {*categorical} if not tallies[name].comma}
    known = known if all(plain.issuperset(each.features) for each in known) else deque()
    return Survey(dict(tallies), numbers, frozenset(mixed), index, +labels, kind, units, missing, without, known)


def _count(
    features: Mapping[str, object],
    tallies: dict[str, Tally],
    kinds: dict[str, set[bool]],
    missing: frozenset[str],
    count: int = 1,
) -> None:
    for name, value in features.items():
        if value is None or is_marked(value, missing):
            continue
        kinds[name].add(isinstance(value, str))
        if isinstance(value, str):
            tallies[name].take(value, count)
        elif isinstance(value, bool):
            tallies[name].odd += count
        elif isinstance(value, int | float):
            tallies[name].numbers += count
            tallies[name].broken += count * (value % 1 != 0)


def numbers_of_texts(texts: Sequence[str], missing: frozenset[str]) -> np.ndarray | None:
    """Convert the texts of a numeric column, NaN = missing. ``None``: they must be converted one by one.

    >>> numbers_of_texts(["1.5", "", "NA", "-99"], frozenset({"-99"})), numbers_of_texts(["1,5"], frozenset())
    (array([1.5, nan, nan, nan]), None)
    """
    found = plain_numbers(texts)
    if found is None:
        try:
            values = [None if is_marked(text, missing) else number(text) for text in texts]
        except Unreadable:
            return None
        found = None if any("," in text for text in texts) else np.array(values, dtype=np.float64)
    elif missing:
        found[[is_marked(text, missing) for text in texts]] = np.nan
    return found


def _countable(values: Sequence[Any]) -> bool:
    """Return whether the values of a column can be counted together."""
    if _has_lists(values):
        rows = stacked(values)
        return rows is not None and 0 < rows.shape[1] <= MOST_FEATURES
    return True


def _has_lists(values: Sequence[Any]) -> bool:
    return isinstance(values, list) and list in map(type, values)


def _count_column(
    name: str,
    values: Sequence[Any],
    tallies: dict[str, Tally],
    kinds: dict[str, set[bool]],
    missing: frozenset[str],
    *,
    as_text: bool,
) -> np.ndarray | None:
    """Count the values of a column. The result is that of :func:`_count` for each. Return them if all are numbers."""
    numbers: np.ndarray | None = None
    n = len(values)
    if as_text:
        values = [*filter(str.strip, values)]
    if _has_lists(values):
        kinds[name].add(False)
    elif missing or (numbers := _numbers_of(values, as_text=as_text)) is None:
        plain = values.tolist() if isinstance(values, np.ndarray) else values
        for (_, value), count in Counter(zip(map(type, plain), plain, strict=True)).items():
            _count({name: value}, tallies, kinds, missing, count)
    elif len(numbers):
        kinds[name].add(as_text)
        tallies[name].numbers += len(numbers)
        tallies[name].broken += int(np.count_nonzero(numbers % 1))
    return numbers if numbers is not None and len(numbers) == n else None


def _numbers_of(values: Sequence[Any], *, as_text: bool) -> np.ndarray | None:
    """Return the numbers of a column. ``None``: other values are among them, or codes with zeros at the front."""
    if as_text:
        numbers = plain_numbers(values)
        whole = [] if numbers is None else np.flatnonzero(numbers % 1 == 0).tolist()
        return None if any(values[at].lstrip("+-")[:1] == "0" != values[at] for at in whole) else numbers
    if isinstance(values, np.ndarray):
        return values[~np.isnan(values)]
    if {int, float}.issuperset(map(type, values)) and not any(abs(value) > LARGEST for value in values):
        return np.array(values, dtype=np.float64)
    return None


def _is_units(features: Mapping[str, object], numeric: Collection[str]) -> bool:
    """Return whether all numeric columns have text. With a single one it may be a wrong value."""
    there = [features.get(name) for name in numeric]
    texts = [value for value in there if value is not None and value != ""]
    if len(texts) < 2 or not all(isinstance(value, str) for value in texts):
        return False
    return not any(_reads(str(value)) for value in texts)


def _reads(text: str) -> bool:
    try:
        return number(text, "decimal") is not None or text.strip().lower() in MISSING_NUMBERS - {"-", "--", "."}
    except Unreadable:
        return False


def _follow_index(features: Mapping[str, object], indexes: dict[str, list[float]]) -> None:
    for name, value in features.items():
        if not is_index(name, np.arange(2.0)) or len(indexes[name]) >= MOST_INDEX:
            continue
        try:
            found = number(value) if isinstance(value, str) else value
        except Unreadable:
            found = None
        indexes[name].append(float(found) if isinstance(found, int | float) else np.nan)


def read_as_text(trained: TrainedModel) -> list[Any]:
    """Return the features that a model reads as text: categories, and numbers with commas or markers."""
    if trained.missing:
        return list(trained.names)
    commas = [name for name, comma in zip(trained.names, trained.commas, strict=False) if comma]
    return [*trained.values, *commas]

"""The files that the demonstration reads and writes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from stream_osr.errors import ConnectorError

KEY, LABEL = "key", "label"
"""Columns of the tables that are not features."""

NAMES = (
    *("labelled.csv", "stream.csv", "truth.csv"),
    *("model.osr", "decisions.jsonl", "events.jsonl", "decisions.jsonl.checkpoint"),
)
"""Names of the files of `DemoFiles`."""

Labelled: TypeAlias = tuple[Mapping[str, float], str]
"""Features of an instance, and its label."""


class DemoFiles(NamedTuple):
    """Files that the demonstration leaves in its folder, as ``fit`` and ``run`` do."""

    labelled: Path
    stream: Path
    truth: Path
    model: Path
    decisions: Path
    events: Path
    checkpoint: Path

    @classmethod
    def within(cls, folder: Path) -> DemoFiles:
        """Return the paths of the files in a folder."""
        return cls(*(folder / name for name in NAMES))

    def write(self, training: Sequence[Labelled], stream: Sequence[Labelled]) -> None:
        """Write three tables: the labelled instances, the stream without labels, and the labels of the stream.

        Raises
        ------
        ConnectorError
            If a table cannot be written, or would replace a file that no demonstration wrote. In the second case
            nothing is written.
        """
        names, where = list(training[0][0]), self.labelled.parent
        headings = {self.labelled: [*names, LABEL], self.stream: [KEY, *names], self.truth: [KEY, LABEL]}
        if (other := self._of_others(headings)) is not None:
            raise ConnectorError(
                f"{where} holds {other.name}, which is not the demonstration's. Give another --output"
            )
        try:
            where.mkdir(parents=True, exist_ok=True)
            _table(self.labelled, headings[self.labelled], ([*x.values(), y] for x, y in training))
            _table(self.stream, headings[self.stream], ([n, *x.values()] for n, (x, _) in enumerate(stream)))
            _table(self.truth, headings[self.truth], ([n, y] for n, (_, y) in enumerate(stream)))
        except ConnectorError:
            raise
        except OSError as error:
            raise ConnectorError(f"cannot write into {where}: {error.strerror}. Give another --output") from None

    def _of_others(self, headings: Mapping[Path, Sequence[str]]) -> Path | None:
        """Return a file that no demonstration has left here. A demonstration writes its tables first."""
        there = [path for path in self if path.exists()]
        begun = self.labelled in there
        return next((path for path in there if not (begun and _begins(path, headings.get(path)))), None)


def _begins(path: Path, heading: Sequence[str] | None) -> bool:
    """Return whether a table has this heading, or is empty."""
    if heading is None:
        return True
    with path.open("rb") as file:
        return file.readline(1 << 16).rstrip() in (b"", ",".join(heading).encode())


def _table(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(heading)
        table.writerows(rows)

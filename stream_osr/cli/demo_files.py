"""The files of the demonstration: what it reads, as a person would have it, and what it leaves."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from stream_osr.errors import ConnectorError

KEY, LABEL = "key", "label"
"""Columns of the tables beside the features."""

Labelled: TypeAlias = tuple[Mapping[str, float], str]
"""Features of an instance, and its label."""


class Files(NamedTuple):
    """What the demonstration leaves in its folder, as ``fit`` and ``run`` would."""

    labelled: Path
    stream: Path
    truth: Path
    model: Path
    decisions: Path
    events: Path
    checkpoint: Path

    @classmethod
    def within(cls, folder: Path) -> Files:
        """Name them."""
        decisions = folder / "decisions.jsonl"
        return cls(
            labelled=folder / "labelled.csv",
            stream=folder / "stream.csv",
            truth=folder / "truth.csv",
            model=folder / "model.osr",
            decisions=decisions,
            events=folder / "events.jsonl",
            checkpoint=Path(f"{decisions}.checkpoint"),
        )

    def write(self, training: Sequence[Labelled], stream: Sequence[Labelled]) -> None:
        """Write the tables: labelled instances, the stream without labels, and its labels apart from it.

        Raises
        ------
        ConnectorError
            If that is not possible.
        """
        names = list(training[0][0])
        try:
            self.labelled.parent.mkdir(parents=True, exist_ok=True)
            _table(self.labelled, [*names, LABEL], ([*x.values(), y] for x, y in training))
            _table(self.stream, [KEY, *names], ([seq, *x.values()] for seq, (x, _) in enumerate(stream)))
            _table(self.truth, [KEY, LABEL], ([seq, y] for seq, (_, y) in enumerate(stream)))
        except OSError as error:
            where = self.labelled.parent
            raise ConnectorError(f"cannot write into {where}: {error.strerror}; give another --output") from None


def _table(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(heading)
        table.writerows(rows)

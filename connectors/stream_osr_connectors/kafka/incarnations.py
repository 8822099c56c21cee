"""Which topic it is: one that is deleted and made again has the same name and the same offsets, and other records.

The folder of the snapshots remembers the id of the input. When another one is found, what the group has committed and
what was snapshot is of the topic before; ids of what is published count on, so that none is used twice.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from stream_osr.errors import PersistenceError

_LINEAGE = re.compile(r"[0-9a-f]{8}(?P<incarnation>[0-9a-f]*)")


class Incarnations:
    """The lives of an input topic, as a group knows them.

    Parameters
    ----------
    folder
        Of the group's snapshots, which all its workers see.
    topic
        The input.

    Attributes
    ----------
    now
        How often it was made again.
    partitions
        How many it had when this life was first seen.
    """

    def __init__(self, folder: Path, topic: str) -> None:
        self._path, self._topic = folder / f"{topic}.topic", topic
        self.now = 0
        self.partitions = 0

    @property
    def name(self) -> str:
        """Name the input in ids: by itself in its first life, with the number of the life after that."""
        return f"{self._topic}+{self.now}" if self.now else self._topic

    def take(self, topic_id: str, partitions: int) -> bool:
        """Note the topic as it is; say whether it is another one than before.

        Raises
        ------
        PersistenceError
            If that cannot be written down.
        """
        found = self._read()
        if found is None or not topic_id:
            renewed, self.now, self.partitions = False, 0 if found is None else int(found["incarnation"]), partitions
        elif found["id"] == topic_id:
            self.now, self.partitions = int(found["incarnation"]), int(found["partitions"])
            return False
        else:
            renewed, self.now, self.partitions = True, int(found["incarnation"]) + 1, partitions
        self._write({"id": topic_id, "incarnation": self.now, "partitions": partitions})
        return renewed

    def lineage(self, random: str) -> str:
        """Name a run of micro-batches so that one can tell in which life it began."""
        return f"{random}{self.now:x}" if self.now else random

    def is_of_now(self, lineage: str) -> bool:
        """Say whether a run of micro-batches began in this life."""
        found = _LINEAGE.fullmatch(lineage)
        return found is not None and int(found["incarnation"] or "0", 16) == self.now

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._path.read_text())
            return found if {"id", "incarnation", "partitions"} <= found.keys() else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError) as error:
            raise PersistenceError(
                f"cannot read {self._path}, which says which topic {self._topic} it was ({error}); bring it back, or "
                "remove it if the topic was never made again"
            ) from None

    def _write(self, content: dict[str, Any]) -> None:
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            new.write_text(json.dumps(content))
            new.replace(self._path)
        except OSError as error:
            raise PersistenceError(f"cannot write {self._path}: {error.strerror}") from None

"""Identity of each input topic, as the folder of the snapshots has it.

A topic that is deleted and made again has the same name and the same offsets, and other records. When another id is
found, what the group has committed and what was snapshot is of the topic before; ids of what is published count on,
so that none is used twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stream_osr.atomic import write_whole
from stream_osr.errors import ConnectorError, PersistenceError

from ..log import logger
from ..places import Place

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
        How many it had when this life was first seen; 0: not known.
    """

    def __init__(self, folder: Path, topic: str) -> None:
        self._path, self._topic = folder / f"{topic}.topic", topic
        self.now = self.partitions = 0
        self._ids: list[str] = []

    @property
    def name(self) -> str:
        """Name the input in ids: by itself in its first life, with the number of the life after that."""
        return f"{self._topic}+{self.now}" if self.now else self._topic

    def take(self, topic_id: str, partitions: int) -> bool:
        """Take the topic as it is; say whether it is another one than the one that is written down.

        An id that was written down before that one is no news: a broker that is behind has told it.

        Raises
        ------
        PersistenceError
            If that cannot be read.
        """
        found = self._read()
        known: list[str] = [] if found is None else found["ids"]
        if not topic_id or topic_id in known:
            self.partitions = partitions if found is None else int(found["partitions"])
            self._ids, renewed = known, False
        else:
            self.partitions, self._ids, renewed = partitions, [*known, topic_id], bool(known)
        self.now = max(0, len(self._ids) - 1)
        return renewed

    def keep(self) -> None:
        """Write it down, for the next start and the other workers.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        content = {"ids": self._ids, "partitions": self.partitions}
        if not self._ids or content == self._read():
            return
        try:
            write_whole(self._path, lambda file: file.write(json.dumps(content).encode()))
        except OSError as error:
            raise PersistenceError(f"cannot write {self._path}: {error.strerror}") from None

    def tell(self, decided: Mapping[Place, int], on_lost_state: str) -> None:
        """Say what is gone with the topic before; by the settings, that may be the end.

        Parameters
        ----------
        decided
            How far each partition of the one before was decided, as far as is known.
        on_lost_state
            As the operator has set it.

        Raises
        ------
        ConnectorError
            If it is ``fail``.
        """
        far = ", ".join(f"{offset} of partition {place.partition}" for place, offset in sorted(decided.items()))
        text = (
            f"input: topic {self._topic} was deleted and made again; of the one before, records were decided up to "
            f"{far or 'an offset that is not known'}, and what came after is gone"
        )
        if on_lost_state == "fail":
            raise ConnectorError(
                f"{text}; set on_lost_state to cold to begin anew with this one, or take another group"
            )
        logger.warning("%s; the stream begins anew, and ids go on as %s-...", text, self.name)

    @property
    def mark(self) -> str:
        """Suffix of the names of runs of micro-batches, one for each life of the topic."""
        return f"{self.now:x}" if self.now else ""

    def is_of_now(self, lineage: str) -> bool:
        """Say whether a run of micro-batches began in this life."""
        return _life_of(lineage) == self.now

    def is_before(self, lineage: str) -> bool:
        """Say whether a run of micro-batches began in the life before this one."""
        return _life_of(lineage) == self.now - 1

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._path.read_text())
            return found if {"ids", "partitions"} <= found.keys() else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError) as error:
            raise PersistenceError(
                f"cannot read {self._path}, which says which topic {self._topic} it was ({error}); bring it back, or "
                "remove it if the topic was never made again"
            ) from None


def _life_of(lineage: str) -> int | None:
    """Read the mark of a run of micro-batches; None: it is no name of one."""
    found = _LINEAGE.fullmatch(lineage)
    return None if found is None else int(found["incarnation"] or "0", 16)

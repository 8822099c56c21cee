"""Incarnations of input topics.

The states of the group contain the id of each input topic. A topic that is deleted and created again has the
same name and offsets, but other records. After a change of the id, committed offsets and snapshots belong to the
previous topic. Ids of messages include the incarnation, so that none is used twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from stream_osr.errors import ConnectorError, PersistenceError

from ..log import logger
from ..places import Place
from .folder_states import GroupStates, StoreError

_LINEAGE = re.compile(r"[0-9a-f]{8}(?P<incarnation>[0-9a-f]*)")


class Incarnations:
    """The incarnations of an input topic.

    Parameters
    ----------
    states
        States of the group.
    topic
        Input topic.

    Attributes
    ----------
    now
        Number of times that the topic was created again.
    partitions
        Number of partitions at the first check of this incarnation, 0 if unknown.
    """

    def __init__(self, states: GroupStates, topic: str) -> None:
        self._states, self._topic, self._file = states, topic, f"{topic}.topic"
        self.now = self.partitions = 0
        self._ids: list[str] = []

    @property
    def name(self) -> str:
        """Name of the input in ids. Later incarnations have a number as suffix."""
        return f"{self._topic}+{self.now}" if self.now else self._topic

    def take(self, topic_id: str, partitions: int) -> bool:
        """Accept the current topic, and return whether it differs from the stored one.

        An older stored id is ignored, because it is from a broker with outdated metadata.

        Raises
        ------
        PersistenceError
            If the stored id cannot be read.
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
        """Store the id for the next start and for other workers.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        content = {"ids": self._ids, "partitions": self.partitions}
        if self._ids and content != self._read():
            self._states.write(self._file, json.dumps(content).encode())

    def tell(self, decided: Mapping[Place, int], on_lost_state: str) -> None:
        """Report the loss of the previous topic. With on_lost_state ``fail`` this is an error.

        Parameters
        ----------
        decided
            Decided offset of each partition of the previous topic, if known.
        on_lost_state
            Value of the setting.

        Raises
        ------
        ConnectorError
            If the setting is ``fail``.
        """
        far = ", ".join(f"{offset} of partition {place.partition}" for place, offset in sorted(decided.items()))
        text = (
            f"input: topic {self._topic} was deleted and made again. Records of the previous topic were decided up "
            f"to {far or 'an unknown offset'}, and later records are lost"
        )
        if on_lost_state == "fail":
            raise ConnectorError(
                f"{text}. Set on_lost_state to cold to start again with this one, or use another group"
            )
        logger.warning("%s. The stream starts again, and ids go on as %s-...", text, self.name)

    @property
    def mark(self) -> str:
        """Suffix of lineages for this incarnation of the topic."""
        return f"{self.now:x}" if self.now else ""

    def is_of_now(self, lineage: str) -> bool:
        """Return whether a lineage started in this incarnation."""
        return _life_of(lineage) == self.now

    def is_before(self, lineage: str) -> bool:
        """Return whether a lineage started in the previous incarnation."""
        return _life_of(lineage) == self.now - 1

    def _read(self) -> dict[str, Any] | None:
        try:
            data = self._states.read(self._file)
            found: dict[str, Any] = {} if data is None else json.loads(data)
            return found if {"ids", "partitions"} <= found.keys() else None
        except StoreError:
            raise
        except (PersistenceError, ValueError, AttributeError) as error:
            raise PersistenceError(
                f"cannot read {self._file} in {self._states.where}, which has the id of topic {self._topic} "
                f"({error}). Restore it, or remove it if the topic was never created again"
            ) from None


def _life_of(lineage: str) -> int | None:
    """Parse the incarnation of a lineage, or return ``None``."""
    found = _LINEAGE.fullmatch(lineage)
    return None if found is None else int(found["incarnation"] or "0", 16)

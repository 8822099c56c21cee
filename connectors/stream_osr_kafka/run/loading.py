"""Partitions that the group has given: each is loaded when the input has been looked at since, or waits."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from ..client import ClientError, Place
from ..log import logger
from ..patience import Backoff, Seldom
from .job import Job, Waiting
from .reading import Reader
from .transactions import InDoubtError, Transactions
from .watching import Watch

AGAIN_SECONDS = 1.0
"""Before a partition that waits for something is looked at again."""


class Given(NamedTuple):
    """A partition that is ours and not loaded.

    Attributes
    ----------
    since
        Since when.
    why
        What it waits for; empty: its turn.
    again
        When it is looked at again.
    """

    since: float
    why: str = ""
    again: float = 0.0


class Loading:
    """Loads partitions.

    Parameters
    ----------
    job
        What they are loaded into.
    reader
        Says which ones are given, and reads them on.
    transactions
        Commit the beginning of those that begin anew.
    watch
        Knows whether the input is there, and the one that it was.
    """

    def __init__(self, job: Job, reader: Reader, transactions: Transactions, watch: Watch) -> None:
        self._job, self._reader, self._transactions, self._watch = job, reader, transactions, watch
        self._given: dict[int, Given] = {}
        self._backoff = Backoff()
        self._seldom = Seldom(logger)

    @property
    def waiting(self) -> dict[int, str]:
        """Partitions that are not loaded, and why."""
        return {number: given.why for number, given in self._given.items()}

    def forget(self, *numbers: int) -> None:
        """Drop partitions that have gone."""
        for number in numbers:
            self._given.pop(number, None)

    def load(self) -> None:
        """Load what can be loaded; the rest waits for another round.

        Raises
        ------
        ConnectorError
            If one cannot be loaded without a person.
        """
        now, assigned = time.monotonic(), self._reader.assigned
        self.forget(*self._given.keys() - assigned)
        for number in sorted(assigned - set(self._job.owned)):
            given = self._given.setdefault(number, Given(now))
            if now >= given.again and self._backoff.due and self._is_looked_at(given):
                self._load(number, given)

    def _load(self, number: int, given: Given) -> None:
        place = Place(self._watch.input, number)
        name = f"{place.topic}/{number}"
        try:
            loaded = self._job.load(number, self._reader.client.where(number))
            if isinstance(loaded, Waiting):
                self._given[number] = given._replace(why=loaded.why, again=time.monotonic() + AGAIN_SECONDS)
                self._seldom.say(name, f"{name} cannot be loaded yet: {loaded.why}", logging.INFO)
                return
            if loaded.commit is not None:
                self._transactions.open()
                offsets = {place: loaded.commit}
                self._transactions.finish(self._transactions.begin([], offsets, self._reader.client.membership))
            self._reader.begin(number, loaded.begin)
        except (ClientError, InDoubtError) as error:
            self._job.let_go(number)
            self._given[number] = given._replace(why=str(error))
            self._backoff.fail()
            self._seldom.say(name, f"{name} cannot be loaded yet: {error}", logging.INFO)
            return
        self._backoff.succeed()
        self._seldom.forget(name)
        self.forget(number)
        logger.info("assigned %s at %d", name, loaded.begin)

    def _is_looked_at(self, given: Given) -> bool:
        """Say whether the input, since it gave us the partition, is known to be there, and the one that it was."""
        return self._watch.has_looked_since(given.since) and not (
            self._watch.broken or self._watch.renewed(self._reader.topic_id)
        )

"""Doing what was asked of a checkpoint: whoever holds it does, in order, each thing once."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidInstance, InvalidLabel, InvalidSubclass, NothingToUndo
from stream_osr.labels import as_known
from stream_osr.showing import shown

from .command_log import Act, Asked, AskLog, Outcome

logger = logging.getLogger("stream_osr")

LOOK_SECONDS = 0.25
"""How often a run looks whether something was asked."""


class Acting:
    """What is asked of a checkpoint, for the one who holds it.

    How far it has come is the number ``totals["asked"]``, which is saved with the model; it is not there where
    nothing was ever asked. What comes of an act is written to the log before anything of it can be seen, with the
    number of records that had been read: whoever goes on from an earlier checkpoint does it there again, and all that
    follows is the same.

    Parameters
    ----------
    log
        Beside the checkpoint.
    totals
        Counts of the run.
    begins
        Whether the run is a new one: what was asked of an earlier one is left.
    """

    def __init__(self, log: AskLog, totals: Counter[str], *, begins: bool = False) -> None:
        self._log, self._totals = log, totals
        self._pending: deque[Act] = deque()
        self._known: dict[int, Outcome] = {}
        self._look_at = 0.0
        log.rewind()
        self._look()
        if begins:
            self._leave_all()

    def due(self) -> bool:
        """Say whether something is to be done before the next record; looks at the log several times a second."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            if self._log.grown():
                self._look()
        return bool(self._pending) and self._is_due(self._pending[0])

    def last_look(self) -> bool:
        """Say whether anything is left to be done, now that no more records come."""
        self._look()
        return bool(self._pending)

    def act(self, model: OpenSetRecognizer, *, all: bool = False) -> list[tuple[Act, Outcome]]:
        """Do what is due, in order, or all that waits; what cannot be done changes nothing.

        Returns
        -------
        What was done, and what came of it.
        """
        done = list[tuple[Act, Outcome]]()
        while self._pending and (all or self._is_due(self._pending[0])):
            act = self._pending.popleft()
            outcome = _done(act, model, self._totals["read"])
            if self._known.pop(act.n, None) != outcome:
                self._log.tell(outcome)
            self._totals["asked"] = act.n
            done.append((act, outcome))
        return done

    def _is_due(self, act: Act) -> bool:
        known = self._known.get(act.n)
        return known is None or known.after <= self._totals["read"]

    def _look(self) -> None:
        for line in self._log.read():
            if isinstance(line, Act):
                if line.n > self._totals.get("asked", 0):
                    self._pending.append(line)
            elif line.of > self._totals.get("asked", 0):
                self._known[line.of] = line

    def _leave_all(self) -> None:
        why = "the run that it was asked of has ended, and another one has begun anew"
        for act in self._pending:
            if act.n not in self._known:
                self._log.tell(Outcome(act.n, "left", 0, why))
        self._pending.clear()
        self._known.clear()
        if self._log.last:
            self._totals["asked"] = self._log.last


def _done(act: Act, model: OpenSetRecognizer, read: int) -> Outcome:
    """Do one thing, or say why it cannot be done."""
    place = model.value.asked - (act.asked.action == "undo")
    try:
        _do(act.asked, model)
    except (InvalidInstance, InvalidLabel, InvalidSubclass, NothingToUndo) as error:
        return Outcome(act.n, "refused", read, str(error), type(error).__name__)
    except MemoryError:
        raise
    except Exception:  # an error of ours: the log is kept, and each start would come to it again
        logger.exception("asked %d, %s: it failed", act.n, act.asked.said())
        return Outcome(act.n, "refused", read, "it failed, by a defect of stream-osr; nothing was changed")
    return Outcome(act.n, "done", read, place=place)


def _do(asked: Asked, model: OpenSetRecognizer) -> None:
    if asked.action == "undo":
        model.undo()
    elif asked.action == "mute":
        model.mute(asked.subclasses)
    elif asked.label is not None:
        label = as_known(asked.label, model.value.labels)
        if asked.action == "promote":
            model.promote(asked.subclasses, label)
        elif model.remembers(asked.key):
            model.learn_label(asked.key, label)
        else:
            raise InvalidInstance(_unheard_of(asked.key, model))


def _unheard_of(key: object, model: OpenSetRecognizer) -> str:
    told = (
        f"no instance with key {shown(key)} waits for a label: it was never seen, has one already, or is older than "
    )
    told += f"the last {model.value.parameters.label_horizon}"
    if isinstance(key, str) and key.lstrip("-").isdigit() and model.remembers(int(key)):
        told += "; the whole number is a key: say --int-key"
    return told

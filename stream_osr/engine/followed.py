"""What is followed of the emerging subclasses of a chain through one batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_osr.discovery.life import Subclass
from stream_osr.discovery.lifecycle import Changes
from stream_osr.engine.past import Past
from stream_osr.engine.state import Chain
from stream_osr.model.restaurant import StreamState


class Parted(NamedTuple):
    """Where a new subclass comes from: the one it was parted from, and the positions of its instances, shape (n,)."""

    old: int
    seqs: np.ndarray


class Followed(NamedTuple):
    """The emerging subclasses of one chain after a batch, and what happened to them.

    Attributes
    ----------
    chain
        The chain, its lives included.
    past
        The remembered instances, under the identities that go on.
    joined
        For each identity that ended in another: the one that goes on.
    parted
        For each identity that is new because a subclass was parted: where it comes from.
    changes
        Who emerged, doubled, fell asleep, came back.
    ended
        Lives that ended, of those that had been announced.
    seated
        The state before subclasses were set aside and forgotten.
    refuted
        Identities that had been announced and are a known class's after all.
    regained
        Instances that had left the model with a subclass that was never announced, and are in one that is.
    """

    chain: Chain
    past: Past
    joined: dict[int, int]
    parted: dict[int, Parted]
    changes: Changes
    ended: dict[int, Subclass]
    seated: StreamState
    refuted: tuple[int, ...] = ()
    regained: int = 0

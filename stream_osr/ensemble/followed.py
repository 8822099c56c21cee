"""What is followed of the emerging subclasses of a chain through one batch."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stream_osr.discovery.lifecycle import Changes, Subclass
from stream_osr.ensemble.chain import Chain, IdentityChanges
from stream_osr.ensemble.past import Past, relabel, reseat
from stream_osr.model.restaurant import StreamState


class Followed(NamedTuple):
    """The emerging subclasses of one chain after a batch, and what happened to them.

    Attributes
    ----------
    chain
        The chain, its lives included.
    past
        The remembered instances, under the identities that go on.
    identities
        What happened to identities.
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
    past: tuple[Past, ...]
    identities: IdentityChanges
    changes: Changes
    ended: dict[int, Subclass]
    seated: StreamState
    refuted: tuple[int, ...] = ()
    regained: int = 0

    def then(self, later: IdentityChanges, chain: Chain) -> Followed:
        """Go on with more changes of the leader's identities: what is remembered follows them."""
        past = relabel(self.past, 0, later.joined)
        for new, (_, seqs) in later.parted.items():
            past = reseat(past, 0, seqs, new)
        return self._replace(chain=chain, past=past, identities=self.identities.then(later))


def without(changes: Changes, gone: Collection[int]) -> Changes:
    """Leave some subclasses out of what is told."""
    return Changes(*(tuple(key for key in kind if key not in gone) for kind in changes))

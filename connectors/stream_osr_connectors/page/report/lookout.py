"""The first paragraph: what the stream held, in plain words, and what to look at first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stream_osr.showing import counted
from stream_osr_connectors.page.report.candidates import Candidate
from stream_osr_connectors.page.report.held import Held

MOST = 3
"""Things to look at first."""
PLENTY = 0.05
"""Share of the stream from which on unknown instances in no candidate are worth a look."""


class Thing(NamedTuple):
    """Something to look at: its name, the rest of the sentence, and the part of the page that shows it."""

    name: str
    told: str
    where: str


class Lookout(NamedTuple):
    """What comes first.

    Attributes
    ----------
    things
        The first of what there is to look at.
    more
        How many candidates are left.
    """

    things: tuple[Thing, ...]
    more: int


def look_out(
    candidates: Sequence[Candidate], held: Held, events: Iterable[Mapping[str, Any]], loose: float
) -> Lookout:
    """Choose what to look at first.

    Parameters
    ----------
    candidates
        The candidates, the largest first.
    held
        Whether the known classes held.
    events
        Events, read and checked.
    loose
        Share of the stream that is unknown and in none of the candidates.
    """
    things = []
    if held.below and held.expected is not None:
        told = f"of the known are labelled right now, where {_percent(held.promised)} were promised"
        things.append(Thing(f"{_percent(held.expected.recall)}", told, "held"))
    elif held.drops:
        last = held.drops[-1]
        told = (
            f"fell to {_percent(last.recall.recall)} at {last.seq:,}, where {_percent(last.promised)} were promised"
        )
        things.append(Thing("The recall of the known", told, "held"))
    drifted = [str(event["label"]) for event in events if event.get("type") == "ClassDrifted" and "label" in event]
    if drifted:
        named = list(dict.fromkeys(drifted))
        told = f"{'has' if len(named) == 1 else 'have'} moved since training: are they still what they were?"
        name = " and ".join(named[:2]) if len(named) < 3 else f"{len(named)} known classes"
        things.append(Thing(name, told, "others"))
    room = MOST - len(things)
    shown = candidates[: room - 1 if loose >= PLENTY and room > 1 else room]
    things += [Thing(each.name, _described(each), f"candidate-{each.number}") for each in shown]
    if loose >= PLENTY and len(things) < MOST:
        told = "of the stream is unknown and in no candidate: noise, or too few yet to be a class"
        things.append(Thing(_percent(loose), told, "when"))
    return Lookout(tuple(things), len(candidates) - len(shown))


def _described(candidate: Candidate) -> str:
    share = "" if candidate.share is None else f" ({_percent(candidate.share)} of the stream)"
    told = f"{counted(candidate.size, 'instance', form=',')}{share}"
    main = candidate.main
    if main.nearest:
        told += f", nearest to {main.nearest} and {main.distance:.0f} standard deviations off"
    moved = [f"{'higher' if s.shift > 0 else 'lower'} {s.feature}" for s in main.shifts[:2] if s.shift == s.shift]
    return told + (f", with {' and '.join(moved)}" if moved else f": {main.values[0]}" if main.values else "")


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f} %"

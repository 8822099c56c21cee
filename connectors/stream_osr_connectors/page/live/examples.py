"""Examples of candidates: typical, doubtful and nearest known instances, and their pictures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from stream_osr.discovery.exemplars import choose
from stream_osr.errors import InvalidParameter, StreamOSRError
from stream_osr.printable_text import brief
from stream_osr_connectors.page.live.feeds import Feed, FoundDecision
from stream_osr_connectors.summary.input_records import number_of
from stream_osr_connectors.summary.view_model import cut

HERE = "{key}"


class Images:
    """Addresses of pictures.

    Parameters
    ----------
    template
        An address with ``{key}`` in the path or query.

    Raises
    ------
    InvalidParameter
        If the address is invalid.

    Examples
    --------
    >>> images = Images("https://pictures.example/of/{key}.png")
    >>> images.of("a/7"), images.origin
    ('https://pictures.example/of/a%2F7.png', 'https://pictures.example')
    """

    def __init__(self, template: str) -> None:
        try:
            parts = urlsplit(template)
            safe = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.netloc.isascii()
        except ValueError:
            safe = False
        odd = safe and any(c in parts.netloc for c in "{}; ,'\"@")
        if not safe or odd or HERE not in parts.path + parts.query:
            raise InvalidParameter(
                f"--image is {brief(template)}, expected an address like https://pictures.example/{HERE}.png"
            )
        self._template = template
        self.origin = f"{parts.scheme}://{parts.netloc}"

    def of(self, key: object) -> str:
        """Return the address of the picture of an instance."""
        return self._template.replace(HERE, quote(str(key), safe=""))


logger = logging.getLogger("stream_osr")

MOST_CHOSEN = 40
"""Most candidates with examples: the first of the inbox."""
GROWN = 1.5
"""Growth factor after which examples are chosen again."""
REST = 0.02
"""Seconds between two candidates."""
MOST_VALUES = 60
"""Most features of an example."""
LONGEST = 200

_EMPTY: dict[str, list[Any]] = {"core": [], "boundary": [], "known": []}

Lookup = Callable[[str], Sequence[FoundDecision]]
"""Function that returns sampled instances of a class or a subclass, given its name on the page."""
Features = Callable[[Sequence[FoundDecision]], Sequence[Mapping[str, Any] | None]]
"""Function that returns the features of instances, ``None`` for an unknown one."""


class ExampleChooser:
    """Choice of examples of candidates.

    Parameters
    ----------
    feed
        Source of features.
    images
        Addresses of pictures, if there are any.
    """

    def __init__(self, feed: Feed, images: Images | None = None) -> None:
        self._features: Features = feed.features
        self._images = images
        self.version = 0
        self._chosen: dict[str, tuple[int, Mapping[str, list[Any]], object]] = {}
        self._wanted: Sequence[Mapping[str, Any]] = ()
        self._at_rest: object = None
        self._lookup: Lookup = lambda id: ()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="examples", daemon=True)
        self._failed = 0

    def read_from(self, features: Features) -> None:
        """Set another source of features."""
        self._features = features

    def start(self, lookup: Lookup) -> None:
        """Start the thread. ``lookup`` finds sampled instances."""
        self._lookup = lookup
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def begin(self) -> None:
        """Discard all examples because the stream is read again."""
        self._chosen.clear()
        self.version += 1

    def of(self, card: Mapping[str, Any]) -> Mapping[str, list[Any]]:
        """Return the examples of a candidate that have been chosen so far."""
        found = self._chosen.get(_key(card))
        return _EMPTY if found is None else found[1]

    def want(self, inbox: Sequence[Mapping[str, Any]], at_rest: object = None) -> None:
        """Set the candidates that need examples.

        Parameters
        ----------
        inbox
            Cards of the candidates.
        at_rest
            State of the features if the stream is at rest, otherwise ``None``. At rest, examples are chosen from all
            instances and with the present features.
        """
        self._wanted, self._at_rest = inbox[:MOST_CHOSEN], at_rest
        self._wake.set()

    def notes(self) -> Sequence[str]:
        """Return the number of failures to choose examples."""
        return [f"Examples could not be looked up {self._failed} times."] if self._failed else []

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            wanted = self._wanted
            there = {_key(card) for card in wanted}
            for gone in [id for id in list(self._chosen) if id not in there]:
                self._chosen.pop(gone, None)  # another thread may begin anew meanwhile
            for card in wanted:
                if self._stop.is_set():
                    return
                before, at_rest = self._chosen.get(_key(card)), self._at_rest
                changed = at_rest is not None and before is not None and before[::2] != (card["size"], at_rest)
                if before is None or changed or card["size"] >= GROWN * before[0]:
                    self._choose(card)
                    self._stop.wait(REST)

    def _choose(self, card: Mapping[str, Any]) -> None:
        try:
            chosen = self.choose(card, self._lookup)
        except (StreamOSRError, OSError):
            self._failed += 1
            return
        except Exception:  # of a hostile record, say
            logger.exception("no examples of subclass %s", card["id"])
            self._failed += 1
            chosen = _EMPTY
        self._chosen[_key(card)] = card["size"], chosen, self._at_rest
        self.version += 1

    def choose(self, card: Mapping[str, Any], lookup: Lookup) -> Mapping[str, list[Any]]:
        """Choose the examples of a candidate now.

        Raises
        ------
        StreamOSRError, OSError
            If the instances cannot be read.
        """
        members, near = lookup(_key(card)), card["nearest_class"]
        known = [] if near is None else lookup(f"class:{near}")
        return self._choose_among(members, [each for each in known if each.decision.get("label") is not None])

    def _with_features(self, found: Sequence[FoundDecision]) -> list[tuple[FoundDecision, Mapping[str, Any] | None]]:
        """Pair instances with their features. If some have features, leave the others out."""
        pairs = list(zip(found, self._features(found), strict=True))
        return [pair for pair in pairs if pair[1] is not None] or pairs

    def _choose_among(
        self, members: Sequence[FoundDecision], known: Sequence[FoundDecision]
    ) -> Mapping[str, list[Any]]:
        own, near = self._with_features(members), self._with_features(known)
        every = [*own, *near]
        numbers = [{name: _number(value) for name, value in (each or {}).items()} for _, each in every]
        names = sorted({name for each in numbers for name, value in each.items() if value is not None})
        rows = [[each.get(name) for name in names] for each in numbers]
        table = np.array(rows, float).reshape(len(every), len(names))  # what is missing is nan
        n = len(own)
        sure = np.array([number_of(each.decision.get("p_unknown")) for each, _ in own], float)
        core, boundary, nearest = choose(table[:n], sure, table[n:])
        chosen = {"core": core, "boundary": boundary, "known": nearest + n}
        return {kind: [self.as_example(*every[i]) for i in places] for kind, places in chosen.items()}

    def as_example(self, found: FoundDecision, features: Mapping[str, Any] | None) -> dict[str, Any]:
        """Convert an instance to the form of the page."""
        key = found.decision.get("key")
        image = None if self._images is None or key is None else self._images.of(key)
        values = None
        if features is not None:
            first = list(features.items())[:MOST_VALUES]
            values = {cut(name, LONGEST): _plain(value) for name, value in first}
        return {
            "n": found.n,
            "key": _plain(key),
            "features": values,
            "image": image,
            "p_unknown": number_of(found.decision.get("p_unknown")),
            "label": cut(found.decision.get("label"), LONGEST),
        }


def _number(value: object) -> float | None:
    """Read a number, also from text.

    >>> _number("1.5"), _number(2), _number("red")
    (1.5, 2.0, None)
    """
    with suppress(ValueError):
        return number_of(float(value) if isinstance(value, str) else value)
    return None


def _key(card: Mapping[str, Any]) -> str:
    """Return the lookup name of the subclasses of a candidate."""
    return ",".join(card["ids"])


def _plain(value: object) -> str | float | None:
    """Convert a value for the page: a number, or a text of limited length.

    >>> _plain(1.5), _plain([1, 2]), _plain(None)
    (1.5, '[1, 2]', None)
    """
    return value if value is None or isinstance(value, bool | int | float) else cut(value, LONGEST)

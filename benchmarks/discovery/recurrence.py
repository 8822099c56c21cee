"""Recurrence: classes that appear, are gone for 50 000 instances, and return.

Three stretches of one stream, defaults throughout: the new classes beside the known ones, then 50 000 instances of
known classes alone, then the new classes again. *GAUSSIAN*: made-up classes, one of them new, a tenth of 2000
instances each time. The real sets: all unknown classes of the highest openness, half of their instances each time,
beside as many known ones as half of the test part has. Known instances, training included, are drawn from mixtures
fitted to the known classes: there are not enough of them otherwise.

Old subclasses are those that were announced in the first stretch. What counts is the subclass that the decision on a
returning instance names: an old one; an old one most of whose instances were of the same class (*own*); both over all
returning instances, those called known included. Beside it stands the share of the new classes' instances under old
subclasses in the second half of the first stretch. New announcements are counted for each stretch, and
`SubclassRecurred` for the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.discovery import gaussians, mixtures
from benchmarks.discovery.streams import Heard, announced, listen, prepare
from benchmarks.discovery.tables import Table, column
from stream_osr import OpenSetRecognizer, SubclassRecurred
from stream_osr.training.trained import TrainedModel

GONE_FOR = 50_000
MADE_UP = "GAUSSIAN"
DATASETS = (MADE_UP, "PENDIGITS", "LETTER")
PRESENT = 2000
SHARE = 0.1


class Stretches(NamedTuple):
    """A stream in three stretches.

    Attributes
    ----------
    trained
        The model of the known classes.
    X, y
        Rows and classes, shapes (n, p) and (n,).
    gone, back
        Places where the second and the third stretch begin.
    """

    trained: TrainedModel
    X: np.ndarray
    y: np.ndarray
    gone: int
    back: int


def made_up(seed: int) -> Stretches:
    """Lay out a stream with one new class, a Gaussian."""
    classes = gaussians.make(1, seed)
    rng = np.random.default_rng([seed, GONE_FOR])
    new = gaussians.KNOWN
    parts = []
    for n, n_new in ((PRESENT, round(SHARE * PRESENT)), (GONE_FOR, 0), (PRESENT, round(SHARE * PRESENT))):
        parts.append(rng.permutation(np.concatenate([rng.integers(new, size=n - n_new), np.full(n_new, new)])))
    y = np.concatenate(parts)
    return Stretches(classes.trained, classes.draw(y, rng), y, PRESENT, PRESENT + GONE_FOR)


def real(dataset: str, seed: int) -> Stretches:
    """Lay out a stream with the unknown classes of a data set."""
    rng = np.random.default_rng([seed, GONE_FOR])
    given = prepare(dataset, seed)
    mixture = mixtures.fit(given)
    given = mixtures.replace_known(given, mixture, rng)
    between, known = mixtures.draw_known(mixture, GONE_FOR, rng)
    half = len(given.y) // 2
    at = rng.permutation(len(given.y))
    X = np.concatenate([given.X[at[:half]], between, given.X[at[half:]]])
    y = np.concatenate([given.y[at[:half]], known, given.y[at[half:]]])
    return Stretches(given.trained, X, y, half, half + GONE_FOR)


def majorities(heard: Heard, y: np.ndarray) -> dict[int, Any]:
    """Return the class that most instances of each subclass were of, of all whose decision named it."""
    members: dict[int, Counter[Any]] = {}
    for decision, label in zip(heard.decisions, y.tolist(), strict=True):
        if decision.subclass_id is not None:
            members.setdefault(decision.subclass_id, Counter())[label] += 1
    return {key: count.most_common(1)[0][0] for key, count in members.items()}


def figures_of(stream: Stretches, heard: Heard) -> dict[str, Any]:
    """Count what was announced in each stretch, and under which subclasses the classes returned."""
    edges = (stream.gone, stream.back, len(stream.y))
    emerged = Counter(int(np.searchsorted(edges, event.seq, side="right")) for event in heard.emerged)
    recurred = [event for event in heard.events if isinstance(event, SubclassRecurred) and event.seq >= stream.back]
    old = {key for key, seq in announced(heard.events).items() if seq < stream.gone}
    of = majorities(heard, stream.y)
    new = ~np.isin(stream.y, np.array(stream.trained.labels))
    known = np.array([decision.label in stream.trained.labels for decision in heard.decisions])
    named = np.array([decision.subclass_id in old for decision in heard.decisions])
    own = np.array([of.get(d.subclass_id) == label for d, label in zip(heard.decisions, stream.y, strict=True)])
    place = np.arange(len(stream.y))
    returning = new & (place >= stream.back)
    before = new & (place >= stream.gone // 2) & (place < stream.gone)
    return {
        "old": len(old),
        "emerged while gone": emerged[1],
        "emerged on return": emerged[2],
        "recurred": len(recurred),
        "returning": int(returning.sum()),
        "under old": float(named[returning].mean()),
        "under own": float((named & own)[returning].mean()),
        "before": float(named[before].mean()),
        "called known": float(known[returning].mean()),
    }


def measure(dataset: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of a stream."""
    stream = made_up(seed) if dataset == MADE_UP else real(dataset, seed)
    heard = listen(OpenSetRecognizer.from_trained(stream.trained, seed=seed), stream.X, stream.y)
    yield figures_of(stream, heard)


COLUMNS = {
    "old": "old",
    "emerged while gone": "announced while gone",
    "emerged on return": "announced on return",
    "recurred": "recurred",
    "under old": "returning in old",
    "under own": "in old of the same class",
    "before": "before",
    "called known": "called known",
}
table = Table({"streams": len, **{title: column(name) for name, title in COLUMNS.items()}})

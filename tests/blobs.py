"""Small Gaussian problems that the tests of the recognizer train on and stream, and what must hold of its state."""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import pytest

from stream_osr import Decision, Event, OpenSetRecognizer
from stream_osr.archive.checks import check_records
from stream_osr.archive.record import form_of
from stream_osr.archive.records import BY_TYPE
from stream_osr.config import grouped
from stream_osr.model.restaurants import CLOSED, Franchise
from stream_osr.stream import Stream
from stream_osr.stream.chain import Chain
from stream_osr.stream.recent_instances import as_batches

NAMES = ("a", "b")
KNOWN = {"left": (0.0, 0.0), "right": (10.0, 0.0)}
NEW = (4.0, 14.0)
"""Where neither known class has been seen."""


def further(*values: Any) -> list[Any]:
    """Parameters of a test that only the second tier runs."""
    cases = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*case, marks=pytest.mark.thorough) for case in cases]


def menu_weights(tables: Franchise) -> np.ndarray:
    """Weight of every dish on the menu, shape (C + K,)."""
    return np.maximum(tables.menu, tables.held)


def around(centre: Sequence[float], n: int, rng: np.random.Generator, names: Sequence[Any] = NAMES) -> list[dict]:
    """``n`` instances of a Gaussian of unit variance."""
    return [dict(zip(names, row, strict=True)) for row in rng.normal(centre, size=(n, len(centre))).tolist()]


def instances(n: int, rng: np.random.Generator, centres: Sequence[Sequence[float]]) -> Iterator[dict[str, float]]:
    """Yield instances of Gaussians of unit variance, each as often as the others, in random order."""
    for _ in range(n):
        yield dict(zip(NAMES, rng.normal(centres[rng.integers(len(centres))]).tolist(), strict=True))


def training_part(n: int = 40, seed: int = 0) -> list[tuple[dict[str, float], str]]:
    """``n`` labelled instances of each known class, in turns."""
    rng = np.random.default_rng([seed, 1])
    groups = [[(x, label) for x in around(centre, n, rng)] for label, centre in KNOWN.items()]
    return [instance for pair in zip(*groups, strict=True) for instance in pair]


def stream_part(n: int, seed: int = 0, new_share: float = 0.3) -> list[tuple[dict[str, float], str]]:
    """``n`` instances in random order with their true labels, among them some of a class that is not known."""
    rng = np.random.default_rng([seed, 2])
    centres = {**KNOWN, "new": NEW}
    shares = [(1 - new_share) / 2, (1 - new_share) / 2, new_share]
    truth = rng.choice(list(centres), size=n, p=shares)
    return [(around(centres[label], 1, rng)[0], str(label)) for label in truth]


def moved_part(n: int, seed: int = 0) -> list[tuple[dict[str, float], str]]:
    """Instances of the known classes, all moved by 6 in one column."""
    return [({**x, "b": x["b"] + 6.0}, label) for x, label in stream_part(n, seed, new_share=0.0)]


def moved_model() -> OpenSetRecognizer:
    """A recognizer whose stream has moved away from training."""
    return play(fitted_once(batch_size=32, chains=1, window=32, seed=5), moved_part(224))


def dependent_rows(n: int, seed: int, memory: float = 0.95) -> list[tuple[dict[str, float], str]]:
    """Rows of two classes that last for a while, each an autoregressive process; ``memory`` 0: independent rows."""
    rng, state, out = np.random.default_rng([seed, 3]), {"left": np.zeros(3), "right": np.zeros(3)}, []
    label = "left"
    for _ in range(n):
        if rng.random() < (0.03 if memory else 0.5):
            label = "right" if label == "left" else "left"
        state[label] = memory * state[label] + np.sqrt(1.0 - memory**2) * rng.normal(size=3)
        row = state[label] + (6.0 if label == "right" else 0.0)
        out.append((dict(zip("abc", row.tolist(), strict=True)), label))
    return out


def learn_all(
    model: OpenSetRecognizer, instances: Iterable[tuple[dict[str, float], str | None]]
) -> OpenSetRecognizer:
    """Hand labelled instances to the model."""
    for x, y in instances:
        model.learn_one(x, y)
    return model


def fitted(n: int = 40, **arguments: Any) -> OpenSetRecognizer:
    """A recognizer whose training has ended."""
    model = learn_all(OpenSetRecognizer(**grouped(**arguments)), training_part(n))
    model.freeze()
    return model


_trained: dict[str, OpenSetRecognizer] = {}
_training = threading.Lock()


def fitted_once(n: int = 40, **arguments: Any) -> OpenSetRecognizer:
    """What :func:`fitted` returns, for tests of a stream: trained once in a process, and copied."""
    named = repr((n, sorted(arguments.items())))
    with _training:
        if named not in _trained:
            _trained[named] = fitted(n, **arguments)
    return copy(_trained[named])


def play(
    model: OpenSetRecognizer, instances: Iterable[tuple[dict[str, float], Any]], begin: int = 0
) -> OpenSetRecognizer:
    """Stream instances, whatever their labels; time and key of each are its position."""
    for i, (x, _) in enumerate(instances, start=begin):
        model.learn_one(x, t=float(i), key=i)
    return model


def ended(model: OpenSetRecognizer) -> list[Decision]:
    """Flush, and drain the decisions."""
    model.flush()
    return list(model.drain())


def drained(model: OpenSetRecognizer) -> tuple[list[Decision], list[Event]]:
    """Everything that waits to be drained."""
    return list(model.drain()), list(model.drain_events())


class _Bits(pickle.Pickler):
    """Writes every part again, and structured arrays without padding."""

    def reducer_override(self, part: Any) -> Any:
        if isinstance(part, np.ndarray) and part.dtype.names:
            return tuple, ([part[name].tobytes() for name in part.dtype.names],)
        return NotImplemented


def bits(value: Any) -> bytes:
    """All bits of a value, whichever of its parts are one object."""
    pickler = _Bits(out := io.BytesIO())
    pickler.fast = True  # without a memo
    pickler.dump(value)
    return out.getvalue()


def archived(stream: Stream) -> Stream:
    """The stream without the densities that its chains carry over, which archives do not contain."""
    return stream._replace(chains=tuple(chain._replace(carried=None) for chain in stream.chains))


@contextmanager
def refused(model: OpenSetRecognizer, error: type[BaseException], match: str | None = None) -> Iterator[None]:
    """Check that an act on the model is an error and changes nothing."""
    before = pickle.dumps(model)
    with pytest.raises(error, match=match):
        yield
    assert pickle.dumps(model) == before


def check_stream(stream: Stream) -> None:
    """Check that the counts of a stream agree with each other in every chain, and that its archive can be read."""
    check_records(form_of(stream, BY_TYPE, {}))
    n_classes = len(stream.labels)
    for chain in stream.chains:
        check_chain(chain, n_classes)
    first = stream.chains[0]
    for chain in stream.chains:
        for life in chain.life.subclasses.values():
            assert (life.kept is not None) == (life.emerged and chain is first), "rows of emerged subclasses are kept"
        assert chain is first or not len(chain.dormant.ids)
    for chain in stream.chains:  # what they seat is the same, where they seat it is not
        named = [np.isin(known.ids, known.named) @ (known.tables > 0).T for known in (chain.known, first.known)]
        same = ~(named[0] | named[1])  # what was named in each is not the same to the last instance
        np.testing.assert_array_equal(chain.known.size[same], first.known.size[same])
        assert (chain.state.seen, chain.state.batches) == (first.state.seen, first.state.batches)
    assert len(stream.decided) == n_classes + 1
    waiting = stream.waiting
    assert waiting.probabilities.shape == (len(waiting.decisions), n_classes + 1)
    assert waiting.responsible.shape == (len(waiting.decisions), n_classes)
    assert waiting.subclass.shape == (len(waiting.decisions),)
    np.testing.assert_allclose(waiting.probabilities.sum(axis=1), 1, atol=1e-9)
    start = stream.state.seen - len(waiting.decisions)
    assert [d.seq for d in waiting.decisions] == list(range(start, stream.state.seen))
    assert sum(stream.decided) == start
    assert stream.recent.subclass.shape == (len(stream.chains), len(stream.recent.keys))


def check_chain(chain: Chain, n_classes: int) -> None:
    """Check that the counts of one chain agree with each other."""
    state = chain.state
    counts, window = state.franchise, state.window
    used = counts.table_dish != CLOSED
    assert used.all(), "a table slot that is not in use"
    tables = np.bincount(counts.table_dish, minlength=len(counts.menu)).astype(float)
    tables[:n_classes] += chain.frozen.menu
    np.testing.assert_allclose(counts.menu, tables, err_msg="the menu counts the tables")
    np.testing.assert_allclose(counts.total, menu_weights(counts).sum(), err_msg="m.. is the sum of the menu")
    np.testing.assert_array_equal(
        counts.table_live,
        np.bincount(window.table, minlength=len(counts.table_dish)),
        err_msg="guests at the tables",
    )
    mass = counts.table_residual + np.bincount(window.table, window.weight, minlength=len(counts.table_dish))
    np.testing.assert_allclose(counts.table_mass, mass, atol=1e-9, err_msg="seats at the tables")
    seated = np.bincount(counts.table_dish, counts.table_mass, minlength=len(counts.menu))
    np.testing.assert_allclose(counts.seated[0], seated, atol=1e-9, err_msg="seats at the dishes")
    assert (counts.table_mass > 0).all()
    assert (counts.table_residual >= 0).all()

    ids = [*state.ids.tolist(), *chain.dormant.ids.tolist()]
    known_ids = chain.known.ids.tolist()
    assert len({*ids, *known_ids}) == len(ids) + len(known_ids), "identities are unique"
    assert len(chain.dormant.statistics.size) == len(chain.dormant.statistics.matrix) == len(chain.dormant.ids)
    lives = chain.life.subclasses
    aside = [lives[key] for key in chain.dormant.ids.tolist()]
    assert all((life.emerged and life.dormant) or life.muted for life in aside)
    assert all(0 <= key < state.next_id for key in [*ids, *known_ids])
    assert len(state.window_seq) == len(window.rows)
    assert (np.diff(state.window_seq) > 0).all()
    for dishes in (state.dishes, chain.known.dishes):
        corner = dishes.matrix[:, -1, -1] - chain.known.prior.beta
        np.testing.assert_allclose(corner, dishes.size, atol=1e-6, err_msg="instances in the statistics")
    np.testing.assert_array_equal(chain.known.seated.sum(axis=0), chain.known.dishes.size)
    assert (chain.known.size >= chain.known.seated.sum(axis=1) - 1e-9).all()
    assert set(chain.known.named) <= set(known_ids)


def members(stream: Stream, number: int = 0) -> dict[int, list[int]]:
    """Positions of the remembered instances that sit in each emerging subclass of a chain."""
    out: dict[int, list[int]] = {int(key): [] for key in stream.chains[number].state.ids}
    for chunk in as_batches(stream.recent):
        for at, key in enumerate(chunk.subclass[number].tolist()):
            if key in out:
                out[key].append(chunk.seq + at)
    return out

"""The command ``stream-osr warmup``: compile the sampler by running a recognizer on generated instances."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from stream_osr_connectors.cli.stream_summary import Phases
from stream_osr_connectors.terminal import Terminal

if TYPE_CHECKING:
    import numpy as np

    from stream_osr import OpenSetRecognizer

CLASSES, EACH, STREAM = 3, 40, 128


def warmup() -> None:
    """Compile the sampler ahead of time: one to two minutes, once.

    Without it, the first instances wait for the compilation. The machine code goes to NUMBA_CACHE_DIR if set, else
    beside the installed package, else in the user's cache directory.

    Example: stream-osr warmup
    """
    console, begin = Terminal(stderr=True), time.perf_counter()
    with Phases(console) as phases:
        phases.begin("preparing")
        warm_up()
    console.say(f"ready after {time.perf_counter() - begin:.0f} s")


def warm_up() -> None:
    """Run everything that a recognizer can do.

    This includes training, decisions, predictions, missing values, late labels, a promotion, an undo, saving, and a
    carry-over to another model.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    centres = 8.0 * np.eye(CLASSES + 1)
    noisy = centres[np.arange(STREAM) % (CLASSES + 1)] + rng.normal(size=(STREAM, CLASSES + 1))
    rows = [dict(enumerate(row)) for row in noisy.tolist()]
    _trained(centres, np.random.default_rng(1), flag=True)
    model, later = (_trained(centres, rng) for _ in range(2))
    for key, x in enumerate(rows):
        came = {**x, key % len(x): None} if key % 7 == 0 else x
        model.predict_proba_one(came)
        model.learn_one(came, key=key)
    for key in range(STREAM - CLASSES - 1, STREAM):
        model.learn_label(key, key % (CLASSES + 1))
    emerging, _, _ = model.summary().emerging[0]
    model.promote([emerging], CLASSES + 1)
    model.flush()
    for x in rows:
        model.learn_one(x)
    model.undo()
    with TemporaryDirectory() as folder:
        model.save(Path(folder, "model.osr"))
    later.carry_over(model)
    _run_rare_kernels(model)
    _in_order(centres, np.random.default_rng(2))


def _trained(centres: np.ndarray, rng: np.random.Generator, *, flag: bool = False) -> OpenSetRecognizer:
    """Train a recognizer on all classes but the last. All features are numbers, or one of them is a flag."""
    from stream_osr import ModelOptions, OpenSetRecognizer

    model = OpenSetRecognizer(batch_size=STREAM // 2, model=ModelOptions(training_sweeps=3, window=STREAM))
    for i in range(CLASSES * EACH):
        row = centres[i % CLASSES] + rng.normal(size=CLASSES + 1)
        if flag:
            row[0] = i % 2
        model.learn_one(dict(enumerate(row.tolist())), i % CLASSES)
    model.freeze()
    return model


def _run_rare_kernels(model: OpenSetRecognizer) -> None:
    """Run the kernels that few streams need, for subclasses that merge, and that come and go between two batches."""
    import numpy as np

    from stream_osr.model.class_places import places_of_classes
    from stream_osr.model.marginal import log_ratios_together, statistics_of
    from stream_osr.model.offset_fit import HEATS, fit_place, window_of
    from stream_osr.model.shared_offset import find_shared_offset
    from stream_osr.stream.subclass_owners import fit_check

    stream = model.value.stream
    assert stream is not None
    chain = stream.chains[0]
    assert chain.check is not None
    fit_check(chain.check, chain.state.ids[:0], len(chain.known.size))
    one = statistics_of(chain.known.dishes, np.arange(1))
    log_ratios_together(one, one, chain.known.prior, chain.known.location)
    references = model.trained.references
    assert references is not None
    places = places_of_classes(chain.known, model.trained.whitening, references.rows)
    rows, now = references.rows.copy(), np.zeros((2, len(places.deviation)))
    rows[:, places.columns :] += 1.0
    find_shared_offset(places, rows, now)
    both = np.stack([np.isfinite(places.deviation)] * 2)
    fit_place(places, window_of(places, rows, now), now, both, HEATS, by_spread=True)


def _in_order(centres: np.ndarray, rng: np.random.Generator) -> None:
    """Train on instances that depend on their neighbours, and decide instances with a column that fails."""
    import numpy as np

    from stream_osr import ModelOptions, OpenSetRecognizer

    model = OpenSetRecognizer(batch_size=STREAM // 2, model=ModelOptions(training_sweeps=3, window=STREAM))
    slow = np.zeros(CLASSES + 1)
    for i in range(4 * CLASSES * EACH + STREAM):
        slow = 0.95 * slow + 0.3 * rng.normal(size=CLASSES + 1)
        trains = i < 4 * CLASSES * EACH
        row = centres[i % CLASSES] + slow
        if not trains:
            row[0] = 0.0
        model.learn_one(dict(enumerate(row.tolist())), i % CLASSES if trains else None)
    model.flush()

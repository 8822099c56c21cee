"""Subclasses in the plane where no model is at hand: what events told of their means, on the two widest axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stream_osr_connectors.page.live.state import State

MOST_POINTS = 300


def plane(state: State, named: Mapping[str, tuple[str, str | None]]) -> dict[str, Any]:
    """Place subclasses, and the nearest known ones of each, by standard deviations of these.

    Parameters
    ----------
    state
        What is known.
    named
        Status and label of subclasses of which people have said something.
    """
    there = [held for held in state.every_subclass() if held.mean is not None and held.status != "gone"]
    there = sorted(there, key=lambda held: -held.n)[:MOST_POINTS]
    names = sorted({name for held in there for name in held.mean or ()})
    if len(names) < 2 or not there:
        return {"axes": None, "points": []}
    spread = np.array([_middle([(held.scale or {}).get(name) for held in there]) for name in names])
    own = np.array([[(held.mean or {}).get(name, np.nan) for name in names] for held in there]) / spread
    near = np.array([[(held.known_mean or {}).get(name, np.nan) for name in names] for held in there]) / spread
    both = np.concatenate([own, near])
    both = np.nan_to_num(both - np.nanmean(np.where(np.isfinite(both), both, np.nan), axis=0), posinf=0.0, neginf=0.0)
    _, _, axes = np.linalg.svd(np.clip(both, -1e6, 1e6), full_matrices=False)
    if len(axes) < 2:
        axes = np.concatenate([axes, np.zeros((2 - len(axes), len(names)))])
    places = both @ axes[:2].T
    points = []
    for held, (x, y) in zip(there, places[: len(there)].tolist(), strict=True):
        status, label = named.get(held.id, (held.status, held.label))
        kind = "known" if status == "named" else "emerging"
        points.append({"id": held.id, "x": x, "y": y, "n": held.n, "kind": kind, "label": label})
    seen = set()
    for held, (x, y) in zip(there, places[len(there) :].tolist(), strict=True):
        label = held.like["nearest_class"]
        if label in state.classes and (label, round(x, 3), round(y, 3)) not in seen:
            seen.add((label, round(x, 3), round(y, 3)))
            n = state.classes[label].n
            points.append({"id": f"class:{label}", "x": x, "y": y, "n": n, "kind": "known", "label": label})
    return {"axes": None, "points": points}


def _middle(values: list[float | None]) -> float:
    there = [value for value in values if value is not None and np.isfinite(value) and value > 0]
    return float(np.median(there)) if there else 1.0

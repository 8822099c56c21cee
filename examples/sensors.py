"""Sensors of a machine that wears: known states that move slowly, a sensor that fails, and a new fault.

Made up here, and nothing is downloaded: a pump has three states, and while it works its filter clogs, so that
pressure and temperature of all states move, by several standard deviations from the first to the last reading. Of
one reading in fifty a value is missing, and for a while the flow meter gives nothing at all. When two thirds of the
stream have passed, a bearing begins to fail. Nobody has seen that before.

    python examples/sensors.py                         # known states stay where they were in training
    python examples/sensors.py --follow-drift          # known states follow
    python examples/sensors.py --follow-drift --jump   # and late in the stream a new pressure gauge reads 1 bar more
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from stream_osr import ClassDrifted, OpenSetRecognizer, SubclassEmerged, SubclassRefuted, UnknownRateJumped

SENSORS = ("temperature", "pressure", "flow", "current", "vibration")
MEANS = {
    "idle": (35.0, 1.0, 0.0, 2.0, 0.5),
    "half": (52.0, 3.0, 20.0, 9.0, 1.6),
    "full": (68.0, 5.5, 38.0, 17.0, 2.6),
    "bearing": (62.0, 3.0, 19.0, 11.0, 4.6),
}
SPREADS = np.array([2.0, 0.2, 1.0, 0.6, 0.25])
TOGETHER = 0.5
"""Correlation of any two sensors within a state."""
CLOGGED = np.array([4.0, 0.8, 0.0, 0.0, 0.0])
"""How far a clogged filter moves the means."""
KNOWN = ("idle", "half", "full")
SHARES = (0.3, 0.4, 0.3)
PARTS = 4
"""Of the stream, in the table."""


def reading(state: str, clogged: float, rng: np.random.Generator) -> dict[str, float]:
    """Draw one reading of a state; the filter is clogged from 0, not at all, to 1."""
    noise = np.sqrt(1 - TOGETHER) * rng.normal(size=len(SENSORS)) + np.sqrt(TOGETHER) * rng.normal()
    values = np.array(MEANS[state]) + clogged * CLOGGED + SPREADS * noise
    return dict(zip(SENSORS, values.round(3).tolist(), strict=True))


def labelled(n: int, rng: np.random.Generator) -> Iterator[tuple[dict[str, float], str]]:
    """Draw readings of a new filter, and what the machine was doing."""
    for state in rng.choice(KNOWN, size=n, p=SHARES).tolist():
        yield reading(state, 0.0, rng), state


def stream(n: int, rng: np.random.Generator, jump: bool = False) -> Iterator[tuple[dict[str, float], str]]:
    """Draw a stream, and the truth that nobody tells: the filter clogs, values are missing, a bearing fails."""
    for at in range(n):
        fails = 3 * at > 2 * n and rng.random() < 0.05
        state = "bearing" if fails else str(rng.choice(KNOWN, p=SHARES))
        x = reading(state, at / n, rng)
        if jump and 6 * at > 5 * n:
            x["pressure"] += 1.0
        if rng.random() < 0.02:
            del x[str(rng.choice(SENSORS))]
        if 0.40 < at / n < 0.45:
            x.pop("flow", None)
        yield x, state


def told(event: Any) -> str | None:
    """Say what an operator reads of an event; None: nothing."""
    if isinstance(event, SubclassEmerged):
        why = event.explanation
        most = why.most_moved[0]
        return (
            f"subclass {event.subclass_id} emerged: {event.size} readings, nearest {why.nearest_class}, "
            f"{most} {why.shift[most]:+.1f} standard deviations"
        )
    if isinstance(event, SubclassRefuted):
        return f"subclass {event.subclass_id} is not new after all: {event.label}"
    if isinstance(event, ClassDrifted):
        most = max(SENSORS, key=lambda name: abs(event.movement.shift[name]))
        return (
            f"{event.label} drifts since {event.since} ({event.direction}), "
            f"{most} {event.movement.shift[most]:+.1f} standard deviations"
        )
    if isinstance(event, UnknownRateJumped):
        return f"{event.rate:.0%} unknown since {event.since}, {event.before:.0%} before"
    return None


def main() -> None:
    """Train on labelled readings, run the stream, and hold it against the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--follow-drift", action="store_true")
    parser.add_argument("--jump", action="store_true")
    parser.add_argument("--labelled", type=int, default=1000)
    parser.add_argument("--stream", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    model = OpenSetRecognizer(follow_drift=arguments.follow_drift, seed=arguments.seed)
    for x, state in labelled(arguments.labelled, rng):
        model.learn_one(x, state)
    print(model.freeze())

    truth: list[str] = []
    right = Counter[tuple[int, str]]()
    came = Counter[tuple[int, str]]()

    def look() -> None:
        for decision in model.drain():
            part, state = PARTS * decision.key // arguments.stream, truth[decision.key]
            came[part, state] += 1
            right[part, state] += decision.label == (state if state in KNOWN else "unknown")
        for event in model.drain_events():
            line = told(event)
            if line is not None:
                print(f"at {event.seq}: {line}")

    for number, (x, state) in enumerate(stream(arguments.stream, rng, arguments.jump)):
        truth.append(state)
        model.learn_one(x, key=number)
        look()
    model.flush()
    look()
    print(f"{'called right in':16}", *(f"part {part + 1:<4}" for part in range(PARTS)))
    for state in (*KNOWN, "bearing"):
        shares = (f"{right[at, state] / came[at, state]:.3f}" if came[at, state] else "." for at in range(PARTS))
        print(f"{state:16}", *(f"{share:9}" for share in shares))
    print(model.signals)
    print("new classes:", model.new_classes().estimate)


if __name__ == "__main__":
    main()

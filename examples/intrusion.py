"""Network connections with text columns: a stream of NSL-KDD's shape, made up here, without an encoder.

Normal traffic and two attacks are known; three more attacks come one after the other. ``protocol_type``, ``service``
and ``flag`` are text, all else are numbers. Nothing is downloaded.

    python examples/intrusion.py                       # in a loop, as dictionaries
    python examples/intrusion.py --write FOLDER        # labelled.csv and stream.csv, for stream-osr fit and run
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stream_osr import OpenSetRecognizer, SubclassEmerged
from stream_osr.printable_text import printable

Shares = dict[str, float]
"""Values of a text column, and how often each comes."""


class Kind(NamedTuple):
    """What connections of one kind are like.

    Attributes
    ----------
    protocol, service, flag
        How often each value comes.
    seconds, sent, received
        Logarithms of duration and bytes: mean and standard deviation.
    count, errors, same
        Means of the connections to the same host lately, of the share of errors among them, and of the share that
        has the same service.
    """

    protocol: Shares
    service: Shares
    flag: Shares
    seconds: tuple[float, float]
    sent: tuple[float, float]
    received: tuple[float, float]
    count: float
    errors: float
    same: float


WEB = {"http": 0.62, "smtp": 0.12, "domain_u": 0.14, "ftp_data": 0.07, "other": 0.05}
ANY = dict.fromkeys(("private", "telnet", "finger", "ftp", "auth", "time", "whois", "mtp"), 0.125)
KINDS = {
    "normal": Kind(
        {"tcp": 0.8, "udp": 0.17, "icmp": 0.03}, WEB, {"SF": 0.95, "REJ": 0.03, "S0": 0.02},
        (0.4, 1.0), (5.5, 1.0), (7.0, 1.6), 8.0, 0.02, 0.95,
    ),
    "neptune": Kind({"tcp": 1.0}, ANY, {"S0": 0.97, "RSTO": 0.03}, (0, 0.1), (0, 0.1), (0, 0.1), 180.0, 0.97, 0.08),
    "smurf": Kind({"icmp": 1.0}, {"ecr_i": 1.0}, {"SF": 1.0}, (0, 0.1), (6.9, 0.2), (0, 0.1), 480.0, 0.01, 0.99),
    "portsweep": Kind(
        {"tcp": 0.9, "icmp": 0.1}, {**ANY, "eco_i": 0.2}, {"REJ": 0.6, "RSTR": 0.4},
        (0.1, 0.3), (0.1, 0.3), (0, 0.1), 3.0, 0.75, 0.45,
    ),
    "teardrop": Kind({"udp": 1.0}, {"private": 1.0}, {"SF": 1.0}, (0, 0.1), (3.3, 0.1), (0, 0.1), 60.0, 0.01, 0.9),
    "warezclient": Kind(
        {"tcp": 1.0}, {"ftp_data": 0.7, "ftp": 0.3}, {"SF": 1.0}, (3.5, 1.0), (9.5, 1.0), (2.0, 2.0), 2.0, 0.01, 0.9
    ),
}  # fmt: skip
KNOWN = ("normal", "neptune", "smurf")
NEW = ("portsweep", "teardrop", "warezclient")


def connection(kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """Draw one connection of a kind."""
    own = KINDS[kind]

    def drawn(shares: Shares) -> str:
        return str(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))

    def exponential(mean: float, spread: float) -> float:
        return round(float(np.expm1(max(rng.normal(mean, spread), 0.0))), 1)

    return {
        "duration": exponential(*own.seconds),
        "protocol_type": drawn(own.protocol),
        "service": drawn(own.service),
        "flag": drawn(own.flag),
        "src_bytes": exponential(*own.sent),
        "dst_bytes": exponential(*own.received),
        "count": float(rng.poisson(own.count)),
        "serror_rate": round(float(rng.beta(20 * own.errors + 0.1, 20 * (1 - own.errors) + 0.1)), 2),
        "same_srv_rate": round(float(rng.beta(20 * own.same + 0.1, 20 * (1 - own.same) + 0.1)), 2),
    }


def labelled(n: int, rng: np.random.Generator) -> Iterator[tuple[dict[str, Any], str]]:
    """Draw connections of the known kinds."""
    for kind in rng.choice(KNOWN, size=n, p=(0.6, 0.3, 0.1)).tolist():
        yield connection(kind, rng), kind


def stream(n: int, rng: np.random.Generator) -> Iterator[tuple[dict[str, Any], str]]:
    """Draw a stream: known kinds all along, the new ones one after the other."""
    for at in range(n):
        new = NEW[min(4 * at // n, 3) - 1] if 4 * at >= n and rng.random() < 0.15 else None
        kind = new or str(rng.choice(KNOWN, p=(0.6, 0.3, 0.1)))
        yield connection(kind, rng), kind


def write(folder: Path, n_labelled: int, n: int, seed: int) -> None:
    """Write both parts as tables; the stream's has the true kind, too, which ``stream-osr run`` leaves alone."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for name, rows in (("labelled", labelled(n_labelled, rng)), ("stream", stream(n, rng))):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer: Any = None
            for number, (x, kind) in enumerate(rows):
                record = {"id": f"{name}-{number}", **x, "kind": kind}
                if writer is None:
                    writer = csv.DictWriter(file, list(record))
                    writer.writeheader()
                writer.writerow(record)


def main() -> None:
    """Run the stream, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="folder for the tables")
    parser.add_argument("--labelled", type=int, default=1500)
    parser.add_argument("--stream", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.write is not None:
        write(arguments.write, arguments.labelled, arguments.stream, arguments.seed)
        return
    rng = np.random.default_rng(arguments.seed)
    model = OpenSetRecognizer(batch_size=64, seed=arguments.seed)
    for x, kind in labelled(arguments.labelled, rng):
        model.learn_one(x, kind)
    print(model.freeze())
    truth, calls = [], Counter[tuple[str, str]]()
    for number, (x, kind) in enumerate(stream(arguments.stream, rng)):
        truth.append(kind)
        model.learn_one(x, key=number)
        calls.update((truth[d.key], d.label) for d in model.drain())
        for event in model.drain_events():
            if isinstance(event, SubclassEmerged):
                why = event.explanation
                print(f"at {number}: subclass {event.subclass_id} of {event.size}, nearest {why.nearest_class}")
                for told in why.category_texts:
                    print(f"    {printable(told)}")
    for (kind, label), count in sorted(calls.items()):
        print(f"{kind:12} called {label:10} {count}")


if __name__ == "__main__":
    main()

"""Golden outputs: what the library says in some streams, written down, and compared with what it says later.

``python -m tools.golden write DIR`` runs the streams, ``python -m tools.golden compare A B`` compares what two trees
have written, byte for byte, and names what differs. Only the public interface is used, so that the same script runs
before and after the insides have moved. Bits are those of one machine and one set of library versions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import stream_osr
from stream_osr import OpenSetRecognizer
from stream_osr.archive.files import open_archive
from tools.comparing import differences
from tools.streams import RUNS, Run, Stream, gappy, instance, make_stream

CHUNK = 37
"""Instances that are handed over together as an array or a frame."""


def plain(value: Any) -> Any:
    """Turn any value into JSON that tells each bit: floats in hexadecimal, dicts as pairs, records by field."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), [plain(v) for v in value.ravel().tolist()]]
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if hasattr(value, "_asdict"):
        return {name: plain(v) for name, v in value._asdict().items()}
    if isinstance(value, Mapping):
        return [[plain(k), plain(v)] for k, v in value.items()]
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(v) for v in value), key=repr)
    return repr(value)


class Recorder:
    """A recognizer in its stream, and what it has said so far."""

    def __init__(self, run: Run, stream: Stream, scratch: Path) -> None:
        self.run, self.stream, self.scratch = run, stream, scratch
        self.decisions: list[Any] = []
        self.events: list[Any] = []
        self.told: dict[str, Any] = {}
        self.archives: dict[str, Any] = {}
        self.model = self.fit(stream.trained)
        self.told["trained"] = [self.model.trained.fingerprint, plain(self.model.trained.report)]

    def fit(self, instances: list[tuple[dict[str, float], Any]]) -> OpenSetRecognizer:
        """Train a recognizer of the run."""
        model = OpenSetRecognizer(**{"n_jobs": 1, "seed": 5, **self.run.arguments})
        for number, (x, y) in enumerate(instances):
            model.learn_one(x, y)
            if number in (100, 301):  # a model in the making answers, too
                self.told[f"provisional {number}"] = plain(model.predict_proba_one(instances[0][0]))
        model.freeze()
        return model

    def take(self, first: int, last: int) -> None:
        """Hand over instances of the stream; what is said of them waits, so that archives hold some of it."""
        stream, step = self.stream, 1 if self.run.intake == "one" else CHUNK
        for at in range(first, last, step):
            till = min(at + step, last)
            times = None if stream.times is None else stream.times[at:till]
            if self.run.intake == "rows":
                self.model.learn_rows(stream.rows[at:till], t=times, key=stream.keys[at:till])
            elif self.run.intake == "frame":
                import pandas as pd

                self.model.learn_many(
                    pd.DataFrame(gappy(stream, at, till), columns=stream.names), key=stream.keys[at:till]
                )
            else:
                self.model.learn_one(instance(stream, at), t=times[0] if times else None, key=stream.keys[at])

    def drain(self) -> None:
        """Note decisions and events."""
        self.decisions.extend(plain(decision) for decision in self.model.drain())
        self.events.extend([type(event).__name__, plain(event)] for event in self.model.drain_events())

    def look(self, name: str) -> None:
        """Note what the model says of itself, and of some instances at once."""
        self.drain()
        model, n = self.model, len(self.stream.truth)
        asked = [instance(self.stream, i) for i in range(0, n, n // 50)][:50]
        found = model.new_classes()
        self.told[name] = {
            "summary": [str(model.summary()), plain(model.summary())],
            "signals": plain(model.signals),
            "menu": plain(model.value.menu),
            "new classes": [str(found), plain(found)],
            "emerged": [[key, plain(s.size)] for key, s in model.value.emerged_statistics().items()],
            "predictions": [plain(model.predict_proba_one(x)) for x in asked],
            "labels": [plain(model.predict_one(x)) for x in asked],
            "counters": sorted(model.counters.items()),
            "pending": model.pending,
        }

    def save(self, name: str) -> None:
        """Save, note which arrays the archive holds, and go on from it."""
        path = self.scratch / f"{self.run.name}.{name}.osr"
        self.model.save(path)
        self.archives[name] = arrays_of(path)
        self.model = OpenSetRecognizer.load(path)
        path.unlink()

    def ask(self, what: str, act: Callable[..., object], *arguments: Any) -> None:
        """Ask something of the model, and note whether it refused, and in which words."""
        try:
            act(*arguments)
            answer = "done"
        except (ValueError, RuntimeError) as error:  # what cannot be done is an answer as well
            answer = f"{type(error).__name__}: {error}"
        self.told[f"asked: {what} at {len(self.decisions)}"] = answer
        self.drain()


def arrays_of(path: Path) -> list[str]:
    """Digests of the content of an archive: its manifest, and the numbers of all columns."""
    archive = open_archive(path.read_bytes())
    manifest = json.dumps(archive.manifest, sort_keys=True).encode()
    return [hashlib.sha256(part).hexdigest() for part in (manifest, archive.block)]


def execute(run: Run, scratch: Path) -> Recorder:
    """Run a stream: what people ask falls between its parts."""
    said = Recorder(run, make_stream(run), scratch)
    n, at = len(said.stream.truth), 0
    for share, act in acts():
        till = int(share * n)
        said.take(at, till)
        at = till
        act(said)
    said.take(at, n)
    said.look("before the last flush")
    said.model.flush()
    said.drain()
    said.look("end")
    said.save("end")
    said.look("loaded")
    return said


def acts() -> Iterator[tuple[float, Callable[[Recorder], None]]]:
    """List what is asked in a stream, and when: shares of the stream, and acts."""
    yield 0.10, _labels_late
    yield 0.14, _promote_smallest
    yield 0.15, lambda said: said.ask("undo a small promotion", said.model.undo)
    yield 0.16, lambda said: said.ask("undo a label that has taken effect", said.model.undo)
    yield 0.22, _label_that_opens
    yield 0.26, lambda said: said.look("early")
    yield 0.28, _promote_largest
    yield 0.333, lambda said: said.save("middle")
    yield 0.36, lambda said: said.ask("undo a promotion", said.model.undo)
    yield 0.40, _mute_largest
    yield 0.45, lambda said: said.ask("undo a mute", said.model.undo)
    yield 0.47, _promote_to_known
    yield 0.52, _labels_late
    yield 0.55, _labelled_instances
    yield 0.58, _mute_largest
    yield 0.62, lambda said: said.ask("close the batch", said.model.close_batch)
    yield 0.64, _label_and_undo
    yield 0.68, _succeed
    yield 0.72, _labels_late
    yield 0.76, lambda said: said.ask("set the least probability", said.model.set_min_probability, 0.7)
    yield 0.80, _promote_largest
    yield 0.85, _undo_more
    yield 0.90, lambda said: said.save("late")
    yield 0.92, _promote_many
    yield 0.94, _label_many
    yield 0.96, _undo_more
    yield 0.97, _mute_many
    yield 0.98, _undo_more


def _decided(said: Recorder, unknown: bool, within: int = 400) -> list[Any]:
    """Keys of the latest decisions about unknown instances, or about known ones."""
    said.drain()
    return [d["key"] for d in said.decisions[-within:] if (d["label"] in ("unknown", -1)) == unknown]


def _truth(said: Recorder, key: Any) -> Any:
    return said.stream.truth[int(str(key).lstrip("k"))]


def _labels_late(said: Recorder) -> None:
    """Labels of decided instances, known and not, of an instance that waits for its batch, and of nobody."""
    known, unknown = _decided(said, False), _decided(said, True)
    for key in [*unknown[:2], *known[:6]]:
        said.ask(f"label {key}", said.model.learn_label, key, _truth(said, key))
    label = said.model.trained.labels[0]
    said.ask("label nobody", said.model.learn_label, "nobody", label)
    waiting = said.stream.keys[: len(said.decisions) + said.model.pending][-1]
    said.ask("label one that waits", said.model.learn_label, waiting, _truth(said, waiting))


def _label_that_opens(said: Recorder) -> None:
    opened = "opened" if isinstance(said.model.trained.labels[0], str) else 1000
    for key in _decided(said, True)[-4:]:
        said.ask(f"open a class by {key}", said.model.learn_label, key, opened)


def _largest(said: Recorder) -> tuple[int, ...]:
    found = said.model.new_classes().candidates
    return found[0].subclasses if found else ()


def _promote_largest(said: Recorder) -> None:
    label = f"named {len(said.told)}" if isinstance(said.model.trained.labels[0], str) else 2000 + len(said.told)
    chosen = _largest(said)
    said.ask(f"promote {chosen}", said.model.promote, chosen, label)


def _emerging(said: Recorder) -> list[int]:
    """Ids of emerging subclasses, the largest first; those that were set aside are among them."""
    return [key for key, _, _ in said.model.summary().emerging]


def _promote_smallest(said: Recorder) -> None:
    """Name subclasses of which another chain may know nothing."""
    for key in _emerging(said)[-3:]:
        said.ask(f"promote {key} to known", said.model.promote, [key], said.model.trained.labels[1])


def _promote_many(said: Recorder) -> None:
    for number, key in enumerate(_emerging(said)[1::4][:10]):
        said.ask(f"promote {key} of many", said.model.promote, [key], said.model.trained.labels[number % 2])


def _mute_many(said: Recorder) -> None:
    for key in _emerging(said)[::2][:10]:
        said.ask(f"mute {key} of many", said.model.mute, [key])


def _label_many(said: Recorder) -> None:
    """Label an early instance of each of many subclasses: some have been set aside since, or named."""
    said.drain()
    first = {d["subclass_id"]: d["key"] for d in reversed(said.decisions)}
    for number, key in enumerate([first[i] for i in sorted(first, key=str)][::2][:20]):
        said.ask(f"label {key} of many", said.model.learn_label, key, said.model.trained.labels[number % 2])


def _promote_to_known(said: Recorder) -> None:
    chosen = _largest(said)
    said.ask(f"promote {chosen} to known", said.model.promote, chosen, said.model.trained.labels[0])


def _mute_largest(said: Recorder) -> None:
    chosen = _largest(said)
    said.ask(f"mute {chosen}", said.model.mute, chosen)


def _labelled_instances(said: Recorder) -> None:
    """Instances that come with their labels, of known classes and of new ones."""
    for number in range(0, 60, 5):
        said.model.learn_one(instance(said.stream, number), said.stream.truth[number])
    said.drain()


def _label_and_undo(said: Recorder) -> None:
    for key in _decided(said, True)[:1]:
        said.ask(f"label {key}", said.model.learn_label, key, said.model.trained.labels[1])
        said.ask("undo a label that waits", said.model.undo)


def _undo_more(said: Recorder) -> None:
    for number in range(6):
        said.ask(f"undo {number} more", said.model.undo)


def _succeed(said: Recorder) -> None:
    """Another model takes the stream over."""
    if not said.run.successor:
        return
    said.ask("flush", said.model.flush)
    arguments = {"n_jobs": 1, "seed": 8, **said.run.arguments}
    earlier, anew = said.model, said.run.successor == "anew"
    said.model = said.fit(said.stream.again) if anew else OpenSetRecognizer.from_trained(earlier.trained, **arguments)
    said.ask("carry over", said.model.carry_over, earlier)
    said.look("carried over")


def write(folder: Path, names: list[str] | None = None) -> None:
    """Run the streams and write what was said into a folder for each."""
    warnings.filterwarnings("ignore", ".*the plain name goes", DeprecationWarning)  # earlier trees have no other
    print(f"the library is that of {Path(stream_osr.__file__).parent}")
    for run in RUNS:
        if names and run.name not in names:
            continue
        started, target = time.perf_counter(), folder / run.name
        target.mkdir(parents=True, exist_ok=True)
        said = execute(run, target)
        _lines(target / "decisions.jsonl", said.decisions)
        _lines(target / "events.jsonl", said.events)
        (target / "summary.json").write_text(json.dumps(said.told, indent=1) + "\n")
        (target / "archive.json").write_text(json.dumps(said.archives, indent=1) + "\n")
        told = ", ".join(f"{count} {name}" for name, count in sorted(Counter(e[0] for e in said.events).items()))
        seconds = time.perf_counter() - started
        print(f"{run.name}: {len(said.decisions)} decisions in {seconds:.1f} s; {told}", flush=True)


def _lines(path: Path, values: list[Any]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def main(arguments: list[str] | None = None) -> int:
    """Write, or compare; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="run the streams")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--runs", nargs="+", choices=[run.name for run in RUNS])
    comparing = commands.add_parser("compare", help="compare what two runs have written")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    chosen = parser.parse_args(arguments)
    if chosen.command == "write":
        write(chosen.folder, chosen.runs)
        return 0
    found = differences(chosen.first, chosen.second)
    print("\n".join(found) if found else f"{chosen.first} and {chosen.second} are equal, byte for byte")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

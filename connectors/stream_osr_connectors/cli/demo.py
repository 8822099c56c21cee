"""The command ``stream-osr demo``: a stream of river's ImageSegments in which new classes appear one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from stream_osr_connectors.cli.demo_files import KEY, LABEL, DemoFiles

if TYPE_CHECKING:
    from stream_osr import OpenSetRecognizer

KNOWN = ("brickface", "cement", "foliage", "window")
NEW = ("sky", "grass", "path")
TRAINING_SHARE = 0.6


class Segment(NamedTuple):
    """One instance of the demonstration's stream, with the label that the recognizer does not see."""

    features: dict[str, float]
    label: str


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Output folder.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(help="Random seed of the data split and of the recognizer.")] = 2,
) -> None:
    """Run a demonstration on real data that ship with river.

    The data (ImageSegments) are 2310 instances of 7 classes. Four classes are known. The other three appear in the
    stream one after the other. The demonstration saves the tables that it reads (labelled.csv, stream.csv,
    truth.csv), model.osr, decisions.jsonl with its checkpoint, and events.jsonl.

    Example: stream-osr demo --seed 3
    """
    from stream_osr_connectors.cli import demo_result
    from stream_osr_connectors.terminal import Terminal

    out, files = Terminal(), DemoFiles.within(output)
    training, stream = split(seed)
    files.write(training, stream)
    labels = [segment.label for segment in stream]
    demo_result.introduce(out, KNOWN, NEW, len(training), labels)
    model = make_recognizer(seed=seed)
    decide(model, files, len(training), len(stream))
    demo_result.trained(out, model.trained.report)
    found = demo_result.read(files.decisions, files.events, labels, KNOWN)
    demo_result.tell(out, found, model, NEW)
    demo_result.what_next(out, found, model, files)


def split(seed: int, known: Sequence[str] = KNOWN, new: Sequence[str] = NEW) -> tuple[list[Segment], list[Segment]]:
    """Split the data into a training set and a stream.

    Of each known class, 60 % of the instances are for training. The others appear in the stream in random order. The
    new classes begin after a quarter, a half and three quarters of the known instances, and continue at random
    positions.
    """
    from river.datasets import ImageSegments

    rng = random.Random(seed)
    of_class: dict[str, list[Segment]] = {}
    for x, y in ImageSegments():  # type: ignore[no-untyped-call]  # river leaves its constructor untyped
        of_class.setdefault(y, []).append(Segment(x, y))
    training: list[Segment] = []
    timed: list[tuple[float, Segment]] = []
    for label in known:
        rng.shuffle(of_class[label])
        cut = int(TRAINING_SHARE * len(of_class[label]))
        training += of_class[label][:cut]
        timed += [(rng.random(), segment) for segment in of_class[label][cut:]]
    for number, label in enumerate(new):
        begin = (number + 1) / (len(new) + 1)
        timed += [(rng.uniform(begin, 1.0), segment) for segment in of_class[label]]
    rng.shuffle(training)
    return training, [segment for _, segment in sorted(timed, key=lambda pair: pair[0])]


def make_recognizer(**arguments: Any) -> OpenSetRecognizer:
    """Create the recognizer of the demonstration. Only the batch size differs from the defaults."""
    from stream_osr import OpenSetRecognizer

    return OpenSetRecognizer(**{"batch_size": 64, **arguments})


def decide(model: OpenSetRecognizer, files: DemoFiles, n_training: int, n_stream: int) -> None:
    """Train on the labelled table and decide the stream, with the loop of ``stream-osr run``."""
    from stream_osr_connectors.cli.stream_summary import Phases
    from stream_osr_connectors.files import Record, open_sink, open_source
    from stream_osr_connectors.files.file_run import FileRun, Sinks
    from stream_osr_connectors.terminal import Terminal

    with Phases(Terminal(stderr=True), lines=True) as phases:
        show = phases.begin(f"training on {n_training} instances", model.value.parameters.training_sweeps)
        with open_source(files.labelled, label=LABEL) as source:
            for record in source:
                if isinstance(record, Record):
                    model.learn_one(record.features, record.label)
        model.freeze(progress=show)
        show = phases.begin(f"deciding {n_stream} instances", n_stream)
        with (
            open_source(files.stream, key=KEY) as source,
            open_sink(files.decisions) as decisions,
            open_sink(files.events) as events,
        ):
            run = FileRun(model, source, Sinks(decisions, events), files.checkpoint)
            run.progress = show
            run.run()
    model.save(files.model)

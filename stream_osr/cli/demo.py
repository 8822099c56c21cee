"""The command ``stream-osr demo``: river's ImageSegments, some classes known, the others appearing one by one."""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from stream_osr.cli.telling import progress_bar
from stream_osr.terminal import Terminal
from stream_osr_connectors import open_sink

if TYPE_CHECKING:
    from stream_osr.decision import Decision
    from stream_osr.discovery.events import Event, SubclassEmerged
    from stream_osr.recognizer import OpenSetRecognizer

KNOWN = ("brickface", "cement", "grass", "path")
NEW = ("sky", "foliage", "window")
TRAINING_SHARE = 0.6


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the three files.")] = Path("demo-output"),
    seed: Annotated[int, typer.Option(help="Of the split and of the recognizer.")] = 2,
) -> None:
    """Show the main job on real data: river's ImageSegments, bundled, 2310 instances of 7 classes.

    Four classes are known; the other three appear in the stream one after the other. Leaves decisions.jsonl,
    events.jsonl and model.osr.

    Example: stream-osr demo --seed 3
    """
    console, out = Terminal(stderr=True), Terminal()
    training, stream = split(seed)
    model, tally = make_recognizer(seed=seed), Tally(stream)
    output.mkdir(parents=True, exist_ok=True)
    saved, decided, told = (output / name for name in ("model.osr", "decisions.jsonl", "events.jsonl"))
    out.say(f"Known classes: {', '.join(KNOWN)}. New ones, in order: {', '.join(NEW)}.")
    with progress_bar(console, total=True) as bar:
        task = bar.add_task("training", total=len(training))
        for segment in training:
            model.learn_one(segment.features, segment.label)
            bar.advance(task)
        report = model.freeze()
        bar.remove_task(task)
        out.say(*str(report).split("\n"), "")
        with open_sink(decided) as decisions, open_sink(told) as events:
            for seq, segment in enumerate(bar.track(stream, description="streaming")):
                model.learn_one(segment.features, key=seq)
                if seq == len(stream) - 1:
                    model.flush()
                for decision in model.drain():
                    tally.decided(decision)
                    decisions.write(decision.as_dict())
                for event in model.drain_events():
                    tally.happened(event)
                    events.write(event.as_dict())
    model.save(saved)
    show(tally, model, out)
    out.say("", f"Every decision is in {decided}, every event in {told}.")
    out.say(f"Pictures: stream-osr report {saved} {decided} {told} (extra: plot)")


class Segment(NamedTuple):
    """One instance of the demonstration's stream, with the label that the recognizer is not told."""

    features: dict[str, float]
    label: str


def split(seed: int) -> tuple[list[Segment], list[Segment]]:
    """Make the training part and the stream.

    60 % of each known class train. The rest of the known classes runs through the whole stream in random order; the
    new classes switch on one after the other, after a quarter, a half and three quarters of the known instances,
    and go on at random among them.
    """
    from river.datasets import ImageSegments  # slow to import, and no other command needs it

    rng = random.Random(seed)
    of_class: dict[str, list[Segment]] = {}
    for x, y in ImageSegments():  # type: ignore[no-untyped-call]  # river leaves its constructor untyped
        of_class.setdefault(y, []).append(Segment(x, y))
    training: list[Segment] = []
    timed: list[tuple[float, Segment]] = []
    for label in KNOWN:
        rng.shuffle(of_class[label])
        cut = int(TRAINING_SHARE * len(of_class[label]))
        training += of_class[label][:cut]
        timed += [(rng.random(), segment) for segment in of_class[label][cut:]]
    for number, label in enumerate(NEW):
        begin = (number + 1) / (len(NEW) + 1)
        timed += [(rng.uniform(begin, 1.0), segment) for segment in of_class[label]]
    rng.shuffle(training)
    return training, [segment for _, segment in sorted(timed, key=lambda pair: pair[0])]


class Tally:
    """What is counted while the demonstration runs."""

    def __init__(self, stream: list[Segment]) -> None:
        from stream_osr.evaluation.metrics import OpenSetReport  # likewise

        self.stream, self.report = stream, OpenSetReport(KNOWN, "unknown")
        self.counts: Counter[tuple[str, str]] = Counter()
        self.announced: list[tuple[SubclassEmerged, str]] = []

    def decided(self, decision: Decision) -> None:
        """Count one decision against the truth."""
        truth = self.stream[decision.seq].label
        self.report.update(truth, decision.label)
        self.counts[truth, str(decision.label)] += 1

    def happened(self, event: Event) -> None:
        """Note what emerged: the subclass, and the true class of most of its exemplars."""
        from stream_osr.discovery.events import SubclassEmerged

        if isinstance(event, SubclassEmerged):
            truth = Counter(self.stream[key].label for key in event.exemplars).most_common(1)[0][0]
            self.announced.append((event, truth))


def show(tally: Tally, model: OpenSetRecognizer, console: Terminal) -> None:
    """Print what came of it."""
    emerged = _table("What emerged, and when", "at", "subclass", "mostly", "like", "but for", right=(0,))
    for event, truth in tally.announced:
        name, value = max(event.explanation.shift.items(), key=lambda item: abs(item[1]))
        nearest = f"{event.explanation.nearest_class}, {event.explanation.distance:.0f} sd off"
        emerged.add_row(str(event.seq), f"S{event.subclass_id}", truth, nearest, f"{name} {value:+.1f} sd")
    console.print(emerged)
    for label in NEW:
        console.print(_first_told(tally, label))

    console.print()
    columns = (*KNOWN, "unknown")
    decisions = _table("Decisions", "truth", *columns, right=range(1, len(columns) + 1))
    for truth in (*KNOWN, *NEW):
        name = truth if truth in KNOWN else f"{truth} (new)"
        decisions.add_row(name, *(str(tally.counts[truth, label] or ".") for label in columns))
    console.print(decisions)

    report = tally.report
    confusion = _table("Known or unknown", "truth", "called known", "called unknown", right=(1, 2))
    for truth, row in zip(("known", "unknown"), report.confusion, strict=True):
        confusion.add_row(truth, *map(str, row))
    console.print(confusion)
    console.print(f"micro-F over the known classes  {report.micro_f:.3f}")
    console.print(f"recall of the unknown           {report.unknown_recall:.3f}")
    console.print(f"known instances labelled right  {report.known_accuracy:.3f}")
    console.print()
    console.say(*str(model.summary()).split("\n"))


def _table(title: str, *headings: str, right: Iterable[int]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number in right else "left", no_wrap=True)
    return table


def _first_told(tally: Tally, label: str) -> str:
    came = [seq for seq, segment in enumerate(tally.stream) if segment.label == label]
    told = next((event.seq for event, truth in tally.announced if truth == label), None)
    when = "never announced" if told is None else f"announced at {told}, when {bisect(came, told)} of it had come"
    return f"{label}: first instance at {came[0]}, {when}"


def make_recognizer(**arguments: Any) -> OpenSetRecognizer:
    """Make the recognizer of the demonstration: defaults, but for a batch that suits 1518 instances."""
    from stream_osr.recognizer import OpenSetRecognizer

    return OpenSetRecognizer(**{"batch_size": 32, **arguments})

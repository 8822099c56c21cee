"""Summary of the demonstration: the stream, the announcements, and their accuracy."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from stream_osr.printable_text import counted

if TYPE_CHECKING:
    from stream_osr import OpenSetRecognizer, TrainingReport
    from stream_osr.discovery.new_classes import NewClasses
    from stream_osr_connectors.cli.demo_files import DemoFiles
    from stream_osr_connectors.summary.truth import Truth
    from stream_osr_connectors.terminal import Terminal

WIDTH = 80
"""Largest width of the output, in columns."""
MOST_WIDTH = 1000
"""Largest width of a table, in columns."""
KNOWN_STYLE, NEW_STYLE = "blue", "dark_orange"
"""Blue is known, orange is new, as in the report."""
UNKNOWN = "unknown"
COMMAND = "stream-osr"
BLOCKS = "·▁▂▃▄▅▆▇█"
"""Heights of a bar, from zero to full."""
PLAIN = ".:-=+*%@#"
"""Heights of a bar in ASCII."""
ARROW, PLAIN_ARROW = "▲", "^"


class Announced(NamedTuple):
    """A subclass that was announced, with its largest difference and the most frequent true class of the examples."""

    id: int
    seq: int
    differs: str
    truth: str


class DemoResult(NamedTuple):
    """Result of the demonstration: the output of the run compared with the true labels.

    Attributes
    ----------
    labels
        True label of each instance of the stream.
    known
        The known classes.
    announced
        The announcements, in order.
    truth
        Decisions against true labels.
    """

    labels: Sequence[str]
    known: Sequence[str]
    announced: Sequence[Announced]
    truth: Truth


class Strip(NamedTuple):
    """A stream as a line of text with a fixed number of columns.

    Attributes
    ----------
    length
        Instances of the stream, at least one.
    width
        Columns, at least one.
    plain
        Draw in ASCII.

    Examples
    --------
    >>> strip = Strip(length=12, width=4)
    >>> strip.bars([3, 4, 6, 7, 8, 9, 10, 11])
    '·▆██'
    >>> strip.bars([])
    '····'
    >>> strip.mark(1, "S1")
    '▲ S1'
    >>> strip.mark(11, "S2")
    'S2 ▲'
    >>> Strip(length=12, width=4, plain=True).bars([0, 1, 2])
    '#...'
    """

    length: int
    width: int
    plain: bool = False

    def column(self, seq: int) -> int:
        """Return the column of an instance."""
        return min(seq * self.width // self.length, self.width - 1)

    def bars(self, seqs: Iterable[int]) -> str:
        """Draw the share of these instances in each column."""
        of_kind = self._count(seqs)
        letters = PLAIN if self.plain else BLOCKS
        steps = len(letters) - 1
        # rounded up: a single instance shows
        sizes = self._count(range(self.length))
        heights = [-(-steps * n // max(total, 1)) for n, total in zip(of_kind, sizes, strict=True)]
        return "".join(letters[height] for height in heights)

    def mark(self, seq: int, words: str) -> str:
        """Draw an arrow at an instance, with text on the right or, if it does not fit there, on the left."""
        arrow, at = PLAIN_ARROW if self.plain else ARROW, self.column(seq)
        if at + 2 + len(words) > self.width and len(words) < at:
            return f"{words} ".rjust(at) + arrow
        return f"{' ' * at}{arrow} {words}"

    def _count(self, seqs: Iterable[int]) -> list[int]:
        counts = [0] * self.width
        for seq in seqs:
            counts[self.column(seq)] += 1
        return counts


def read(decisions: Path, events: Path, labels: Sequence[str], known: Sequence[str]) -> DemoResult:
    """Read the output of a run and compare it with the true labels."""
    from stream_osr_connectors.summary.state import State

    state = State([""], events=True)
    for number, decision in enumerate(_lines(decisions)):
        state.decision(0, number, number, {**decision, "true_label": labels[decision["seq"]]})
    announced = [_announced(event, labels) for event in _lines(events) if event["type"] == "SubclassEmerged"]
    return DemoResult(labels, known, announced, state.truth)


def _announced(event: dict[str, Any], labels: Sequence[str]) -> Announced:
    feature, shift = max(event["explanation"]["shift"].items(), key=lambda item: abs(item[1]))
    truth = Counter(labels[int(key)] for key in event["exemplars"]).most_common(1)[0][0]
    return Announced(event["subclass_id"], event["seq"], f"{feature} {shift:+.0f} sd", truth)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def introduce(
    out: Terminal, known: Sequence[str], new: Sequence[str], n_training: int, labels: Sequence[str]
) -> None:
    """Print the known classes, the new ones, and the stream."""
    out.say(
        "The instances are small pieces of outdoor photographs (river's ImageSegments).",
        f"  known classes  {', '.join(known)}",
        f"                 The model trains on {n_training} labelled instances of them.",
        f"  new classes    {', '.join(new)}",
        "                 The training data contain none of them.",
        f"  stream         {len(labels)} instances without labels",
        "                 The new classes begin one after the other.",
        "",
    )


def trained(out: Terminal, report: TrainingReport) -> None:
    """Print the expected recall."""
    low, high = report.recall_interval or (report.known_recall, report.known_recall)
    out.say(
        f"After training, the model expects to label {100 * report.known_recall:.1f} % of the known",
        f"instances in the stream correctly (95 % interval: {100 * low:.1f} to {100 * high:.1f} %).",
        "",
    )


def tell(out: Terminal, found: DemoResult, model: OpenSetRecognizer, new: Sequence[str]) -> None:
    """Print the result."""
    _draw(out, found, new)
    out.say("", *(_when(found, label) for label in new), "")
    classes = model.new_classes()
    _candidates(out, found, classes)
    out.say(f"Estimated number of new classes: {classes.estimate}, true number: {len(new)}", "")
    _decisions(out, found, new)


def _draw(out: Terminal, found: DemoResult, new: Sequence[str]) -> None:
    """Draw the stream: one row for the known classes, and one for each new class with its announcement."""
    side = max(map(len, ("known", *new))) + 2
    width = max(min(out.console.width, WIDTH) - side, 20)
    strip = Strip(len(found.labels), width, plain=out.console.options.ascii_only)
    arrow = PLAIN_ARROW if strip.plain else ARROW
    out.console.print(Text(f"The stream from left to right: {len(found.labels)} instances", "bold"))
    out.say(f"A taller bar means a larger share. At {arrow} the model announces a new group.")
    known = (seq for seq, label in enumerate(found.labels) if label in found.known)
    out.console.print(_row("known", strip.bars(known), side, KNOWN_STYLE))
    for label in new:
        out.console.print(_row(label, strip.bars(_places(found, label)), side, NEW_STYLE))
        if (first := _first(found, label)) is not None:
            out.console.print(" " * side + strip.mark(first.seq, f"group S{first.id}"))


def _row(name: str, bars: str, side: int, style: str) -> Text:
    return Text(name.ljust(side)) + Text(bars, style)


def _places(found: DemoResult, label: str) -> list[int]:
    return [seq for seq, truth in enumerate(found.labels) if truth == label]


def _first(found: DemoResult, label: str) -> Announced | None:
    return next((each for each in found.announced if each.truth == label), None)


def _when(found: DemoResult, label: str) -> str:
    came, first = _places(found, label), _first(found, label)
    when = "never announced"
    if first is not None:
        when = f"announced at {first.seq}, after {counted(bisect(came, first.seq), f'{label} instance')}"
    return f"{label}: begins at instance {came[0]}, {when}"


def _candidates(out: Terminal, found: DemoResult, classes: NewClasses) -> None:
    """Print the candidates with their true classes."""
    from stream_osr.evaluation.composition import in_words

    title = f"{counted(len(classes.candidates), 'group')} of similar unknown instances"
    table = _table(title, "group", "size", "true class", "nearest", "largest difference", right=(1,))
    for candidate in classes.candidates:
        truly = in_words(found.truth.held_by(candidate.subclasses), most=1)
        differs = next((each.differs for each in found.announced if each.id in candidate.subclasses), "")
        table.add_row(candidate.name, str(candidate.size), truly, str(candidate.nearest_class), differs)
    _show(out, table)
    out.say(
        "A class can form several groups. Differences are from the nearest class, in", "standard deviations (sd).", ""
    )


def _decisions(out: Terminal, found: DemoResult, new: Sequence[str]) -> None:
    """Print the confusion matrix."""
    columns = (*found.known, UNKNOWN)
    title = "Number of instances by true class (rows) and label (columns)"
    table = _table(title, "true class", *columns, right=range(1, len(columns) + 1))
    for truth in (*found.known, *new):
        name = f"{truth} (new)" if truth in new else truth
        table.add_row(name, *(str(found.truth.counts[truth, truth in new, label] or ".") for label in columns))
    _show(out, table)
    out.say(
        f"known instances with the right label  {100 * found.truth.known_right:.1f} %",
        f"new instances labelled unknown        {100 * found.truth.unknown_found:.1f} %",
        "",
    )


def what_next(out: Terminal, found: DemoResult, model: OpenSetRecognizer, files: DemoFiles) -> None:
    """Print the output folder and three commands to try next."""
    from stream_osr.evaluation.composition import main_class

    named = {name: shlex.quote(str(path)) for name, path in files._asdict().items()}
    of, program = files.decisions.parent, shlex.quote(_program())
    out.say(
        f"Folder of the decisions, the events, the tables and the model: {of}",
        "Commands to try next:",
        "",
        "# write charts of the new classes and of the accuracy to report.html",
        f"{program} report {named['checkpoint']} \\",
        f"    {named['decisions']} {named['events']} \\",
        f"    --truth {named['truth']} --key key --label label -o report.html",
        "# show the stream on a live page (Ctrl-C ends it)",
        f"{program} watch {named['decisions']}",
    )
    for candidate in model.new_classes().candidates:
        if (name := main_class(found.truth.held_by(candidate.subclasses))) is not None:
            ids = ",".join(map(str, candidate.subclasses))
            out.say(
                f"# name {candidate.name}: {name} becomes a known class",
                f"{program} promote {ids} {name} \\",
                f"    --checkpoint {named['checkpoint']}",
            )
            break


def _program() -> str:
    """Return the command as a shell can find it: by its path, unless its environment is active."""
    begun = Path(sys.argv[0])
    if begun.name != COMMAND or shutil.which(COMMAND) == str(begun.absolute()):
        return COMMAND
    return os.path.relpath(begun)


def _table(title: str, *headings: str, right: Collection[int]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        justify: Literal["left", "right"] = "right" if number in right else "left"
        table.add_column(heading, justify=justify, no_wrap=True, min_width=4)
    return table


def _show(out: Terminal, table: Table) -> None:
    """Print a table at its full width. On a narrow terminal its lines wrap."""
    table.width = Measurement.get(out.console, out.console.options.update(max_width=MOST_WIDTH), table).maximum
    out.console.print(table)

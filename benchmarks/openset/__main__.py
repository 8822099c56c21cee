"""Measure open-set recognition: sets, openness, methods, seeds, by the paper's protocol.

What has been measured is kept in a results file and not measured again: an interrupted run goes on where it was.
Lists are separated by commas, seeds may be ranges: ``--datasets PENDIGITS,COIL20 --seeds 0-4``.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.openset import results, tables
from benchmarks.openset.cells import Cell, plan, units
from benchmarks.openset.methods import ENTRIES, GROUPS, names
from benchmarks.openset.running import run_all
from benchmarks.openset.sets import FIVE, LEVELS, SETTINGS
from benchmarks.paper.datasets import DATA_VARIABLE, data_directory, path_of
from benchmarks.tabular import TABLES

console = Console()

app = typer.Typer(add_completion=False)

Number = TypeVar("Number", int, float)


@app.command()
def main(
    datasets: Annotated[
        str, typer.Option(help="Data sets; five: the paper's; tables: the breadth; or all.")
    ] = "five",
    openness: Annotated[
        str, typer.Option(help="Levels among closed, medium, high; all of them; curve: six numbers of classes.")
    ] = "all",
    methods: Annotated[
        str, typer.Option(help="Methods, files of methods, or all (--list-methods names them).")
    ] = "stream-osr",
    batch_size: Annotated[str, typer.Option(help="Instances decided together; full: the whole test part.")] = "64",
    seeds: Annotated[str, typer.Option(help="Seeds of split and method.")] = "0-9",
    decision_delay: Annotated[str, typer.Option(help="Instances that a decision may wait for.")] = "0",
    epsilon: Annotated[
        str, typer.Option(help="Smallest share of a known subclass; default: the method's.")
    ] = "default",
    test_share: Annotated[str, typer.Option(help="Share of the test part, chosen at random.")] = "1",
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    json: Annotated[Path, typer.Option(help="Results file, added to and read again.")] = Path("accuracy.jsonl"),
    figures: Annotated[Path | None, typer.Option(help="Draw figures of all results into this folder.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables of all results to this file.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Measure failed cells again.")] = False,
    draw_only: Annotated[bool, typer.Option("--draw-only", help="Measure nothing: tables and figures only.")] = False,
    list_methods: Annotated[bool, typer.Option("--list-methods", help="Name the methods and stop.")] = False,
) -> None:
    """Measure accuracy by the paper's protocol; print tables, draw figures.

    What has been measured is kept in the results file and not measured again: an interrupted run goes on where it
    was. Lists are separated by commas, seeds may be ranges: --datasets PENDIGITS,COIL20 --seeds 0-4.
    """
    if list_methods:
        for name in names():
            print(f"{name}: {ENTRIES[name].about}")
        print("\n".join(f"{group}: all of {', '.join(of)}" for group, of in GROUPS.items()))
        return
    complete = True
    if not draw_only:
        cells = plan(
            datasets=_chosen(datasets, tuple(SETTINGS), "--datasets", {"five": FIVE, "tables": TABLES}),
            levels=_chosen(openness, (*LEVELS, "curve"), "--openness", {"all": LEVELS}),
            methods=_chosen(methods, names(), "--methods", GROUPS),
            batch_sizes=[_batch_size(text) for text in batch_size.split(",")],
            seeds=_seeds(seeds),
            delays=[_number(text, int, "--decision-delay") for text in decision_delay.split(",")],
            epsilons=[
                None if text == "default" else _number(text, float, "--epsilon") for text in epsilon.split(",")
            ],
            shares=[_number(text, float, "--test-share") for text in test_share.split(",")],
        )
        complete = _measure(cells, json, jobs, retry)
    records = results.done(results.read(json).values())
    if records:
        tables.show(records, console)
        if markdown is not None:
            markdown.parent.mkdir(parents=True, exist_ok=True)
            markdown.write_text(tables.markdown(records), encoding="utf-8")
        if figures is not None:
            from benchmarks.openset.figures import draw_all

            for path in draw_all(records, figures):
                console.print(f"drawn: {path}")
    if not complete:
        raise typer.Exit(1)


def _measure(cells: list[Cell], path: Path, jobs: int, retry: bool) -> bool:
    """Measure what is not in the file; return whether everything asked for has been measured by now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = results.read(path)
    absent = sorted({c.dataset for c in cells if not path_of(c.dataset).is_file()})
    if absent:
        console.print(
            f"{', '.join(absent)} not found in {data_directory()}: set {DATA_VARIABLE} to the folder of the files, "
            "or leave them out with --datasets"
        )
        return False
    missing = [cell for cell in cells if cell not in known or (retry and known[cell]["status"] == "failed")]
    failed = sum(cell in known and known[cell]["status"] == "failed" for cell in cells if cell not in missing)
    console.print(f"{len(cells)} cells, {len(cells) - len(missing)} of them in {path}")
    if failed:
        console.print(f"{failed} of those failed; --retry measures them again")
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    progress = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console)
    try:
        with progress:
            task = progress.add_task("measuring", total=len(missing))
            for cell, error in run_all(units(missing), path, jobs):
                progress.advance(task)
                if error is not None:
                    failed += 1
                    progress.console.print(f"failed: {cell}: {error}", style="red", markup=False)
    except KeyboardInterrupt:
        console.print(f"interrupted; what was measured is in {path}, the same command goes on from there")
        raise typer.Exit(130) from None
    except BrokenProcessPool:
        console.print(f"a process was killed (out of memory?); what was measured is in {path}; fewer --jobs may help")
        return False
    return not failed


def _chosen(text: str, of: tuple[str, ...], option: str, groups: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Read a list of names and of names of groups; names may hold commas themselves. A group's name goes first."""
    offered = {**{name: (name,) for name in of}, "all": of}
    by_name = {name.lower(): names for name, names in offered.items()}
    by_name |= {name.lower(): tuple(each for each in names if each in of) for name, names in groups.items()}
    found: dict[str, None] = {}
    rest = text.strip().lower()
    while rest:
        first = max((name for name in by_name if f"{rest},".startswith(f"{name},")), key=len, default=None)
        if first is None:
            wrong = rest.split(",")[0]
            raise typer.BadParameter(f"{wrong!r} is none of {', '.join((*of, *groups))}", param_hint=option)
        found |= dict.fromkeys(by_name[first])
        rest = rest[len(first) + 1 :].strip()
    return list(found)


def _batch_size(text: str) -> int | Literal["full"]:
    return "full" if text.strip() == "full" else _number(text, int, "--batch-size")


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin = _number(first, int, "--seeds")
        found.extend(range(begin, (_number(last, int, "--seeds") if last else begin) + 1))
    return found


def _number(text: str, kind: type[Number], option: str) -> Number:
    try:
        return kind(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no {kind.__name__}", param_hint=option) from None


if __name__ == "__main__":
    app()

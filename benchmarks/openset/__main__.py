"""Measure accuracy by the paper's protocol.

What has been measured is kept in a results file and not measured again: an interrupted run goes on where it was.
Lists are separated by commas, seeds may be ranges: ``--datasets PENDIGITS,COIL20 --seeds 0-4``.
"""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.openset import results, tables
from benchmarks.openset.cells import LEVELS, SETTINGS, Cell, plan, units
from benchmarks.openset.methods import names
from benchmarks.openset.running import run_all
from stream_osr.evaluation import data_directory
from stream_osr.evaluation.datasets import DATA_VARIABLE

console = Console()

app = typer.Typer(add_completion=False)

Choice = TypeVar("Choice", bound=str)
Number = TypeVar("Number", int, float)


@app.command()
def main(
    datasets: Annotated[str, typer.Option(help="Data sets, or all.")] = "all",
    openness: Annotated[str, typer.Option(help="Levels among closed, medium, high, or all.")] = "all",
    methods: Annotated[str, typer.Option(help="Methods, or all (--list-methods names them).")] = "stream-osr",
    batch_size: Annotated[str, typer.Option(help="Instances decided together; full: the whole test part.")] = "64",
    seeds: Annotated[str, typer.Option(help="Seeds of split and method.")] = "0-9",
    decision_delay: Annotated[str, typer.Option(help="Instances that a decision may wait for.")] = "0",
    epsilon: Annotated[
        str, typer.Option(help="Smallest share of a known subclass; default: the method's.")
    ] = "default",
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
        print("\n".join(names()))
        return
    complete = True
    if not draw_only:
        cells = plan(
            datasets=_chosen(datasets, tuple(SETTINGS), "--datasets"),
            levels=_chosen(openness, LEVELS, "--openness"),
            methods=_chosen(methods, names(), "--methods"),
            batch_sizes=[_batch_size(text) for text in batch_size.split(",")],
            seeds=_seeds(seeds),
            delays=[_number(text, int, "--decision-delay") for text in decision_delay.split(",")],
            epsilons=[
                None if text == "default" else _number(text, float, "--epsilon") for text in epsilon.split(",")
            ],
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
    absent = sorted({c.dataset for c in cells if not (data_directory() / f"{c.dataset}.npz").is_file()})
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


def _chosen(text: str, of: tuple[Choice, ...], option: str) -> list[Choice]:
    if text == "all":
        return list(of)
    by_name = {name.lower(): name for name in of}
    wanted = [part.strip() for part in text.split(",")]
    for name in wanted:
        if name.lower() not in by_name:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(of)}", param_hint=option)
    return [by_name[name.lower()] for name in wanted]


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

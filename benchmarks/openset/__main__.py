"""Measure open-set recognition: sets, openness, methods, seeds, by the paper's protocol.

What has been measured is kept in a results file and not measured again: an interrupted run goes on where it was.
Lists are separated by commas, seeds may be ranges: ``--datasets PENDIGITS,COIL20 --seeds 0-4``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.openset import tables
from benchmarks.openset.cells import Cell, done, measure, plan, read, units
from benchmarks.openset.methods import ENTRIES, GROUPS, names
from benchmarks.openset.sets import FIVE, LEVELS, SETTINGS
from benchmarks.records import append, run_all, seeds_of

app = typer.Typer(add_completion=False)


@app.command()
def main(
    datasets: Annotated[str, typer.Option(help="Data sets; five: the paper's; or all.")] = "five",
    openness: Annotated[
        str, typer.Option(help="Levels among closed, medium, high; all of them; curve: six numbers of classes.")
    ] = "all",
    methods: Annotated[
        str, typer.Option(help="Methods, files of methods, or all (--list-methods names them).")
    ] = "stream-osr",
    seeds: Annotated[str, typer.Option(help="Seeds of split and method.")] = "0-9",
    decision_delay: Annotated[str, typer.Option(help="Instances that a decision may wait for.")] = "0",
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
    failed = 0
    if not draw_only:
        cells = plan(
            datasets=_chosen(datasets, tuple(SETTINGS), "--datasets", {"five": FIVE}),
            levels=_chosen(openness, (*LEVELS, "curve"), "--openness", {"all": LEVELS}),
            methods=_chosen(methods, names(), "--methods", GROUPS),
            seeds=seeds_of(seeds),
            delays=map(int, decision_delay.split(",")),
            shares=map(float, test_share.split(",")),
        )
        failed = _measure(cells, json, jobs, retry)
    if records := done(read(json).values()):
        print(text := tables.markdown(records))
        if markdown is not None:
            markdown.write_text(text, encoding="utf-8")
        if figures is not None:
            from benchmarks.openset.figures import draw_all

            for path in draw_all(records, figures):
                print(f"drawn: {path}")
    if failed:
        raise typer.Exit(1)


def _measure(cells: list[Cell], path: Path, jobs: int, retry: bool) -> int:
    """Measure what is not in the file; return how many of the cells asked for have failed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = read(path)
    missing = [cell for cell in cells if cell not in known or (retry and known[cell]["status"] == "failed")]
    failed = sum(cell in known and known[cell]["status"] == "failed" for cell in cells if cell not in missing)
    print(f"{len(cells)} cells, {len(cells) - len(missing)} of them in {path}")
    if failed:
        print(f"{failed} of those failed; --retry measures them again")
    for number, record in enumerate(run_all(measure, units(missing), jobs), start=1):
        append(path, record)
        error = f"failed: {record['error']}" if record["status"] == "failed" else "measured"
        failed += record["status"] == "failed"
        print(f"{number} of {len(missing)}, {Cell.from_record(record)}: {error}", file=sys.stderr)
    return failed


def _chosen(text: str, of: tuple[str, ...], option: str, groups: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Read a list of names and of names of groups; names may hold commas themselves. A group's name goes first."""
    by_name = {name.lower(): (name,) for name in of} | {"all": of}
    by_name |= {name.lower(): tuple(each for each in names if each in of) for name, names in groups.items()}
    found: dict[str, None] = {}
    rest = text.strip().lower()
    while rest:
        first = max((name for name in by_name if f"{rest},".startswith(f"{name},")), key=len, default=None)
        if first is None:
            raise typer.BadParameter(f"{rest!r} begins with none of {', '.join((*of, *groups))}", param_hint=option)
        found |= dict.fromkeys(by_name[first])
        rest = rest[len(first) + 1 :].strip()
    return list(found)


if __name__ == "__main__":
    app()

"""The command ``stream-osr report``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, cast

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import counted
from stream_osr_connectors.cli import stream_summary
from stream_osr_connectors.cli.options import argument, option, takes
from stream_osr_connectors.terminal import Terminal


@dataclass(kw_only=True)
class ReportOptions:
    """Options of ``stream-osr report``."""

    files: list[Path] = argument(
        "A model or checkpoint, a decisions file, an events file: at most one of each, in any order.", default=...
    )
    output: Path = option("HTML file to write.", "--output", "-o", default=Path("report.html"))
    truth: Path | None = option("File with the true labels (.csv, .jsonl, .csv.gz, .jsonl.gz, .parquet).")
    label: str | None = option("Label column in --truth.", "--label", "-l")
    key: str | None = option(
        "Key column in --truth and --input. Without it, rows must be in the order of the decisions."
    )
    input: Path | None = option("Input of the run (.csv, .jsonl, .parquet), to show examples.", "--input", "-i")
    stream: str | None = option("Key of the stream to show, of a run with --by.")
    format: str | None = option("Format if a file name does not show it: csv, tsv, jsonl or parquet.")
    title: str = option("Title of the page.", default="Stream report")


@takes(ReportOptions)
def report(given: ReportOptions) -> None:
    """Write a report page on a model and its decisions (extra: plot).

    The page is one self-contained HTML file.

    Example: stream-osr report decisions.jsonl.checkpoint decisions.jsonl events.jsonl -o report.html
    """
    from stream_osr_connectors.page.live.file_commands import FileActs
    from stream_osr_connectors.page.report import keys_page, report_page
    from stream_osr_connectors.page.report.files import read_files, read_instances, read_truth

    output, truth, label, key, input = given.output, given.truth, given.label, given.key, given.input
    format = cast(Any, given.format)
    if truth is not None and label is None:
        raise ConnectorError(f"--truth {truth} needs --label: the name of the label column")
    if output.resolve() in {path.resolve() for path in (*given.files, *([truth] if truth else []))}:
        raise ConnectorError(f"--output {output} is one of the input files. Give it another name")
    if given.stream is not None and key is None and (truth is not None or input is not None):
        raise ConnectorError(
            "--stream with --truth or --input needs --key, because the files have rows of other keys"
        )
    inputs = read_files(given.files, given.stream)
    if inputs.keys is not None:
        page = keys_page(given.title, inputs.keys, partial(_report_of, given.files))
        _write(output, page)
        keys = counted(len(inputs.keys), "key")
        Terminal(stderr=True).say(f"report of {keys} written to {output}. --stream KEY reports one of them")
        return
    if inputs.model is None and inputs.decisions is None and not inputs.events:
        raise ConnectorError("the files are empty: there is nothing to report")
    if truth is not None and inputs.decisions is None:
        raise ConnectorError("--truth needs decisions. Give the decisions file as well")
    decisions, truths = inputs.decisions, None
    if truth is not None and label is not None and decisions is not None:
        labels = read_truth(truth, label, key, format)
        decisions, truths = labels.beside(decisions, inputs.notes), labels.of
    instances = None if input is None else read_instances(input, inputs.notes, key, format)
    acts = None if inputs.checkpoint is None else FileActs(inputs.checkpoint, allowed=False, stream=given.stream)
    records = inputs.model, decisions, inputs.events, truths
    page = report_page(*records, given.title, inputs.notes, instances, acts=acts)
    _write(output, page)
    console = Terminal(stderr=True)
    for note in inputs.notes:
        console.say(note)
    path, name = (input, "--input") if truth is None else (truth, "--truth")
    if key is None and path is not None:
        without = f"rows of {name} were matched with the decisions by their order"
        stream_summary.suggest_key(console, path, format, [label], without)
    size = output.stat().st_size / 1e6
    console.say(f"report written to {output} ({size:.1f} MB). Open it in a browser")


def _write(output: Path, page: str) -> None:
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConnectorError(f"cannot write {output}: {error.strerror}. Check that the folder exists") from None


def _report_of(files: list[Path], by: str) -> str:
    """Return the command that writes the report of a key."""
    return f"stream-osr report {' '.join(quote(str(path)) for path in files)} --stream {quote(by)}"

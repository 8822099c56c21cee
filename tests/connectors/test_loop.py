"""The loop over files: records without the model's features are set aside, and what is set aside is counted once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.errors import ConnectorError, RefusedState
from stream_osr_connectors.files import FrameSource, MemorySink, MemorySource, Record, open_sink, open_source
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.file_run import FileRun, Sinks
from tests.blobs import around
from tests.connectors.models import NAMES, streaming
from tests.file_runs import run
from tests.test_cli import lines_of

LINES = [
    '{"a": 1, "b": 1, "c": 1, "y": null}',
    '{"A": 1, "B": 1, "c": 1, "note": "n"}',
    '{"a": 1, "b": 1}',
    '{"A": 1, "B": 1, "C": 1}',
    '{"a": "high", "b": 1, "c": 1}',
    '{"a": 1, "b": ',
    '{"a": 1, "b": 1, "c": 1, "y": "unknown"}',
    '{"a": null, "b": 1, "c": null, "y": "left"}',
    '{"features": {"x": 1}, "a": 1, "b": 1, "c": 1}',
    '{"a": 9, "b": 9, "c": 9}',
]
SAID = {
    2: "1 of the model's 3 features is there .*: expected 'a', 'b' as well, found 'A', 'B', 'note', 'c'. Name",
    4: "none of the model's 3 features is there .*: expected 'a', 'b', 'c', found 'A', 'B', 'C'. Name the fields",
    5: "feature 'a' is 'high'",
    6: "not JSON",
    7: "'unknown'",
    8: "expected 'a', 'c' as well, found 'y', 'a', 'b', 'c'",
    9: "none of the model's 3 features .* found 'x'",
}


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(("on_missing", "decided"), [("impute", 3), ("skip", 2)])
def test_lines_without_the_features_are_set_aside_with_the_names(
    trained: TrainedModel, tmp_path: Path, on_missing: str, decided: int
) -> None:
    model, decisions, errors = streaming(trained, on_missing=on_missing), MemorySink(), MemorySink()
    with open_source(write(tmp_path / "in.jsonl", LINES), label="y", features=NAMES) as source:
        totals = run(model, source, Sinks(decisions, None, errors))
    assert [record["row"] for record in errors.records] == list(SAID)
    for record, said in zip(errors.records, SAID.values(), strict=True):
        assert re.search(said, str(record["reason"])), record
    assert (totals["read"], totals["set_aside"], len(decisions.records)) == (10, 7, decided)
    assert (model.counters["refused"], model.counters["unlike"]) == (7, 0)
    assert model.signals.data_quality == 8, "each of them once, and the one that lacks a value"


def test_before_training_has_ended_features_may_come(tmp_path: Path) -> None:
    model = OpenSetRecognizer(chains=1, batch_size=4, seed=5)
    rng = np.random.default_rng(3)
    labelled = [Record(x, label="left") for x in around([0.0] * 3, 30, rng, NAMES)]
    first = [Record({"z": 1.0}, label="left")]
    totals = run(model, MemorySource([*first, *labelled, {"a": 1.0, "b": 1.0, "c": 1.0}]), Sinks(MemorySink()))
    assert (totals["labelled"], totals["decided"]) == (31, 1)
    assert model.counters["refused"] == 0


ONES = '{"a": 1, "b": 1, "c": 1, '
BEYOND = [
    ONES + '"y": "%s"}' % ("l" * 300_000),
    ONES + '"y": "half a \\ud800"}',
    ONES + '"y": "third"}',
    ONES + '"id": "half a \\ud800"}',
    ONES + '"id": "%s"}' % ("k" * 5000),
    ONES + '"id": 9223372036854775808}',
    ONES + '"id": %s}' % ("[" * 30_000),
    ONES + '"id": %s}' % ("9" * 5000),
]


def test_what_is_beyond_the_bounds_is_set_aside(trained: TrainedModel, tmp_path: Path) -> None:
    """The files are written: half of a surrogate pair in a key could not be."""
    model, lines = streaming(trained, max_classes=2), [*BEYOND, ONES + '"id": "fine"}']
    with (
        open_source(write(tmp_path / "in.jsonl", lines), key="id", label="y", features=NAMES) as source,
        open_sink(tmp_path / "out.jsonl") as decisions,
        open_sink(tmp_path / "errors.jsonl") as errors,
    ):
        totals = run(model, source, Sinks(decisions, None, errors))
    assert totals == {"read": 9, "set_aside": 8, "decided": 1}
    assert model.signals.data_quality == 8
    said = [line["reason"] for line in lines_of(tmp_path / "errors.jsonl")]
    expected = ["300000 bytes", "surrogate", "max_classes allows 2", "surrogate", "5000 bytes", "64 bits"]
    assert [why in reason for why, reason in zip(expected, said, strict=False)] == [True] * 6
    assert [line["key"] for line in lines_of(tmp_path / "out.jsonl")] == ["fine"]


def test_a_checkpoint_that_could_not_be_read_again_leaves_the_one_before(
    trained: TrainedModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, path = streaming(trained), tmp_path / "checkpoint"
    source = MemorySource([dict.fromkeys(NAMES, float(i % 3)) for i in range(30)])

    def break_it() -> bool:
        if one.totals["read"] == 15:  # as a defect would, after the first checkpoint
            stream = model.value.running[1]
            excess = np.full_like(stream.odds.excess, np.nan)
            model.value = replace(model.value, stream=stream._replace(odds=stream.odds._replace(excess=excess)))
        return False

    one = FileRun(model, source, Sinks(MemorySink()), checkpoint=path, checkpoint_every=10, stop=break_it)
    with pytest.raises(RefusedState, match="checkpoint is not written"):
        one.run()
    assert one.totals["read"] == 30
    assert one.totals["checkpoints_refused"] == 2
    assert len([line for line in caplog.messages if "checkpoint is not written" in line]) == 2
    assert load_checkpoint(path).totals["read"] == 10


# Frames


def test_a_run_takes_an_iterator_of_frames_and_names_the_frame_and_the_row(trained: TrainedModel) -> None:
    import pandas as pd

    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=[*NAMES]).assign(key=range(30))
    frames = [rows[at : at + 10].reset_index(drop=True) for at in (0, 10, 20)]
    frames[1] = frames[1].astype({"b": object})
    frames[1].loc[4, "b"] = "high"
    given = [*frames, frames[0][[*NAMES]], [{"a": 1.0, "b": 1.0}]]
    decisions, errors = MemorySink(), MemorySink()
    totals = run(streaming(trained), FrameSource(iter(given), key="key"), Sinks(decisions, None, errors))
    assert (totals["read"], totals["decided"], totals["set_aside"]) == (32, 29, 3)
    assert [each["key"] for each in decisions.records] == [n for n in range(30) if n != 14]
    assert [(each["row"], each["reason"].partition(" is ")[0]) for each in errors.records] == [
        (4, "frame 1: feature 'b'"),
        (0, "frame 3: there"),
        (0, "frame 4: the rows are list and have no column 'key'. Give data frames"),
    ]
    source = FrameSource(iter(frames), key="key")
    source.seek({"index": 12, "file": "frame 1", "row": 1})
    assert next(source).key == 12  # type: ignore[union-attr]
    with pytest.raises(
        ConnectorError, match=r"after 13 rows of an iterator of frames\. Make a source of a new iterator"
    ):
        source.seek({"index": 12})
    with pytest.raises(ConnectorError, match=r"there are 30 rows\. Give an iterator that begins"):
        source.seek({"index": 31})

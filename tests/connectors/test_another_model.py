"""A run over files that continues under another model."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError, InvalidParameter
from stream_osr_connectors.files import MemorySink, open_sink, open_source
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.file_run import FileRun, Sinks
from stream_osr_connectors.files.streams import keyed_of
from tests.blobs import around, fitted, fitted_once, learn_all, stream_part, training_part
from tests.file_runs import run
from tests.processes import COMMAND
from tests.processes import run as call

ARGUMENTS: dict[str, Any] = {"batch_size": 32, "chains": 1, "window": 32, "seed": 5}
RUN = (*COMMAND, "run", "-i", "in.csv", "-m", "model.osr", "-e", "events.jsonl")


def table(path: Path, n: int) -> None:
    rows = [f"{i},{x['a']},{x['b']}" for i, (x, _) in enumerate(stream_part(500)[:n])]
    path.write_text("\n".join(["id,a,b", *rows]) + "\n")


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl"])
def test_the_command_line_refuses_another_model_or_carries_the_subclasses_over(tmp_path: Path, name: str) -> None:
    """With another class than before, which a table has no column for."""
    fitted_once(**ARGUMENTS).save(tmp_path / "model.osr")
    table(tmp_path / "in.csv", 300)
    given = (*RUN, "--key", "id", "-o", name)
    assert call(*given, cwd=tmp_path).returncode == 0
    later = OpenSetRecognizer(**{**fitted(**ARGUMENTS).arguments, "chains": 1})
    learn_all(later, [*training_part(40), *((x, "far") for x in around((60.0, 60.0), 40, np.random.default_rng(3)))])
    later.freeze()
    later.save(tmp_path / "model.osr")
    table(tmp_path / "in.csv", 500)
    before = (tmp_path / name).read_bytes()
    refused = call(*given, "--resume", cwd=tmp_path)
    assert refused.returncode == 1
    assert "--on-model-change carry" in refused.stderr
    assert (tmp_path / name).read_bytes() == before
    carried = call(*given, "--resume", "--on-model-change", "carry", cwd=tmp_path)
    assert carried.returncode == 0, carried.stderr
    assert "the model model.osr continues from here" in carried.stderr
    with (tmp_path / name).open() as file:
        found: list[dict[str, Any]]
        found = [*csv.DictReader(file)] if name.endswith("csv") else [json.loads(line) for line in file]
    assert len(found) == 500
    emerged = {event["subclass_id"] for event in load_events(tmp_path) if event["type"] == "SubclassEmerged"}
    assert emerged
    ids = {int(each["subclass_id"]) for each in found[332:] if each.get("label") == "unknown" and each["subclass_id"]}
    assert ids & emerged, "the ids stay"
    again = call(*given, "--resume", cwd=tmp_path)
    assert again.returncode == 0, again.stderr


def load_events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def opened(folder: Path) -> tuple[Any, Sinks]:
    sinks = Sinks(open_sink(folder / "o.jsonl"), open_sink(folder / "e.jsonl"))
    return open_source(folder / "in.csv", key="id"), sinks


def test_a_process_that_dies_before_the_checkpoint_repeats_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, later = fitted_once(**ARGUMENTS), fitted(60, **ARGUMENTS)
    table(tmp_path / "in.csv", 300)
    source, sinks = opened(tmp_path)
    run(first, source, sinks, until=210, checkpoint=tmp_path / "c")
    source.close()
    for sink in sinks[:2]:
        sink.close()
    contents = []
    for dies in (True, False, False):
        source, sinks = opened(tmp_path)
        following = OpenSetRecognizer.from_trained(later.trained, **later.arguments)
        started = load_checkpoint(tmp_path / "c")
        with monkeypatch.context() as patch:
            if dies:
                patch.setattr(FileRun, "_save", lambda self: (_ for _ in ()).throw(ConnectorError("it dies")))
                with pytest.raises(ConnectorError, match="it dies"):
                    FileRun.go_on(started, source, sinks, following, checkpoint=tmp_path / "c")
            elif not contents:
                assert (
                    FileRun.go_on(started, source, sinks, following, checkpoint=tmp_path / "c").run()["read"] == 300
                )
            else:
                with pytest.raises(InvalidParameter, match="features differ"):
                    FileRun.go_on(started, source, sinks, unlike(), checkpoint=tmp_path / "c")
        source.close()
        for sink in sinks[:2]:
            sink.close()
        if not dies:
            contents.append((tmp_path / "o.jsonl").read_bytes())
    assert contents[0] == contents[1], "a model with other features changes nothing"
    assert contents[0].count(b"\n") == 300


def unlike() -> OpenSetRecognizer:
    model = OpenSetRecognizer(**{**fitted_once(**ARGUMENTS).arguments})
    learn_all(model, [({"a": x["a"], "c": x["b"]}, label) for x, label in training_part(40)])
    model.freeze()
    return model


def test_results_after_the_checkpoint_are_not_replaced_by_those_of_another_model(tmp_path: Path) -> None:
    """The last run was killed. It continues with its model, and then with another one."""
    fitted_once(**ARGUMENTS).save(tmp_path / "model.osr")
    table(tmp_path / "in.csv", 300)
    given = (*RUN, "--key", "id", "-o", "out.jsonl")
    assert call(*given, cwd=tmp_path).returncode == 0
    with (tmp_path / "out.jsonl").open("a") as file:
        file.write('{"key": 300}\n')
    first = (tmp_path / "model.osr").read_bytes()
    fitted_once(60, **ARGUMENTS).save(tmp_path / "model.osr")
    carry = (*given, "--resume", "--on-model-change", "carry")
    refused = call(*carry, cwd=tmp_path)
    assert "out.jsonl has decisions after the checkpoint" in refused.stderr
    later = (tmp_path / "model.osr").read_bytes()
    (tmp_path / "model.osr").write_bytes(first)
    assert call(*carry, cwd=tmp_path).returncode == 0
    (tmp_path / "model.osr").write_bytes(later)
    assert call(*carry, cwd=tmp_path).returncode == 0


def test_omitted_options_stay_and_a_delay_may_end(tmp_path: Path) -> None:
    """With contributions, which a delay excludes."""
    first = {**ARGUMENTS, "decision_delay": 20, "min_probability": 0.5, "half_life": 80.0}
    fitted_once(**first).save(tmp_path / "model.osr")
    table(tmp_path / "in.csv", 300)
    given = (*RUN, "--key", "id", "-o", "out.jsonl")
    assert call(*given, cwd=tmp_path).returncode == 0
    fitted_once(60, **ARGUMENTS).save(tmp_path / "model.osr")
    table(tmp_path / "in.csv", 400)
    more = ("--resume", "--on-model-change", "carry", "--decision-delay", "0", "--contributions", "1")
    carried = call(*given, *more, cwd=tmp_path)
    assert carried.returncode == 0, carried.stderr
    arguments = load_checkpoint(tmp_path / "out.jsonl.checkpoint").model.arguments
    assert (arguments["min_probability"], arguments["half_life"], arguments["decision_delay"]) == (0.5, 80.0, 0)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert ["contributions" in each for each in lines] == 300 * [False] + 100 * [True]


def test_a_late_label_of_a_stored_key_does_not_prevent_the_change(tmp_path: Path) -> None:
    """The run was stopped, so that the label waits in the stored recognizer of the key."""
    rows = [f"{i},{x['a']},{x['b']},pump,{'left' if i == 32 else ''}" for i, (x, _) in enumerate(stream_part(60))]
    (tmp_path / "in.csv").write_text("\n".join(["id,a,b,device,y", *rows]) + "\n")
    first, later, checkpoint, out = (
        fitted_once(**ARGUMENTS),
        fitted_once(60, **ARGUMENTS),
        tmp_path / "c",
        MemorySink(),
    )
    reading: dict[str, Any] = {"key": "id", "label": "y", "by": "device", "features": ["a", "b"]}
    with open_source(tmp_path / "in.csv", **reading) as source:
        run(first, source, Sinks(out), until=33, checkpoint=checkpoint, keyed=keyed_of(first, checkpoint))
    started = load_checkpoint(checkpoint)
    keyed = keyed_of(started.model, checkpoint, started.keys)
    with open_source(tmp_path / "in.csv", **reading) as source:
        one = FileRun.go_on(started, source, Sinks(out), later, checkpoint=checkpoint, keyed=keyed)
        assert one.run()["read"] == 60
    assert len(out.records) == 59


@pytest.mark.parametrize("by", [(), ("--by", "id")])
def test_contributions_of_delayed_decisions_are_refused_at_the_start(tmp_path: Path, by: tuple[str, ...]) -> None:
    fitted_once(**{**ARGUMENTS, "decision_delay": 20}).save(tmp_path / "model.osr")
    table(tmp_path / "in.csv", 10)
    refused = call(*RUN, "-o", "out.jsonl", "--contributions", "2", *by, cwd=tmp_path)
    assert "contributions need decision_delay=0" in refused.stderr
    assert not (tmp_path / "out.jsonl.checkpoint").exists()


def test_decisions_without_computable_contributions_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(self: OpenSetRecognizer, X: Any, *, top: int | None = None) -> Any:
        raise FloatingPointError("no numbers")

    monkeypatch.setattr(OpenSetRecognizer, "contributions_many", fail)
    table(tmp_path / "in.csv", 64)
    out = MemorySink()
    with open_source(tmp_path / "in.csv", key="id") as source:
        run(fitted_once(**ARGUMENTS), source, Sinks(out), contributions=1)
    assert len(out.records) == 64
    assert not any("contributions" in each for each in out.records)

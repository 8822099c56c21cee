"""Contributions of features to a log-odds: exact sums, the order of the features, categories, gaps, chains."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import Limits, OpenSetRecognizer
from stream_osr.errors import InvalidParameter, NotTrained
from stream_osr.model import log_odds_parts
from stream_osr_connectors.files import open_sink, open_source
from stream_osr_connectors.files.checkpoint import load_checkpoint
from stream_osr_connectors.files.file_run import FileRun, Sinks
from stream_osr_connectors.files.streams import keyed_of
from tests.blobs import further, learn_all
from tests.file_runs import run
from tests.test_cli import call, lines_of, succeeded

CLOSE = 1e-9
KINDS = {"left": (0.0, "x"), "right": (8.0, "y")}


def rows(n: int, label: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Three correlated numbers, a category with a usual value, and one-hot columns of another category."""
    centre, usual = KINDS[label]
    out = []
    for a, b, c in rng.multivariate_normal([centre, 0, 0], [[1, 0.8, 0], [0.8, 1, 0.5], [0, 0.5, 1]], n).tolist():
        hot = rng.integers(3)
        x = {"a": a, "b": b, "c": 100 * c, **{f"hot {k}": float(hot == k) for k in range(3)}}
        out.append({**x, "kind": usual if rng.random() < 0.9 else "z"})
    return out


def trained(names: str = "", **arguments: Any) -> OpenSetRecognizer:
    """A recognizer whose stream has known and new instances, without a reference check: p_unknown is of densities."""
    rng = np.random.default_rng(5)
    model = OpenSetRecognizer(seed=3, batch_size=32, limits=Limits(references=0), **arguments)
    training = [(x, label) for label in KINDS for x in rows(120, label, rng)]
    stream = rows(24, "left", rng) + [{**x, "c": x["c"] + 2000.0} for x in rows(40, "right", rng)]
    part = [*training, *((x, None) for x in stream)]
    return learn_all(model, [({name: x[name] for name in names or x}, label) for x, label in part])


def log_odds(model: OpenSetRecognizer, x: dict[str, Any]) -> float:
    """Log-odds of unknown that the model predicts."""
    p = [*model.predict_proba_one(x).values()]
    return float(np.log(p[-1]) - np.log(sum(p[:-1])))


def test_of_features_in_one_direction_the_one_far_from_the_mean_is_first() -> None:
    """Without one of them the model has no value of the others either, so all changes are equal."""
    forms = np.zeros((2, 2, 2))
    forms[:, 0, 0] = 0.1, 0.2
    shape, two = np.array([[0.0, 0.0], [5.0, 5.0], [0.0, 0.0]]), np.arange(2)
    fixed = forms, shape, np.zeros((2, 0)), np.ones((3, 1)), np.tile(forms[:, :1, 0], 3), two, two[:1]
    row, sides = np.array([[4.0, 1.0]]), np.array([[True, False]])
    query = log_odds_parts.QueryForms(row, np.zeros((1, 0), int), *fixed, np.array([[0.5, 3.0, 0.5]]), shape[:, :0].T)
    parts = log_odds_parts.split_log_odds(query, sides, ~sides, np.zeros((1, 2)))
    assert parts.order.tolist() == [[1, -1, -1]]
    assert parts.contributions[0, 1] > 1.0
    assert np.flatnonzero(parts.contributions[0]).tolist() == [1]


@pytest.mark.parametrize("chains", [1, *further(4)])
def test_contributions_are_changes_of_the_prediction(chains: int) -> None:
    """Each number, removed in turn, changes the predicted log-odds by its contribution. An unusual one is first."""
    model, rng = trained("abc", chains=chains), np.random.default_rng(6)
    before = model.state_bytes()
    some = [*rows(3, "left", rng), *({**x, "c": x["c"] + 700.0} for x in rows(3, "right", rng))]
    some = [{name: x[name] for name in "abc"} for x in some]
    some[0]["b"] = None
    for at, (x, found) in enumerate(zip(some, model.contributions_many(some), strict=True)):
        left, now, moved = x.copy(), found.unknown.log_odds, at >= 3
        assert not moved or found.unknown.features[0].name == "c"
        assert abs(now - log_odds(model, x)) < CLOSE
        for each in found.unknown.features:
            changes = {name: now - log_odds(model, {**left, name: None}) for name in left}
            assert abs(each.contribution - changes[each.name]) < CLOSE
            assert (moved and each.name == "c") or abs(each.contribution) > max(map(abs, changes.values())) - CLOSE
            del left[each.name]
            now -= each.contribution
        assert not left
        assert abs(now - found.unknown.prior - found.unknown.rest) < CLOSE
        assert abs(found.unknown.rest) < CLOSE
    assert model.state_bytes() == before


def test_categories_and_gaps_are_part_of_the_sum() -> None:
    """One-hot columns are one feature, a missing category is a value, and a missing number contributes 0."""
    model, rng = trained(), np.random.default_rng(7)
    some = rows(4, "left", rng)
    some[0]["b"] = some[1]["kind"] = None
    some[2]["kind"], some[3]["kind"] = "never seen", "y"
    for x, found in zip(some, model.contributions_many(some), strict=True):
        for odds in (found.unknown, found.nearest):
            assert odds is not None
            total = sum(each.contribution for each in odds.features)
            assert {each.name for each in odds.features} == {"a", "b", "c", "kind", "hot 0 and 2 more"}
            assert {each.name for each in odds.features if each.value is None} == {n for n in x if x[n] is None}
            assert abs(odds.log_odds - odds.prior - total - odds.rest) < CLOSE
            assert abs(odds.rest) < CLOSE
        assert abs(found.unknown.log_odds - log_odds(model, x)) < CLOSE
    first, *_, last = model.contributions_many(some)
    assert last.nearest is not None
    assert first.unknown.features[-1] == ("b", None, 0.0)
    kind = next(each for each in last.nearest.features if each.name == "kind")
    assert kind.value == "y"
    assert kind.contribution * (1 if last.nearest.label == "right" else -1) > 1.0
    for short, long in zip(model.contributions_many(some, top=2), model.contributions_many(some), strict=True):
        others = sum(each.contribution for each in long.unknown.features[2:])
        assert short.unknown.features == long.unknown.features[:2]
        assert abs(short.unknown.rest - others - long.unknown.rest) < CLOSE


def test_texts_and_errors() -> None:
    model = trained()
    found = model.contributions_one({"a": 0.5, "b": 0.1, "c": 900.0, "kind": "\x1b[2J"}, top=1)
    head, nearest = str(found).split("\n")
    assert head.startswith("unknown against all known classes: log-odds +")
    assert "; c 900: +" in head
    assert nearest.split(":")[0] in ("left against right", "right against left")
    plain = found.as_dict()
    assert plain["unknown"]["features"][0]["name"] == "c"
    assert {plain["nearest"]["label"], plain["nearest"]["against"]} == {*KINDS}
    with pytest.raises(InvalidParameter, match="top is 0"):
        model.contributions_one({"a": 1.0}, top=0)
    with pytest.raises(NotTrained):
        OpenSetRecognizer().contributions_many([{"a": 1.0}])
    assert model.contributions_many([]) == []


def write(path: Path | str, records: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(f"{json.dumps(each)}\n" for each in records))


def stream(n: int) -> list[dict[str, Any]]:
    """Records of a file: some have a label, gaps, a new category, or cannot be used."""
    rng = np.random.default_rng(9)
    out = [{"id": f"r{at}", **x} for at, x in enumerate(rows(n // 2, "left", rng) + rows(n - n // 2, "right", rng))]
    for at, x in enumerate(out):
        x["t"] = float(at + 40 * (at > 30))
        x["b"] = None if at % 5 == 0 else x["b"]
        x["kind"] = "never seen" if at % 7 == 0 else x["kind"]
        x["a"] = "text" if at % 11 == 3 else x["a"]
        x["y"] = "left" if at % 13 == 4 and at < n // 2 else None
    return out


def test_files_have_the_contributions_of_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an interruption: the decisions of a resumed run are those of a run in one go."""
    monkeypatch.chdir(tmp_path)
    OpenSetRecognizer.from_trained(trained(chains=1).trained, batch_size=16, max_wait=30.0).save("model.osr")
    records = stream(70)
    write("in.jsonl", records)

    def partly(output: str, until: int | None) -> None:
        with open_source("in.jsonl", key="id", time="t", label="y") as source, open_sink(output) as sink:
            model = OpenSetRecognizer.load("model.osr")
            run(model, source, Sinks(sink), until=until, checkpoint=f"{output}.checkpoint", contributions=2)

    partly("out.csv", None)
    whole = Path("out.csv").read_bytes()
    partly("again.csv", 41)
    started = load_checkpoint("again.csv.checkpoint")
    assert started.model.pending, "an unfinished micro-batch has to be restored"
    with open_source("in.jsonl", key="id", time="t", label="y") as source, open_sink("again.csv") as sink:
        FileRun.go_on(started, source, Sinks(sink), contributions=2).run()
    assert Path("again.csv").read_bytes() == whole
    by_key = {each["id"]: each for each in records}
    decided = [*csv.DictReader(whole.decode().splitlines())]
    assert len(decided) > 50
    for each in decided:
        features = json.loads(each["contributions"])["unknown"]["features"]
        assert len(features) == 2
        for feature in features:
            value = by_key[each["key"]].get(feature["name"], feature["value"])
            assert feature["value"] == ("a new value" if value == "never seen" else value)


@pytest.mark.thorough
def test_a_key_has_the_contributions_of_a_run_with_its_records(tmp_path: Path) -> None:
    """Although recognizers sleep."""
    prepared = trained(chains=1).trained
    records = [{**each, "by": "ab"[at % 3 == 0]} for at, each in enumerate(stream(150))]
    fields: dict[str, Any] = {"key": "id", "time": "t", "label": "y", "by": "by", "features": [*records[0]][1:-3]}

    def decided(name: str, those: list[dict[str, Any]], model: OpenSetRecognizer, **more: Any) -> list[Any]:
        write(tmp_path / "in.jsonl", those)
        with open_source(tmp_path / "in.jsonl", **fields) as source, open_sink(tmp_path / name) as sink:
            run(model, source, Sinks(sink), contributions=2, **more)
        return lines_of(tmp_path / name)

    def fresh() -> OpenSetRecognizer:
        return OpenSetRecognizer.from_trained(prepared, batch_size=16, max_wait=30.0)

    model, checkpoint = fresh(), tmp_path / "checkpoint"
    keyed = keyed_of(model, checkpoint, None)
    keyed.memory = 1
    found = decided("all.jsonl", records, model, keyed=keyed, checkpoint=checkpoint)
    for by in "ab":
        alone = decided(f"{by}.jsonl", [each for each in records if each["by"] == by], fresh())
        assert [each for each in found if each["by"] == by] == [{"by": by, **each} for each in alone]
        assert len(alone) > 30
        assert all(each["contributions"]["unknown"]["features"] for each in alone)


def test_the_command_line_writes_contributions(tmp_path: Path) -> None:
    OpenSetRecognizer.from_trained(trained(chains=1).trained, batch_size=16).save(tmp_path / "model.osr")
    write(tmp_path / "in.jsonl", stream(40))
    given = ("run", "-m", "model.osr", "-i", "in.jsonl", "--key", "id", "-o", "out.csv", "--contributions", "1")
    done = succeeded(tmp_path, *given)
    with (tmp_path / "out.csv").open() as file:
        assert all(json.loads(each["contributions"])["unknown"]["features"] for each in csv.DictReader(file))
    done = call(*given, "--decision-delay", "3", cwd=tmp_path)
    assert (done.returncode, "contributions need decision_delay=0" in done.stderr) == (1, True)

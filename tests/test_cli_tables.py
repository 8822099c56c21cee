"""Files of every kind through `stream-osr fit`, `run` and `report`: options, errors, Parquet."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.files.checkpoint import load_checkpoint
from tests.blobs import further
from tests.processes import COMMAND, Process
from tests.test_cli import call, lines_of, succeeded, table

if TYPE_CHECKING:
    import pandas as pd


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables as CSV and Parquet, folders of parts of them, and a model with three chains."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(5)
    train = table(["red", "blue"] * 100, rng)
    stream = table([str(each) for each in rng.choice(["red", "blue", "green"], 600)], rng)
    for name, frame in (("train", train), ("stream", stream)):
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet", row_group_size=70)
    for name in ("many-csv", "many-parquet"):
        (folder / name).mkdir()
    for number in range(3):
        part = stream[number * 200 : (number + 1) * 200]
        part.to_csv(folder / "many-csv" / f"day{number}.csv", index=False)
        part.to_parquet(folder / "many-parquet" / f"day{number}.parquet")
    succeeded(folder, *FIT, "--categorical", "port", "--chains", 3, "--decision-delay", 4, "--half-life", 300)
    return folder


FIT = ("fit", "train.csv", "-l", "colour", "--features", "a,b,c,port", "-o", "model.osr")
RUN = ("run", "-m", "model.osr", "--key", "id", "--batch-size", 16, "--checkpoint-every", 100)


@pytest.fixture
def work(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def frame(rows: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows)


def read_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".jsonl":
        return pd.read_json(path, lines=True)
    return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")


def run(work: Path, *arguments: object) -> str:
    return succeeded(work, *RUN, *arguments).stderr


def failed(work: Path, *arguments: object) -> str:
    done = call(*arguments, cwd=work)
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()[-1]


# What can be set


def test_options_of_fit_are_part_of_the_model(work: Path) -> None:
    model = OpenSetRecognizer.load(work / "model.osr")
    assert (model.decision_delay, model.half_life, model.min_probability) == (4, 300.0, 0.0)
    assert len(model.trained.draws) == 3
    assert set(model.trained.values["port"]) == {"22", "80", "443"}
    call(*FIT, "--min-probability", 0.6, "--chains", 1, "-o", "other.osr", cwd=work)
    assert OpenSetRecognizer.load(work / "other.osr").min_probability == 0.6
    assert "min_probability is 2" in failed(work, *FIT, "--min-probability", 2)


def test_run_changes_what_can_change(work: Path) -> None:
    run(work, "-i", "stream.csv", "-o", "a.jsonl")
    begun = load_checkpoint(work / "a.jsonl.checkpoint").model
    assert (begun.decision_delay, begun.half_life, len(begun.trained.draws)) == (4, 300.0, 3)
    changed = ("--decision-delay", 0, "--half-life", 50, "--min-probability", 0.9, "--chains", 2)
    run(work, "-i", "stream.csv", "-o", "b.jsonl", *changed)
    model = load_checkpoint(work / "b.jsonl.checkpoint").model
    assert (model.decision_delay, model.half_life, model.min_probability) == (0, 50.0, 0.9)
    assert len(model.trained.draws) == len(model.trained.references.log_density) == 2
    decided = lines_of(work / "b.jsonl")
    assert all(d["label"] == "unknown" or d["probability"] >= 0.9 for d in decided)
    assert lines_of(work / "a.jsonl") != decided
    said = failed(work, *RUN, "-i", "stream.csv", "-o", "c.jsonl", "--chains", 4)
    assert "chains is 4: the model was trained with 3. Take 1 to 3, or train with more" in said


def test_a_category_of_a_run_has_to_be_one_of_the_model(work: Path) -> None:
    run(work, "-i", "stream.csv", "-o", "a.jsonl", "--categorical", "port")
    said = failed(work, *RUN, "-i", "stream.csv", "-o", "b.jsonl", "--categorical", "a")
    assert "--categorical a: this column was a number in training" in said
    said = failed(work, *RUN, "-i", "stream.csv", "-o", "b.jsonl", "--categorical", "nr")
    assert "this is none of the model's features (a, b, c, port)" in said
    assert not (work / "b.jsonl").exists()


@pytest.mark.thorough
def test_options_that_differ_on_resuming_are_refused_or_reported(work: Path) -> None:
    first = ("-i", "stream.csv", "-o", "a.csv", "--errors", "e.csv", "--chains", 2)
    assert "a.csv.checkpoint does not exist. The run starts from the beginning" in run(work, *first, "--resume")
    before = {path.name: path.read_bytes() for path in work.iterdir() if path.is_file()}
    keyless = [each for each in RUN if each not in ("--key", "id")]
    for options, more, begun in (
        (RUN, "--batch-size 32", "--batch-size 16"),
        (RUN, "--decision-delay 8", "--decision-delay 4"),
        (RUN, "--half-life 50", "--half-life 300.0"),
        (RUN, "--max-wait 3", "--max-wait None"),
        (RUN, "--chains 1", "--chains 2"),
        (keyless, "", "--key id"),
        (keyless, "--key nr", "--key id"),
        (RUN, "--time nr", "no --time"),
        (RUN, "--features a,b", "--features a,b,c,port"),
        (RUN, "--csv-raw", "--csv-safe"),
    ):
        said = failed(work, *options, *first, "--resume", *more.split())
        assert f"{more or 'no --key'} with --resume: the run was begun with {begun}" in said
    assert {path.name: path.read_bytes() for path in work.iterdir() if path.is_file()} == before
    more = work / "stream.csv"
    more.write_text(more.read_text() + more.read_text().partition("\n")[2])
    said = run(work, *first, "--resume", "--min-probability", 0.9, "--half-life", 300)
    assert "--min-probability is 0.9 from here on. It was 0" in said
    assert load_checkpoint(work / "a.csv.checkpoint").model.min_probability == 0.9
    assert "from here on" not in run(work, *first, "--resume", "--min-probability", 0.9)
    said = failed(work, "run", "-m", "model.osr", "-i", "stream.csv", "--key", "id", "--resume")
    assert "this run has none. Name it with --checkpoint" in said


@pytest.mark.thorough
def test_a_run_that_begins_anew_says_what_it_replaces(work: Path) -> None:
    first = ("-i", "stream.csv", "-o", "a.jsonl", "-e", "e.jsonl")
    assert "replaced" not in run(work, *first)
    replaced = "a.jsonl and its checkpoint (600 records) are replaced. Use --resume to continue instead"
    assert replaced in run(work, *first)
    (found,) = load_checkpoint(work / "a.jsonl.checkpoint").model.new_classes().candidates
    ids = ",".join(map(str, found.subclasses))
    assert call("promote", ids, "green", "--checkpoint", "a.jsonl.checkpoint", cwd=work).returncode == 0
    assert "replaced" not in run(work, *first, "--resume")
    assert "a.jsonl and its checkpoint (600 records, 1 name given) are replaced. " in run(work, *first)
    other = ("-i", "stream.csv", "-o", "b.jsonl", "--checkpoint", "a.jsonl.checkpoint")
    assert "the checkpoint a.jsonl.checkpoint (600 records) is replaced. " in run(work, *other)
    (work / "a.jsonl.checkpoint").write_text("no checkpoint")
    assert "replaced" not in run(work, *first)


@pytest.mark.parametrize("kind", ["jsonl", *further("csv", "parquet")])
def test_a_run_that_cannot_go_on_makes_no_files(work: Path, kind: str) -> None:
    first = ("-i", "stream.csv", "-o", f"a.{kind}", "--checkpoint", "c")
    run(work, *first, "-e", f"e.{kind}")
    (work / f"e.{kind}").rename(work / f"moved.{kind}")
    before = sorted(path.name for path in work.iterdir())
    said = failed(work, *RUN, *first, "-e", f"e.{kind}", "--resume")
    assert f"e.{kind} is missing. The checkpoint expects it, with " in said
    assert " of events. Give the name from the start of the run" in said
    said = failed(work, *RUN, *first, "-e", f"moved.{kind}", "--errors", f"bad.{kind}", "--resume")
    assert "errors was not given when the checkpoint was written and is given here" in said
    assert sorted(path.name for path in work.iterdir()) == before
    run(work, *first, "-e", f"moved.{kind}", "--resume")


# What was forgotten


@pytest.mark.parametrize("name", ["train.csv", *further("train.parquet")])
def test_fit_refuses_a_feature_that_names_the_instances(work: Path, name: str) -> None:
    command = ("fit", name, "-l", "colour", "-o", "new.osr")
    said = failed(work, *command)
    assert f"column 'id' of {name} looks like no feature (it is text, and no two of the 200 values" in said
    assert "did you mean --key id?" in said
    said = failed(work, *command, "--key", "id")
    assert "column 'nr'" in said
    assert "count up by one" in said
    assert "did you mean" not in said
    assert not (work / "new.osr").exists()
    succeeded(work, *command, "--key", "id", "--features", "nr,a,b")
    assert "features: a, b, c, nr, port" in succeeded(work, *command, "--key", "id", "--yes").stderr


def test_a_table_comes_from_standard_input_as_from_a_file(work: Path) -> None:
    for name, suffix in (("train.csv", "csv"), ("train.tsv", "tsv")):
        text = (work / "train.csv").read_text().replace(",", "," if suffix == "csv" else "\t")
        done = succeeded(work, "fit", "-", "--format", suffix, *FIT[2:], "-o", f"{name}.osr", input=text)
    call(*FIT, "-o", "file.osr", cwd=work)
    models = [OpenSetRecognizer.load(work / f"{name}.osr") for name in ("file", "train.csv", "train.tsv")]
    assert len({model.trained.fingerprint for model in models}) == 1
    done = call("fit", "-", "--format", "csv", "-l", "colour", "-o", "x.osr", input=text.replace("\t", ","), cwd=work)
    assert "column 'id' of standard input looks like no feature" in done.stderr


@pytest.mark.thorough
def test_run_and_report_ask_for_the_key_once(work: Path) -> None:
    no_key = [each for each in RUN if each not in ("--key", "id")]
    said = succeeded(work, *no_key, "-i", "stream.csv", "-o", "a.jsonl").stderr
    assert said.count("the decisions will have no key. Did you mean --key id?") == 1
    assert "did you mean" not in succeeded(work, *no_key, "-i", "stream.csv", "-o", "a.jsonl", "--resume").stderr
    files = ("report", "a.jsonl", "--truth", "stream.csv", "-l", "colour", "-o", "r.html")
    said = call(*files, cwd=work).stderr
    assert "rows of --truth were matched with the decisions by their order. Did you mean --key id?" in said
    run(work, "-i", "stream.csv", "-o", "a.jsonl")
    assert "did you mean" not in call(*files, "--key", "id", cwd=work).stderr
    read_table(work / "stream.csv").to_csv(work / "indexed.csv")  # a column without a name is no obstacle to a run
    succeeded(work, *no_key, "-i", "indexed.csv", "-o", "b.jsonl")


def test_what_is_set_aside_keeps_its_line(work: Path) -> None:
    lines = ['{"a": 1e0,  "b": "hot", "c": 1, "port": 80, "id": "x"}', '{"id": "y", "note": [1]}', "no record"]
    good = '{"a": 1, "b": 1, "c": 1, "port": 80, "id": "z"}'
    (work / "in.jsonl").write_text("\n".join([good, *lines]) + "\n")
    (work / "in.csv").write_text('id,a,b,c,port\nz,1,1,1,80\n"x",,,,\n')
    run(work, "-i", "in.jsonl", "-o", "a.jsonl", "--errors", "e.jsonl")
    assert [each["raw"] for each in lines_of(work / "e.jsonl")] == lines
    said = run(work, "-i", "in.csv", "-o", "b.jsonl", "--errors", "f.jsonl")
    assert [each["raw"] for each in lines_of(work / "f.jsonl")] == ['"x",,,,']
    assert "2 read, 1 decided, 0 events" in said
    frame([{"a": 1.0, "b": 1.0, "c": 1.0, "port": 80, "id": "z"}, {"id": "x"}]).to_parquet(work / "in.parquet")
    run(work, "-i", "in.parquet", "-o", "c.jsonl", "--errors", "g.jsonl")
    (bad,) = lines_of(work / "g.jsonl")
    assert json.loads(bad["raw"])["id"] == "x"


# Parquet and folders


@pytest.mark.parametrize("name", ["typed.parquet", "typed/day.parquet"])
def test_fit_says_which_columns_of_parquet_are_no_features(work: Path, name: str) -> None:
    train = read_table(work / "train.csv").drop(columns=["id", "nr"])
    train["f1"] = (1e9 * train["a"]).astype("timedelta64[ns]")
    train["when"] = np.datetime64("2026-01-01", "ns")
    (work / name).parent.mkdir(exist_ok=True)
    train.to_parquet(work / name)
    said = succeeded(work, "fit", Path(name).parts[0], "-l", "colour", "-o", "typed.osr").stderr
    assert "left out: 'f1' (duration), 'when' (timestamp)\n" in said
    assert "features: a, b, c, port\n" in said


def test_lists_of_text_alone_are_refused_before_they_are_read(work: Path) -> None:
    frame({"tags": [["a"]] * 40, "colour": ["red", "blue"] * 20}).to_parquet(work / "emb.parquet")
    said = failed(work, "fit", "emb.parquet", "-l", "colour", "-o", "emb.osr")
    assert "'tags' is list<string>. Convert a column, or give a struct column 'features'" in said
    assert not (work / "emb.osr").exists()


def test_an_embedding_in_one_column(work: Path) -> None:
    """Parquet and JSON Lines give the same model and decisions. Lists of another length are set aside."""
    for name in ("train", "stream"):
        table = read_table(work / f"{name}.csv")
        emb = [row.tolist() for row in table[["a", "b"]].to_numpy(np.float32)]
        columns = {"id": table["id"], "emb": emb, "c": table["c"], "tags": [["x"]] * len(table)}
        if name == "train":
            columns["colour"] = table["colour"]
        else:
            columns["emb"] = [[0.5], None, *emb[2:]]
        frame(columns).to_parquet(work / f"{name}-emb.parquet")
        lines = [json.dumps(row) for row in frame(columns).to_dict("records")]
        (work / f"{name}-emb.jsonl").write_text("\n".join(lines))
    for kind in ("parquet", "jsonl"):
        said = succeeded(work, "fit", f"train-emb.{kind}", "-l", "colour", "--key", "id", "-o", f"{kind}.osr").stderr
        assert "left out: 'tags' (list" in said
        assert "features: c, emb[0], emb[1]\n" in said
        outputs = ("-o", f"{kind}-out.jsonl", "--errors", f"{kind}-bad.jsonl", "--events", "events.jsonl")
        succeeded(work, "run", "-m", f"{kind}.osr", "-i", f"stream-emb.{kind}", "--key", "id", *outputs)
        (short, null) = lines_of(work / f"{kind}-bad.jsonl")
        message = "feature 'emb' is [0.5] (list): it has 1 number, and the lists of training have 2. Give"
        assert message in short["reason"]
        assert "1 of the model's 3 features is there (empty or null is missing)" in null["reason"]
    models = [OpenSetRecognizer.load(work / f"{kind}.osr").trained.fingerprint for kind in ("parquet", "jsonl")]
    assert models[0] == models[1]
    assert (work / "parquet-out.jsonl").read_bytes() == (work / "jsonl-out.jsonl").read_bytes()
    assert "emb[0]" in json.dumps(lines_of(work / "events.jsonl"))
    source = ("jsonl-out.jsonl.checkpoint", "jsonl-out.jsonl", "events.jsonl", "--input", "stream-emb.jsonl")
    succeeded(work, "report", *source, "--key", "id", "-o", "report.html")
    assert "emb[1]" in (work / "report.html").read_text()


def test_no_file_is_written_into_the_input_folder(work: Path) -> None:
    said = failed(work, *RUN, "-i", "many-csv", "-o", "many-csv/day3.csv")
    assert "--output many-csv/day3.csv is in the input folder" in said
    assert len(list((work / "many-csv").iterdir())) == 3


def contents(work: Path, *names: str) -> dict[str, bytes]:
    return {str(path.relative_to(work)): path.read_bytes() for name in names for path in (work / name).iterdir()}


@pytest.mark.parametrize("parts", [1, *further(3)])
def test_a_run_that_was_killed_leaves_the_same_parquet(work: Path, parts: int) -> None:
    outputs = ("o.parquet", "e.parquet", "bad.parquet")
    arguments = ("-i", "many-parquet", "-o", outputs[0], "-e", outputs[1], "--errors", outputs[2])
    run(work, *arguments)
    whole = contents(work, *outputs)
    assert len([name for name in whole if name.startswith("o.parquet")]) == 7, "one for each checkpoint, and the rest"
    for name in outputs:
        shutil.rmtree(work / name)
    (work / "o.parquet.checkpoint").unlink()
    process, until = Process((*COMMAND, *RUN, *arguments), cwd=work), time.monotonic() + 400
    while len(list(work.glob("o.parquet/part-*"))) < parts or not (work / "o.parquet.checkpoint").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert contents(work, *outputs) != whole
    assert "resuming after " in run(work, *arguments, "--resume")
    assert contents(work, *outputs) == whole


@pytest.mark.parametrize("kind", ["csv.gz", "parquet", *further("csv", "tsv", "jsonl")])
def test_every_output_has_every_format(work: Path, kind: str) -> None:
    """Events of several types are one table, and so is a file with nothing in it."""
    stream = read_table(work / "stream.csv").astype({"a": object})
    order = (stream["colour"] == "green").to_numpy().argsort(kind="stable")
    stream = stream.iloc[order].reset_index(drop=True)
    stream.loc[3, "a"] = "seven"
    stream.to_csv(work / "odd.csv", index=False)
    names = [f"{name}.{kind}" for name in ("decisions", "events", "errors")]
    outputs = (part for pair in zip(("-o", "-e", "--errors"), names, strict=True) for part in pair)
    succeeded(work, *RUN, "--features", "a,b,c,port", "-i", "odd.csv", *outputs)
    decisions, events, errors = (read_table(work / name) for name in names)
    assert (len(decisions), len(errors)) == (599, 1)
    assert "seven" in errors["reason"][0]
    assert events["type"].nunique() >= 2
    succeeded(work, "report", *names[:2], "-o", "report.html")


def test_a_csv_of_decisions_keeps_its_columns_over_a_promotion_and_a_resumed_run(work: Path) -> None:
    """A class that is named in the middle has no column; the rest is what the same run writes as JSON Lines."""
    rows = (work / "stream.csv").read_text().splitlines(keepends=True)
    for suffix in ("csv", "jsonl"):
        (work / "part.csv").write_text("".join(rows[:500]))
        run(work, "-i", "part.csv", "-o", f"a.{suffix}")
        (found,) = load_checkpoint(work / f"a.{suffix}.checkpoint").model.new_classes().candidates
        ids = ",".join(map(str, found.subclasses))
        assert call("promote", ids, "sky", "--checkpoint", f"a.{suffix}.checkpoint", cwd=work).returncode == 0
        (work / "part.csv").write_text("".join(rows))
        assert f"written: decisions to a.{suffix}" in run(work, "-i", "part.csv", "-o", f"a.{suffix}", "--resume")
    written, decided = read_table(work / "a.csv"), lines_of(work / "a.jsonl")
    assert [*written.columns[:2], *written.columns[5:8]] == ["key", "t", "p_unknown", "p_red", "p_blue"]
    for column, name in (("p_blue", "blue"), ("p_red", "red"), ("p_unknown", "unknown")):
        assert written[column].tolist() == [d["probabilities"][name] for d in decided]
    for column in ("key", "label", "probability"):
        assert written[column].tolist() == [d[column] for d in decided]
    assert "sky" in set(written["label"][500:])

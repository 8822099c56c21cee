"""Values as people write them: markers of missing numbers, commas, codes, booleans, labels, indexes, wrong files."""

from __future__ import annotations

import csv
import gzip
import json
import pickle
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import Input, OpenSetRecognizer
from stream_osr.errors import InvalidFeature, InvalidInstance, InvalidParameter
from stream_osr.instances import reading
from stream_osr.instances.kinds import codes_of
from stream_osr_connectors.json_fields import JsonFields
from stream_osr_connectors.kafka.wire.decoding import JsonDecoder
from stream_osr_connectors.kafka.wire.messages import Message
from tests.habits.command import command
from tests.habits.values import each_value

Row = dict[str, Any]


def rows(n: int = 60, labels: Sequence[Any] = ("idle", "running"), seed: int = 0) -> list[Row]:
    """Two classes in turn, far apart."""
    rng = random.Random(seed)
    return [
        {"flow": round(rng.gauss(12.0 * (i % 2), 1), 2), "heat": round(rng.gauss(0, 1), 2), "y": y}
        for i, y in zip(range(n), cycle(labels), strict=False)
    ]


def write(path: Path, table: list[Row], header: int | None = None, units: Sequence[str] = ()) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        lines = [list(row.values()) for row in table]
        if header is not None:
            lines.insert(header, list(table[0]))
        out.writerows([list(table[0]), *([units] if units else []), *lines])


def put(folder: Path, door: str, table: list[Row]) -> Path:
    """Write a table as CSV or JSON Lines."""
    path = folder / ("in.csv" if door == "csv" else "in.jsonl")
    if door == "csv":
        write(path, table)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


def learnt(table: Iterable[Row], **arguments: Any) -> OpenSetRecognizer:
    """Learn rows in Python."""
    model = OpenSetRecognizer(chains=1, **arguments)
    for row in table:
        model.learn_one({name: value for name, value in row.items() if name != "y"}, row["y"])
    return model


def fit(path: Path, *options: Any) -> tuple[int, str]:
    return command("fit", path, "--label", "y", "-o", path.parent / "m.osr", "--chains", 1, *options)


def trained(path: Path, *options: Any) -> tuple[OpenSetRecognizer, str]:
    code, said = fit(path, *options)
    assert code == 0, said
    return OpenSetRecognizer.load(path.parent / "m.osr"), said


def right(model: OpenSetRecognizer, **more: Any) -> int:
    """How many of 20 plain instances get their label."""
    table = rows(20, seed=9)
    return sum(model.predict_one({"flow": x["flow"], "heat": x["heat"], **more}) == x["y"] for x in table)


def some(value: str, every: int) -> Callable[[int, float], Any]:
    return lambda i, flow: value if i % every == 3 else flow


WRITTEN: dict[str, Callable[[int, float], Any]] = {
    **{marker: some(marker, 15) for marker in ("?", "#N/A", "<NA>", "n/a", "-", "#DIV/0!", "\\N")},
    "first": lambda i, flow: flow if i else "n/a",
    "comma": lambda i, flow: str(flow).replace(".", ","),
    "percent": lambda i, flow: f"{flow}%",
    "minus": lambda i, flow: str(flow).replace("-", "\u2212"),
    "spaces": lambda i, flow: f" {flow} ",
    **{marker: some(marker, 8) for marker in ("..", ":", "n.d.", "\u2013", "\u2014")},
    "dollars": lambda i, flow: f"-${-flow}" if flow < 0 else f"${flow}",
    "euros": lambda i, flow: f"{flow} \u20ac".replace(".", ","),
    "brackets": lambda i, flow: f"({-flow})" if flow < 0 else flow,
    "minus behind": lambda i, flow: f"{-flow}-" if flow < 0 else flow,
}
DOORS = pytest.mark.parametrize("door", ["csv", "json"])


@DOORS
def test_columns_of_numbers_are_numeric_however_they_are_written(tmp_path: Path, door: str) -> None:
    table = [{**{how: WRITTEN[how](i, row["flow"]) for how in WRITTEN}, **row} for i, row in enumerate(rows())]
    model, _ = trained(put(tmp_path, door, table))
    assert model.trained.values == {}, "none is a category"
    assert set(model.trained.names) == {*WRITTEN, "flow", "heat"}
    plain = [{**dict.fromkeys(WRITTEN, row["flow"]), **row} for row in rows(20, seed=9)]
    assert [model.predict_one({**row, "y": None}) for row in plain] == [row["y"] for row in plain]
    assert sum(model.trained.report.instances.values()) == 60


@pytest.mark.parametrize(("door", "text", "every", "aside"), [("csv", "Infinity", 20, 3), ("json", "1.2.3", 100, 1)])
def test_what_is_no_finite_number_is_set_aside(tmp_path: Path, door: str, text: str, every: int, aside: int) -> None:
    change = some(text, every)
    table = [{**row, "flow": change(i, row["flow"])} for i, row in enumerate(rows())]
    model, said = trained(put(tmp_path, door, table))
    assert "numeric features: 'flow', 'heat'" in said
    assert right(model) == 20
    assert sum(model.trained.report.instances.values()) == 60 - aside


@DOORS
def test_a_column_without_a_value_in_training_is_left_out(tmp_path: Path, door: str) -> None:
    model, said = trained(put(tmp_path, door, [{"empty": "NA" if door == "csv" else None, **x} for x in rows()]))
    assert model.trained.names == ("flow", "heat")
    assert door == "json" or "left out: 'empty' (no value in training)" in said
    for value in ("abc", 5, "7,5"):
        said = streamed(put(tmp_path, door, [{"empty": value, **row} for row in rows(20, seed=9)]))
        assert "20 instances decided in all: 20 known" in said, value
        assert "does not use: empty" in said, value


def streamed(path: Path, *options: str) -> str:
    code, said = command("run", "-m", path.parent / "m.osr", "-i", path, "-o", path.parent / "out.jsonl", *options)
    assert code == 0, said
    return said


def test_text_of_numbers_is_numeric_in_dictionaries_and_odd_values_are_listed() -> None:
    model = learnt(
        {"flow": "oops" if i == 7 else str(row["flow"]), "heat": str(row["heat"]), "y": row["y"]}
        for i, row in enumerate(rows())
    )
    said = str(model.freeze())
    assert right(model) == 20
    assert "'flow' is numeric, and values that are no numbers count as missing: 'oops'" in said
    assert model.predict_one({"flow": "12,1", "heat": "0"}) == "running"
    with pytest.raises(InvalidFeature, match=r"'1,234' \(str\): it may be 1\.234 or 1234"):
        model.learn_one({"flow": "1,234", "heat": 0})


def test_the_first_instance_of_the_stream_is_read_by_what_training_decided() -> None:
    decisions = []
    for form in (str, float):
        model = learnt(({**row, "flow": form(row["flow"])} for row in rows()), batch_size=1)
        model.learn_one({"flow": form(11.987), "heat": 0.1})
        decisions.append([(each.label, each.p_unknown) for each in model.drain()])
    assert decisions[0] == decisions[1]


@pytest.mark.parametrize(("texts", "expected"), [(("1,5", "1,234"), 1.234), (("1,500", "1,234"), 1234.0)])
def test_a_comma_is_what_the_column_of_training_says(texts: Sequence[str], expected: float) -> None:
    model = learnt({"a": texts[i % 2], "b": i % 7, "y": "xy"[i // 15]} for i in range(30))
    report = model.freeze()
    assert model.trained.features.row({"a": "1,234", "b": 0}).values[0] == expected
    assert "'a': a comma is" in str(report)


def test_thousands_may_be_parted_and_other_text_is_no_number() -> None:
    for text in ("1'234.5", "1\u2019234.5", "1\u2009234,5", "$1,234.5", "1.234,5 \u20ac", "1 234,50"):
        assert reading.number(text) == 1234.5
        assert reading.number(f"({text})") == reading.number(f"{text}-") == -1234.5
    for text in ("$", "()", "(null)x", "5--", "1'23", "$5$5", "--5", "(-5)"):
        with pytest.raises(reading.Unreadable):
            reading.number(text)


def test_a_repeated_header_and_a_row_of_units_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    write(path, rows(), header=20, units=["m/s", "degrees", "-"])
    model, said = trained(path)
    assert "repeats the header" in said
    assert "row of units" in said
    assert model.trained.report.instances == {"idle": 30, "running": 30}
    assert right(model) == 20


def test_what_is_named_overrules(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    write(path, [{**row, "flow": ("low", -999, row["flow"])[min(i % 6, 2)]} for i, row in enumerate(rows())])
    model, said = trained(path)
    assert set(model.trained.values) == {"flow"}
    assert "warning: most values of 'flow' read as numbers, and others such as 'low' do not" in said
    model, _ = trained(path, "--missing", "-999,low")
    assert (model.trained.values, right(model)) == ({}, 20)
    assert np.isnan(model.trained.features.row({"flow": -999, "heat": 0}).values[0])
    model, _ = trained(path, "--numeric", "flow", "--missing", "-999")
    assert model.trained.values == {}
    assert model.trained.report.instances == {"idle": 20, "running": 30}
    with pytest.raises(InvalidParameter, match="numeric and categorical both have 'a'"):
        OpenSetRecognizer(categorical=["a"], input=Input(numeric=["a"]))


SPELLINGS: list[tuple[Sequence[Any], Sequence[Any]]] = [
    (("80", "443"), (80.0, 443.0)),
    (("80", "443"), ("80.0", "443.0")),
    (("True", "False"), (True, False)),
    (("True", "False"), (1, 0)),
    ((1, 0), ("true", "false")),
    (("yes", "no"), (True, False)),
    (("T", "F"), ("1.0", "0.0")),
    (("Y", "N"), ("yes", "NO")),
    (("tcp", "udp"), (" tcp", "udp ")),
    (("caf\u00e9", "bar"), ("cafe\u0301", "bar")),
]


def test_a_category_is_the_same_however_it_is_spelled() -> None:
    """One category has the spellings of training, and it alone differs between two instances of the stream."""
    names = [f"code {at}" for at in range(len(SPELLINGS))]
    model = learnt(
        (
            {**{name: pair[0][i % 2] for name, pair in zip(names, SPELLINGS, strict=True)}, **row}
            for i, row in enumerate(rows())
        ),
        categorical=names,
    )
    model.freeze()
    model = pickle.loads(pickle.dumps(model))
    x = {"flow": 6.0, "heat": 0.0, **{name: pair[0][0] for name, pair in zip(names, SPELLINGS, strict=True)}}
    for name, (training, stream) in zip(names, SPELLINGS, strict=True):
        for code, again in zip(training, stream, strict=True):
            found = model.trained.features.row({**x, name: again}).values
            np.testing.assert_array_equal(found, model.trained.features.row({**x, name: code}).values, f"{again!r}")
            assert model.predict_proba_one({**x, name: again}) == model.predict_proba_one({**x, name: code}), again


@DOORS
def test_booleans_may_be_written_in_several_ways(tmp_path: Path, door: str) -> None:
    """Numbers in training and booleans in the stream; and both in training."""
    table = [{"on": i % 2, "up": (True, 0, 1, False)[i // 2 % 4], **row} for i, row in enumerate(rows())]
    model, _ = trained(put(tmp_path, door, table))
    assert {*model.trained.values["up"]} == {"true", "false"}
    assert model.trained.features.knows("up", 0), "the summary of a run says so, too"
    for up in (1, "True"):
        some = [{"on": i % 2 == 1, "up": up, **row} for i, row in enumerate(rows(20, seed=9))]
        assert "20 instances decided in all: 20 known" in streamed(put(tmp_path, door, some))


def test_words_of_another_meaning_are_no_booleans() -> None:
    for values in (("f", "m"), ("yes", "on"), ("yes", "no", "maybe")):
        assert codes_of(values)("true") is None


def test_empty_text_is_a_missing_category_at_every_door() -> None:
    model = learnt({"kind": ("a", "b")[i % 2], "heat": row["heat"], "y": row["y"]} for i, row in enumerate(rows()))
    model.freeze()
    x = {"heat": 0.1}
    assert model.predict_proba_one({**x, "kind": " "}) == model.predict_proba_one({**x, "kind": None})


def test_a_training_set_that_is_saved_half_way_decides_alike(tmp_path: Path) -> None:
    import pandas as pd

    table = [
        {"flow": f"{row['flow']}%", "code": str(i % 3), "when": pd.Timestamp(i), "y": row["y"]}
        for i, row in enumerate(rows())
    ]
    options: dict[str, Any] = {"categorical": ["code"], "input": Input(missing=["9"])}
    learnt(table[:30], **options).save(tmp_path / "half.osr")
    model, whole = OpenSetRecognizer.load(tmp_path / "half.osr"), learnt(table, **options)
    for row in table[30:]:
        model.learn_one({name: row[name] for name in ("flow", "code", "when")}, row["y"])
    assert str(model.freeze()) == str(whole.freeze())
    assert model.trained.fingerprint == whole.trained.fingerprint
    assert model.trained.report.left_out == {"when": "a date or time"}


@pytest.mark.parametrize(
    ("door", "name"),
    [("csv", "Unnamed: 0"), ("json", "Unnamed: 0.1"), ("frame", "level_0"), ("csv", "index"), ("csv", "")],
)
def test_the_index_of_a_data_frame_is_no_feature(tmp_path: Path, name: str, door: str) -> None:
    order = random.Random(1).sample(range(60), 60)
    table = [{name: n, **row} for n, row in zip(order, rows(), strict=True)]
    if door == "frame":
        import pandas as pd

        model, frame = OpenSetRecognizer(chains=1), pd.DataFrame(table)
        model.learn_many(frame.drop(columns="y"), frame["y"])
        said = str(model.freeze())
    else:
        model, said = trained(put(tmp_path, door, table))
    assert model.trained.names == ("flow", "heat")
    assert f"left out: '{name or 'Unnamed: 0'}' (the index of a data frame)" in said
    if door == "csv":
        assert "60 instances decided in all: 60 known" in streamed(tmp_path / "in.csv")


def test_a_number_that_is_called_index_and_is_none_is_a_feature() -> None:
    model = learnt({"index": row["flow"], "heat": row["heat"], "y": row["y"]} for row in rows())
    model.freeze()
    assert model.trained.names == ("heat", "index")


@pytest.mark.parametrize("index", ["shuffled", "named", "two levels"])
def test_parquet_says_itself_what_the_index_is(tmp_path: Path, index: str) -> None:
    import pandas as pd

    frame = pd.DataFrame(rows())
    levels = pd.MultiIndex.from_arrays([frame.index // 7, frame.index * 37 % 60])
    named = pd.Index(np.arange(60.0) * 7 % 60, name="place")
    frame.index = {"shuffled": np.random.default_rng(1).permutation(60), "named": named, "two levels": levels}[index]
    frame.to_parquet(tmp_path / "in.parquet")
    model, said = trained(tmp_path / "in.parquet")
    assert model.trained.names == ("flow", "heat")
    assert "the index of a data frame" in said


LABELS: list[tuple[str, Sequence[Any], set[Any]]] = [
    ("csv", ("007", "7"), {"007", "7"}),
    ("json", ("200", "404", "timeout"), {"200", "404", "timeout"}),
    ("csv", ("timeout", "404", "200"), {"200", "404", "timeout"}),
    ("json", ("+1", "-1"), {"1", "-1"}),
    ("csv", ("idle", "idle ", "running"), {"idle", "running"}),
    ("json", ("1.0", "2.0"), {1, 2}),
    ("csv", ("True", "FALSE"), {True, False}),
]


@pytest.mark.parametrize(("door", "labels", "classes"), LABELS)
def test_labels_have_one_type_in_a_table(tmp_path: Path, door: str, labels: Sequence[Any], classes: set[Any]) -> None:
    path = put(tmp_path, door, rows(60, labels))
    model, _ = trained(path)
    assert {(type(label), label) for label in model.trained.labels} == {(type(label), label) for label in classes}
    assert sum(model.trained.report.instances.values()) == 60
    if "-1" in classes:  # a class of its own if unknown has another name
        assert set(trained(path, "--unknown", "0")[0].trained.labels) == {1, -1}


def test_labels_of_a_stream_are_compared_as_they_are_spelled(tmp_path: Path) -> None:
    trained(put(tmp_path, "csv", rows(60, ("1", "2"))))
    for door, labels in (("csv", (1.0, 2.0)), ("json", (1.0, 2.0)), ("json", ("1", "2.0")), ("csv", (1, 2))):
        assert "10 with a label: learnt" in streamed(put(tmp_path, door, rows(10, labels)), "--label", "y"), labels


def test_labels_and_keys_of_pandas_are_whole_numbers(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(rows(60, (1, 2)))
    frame.loc[7, "y"] = np.nan
    frame["id"] = 1001.0 + frame.index
    frame.loc[3, "id"] = np.nan
    frame.to_parquet(tmp_path / "in.parquet")
    frame.to_json(tmp_path / "in.jsonl", orient="records", lines=True)
    for name in ("in.parquet", "in.jsonl"):
        model, said = trained(tmp_path / name, "--key", "id")
        assert set(model.trained.labels) == {1, 2}
        assert "1 set aside" in said
        streamed(tmp_path / name, "--key", "id")
        keys = [json.loads(line)["key"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert keys[:5] == [1001, 1002, 1003, None, 1005]


@pytest.mark.parametrize("n", each_value([6, 30, 90], first=1))
def test_a_wrong_column_of_labels_is_refused(tmp_path: Path, n: int) -> None:
    path = put(tmp_path, "csv", rows(n, [f"name {i}" for i in range(n)]))
    assert fit(path) == (
        1,
        f"error: --label y: there are {n} classes with 1.0 instances each: are these the classes, or numbers, keys, "
        "times? Give another column, or --yes to train anyway\n",
    )
    assert fit(path, "--yes")[0] == 0


def test_a_class_that_is_lost_is_an_error(tmp_path: Path) -> None:
    lost = {"y": "rare", "flow": "wrong"}
    write(tmp_path / "in.csv", [{**row, **(lost if i < 2 else {})} for i, row in enumerate(rows())])
    code, said = fit(tmp_path / "in.csv")
    assert (code, "all 2 rows of class 'rare'" in said) == (1, True), said


def parquet(table: list[Row]) -> bytes:
    import pandas as pd

    return bytes(pd.DataFrame(table).to_parquet())


OTHER_KINDS: dict[str, tuple[Callable[[list[Row]], bytes], str]] = {
    "a.csv": (lambda table: gzip.compress(b"flow,y\n1,a\n"), "gzip"),
    "b.csv": (parquet, "Parquet"),
    "c.csv": (lambda table: "flow,y\n1,a\n".encode("utf-16"), "UTF-16"),
    "d.csv": (lambda table: b"flow,y\r1,a\r2,b\r", "has a carriage return without a line feed"),
    "e.jsonl": (lambda table: json.dumps(table, indent=1).encode(), "JSON array"),
    "f.jsonl": (lambda table: json.dumps(table).encode(), "JSON array"),
    "g.jsonl": (lambda table: json.dumps(table[0], indent=2).encode(), "holds an object over several lines"),
}


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_files_of_another_kind_are_named(tmp_path: Path, name: str) -> None:
    make, phrase = OTHER_KINDS[name]
    (tmp_path / name).write_bytes(make(rows()))
    code, said = fit(tmp_path / name)
    assert (code, phrase in said) == (1, True), said


def test_classes_that_may_be_one_or_none_are_named(tmp_path: Path) -> None:
    said = trained(put(tmp_path, "csv", rows(labels=("idle", "Idle"))))[1]
    assert "warning: the classes 'idle' and 'Idle' differ by the case of letters alone" in said
    for text in ("NA", "?"):
        said = trained(put(tmp_path, "csv", rows(labels=("idle", text))))[1]
        assert f"warning: '{text}' is a class. Leave the label empty" in said


FORMS = ["%d.%m.%Y %H:%M", "%m/%d/%y", "%d-%b-%Y", "%a, %d %b %Y %H:%M:%S GMT", "%d/%b/%Y:%H:%M:%S +0000"]


def test_dates_are_left_out_however_they_are_written(tmp_path: Path) -> None:
    """All different, or two the same in turn."""
    table: list[Row] = []
    for i, row in enumerate(rows()):
        times = [datetime(2026, 1, 1) + timedelta(days=i // each, minutes=i) for each in (1, 2)]
        table.append(
            {**{f"{form} {at}": time.strftime(form) for form in FORMS for at, time in enumerate(times)}, **row}
        )
    model, said = trained(put(tmp_path, "csv", table))
    assert model.trained.names == ("flow", "heat")
    assert model.trained.report.left_out == {name: "a date or time" for name in table[0] if "%" in name}
    assert "(a date or time)" in said


def test_dates_are_left_out_of_instances() -> None:
    import pandas as pd

    def days(i: int) -> Row:
        return {"a": pd.Timestamp(i, unit="D"), "b": f"2026-01-{i % 28 + 1:02d}", "c": np.datetime64(i, "D")}

    model = learnt({**row, **days(i)} for i, row in enumerate(rows()))
    assert model.freeze().left_out == dict.fromkeys("abc", "a date or time")
    assert right(model, **days(3)) == 20


def test_what_is_no_date_and_no_number_stays_a_category(tmp_path: Path) -> None:
    codes = (("06:00", "14:00"), ("1.2.3", "1.2.4"), ("10.0.0.1", "10.0.0.2"), ("may", "june"), ("01", "02"))
    table = [{**{pair[0]: pair[i % 2] for pair in codes}, **row} for i, row in enumerate(rows())]
    model, _ = trained(put(tmp_path, "csv", table))
    assert {name: {*its} for name, its in model.trained.values.items()} == {pair[0]: {*pair} for pair in codes}


def test_names_that_cannot_be_saved_are_refused_before_training() -> None:
    import pandas as pd

    frame = pd.DataFrame([[1.0, 2.0]] * 4, columns=pd.to_datetime(["2026-01-01", "2026-01-02"]))
    with pytest.raises(InvalidInstance, match="the name of a feature is Timestamp"):
        OpenSetRecognizer().learn_many(frame, ["a", "b"] * 2)


def test_an_instance_of_which_everything_is_missing_comes_first() -> None:
    model = learnt([{"y": "idle"}, *rows()])
    model.freeze()
    assert right(model) == 20


def test_the_framing_of_a_schema_registry_is_named() -> None:
    decode = JsonDecoder(JsonFields(features=["flow"]), max_bytes=1000)
    with pytest.raises(ValueError, match="schema registry"):
        decode(Message("t", 0, 7, 1500, None, b"\0\0\0\0\5" + b'{"flow": 1.0}', []))

"""A table of decisions has a column for each class, and what reads it gets the decisions back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stream_osr import Decision
from stream_osr_connectors.files import CsvSource, Record, open_sink
from stream_osr_connectors.files.class_columns import class_column, class_of
from stream_osr_connectors.files.output_columns import columns_of
from stream_osr_connectors.page.report.records_feed import as_decision
from stream_osr_connectors.summary.input_records import read_records

ODD = ["red", "two words", 'a,"b"', "=1+1", "line\nbreak", "unknown", "unknown_", "p_unknown", "\u00e9", "3"]


def decision(label: object, seq: int, p: dict[Any, float]) -> dict[str, Any]:
    *_, other = p.values()
    return Decision(f"k{seq}", None, label, label, p[label], other, p, None, "red", 1.0, 0.5, 0, seq).as_dict()


def written(path: Path, records: list[dict[str, Any]], classes: list[str]) -> list[dict[str, Any]]:
    with open_sink(path, columns=columns_of(Decision), classes=classes) as sink:
        for record in records:
            sink.write(record)
    return list(read_records(path, []))


def test_a_table_begins_with_the_key_and_has_a_column_for_each_class(tmp_path: Path) -> None:
    written(tmp_path / "d.csv", [decision("red", 0, {"red": 0.75, "blue": 0.125, "unknown": 0.125})], ["red", "blue"])
    head, row = (tmp_path / "d.csv").read_text().splitlines()
    assert head == (
        "key,t,label,first_label,probability,p_unknown,p_red,p_blue,subclass_id,nearest_class,distance,density_rank,"
        "batch,seq,odd_columns"
    )
    assert row == "k0,,red,red,0.75,0.125,0.75,0.125,,red,1.0,0.5,0,0,"


def test_odd_names_of_classes_are_read_back(tmp_path: Path) -> None:
    assert [class_of(class_column(name)) for name in ODD] == ODD
    assert len({*map(class_column, ODD), "p_unknown"}) == len(ODD) + 1
    p = {**dict.fromkeys(ODD, 0.0625), "new": 0.375}
    (row,) = written(tmp_path / "d.csv", [decision("new", 0, p)], ODD)
    assert row["probabilities"] == {name: str(share) for name, share in p.items()}
    reading: Any = {"key": "key", "label": "label", "categorical": ["first_label", "nearest_class"]}
    with CsvSource(tmp_path / "d.csv", **reading) as source:
        record = next(source)
    assert isinstance(record, Record)
    assert record.features["p_unknown"] == 0.375


def test_a_class_that_is_named_later_has_no_column_and_is_read_by_its_label(tmp_path: Path) -> None:
    before = {"red": 0.25, "blue": 0.0, "-1": 0.75}
    after = {"red": 0.25, "blue": 0.0, "sky": 0.625, "-1": 0.125}
    records = [decision("-1", 0, before), decision("sky", 1, after), decision("red", 2, {**after, "red": 0.7})]
    records[2] |= {"label": "red", "probability": 0.7}
    read = written(tmp_path / "d.csv", records, ["red", "blue"])
    assert "sky" not in (tmp_path / "d.csv").read_text().splitlines()[0]
    assert read[1]["probabilities"] == {"red": "0.25", "blue": "0.0", "sky": "0.625", "-1": "0.125"}
    got, expected = ([as_decision(one) for one in each] for each in (read, records))
    names = ("label", "p_unknown", "subclass_id", "seq", "distance")
    assert [[one[name] for name in names] for one in got] == [[one[name] for name in names] for one in expected]
    assert [list(one["probabilities"]) for one in got] == [list(one["probabilities"]) for one in expected]
    assert list(got[2]["probabilities"]) == ["red", "blue", "sky", "-1"]

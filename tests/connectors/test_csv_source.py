"""Reading tables: every row becomes a record or says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import BadRecord, CsvSource, Record
from stream_osr_connectors.files.survey import survey


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(content: str | bytes, **options: Any) -> list[Record | BadRecord]:
        path = tmp_path / "in.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with CsvSource(path, **options) as source:
            return list(source)

    return read


def reasons(records: list[Record | BadRecord]) -> dict[int, str]:
    return {record.row: record.reason for record in records if isinstance(record, BadRecord)}


def features(records: list[Record | BadRecord]) -> list[dict[str, object]]:
    return [dict(record.features) for record in records if isinstance(record, Record)]


def test_columns_go_where_they_are_named(read: Any) -> None:
    text = "id,when,a,b,class\nk1,10.5,1,-2e3,red\nk2,2024-01-01T00:00:00Z,3,4,\n"
    one, two = read(text, key="id", time="when", label="class")
    assert one[:4] == ({"a": 1.0, "b": -2000.0}, "k1", 10.5, "red")
    assert two[:4] == ({"a": 3.0, "b": 4.0}, "k2", 1704067200.0, None)
    assert read("key,label\n1,2\n")[0][:4] == ({"key": 1.0, "label": 2.0}, None, None, None)
    assert features(read("a,note,b\n1,hello,2\n", features=["b"])) == [{"b": 2.0}]


def test_missing_values(read: Any) -> None:
    texts = ["", "NA", "nan", "NaN", "-nan", "null", "NULL", "None", " ", " na "]
    found = features(read("a,b\n" + "".join(f"{text},1\n" for text in texts)))
    assert found == [{"a": None, "b": 1.0}] * len(texts)


def test_values_that_are_no_finite_numbers(read: Any) -> None:
    texts = ["warm", "inf", "-Infinity", "1e999", "1_000", "1;2", "0x10", "1+2j", "yes"]
    good, *bad = read("a,b\n1,2\n" + "".join(f"1,{text}\n" for text in texts))
    assert isinstance(good, Record)
    assert [(each.row, each.raw) for each in bad] == [(row, f"1,{text}") for row, text in enumerate(texts, 3)]
    for text, each in zip(texts, bad, strict=True):
        assert all(said in each.reason for said in ("column 'b'", repr(text), "Leave it empty")), each


def test_rows_of_another_length(read: Any) -> None:
    said = "the row has {}, the header 2. Check delimiters and quotes"
    records = read("a,b\n1\n1,2,3\n1,,2\n   \n3,4\n")
    assert reasons(records) == {at: said.format(f"{n} field{'s' * (n > 1)}") for at, n in enumerate((1, 3, 3, 1), 2)}
    assert features(records) == [{"a": 3.0, "b": 4.0}]


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("auto", {"-7": -7}),
        ("auto", {"true": "true", "NA": "NA", "٣": "٣"}),
        ("str", {"007": "007", "": None}),
        ("int", {"007": 7, "": None}),
    ],
)
def test_labels(read: Any, kind: str, labels: dict[str, object]) -> None:
    for text, label in labels.items():
        (record,) = read(f"a,y\n1,{text}\n", label="y", label_type=kind)
        assert (type(record.label), record.label) == (type(label), label)


def test_times(read: Any) -> None:
    times = {"0": 0.0, "": None, "NA": None, "1970-01-02": 86400.0, "1970-01-01T02:00:00+02:00": 0.0}
    records = read("a,t\n" + "".join(f"1,{text}\n" for text in times), time="t")
    assert [record.time for record in records] == [*times.values()]


@pytest.mark.parametrize(
    ("texts", "reading"),
    [
        (("red", "7.5", "nan", "inf", "1_0"), {"label": "v", "label_type": "int"}),
        (("yesterday", "inf", "2024-13-01"), {"time": "v"}),
        (("9" * 5000,), {"label": "v"}),
    ],
)
def test_values_that_are_none_of_their_kind(read: Any, texts: tuple[str, ...], reading: dict[str, str]) -> None:
    found = reasons(read("a,v\n" + "".join(f"1,{text}\n" for text in texts), **reading))
    assert [*found] == [*range(2, 2 + len(texts))]
    assert all("column 'v'" in reason for reason in found.values()), found


def test_an_empty_key_is_none(read: Any) -> None:
    assert [record.key for record in read("k,a\n,1\n007,2\n", key="k")] == [None, "007"]


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", " "])
def test_no_header_and_a_header_alone(read: Any, content: str) -> None:
    with pytest.raises(ConnectorError, match=r"is empty\. A CSV file begins with a row of column names"):
        read(content)
    assert read(f"a,b{content}") == []


@pytest.mark.parametrize(
    ("header", "reading", "says"),
    [
        ("a,b,a,b,c", {}, "'a', 'b' more than once"),
        ("a,,b", {}, "column 2 has no name"),
        ("a,", {"features": ["a", ""]}, "no column ''"),
        ("a,class", {"features": ["a", "zzz"]}, "no column 'zzz'. Its columns are 'a', 'class'$"),
        ("a,class", {"key": "CLAS"}, "no column 'CLAS'. Its columns are 'a', 'class'. Did you mean 'class'"),
        ("a,class", {"time": "CLAS"}, "no column 'CLAS'. Its columns are 'a', 'class'. Did you mean 'class'"),
        (",".join(f"c{i}" for i in range(1000)), {"label": "y"}, "^.{,500}$"),
        ("a,y", {"label": "y", "features": ["a", "y"]}, "both the label and a feature"),
        ("a,y", {"label": "y", "features": "ay"}, "Give a list of names"),
        ("a", {"label_type": "float"}, "none of auto, str, int"),
        ("a", {"max_record_bytes": 0}, "at least 1"),
        ("a", {"delimiter": ",,"}, "delimiter ',,' cannot be used"),
    ],
)
def test_headers_and_options_that_are_refused(read: Any, header: str, reading: dict[str, Any], says: str) -> None:
    with pytest.raises(ConnectorError, match=says):
        read(header + "\n0,1\n", **reading)


def test_a_column_without_a_name_does_no_harm_where_the_features_are_named(read: Any) -> None:
    assert features(read(",a,\n0,1,2\n", features=["a"])) == [{"a": 1.0}]


@pytest.mark.parametrize("other", [";", "\t", "|"])
def test_the_header_says_what_divides_the_fields(read: Any, other: str) -> None:
    assert features(read(f"a{other}class\n1{other}2\n", label="class")) == [{"a": 1.0}]
    with pytest.raises(ConnectorError, match=r"Its columns are 'a', 'class'\. Did you mean 'class'"):
        read(f"a{other}class\n1{other}2\n", label="CLASS")


def test_byte_order_mark_line_ends_and_blank_lines(read: Any) -> None:
    records = read(b'\xef\xbb\xbf"a",b\r\n1,2\r\n\r\n\n3,4')
    assert features(records) == [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]
    assert [record.position["row"] for record in records] == [2, 5]
    assert records[0].position["offset"] == 15
    assert records[-1].position["offset"] == 21


def test_quoted_fields_may_hold_line_breaks(read: Any) -> None:
    one, two, bad, last = read('k,"a\nb"\n"x\ny, ""z""\r\n",1\nw,2\n"t\r\ns",x\nu,3\n', key="k")
    assert (one[:2], one.position["row"]) == (({"a\nb": 1.0}, 'x\ny, "z"\r\n'), 5)
    assert two[:2] == ({"a\nb": 2.0}, "w")
    assert (bad.row, bad.raw, bad.position["row"], last.key) == (7, '"t\r\ns",x', 8, "u")


def test_a_quote_that_is_never_closed_costs_one_line(read: Any) -> None:
    bad, *others = read('k,a\n"x,1\ny,2\nz,3\n', key="k")
    assert [record.key for record in others] == ["y", "z"]
    assert (bad.row, bad.raw, bad.position["row"]) == (2, '"x,1', 2)
    assert "not closed" in bad.reason


@pytest.mark.parametrize("filler", ["y,2\n", "y" * 100 + ",2\n"])
def test_an_open_quote_is_not_followed_for_ever(read: Any, filler: str) -> None:
    count = 3000
    records = read('k,a\n"x,1\n' + filler * count, key="k", max_record_bytes=50_000)
    assert [isinstance(record, BadRecord) for record in records[:2]] == [True, False]
    assert len(records) == 1 + count


@pytest.mark.parametrize(
    ("row", "reason"),
    [('"x"y,1', "not CSV"), (f"{'x' * 200_000},1", "field larger than field limit"), ("x\0,1", "NUL")],
)
def test_rows_that_are_no_csv_cost_no_other(read: Any, row: str, reason: str) -> None:
    bad, good, last = read(f'k,a\n{row}\nz,2\n"y,2', key="k")
    assert (reason in bad.reason, good.key, "not closed" in last.reason) == (True, "z", True)


def test_bytes_that_are_not_utf8(read: Any) -> None:
    bad, good = read(b"k,a\ncaf\xe9,1\nz,2\n", key="k")
    assert good.key == "z"
    assert bad.raw.encode("utf-8", "surrogateescape") == b"caf\xe9,1"
    assert "byte 4 of the line, 0xe9, is not UTF-8" in bad.reason


def test_a_line_without_end_is_cut(read: Any) -> None:
    bad, good = read("a\n" + "1" * 5000 + "\n2\n", max_record_bytes=100)
    assert bad.raw == "1" * 100
    assert "5001 bytes, more than the 100" in bad.reason
    assert bad.position["offset"] == 5003
    assert good.features == {"a": 2.0}


def test_headers_that_cannot_be_read(read: Any) -> None:
    for content in (b"\xffa,b\n", b"a\0,b\n", b"a\rb\r1\r2", b'"a,b\n1,2\n', b"x" * 2_000_000):
        with pytest.raises(ConnectorError, match="the header cannot be read"):
            read(content)


@pytest.fixture
def surveyed(tmp_path: Path) -> Any:
    def surveyed(rows: list[str], **options: Any) -> tuple[frozenset[str], list[Record | BadRecord]]:
        (tmp_path / "in.csv").write_text("\n".join(["a,b,c", *rows]) + "\n")
        with CsvSource(tmp_path / "in.csv", **options) as source:
            survey(source, categorical=options.get("categorical", ()))
            return source.categorical, list(source)

    return surveyed


def test_a_column_is_numeric_if_nearly_all_of_its_values_are_numbers(surveyed: Any) -> None:
    found, records = surveyed([f"{n},{'x' if n == 7 else n},{'x' if n < 3 else n}" for n in range(100)])
    assert found == {"b", "c"}, "one whole number in a hundred is an error, three are none: a survey reads these"
    assert len(records) == 100
    assert [each["c"] for each in features(records)[:4]] == ["x", "x", "x", "3"]
    found, records = surveyed(["1,,NA", "NA,x,", ",NA,nan"])
    assert found == {"b"}, "missing values do not count"
    assert [tuple(each.values()) for each in features(records)] == [
        (1.0, None, None),
        (None, "x", None),
        (None, "NA", None),
    ]
    found, records = surveyed(["1,2,3"], categorical=["b"])
    assert (found, features(records)) == ({"b"}, [{"a": 1.0, "b": "2", "c": 3.0}]), "a name decides"


# Headers and rows as people write them: padded, without names, with comments, divided otherwise

PLAIN = "flow,heat,y\n1.5,2,idle\n2.5,,running\n"

SAME = {
    "semicolons": "flow;heat;y\n1,5;2;idle\n2,5;;running\n",
    "tabs": "flow\theat\ty\n1.5\t2\tidle\n2.5\t\trunning\n",
    "bars": "flow|heat|y\n1.5|2|idle\n2.5||running\n",
    "quoted semicolons": '"flow";"heat";"y"\r\n"1,5";"2";"idle"\r\n"2,5";"";"running"\r\n',
    "padded": "flow, heat , y\n1.5, 2, idle\n2.5, , running\n",
    "padded quotes": '"flow", "heat", "y"\n"1.5", "2", "idle"\n"2.5", "", "running"\n',
    "hard spaces": "flow\u00a0,\u00a0heat,y\n1.5,2,idle\n2.5,,running\n",
    "a delimiter at the end": "flow,heat,y,\n1.5,2,idle,\n2.5,,running,\n",
    "empty columns at the end": "flow,heat,y,,\n1.5,2,idle,,\n2.5,,running,,\n",
    "a delimiter at the end of rows": "flow,heat,y\n1.5,2,idle,\n2.5,,running,\n",
    "comments": "# made by a logger, v2\n# y: the state\nflow,heat,y\n1.5,2,idle\n2.5,,running\n",
    "a mark and a blank line": "\ufeff\nflow,heat,y\n1.5,2,idle\n2.5,,running\n",
}


@pytest.fixture
def read_table(read: Any) -> Any:
    """Features and label of each record, or the reason why it was set aside."""

    def read_table(text: str, **options: Any) -> list[object]:
        records = read(text, label="y", **options)
        return [
            each.reason if isinstance(each, BadRecord) else ({**each.features}, each.label.strip())
            for each in records
        ]

    return read_table


@pytest.mark.parametrize("how", SAME)
def test_a_table_is_the_same_however_its_header_is_written(read_table: Any, how: str) -> None:
    for options in ({}, {"features": ["heat"]}):
        assert read_table(SAME[how], **options) == read_table(PLAIN, **options)


@pytest.mark.parametrize("again", ["\ufeffflow,heat,y", " flow, heat, y", '\ufeff"flow","heat","y"', "flow,heat,y,"])
def test_a_second_header_is_set_aside_however_it_is_written(read_table: Any, again: str) -> None:
    first, one, two = PLAIN.splitlines()
    found = read_table(f"{first}\n{one}\n{again}\n{two}\n")
    assert found[1] == "the row repeats the header: the file was put together from several"
    assert [found[0], found[2]] == read_table(PLAIN)


def test_a_header_that_looks_like_a_comment_is_none(read: Any) -> None:
    assert len(read("#flow,heat,y\n1,2,3\n", label="y")) == len(read("#y,flow,heat\n1,2,3\n", label="#y")) == 1


def test_names_that_differ_by_spaces_and_names_of_earlier_models_stay(read_table: Any) -> None:
    assert read_table("a, a,y\n1,2,x\n") == [({"a": 1.0, " a": 2.0}, "x")]
    assert read_table("a, b,y\n1,2,x\n", features=["a", " b"]) == [({"a": 1.0, " b": 2.0}, "x")]

"""Reading JSON Lines: every line becomes a record or says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_osr_connectors.files import BadRecord, JsonLinesSource, Record


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(content: str | bytes, **options: Any) -> list[Record | BadRecord]:
        path = tmp_path / "in.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with JsonLinesSource(path, **options) as source:
            return list(source)

    return read


def test_numbers_text_booleans_and_lists_are_the_features(read: Any) -> None:
    line = '{"id": "k", "t": 5, "y": 3, "a": 1, "b": 2.5, "on": true, "note": "x", "c": null, "d": [1]}'
    (record,) = read(line, key="id", time="t", label="y")
    assert record[:4] == ({"a": 1, "b": 2.5, "on": True, "note": "x", "d": [1]}, "k", 5.0, 3)
    (record,) = read('{"id": 7, "n": 3, "features": {"a": 1, "b": null, "c": "text"}}', key="id")
    assert record[:2] == ({"a": 1, "b": None, "c": "text"}, 7), "a nested object holds the features"
    for line in ('{"a": 1, "b": "x", "c": 2}', '{"features": {"a": 1, "b": "x", "c": 2}, "d": 0}'):
        assert read(line, features=["d", "b", "a"])[0].features == {"d": None, "b": "x", "a": 1}


def test_a_number_or_null_called_features(read: Any) -> None:
    one, two = read('{"features": 3}\n{"features": null, "a": 1}')
    assert (one.features, two.features) == ({"features": 3}, {"a": 1})


def test_a_record_may_be_a_label_alone_or_without_any(read: Any) -> None:
    one, other = read('{"k": "x", "y": "red"}\n{"a": 1}', key="k", time="t", label="y")
    assert (one[:4], other[:4]) == (({}, "x", None, "red"), ({"a": 1}, None, None, None))


def test_nan_is_missing(read: Any) -> None:
    one, two, three = read(
        '{"a": NaN, "b": 1}\n{"features": {"a": NaN}, "t": NaN}\n{"a": NaN}', time="t", features=None
    )
    assert one.features == {"b": 1}
    assert two[:3] == ({"a": None}, None, None)
    assert three.features == {}


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "1e999", "-1e999"])
def test_infinite_values(read: Any, text: str) -> None:
    *bad, good = read(f'{{"a": {text}}}\n{{"features": {{"a": {text}}}}}\n{{"a": 1}}')
    assert ["write null" in record.reason.lower() for record in bad] == [True, True]
    assert good.features == {"a": 1}


def test_huge_whole_numbers_do_no_harm(read: Any) -> None:
    one, two, three = read(f'{{"a": {"9" * 400}}}\n{{"a": {"9" * 5000}}}\n{{"t": {"9" * 400}}}', time="t")
    assert one.features == {"a": int("9" * 400)}
    assert "not usable JSON" in two.reason
    assert "field 't'" in three.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": 1', "not JSON: expecting ',' delimiter at character 8"),
        ("a,b", "not JSON: expecting value at character 1"),
        ("[1, 2]", "the line holds [1, 2], not a JSON object"),
        ("null", "the line holds None"),
        pytest.param("[" * 100_000, "nested too deeply", id="lists in lists"),
        pytest.param('{"a":' * 100_000, "nested too deeply", id="objects in objects"),
        ("[" * 900 + "]" * 900, "not a JSON object"),
    ],
)
def test_lines_that_are_no_objects(read: Any, line: str, reason: str) -> None:
    bad, good = read(f'{line}\n{{"a": 1}}\n')
    assert reason in bad.reason
    assert len(bad.reason) < 200
    assert (bad.row, bad.raw, good.features) == (1, line, {"a": 1})


def test_keys_times_and_labels_of_another_type(read: Any) -> None:
    wrong = {"key": ("1.5", "true", "[1]"), "time": ("true", '"soon"', "1e999"), "label": ("3.5", '{"b": 1}')}
    for option, values in wrong.items():
        records = read("".join(f'{{"a": 1, "f": {value}}}\n' for value in values), **{option: "f"})
        assert ["field 'f' holds" in record.reason for record in records] == [True] * len(values), option


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("auto", {"true": True, "null": None, '""': None}),
        ("str", {"true": "true", '"x"': "x"}),
        ("int", {'"3"': 3, "true": 1}),
    ],
)
def test_labels(read: Any, kind: str, labels: dict[str, object]) -> None:
    records = read("".join(f'{{"y": {text}}}\n' for text in labels), label="y", label_type=kind)
    found = [(type(record.label), record.label) for record in records]
    assert found == [(type(label), label) for label in labels.values()]


def test_blank_lines_line_ends_and_byte_order_mark(read: Any) -> None:
    records = read(b'\xef\xbb\xbf{"a": 1}\r\n\n  \t\n{"a": 2}')
    assert [record.features for record in records] == [{"a": 1}, {"a": 2}]
    assert [(record.position["offset"], record.position["row"]) for record in records] == [(13, 1), (26, 4)]


def test_line_separators_of_unicode_are_no_line_ends(read: Any) -> None:
    assert read('{"k": "a\u2028b\x85c"}', key="k")[0].key == "a\u2028b\x85c"


def test_a_line_without_end_is_cut_even_if_it_begins_with_nothing(read: Any) -> None:
    bad, good = read(" " * 200 + '{"a": 1}\n{"a": 2}\n', max_record_bytes=50)
    assert "209 bytes, more than the 50" in bad.reason
    assert good.features == {"a": 2}

"""All records that a run can write become a page; others are refused in one line with the file and the line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from stream_osr import Event
from stream_osr.errors import ConnectorError, StreamOSRError
from stream_osr_connectors.files import open_sink
from stream_osr_connectors.page.report import report_page
from stream_osr_connectors.page.report.content import Content, collect
from stream_osr_connectors.page.report.files import read_files
from stream_osr_connectors.page.report.records_feed import MOST_LABELS
from stream_osr_connectors.summary.state import MOST_OTHERS
from tests.report.conftest import Page, Run, decision
from tests.test_showing import ANY
from tests.tiers import examples


def content(*paths: Path) -> Content:
    """What a report of these files tells."""
    inputs = read_files(paths)
    with closing(inputs.decisions or (record for record in ())) as decisions:
        given = None if inputs.decisions is None else decisions
        return collect(inputs.model, given, inputs.events, notes=inputs.notes)


def written(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """Write records as a run does."""
    with open_sink(path) as sink:
        for record in records:
            sink.write(record)
    return path


def decided(content: Content) -> int:
    """The number of decisions of a report."""
    return int(content.state["stream"]["decided"])


def test_tables_and_compressed_files_give_the_same_page(run: Run, tmp_path: Path) -> None:
    expected = collect(decisions=run.decisions).state
    for suffix in (".csv", ".csv.gz", ".tsv", ".jsonl.gz"):
        got = content(written(tmp_path / f"decisions{suffix}", run.decisions)).state
        assert got["notes"] == []
        assert got | {"seq": 0} == expected | {"seq": 0}, suffix
    emerged = [event for event in run.events if event["type"] == "SubclassEmerged"]
    got, expected = content(written(tmp_path / "events.csv", emerged)).state, collect(events=emerged).state
    assert [card["differs"] for card in got["inbox"]] == [card["differs"] for card in expected["inbox"]]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".jsonl.gz"])
def test_a_file_that_a_killed_run_left_is_read_and_noted(run: Run, tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"decisions{suffix}", run.decisions)
    path.write_bytes(path.read_bytes()[:-9])
    got = content(path)
    n = decided(got)
    assert len(run.decisions) - 1 <= n if suffix != ".jsonl.gz" else 0 < n < len(run.decisions) + 1
    (note,) = got.state["notes"]
    assert note.startswith(str(path))
    assert "because the run was stopped or is still running" in note
    inputs = read_files([path])
    assert note in Page(report_page(decisions=inputs.decisions, notes=inputs.notes)).state["notes"]


def test_a_row_cut_within_a_quoted_field_is_noted(tmp_path: Path, run: Run) -> None:
    first, second = ({**one, "label": "two\nlines", "first_label": "a\n\nb"} for one in run.decisions[:2])
    path = written(tmp_path / "decisions.csv", [first, second])
    whole = path.read_bytes()
    for cut in range(1, len(whole) // 4):
        path.write_bytes(whole[:-cut])
        got = content(path)
        assert (decided(got), len(got.state["notes"])) == (1, 1), cut


def test_a_column_of_keys_that_is_taken_for_labels_is_named(run: Run) -> None:
    many = [{**run.decisions[number % 600], "key": number, "seq": number} for number in range(MOST_LABELS + 5)]
    assert collect(decisions=many[:2000], truth=lambda key, number: str(key)).state["accuracy"]["n"] == 2000
    with pytest.raises(ConnectorError, match="more than 10000 different labels"):
        collect(decisions=many, truth=lambda key, number: str(key))


def test_repeated_records_count_once_and_are_noted(run: Run) -> None:
    again = [*run.decisions, *run.decisions[500:], {**run.decisions[3], "key": "another"}]
    got = collect(decisions=again, events=[*run.events, *run.events[:2]])
    assert decided(got) == 601
    assert got.state["notes"] == [
        "100 repeated decisions are skipped: each counts once",
        "2 repeated events are skipped: each counts once",
    ]


def test_events_that_no_drawing_shows_are_in_words(run: Run) -> None:
    model = run.events[0]["model"]
    jump = {"type": "UnknownRateJumped", "batch": 4, "seq": 159, "model": model, "rate": 0.41234567, "of": {"a": [1]}}
    summed = {"type": "WeekSummedUp", "model": model, "size": "large", "subclass_id": [7], "text": "</td><b>"}
    page = Page(report_page(run.model, run.decisions, [*run.events, jump, summed]))
    assert page.events("UnknownRateJumped")[0] == "rate 0.4123, of {'a': [1]}"
    assert page.events("WeekSummedUp") == ["size large, subclass_id [7], text </td><b>"]
    assert page.state["notes"] == []
    many = Page(report_page(events=[{**jump, "seq": seq} for seq in range(MOST_OTHERS + 7)]))
    assert (many.state["events"]["n"], len(many.state["events"]["latest"])) == (MOST_OTHERS + 7, MOST_OTHERS)


def kinds(kind: type[Event]) -> set[type[Event]]:
    """All kinds of events below a kind."""
    return {kind}.union(*map(kinds, kind.__subclasses__()))


CHANGES = {
    "seq": (2**63, 2**70, 10**400, -1, 0.5, "soon", True, None, [1], float("nan")),
    "p_unknown": ("high", None, 3.0, float("inf"), {}),
    "subclass_id": ("seven", 2**64, -3, [1]),
    "probabilities": (None, {}, [], 3, "red", '{"red": 1'),
}
EVENTS = (
    {"type": 7, "seq": 1},
    {"type": "SubclassGrew", "seq": 2**63, "subclass_id": 1},
    {"type": "NewClassesChanged", "seq": 1, "delta": "many"},
    {"type": "NewClassesChanged", "seq": 1},
    {"type": "SubclassEmerged", "seq": 1, "subclass_id": 1, "size": 3, "explanation": []},
    {"type": "SubclassEmerged", "seq": 1, "subclass_id": 1, "size": "many", "explanation": {}},
    {"type": "RecallDropped", "seq": 1, "recall": "low"},
)
NESTED = json.dumps({"p_unknown": 1, "probabilities": {"a": json.loads("[" * 900 + "]" * 900)}})
WRONG = [
    *(json.dumps({**decision(4, "red"), field: value}) for field, values in CHANGES.items() for value in values),
    *(json.dumps({"model": "m", **event}) for event in EVENTS),
]
LINES = [
    *((line, r"line 2 is no (decision|event) \(.*Give the file that") for line in (*WRONG, "{}", NESTED)),
    ("[" * 100_000 + "]" * 100_000, r"line 2 is not JSON \(nested too deeply\)"),
    ('{"seq": 1e}', "line 2 is not JSON"),
    ('{"seq": ' + "9" * 5000 + "}", "line 2 is not JSON"),
    ("17", "line 2 is no JSON object"),
]


def test_a_line_that_is_no_record_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "any.jsonl"
    for line, said in LINES:
        one, other = run.events[:2] if '"type"' in line else run.decisions[:2]
        path.write_text("\n".join([json.dumps(one), line, json.dumps(other)]) + "\n")
        with pytest.raises(ConnectorError, match=rf"any\.jsonl, {said}") as caught:
            content(path)
        assert "\n" not in str(caught.value), line[:60]
        assert len(str(caught.value)) < 500, line[:60]


def test_a_table_broken_in_its_middle_is_an_error(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "decisions.csv", run.decisions)
    lines = path.read_text().split("\n")
    for broken, said in (('"' + lines[3], "line 4: "), (lines[3] + ",1", "line 4 has 16 fields, the header 15")):
        path.write_text("\n".join([*lines[:3], broken, *lines[4:]]))
        with pytest.raises(ConnectorError, match=said):
            content(path)


def test_keys_of_any_kind_and_fields_of_later_releases(run: Run) -> None:
    keys = [None, 3, 2.5, "\ud800", ["a", {"b": None}], {"a": 1}, True, 10**30, "x" * 10**5]
    more = [{**one, "key": key, "later": {"a": key}} for one, key in zip(run.decisions, keys, strict=False)]
    events = [{**event, "exemplars": keys, "later": keys} for event in run.events]
    page = Page(report_page(None, more, events, lambda key, number: "\udc80 truth"))
    assert "\\ud800" in [its.get("key") for its in page.answers.values()]
    assert {row["label"] for row in page.state["accuracy"]["rows"]} == {"\\udc80 truth"}


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["key", "seq", "label", "p_unknown", "probabilities", "subclass_id", "type", "model", "size", "delta", "sizes",
     "explanation", "first_seen", "last_seen", "exemplars", "new_id", "recall", "promised", "known_share", "low"]
)  # fmt: skip
TYPES = st.sampled_from([*sorted({kind.__name__ for kind in kinds(Event)}), "SubclassEmerged", "Later"])
DECISION = st.fixed_dictionaries(
    {"key": JSON, "seq": st.integers(0, 99), "label": ANY, "p_unknown": st.floats(0, 1), "subclass_id": st.none(),
     "probabilities": st.dictionaries(ANY, st.floats(0, 1), min_size=1, max_size=3)}
)  # fmt: skip
EVENT = st.fixed_dictionaries({"type": TYPES, "model": st.just("m"), "seq": st.integers(0, 99)})
RECORDS = st.tuples(DECISION | EVENT, st.dictionaries(NAMES | ANY, JSON, max_size=3)).map(lambda two: two[0] | two[1])


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists((RECORDS | JSON).map(json.dumps) | ANY, max_size=4), st.booleans(), st.integers(0, 30))
def test_any_lines_become_a_report_or_an_error_in_a_line(
    tmp_path: Path, lines: list[str], table: bool, cut: int
) -> None:
    path = tmp_path / ("any.csv" if table else "any.jsonl")
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    path.write_bytes(data[: len(data) - cut])
    try:
        got = content(path)
    except StreamOSRError as error:
        said = str(error).replace(str(path), "")
    else:
        said = " ".join(got.state["notes"]).replace(str(path), "")
        assert decided(got) <= len(lines)
    assert "\n" not in said
    assert len(said) < 1000


@pytest.mark.thorough
@examples(12)
@given(st.lists(DECISION, min_size=1, max_size=4), st.lists(EVENT, max_size=3), ANY)
def test_any_text_becomes_a_page_that_can_be_written(decisions: list[Any], events: list[Any], title: str) -> None:
    try:
        page = report_page(None, decisions, events, lambda key, number: title, title)
    except StreamOSRError:
        return  # an event lacks what its kind needs
    page.encode("utf-8")
    assert not any(mark in Page(page).text for mark in "\u202e\u2028\x1b\x9b\u200b\ufeff")


def test_a_compressed_file_without_a_whole_line_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}")[:12])
    got = content(path)
    assert decided(got) == 0
    assert "cannot be decompressed to its end" in got.state["notes"][0]

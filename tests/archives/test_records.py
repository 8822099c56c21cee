"""The table of records: it names everything that can be saved, and what it has named it names for ever."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.archive import VERSION, read_archive, write_archive
from stream_osr.archive.container import open_archive
from stream_osr.archive.form import Form, Kind, form_of, in_memory, numbered
from stream_osr.archive.migrations import STEPS, bring_up
from stream_osr.archive.records import BY_TYPE, EVENTS, FIRST, RECORDS
from stream_osr.archive.table import read_table
from stream_osr.decision import Decision
from stream_osr.discovery import events
from stream_osr.engine import Arrived, Evidence, Stream
from stream_osr.ensemble.past import Past
from stream_osr.trained import TrainedModel
from tests.archives.golden import VERSIONS, unpacked

WHAT_TO_DO = "see 'A record or a field more' in docs/archives.md"


def is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (hasattr(kind, "_fields") or dataclasses.is_dataclass(kind))


def fields_of(kind: type[Any]) -> list[str]:
    return list(kind._fields) if hasattr(kind, "_fields") else [f.name for f in dataclasses.fields(kind)]


def reachable(*kinds: Any) -> set[type[Any]]:
    """All records that values of some types can hold, by the types of their fields."""
    found, waiting = set[type[Any]](), list(kinds)
    while waiting:
        kind = waiting.pop()
        if is_record(kind):
            if kind not in found:
                found.add(kind)
                waiting += typing.get_type_hints(kind).values()
        else:
            waiting += typing.get_args(kind)
    return found


def all_events() -> set[type[Any]]:
    """Kinds of events that there are; none that others derive from."""
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]
    return {kind for kind in kinds if sum(issubclass(other, kind) for other in kinds) == 1}


def test_every_record_that_a_state_can_hold_has_a_name() -> None:
    reached = reachable(Stream, TrainedModel, Arrived, Evidence, Decision, *all_events())
    assert len(reached) > 40
    assert Past in reached, "it is written as what it was before it was columns (archive/records.py)"
    lacking = sorted(kind.__qualname__ for kind in reached if kind not in BY_TYPE and kind is not Past)
    assert not lacking, f"{', '.join(lacking)}: in a state, but not in archive/records.table; {WHAT_TO_DO}"
    assert {RECORDS[name].type for name in EVENTS} == all_events()


@pytest.mark.parametrize("name", RECORDS)
def test_the_fields_of_a_record_are_those_of_the_table(name: str) -> None:
    entry = RECORDS[name]
    if entry.to is None:  # field by field, not by a function of its own
        now = fields_of(entry.type)
        lacking = [field for field in now if field not in entry.rules]
        assert not lacking, f"{name} has {', '.join(lacking)}, which archive/records.table has not; {WHAT_TO_DO}"
        assert list(entry.rules) == now, "the order of the table is the one in which old files number what they hold"


def test_what_format_5_had_is_as_it_was() -> None:
    """Names and fields of the table that came first, in their order: pinned here, never to be changed."""
    then = json.loads((Path(__file__).parent / "format5.json").read_text())
    now = {name: [field for field, since in row.since.items() if since == 5] for name, row in read_table(5).items()}
    assert {name: now[name] for name in then} == then


def test_there_is_a_step_from_every_version() -> None:
    assert sorted(STEPS) == list(range(FIRST, VERSION))
    assert [int(path.name[1:]) for path in VERSIONS] == list(range(FIRST, FIRST + len(VERSIONS)))


def test_what_a_newer_release_wrote_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.osr"
    write_archive(path, "thing", {})
    whole = path.read_bytes()
    number = f'"version": {VERSION}'.encode("utf-32-le")
    assert whole.count(number) == 1
    with np.load(path) as archive:
        manifest = json.loads(str(archive["manifest"]))
    with path.open("wb") as file:
        np.savez(file, manifest=np.array(json.dumps({**manifest, "version": 77})))
    with pytest.raises(OSError, match=f"format version 77, this program reads up to {VERSION}; upgrade stream-osr"):
        read_archive(path, "thing")


class Point(typing.NamedTuple):
    """A record as it is in memory today: one array."""

    both: np.ndarray


def test_a_record_that_has_become_another_in_memory_is_the_same_in_archives() -> None:
    """As the table has two functions for: archives have two arrays, memory has one."""
    kind = Kind(
        "Point",
        Point,
        {"x": 5, "y": 5},
        to=lambda point: {"x": point.both[0], "y": point.both[1]},
        of=lambda x, y: Point(np.stack([x, y])),
    )
    point = Point(np.arange(6.0).reshape(2, 3))
    form = form_of((point, point), {Point: kind}, {})
    assert form[0] is form[1]
    assert [form[0][name].tolist() for name in ("x", "y")] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    back = in_memory(form, {"Point": kind}, {})
    assert back[0] is back[1]
    np.testing.assert_array_equal(back[0].both, point.both)


def test_a_field_that_came_later_does_not_change_what_old_numbers_mean() -> None:
    kinds = {"Later": Kind("Later", types.SimpleNamespace, {"old": 5, "new": 7, "last": 5})}
    form = Form("Later", {"old": np.zeros(1), "new": np.zeros(2), "last": np.zeros(3)})
    paths = {version: [path for path, _ in numbered((form,), kinds, version)] for version in (5, 6, 7)}
    assert paths[5] == paths[6] == ["0.old", "0.last", "0"]
    assert paths[7] == ["0.old", "0.new", "0.last", "0"]


def test_the_step_from_5_names_what_lies_beside() -> None:
    beside = (Form("Statistics", {"size": np.zeros(1), "matrix": np.zeros(2)}),)
    muting = {"record": "Muting", "values": {"number": 1, "subclasses": {"tuple": []}}, "number": 4}
    content = {"tuple": [{"same": 1}, {"array": "a0", "number": 3}, {"same": 3}, {"same": 2}, muting]}
    made = bring_up({"version": 5, "content": content}, 5, 6, beside)
    assert made["version"] == 6
    assert made["content"]["tuple"] == [
        {"beside": "0.matrix"},
        {"array": "a0", "number": 0},
        {"same": 0},
        {"beside": "0"},
        {**muting, "number": 1},
    ]


def test_arrays_are_the_same_bits_in_the_new_format(tmp_path: Path) -> None:
    """What is written now has the arrays of format 5, under the same names; what has come since says nothing."""
    path = unpacked(VERSIONS[0], "mid-stream.osr", tmp_path)
    before = open_archive(path)
    OpenSetRecognizer.load(path).save(path)
    after = open_archive(path)
    assert list(after.arrays) == list(before.arrays)
    for name, array in before.arrays.items():
        assert (after.arrays[name].dtype, after.arrays[name].shape) == (array.dtype, array.shape)
        assert after.arrays[name].tobytes() == array.tobytes()
    now = spelled_out(without_later(after.manifest["content"]), {})
    assert now == spelled_out(before.manifest["content"], {})


LATER = (["categorical", None], ["numeric", None], ["missing", None], ["order", "arrival"], ["absent", "auto"])


def without_later(tree: typing.Any) -> typing.Any:
    """What a manifest says, but for fields and arguments that have come with format 7: they say nothing."""
    if isinstance(tree, list):
        return [without_later(each) for each in tree if each not in LATER]
    if not isinstance(tree, dict):
        return tree
    if "record" not in tree:
        return {name: without_later(each) for name, each in tree.items()}
    since, values = RECORDS[tree["record"]].since, tree["values"]
    assert all(each in (None, 0, {"dict": []}, {"tuple": []}) for name, each in values.items() if since[name] == 7)
    return {**tree, "values": {name: without_later(each) for name, each in values.items() if since[name] < 7}}


def spelled_out(tree: typing.Any, there: dict[int, typing.Any]) -> typing.Any:
    """What a manifest says, whether something that occurs twice is written twice or referred to."""
    if isinstance(tree, list):
        return [spelled_out(each, there) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if "same" in tree:
        return there[tree["same"]]
    out = {name: spelled_out(each, there) for name, each in tree.items() if name != "number"}
    return there.setdefault(tree.get("number", -1 - len(there)), out)

"""The records of archives: everything that can be saved is one."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import Decision, TrainedModel
from stream_osr.archive.declared import rule_of
from stream_osr.archive.files import MAGIC, read_archive, to_bytes
from stream_osr.archive.migrations import STEPS
from stream_osr.archive.records import BY_TYPE, EVENTS, RECORDS, VERSION
from stream_osr.discovery import event_base, events
from stream_osr.stream import BufferedInstance, Stream
from stream_osr.stream.late_labels import Evidence
from tests.archives.golden import VERSIONS

WHAT_TO_DO = "see 'A record or a field more' in docs/archives.md"


def is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (hasattr(kind, "_fields") or dataclasses.is_dataclass(kind))


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
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, event_base.Event)]
    return {kind for kind in kinds if sum(issubclass(other, kind) for other in kinds) == 1}


def test_every_record_that_a_state_can_hold_has_a_name() -> None:
    reached = reachable(Stream, TrainedModel, BufferedInstance, Evidence, Decision, *all_events())
    assert len(reached) > 40
    others = {"RecentInstances", "Densities", "StudentTerms", "WindowDensities"}  # in another form, or derived
    lacking = sorted(name for kind in reached if (name := kind.__qualname__) not in others and kind not in BY_TYPE)
    assert others <= {kind.__qualname__ for kind in reached}
    assert not lacking, f"{', '.join(lacking)}: in a state, but not in archives; {WHAT_TO_DO}"
    assert {RECORDS[name].type for name in EVENTS} == all_events()


def test_names_of_records_and_fields_are_permanent() -> None:
    """A type or a field in memory can have another name (``IN_MEMORY``); fields keep their order."""
    now = [" ".join((name, *RECORDS[name].rules)) for name in sorted(RECORDS)]
    assert now == (Path(__file__).parent / "fields.txt").read_text().splitlines(), WHAT_TO_DO


def test_a_field_without_a_rule_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"ndarray.* has no rule, see 'A record or a field more'"):
        rule_of(tuple[np.ndarray, ...], str)


def test_there_is_a_step_from_every_version() -> None:
    """And a golden set of every version that is read."""
    assert [*sorted(STEPS), VERSION] == [int(path.name[1:]) for path in VERSIONS]
    assert [*sorted(STEPS), VERSION] == list(range(VERSION - len(STEPS), VERSION + 1))


def of_version(folder: Path, number: int) -> Path:
    """Write an archive of nothing with this version in its header."""
    data = to_bytes("thing", {})
    path, at = folder / "then.osr", len(MAGIC)
    path.write_bytes(data[:at] + number.to_bytes(8, "little") + data[at + 8 :])
    return path


def test_an_archive_of_a_version_that_there_is_a_step_from_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in (VERSION - 2, VERSION - 1):
        monkeypatch.setitem(STEPS, version, lambda old: {**old, len(old): 7})
    assert read_archive(of_version(tmp_path, VERSION - 2), "thing") == {0: 7, 1: 7}
    assert read_archive(of_version(tmp_path, VERSION), "thing") == {}


@pytest.mark.parametrize("number", [77, VERSION - len(STEPS) - 1])
def test_a_version_that_is_not_read_is_refused_by_its_number(number: int, tmp_path: Path) -> None:
    readable = " and ".join(map(str, [*sorted(STEPS), VERSION]))
    message = f"version {number}, this program reads {readable}. Read it with the release of stream-osr that wrote it"
    with pytest.raises(OSError, match=message):
        read_archive(of_version(tmp_path, number), "thing")

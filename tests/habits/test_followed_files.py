"""A followed file is cut to nothing and begun anew (``copytruncate``), or replaced by another one of its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_osr.errors import ConnectorError
from stream_osr_connectors.files import BadRecord, open_file, open_source

HEADER = "id,flow\n"


def rows(*numbers: int) -> str:
    return "".join(f"r{n},{n}\n" for n in numbers)


def lines(*numbers: int) -> str:
    return "".join(f'{{"id": "r{n}", "flow": {n}}}\n' for n in numbers)


class Done(Exception):
    """Nothing more is to come."""


def followed(path: Path, *steps: Callable[[], object]) -> tuple[list[str | None], Any]:
    """Keys of the records while each time that nothing comes another step is done; None: set aside."""
    waiting = iter(steps)

    def wait() -> None:
        step = next(waiting, None)
        if step is None:
            raise Done
        step()

    found: list[str | None] = []
    with open_source(path, key="id", features=["flow"], follow=True) as source:
        source.while_waiting(wait)  # type: ignore[attr-defined]
        try:
            for record in source:
                found.append(None if isinstance(record, BadRecord) else str(record.key))
        except Done:
            return found, source
    raise AssertionError


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_file, "WAIT_SECONDS", 0.0)


def add(path: Path, text: str) -> Callable[[], object]:
    def step() -> None:
        with path.open("a") as file:
            file.write(text)

    return step


@pytest.mark.parametrize(("name", "first", "make"), [("in.csv", HEADER, rows), ("in.jsonl", "", lines)])
def test_a_shorter_file_is_read_from_its_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, first: str, make: Callable[..., str]
) -> None:
    path = tmp_path / name
    path.write_text(first + make(*range(40)))
    found, source = followed(path, lambda: path.write_text(first + make(100)), add(path, make(*range(101, 160))))
    assert found == [f"r{n}" for n in (*range(40), *range(100, 160))]
    assert source.cuts == 1
    assert "was cut or replaced after line 4" in caplog.text


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (HEADER + rows(1, 2), HEADER + rows(*range(10, 60)), ["r1", "r2", *(f"r{n}" for n in range(10, 60))]),
        (HEADER + rows(1, 2), rows(3, 4), ["r1", "r2", "r3", "r4"]),
        (HEADER + rows(1), "flow,id\n2,r2\n", ["r1", "r2"]),
        (HEADER + rows(1) + "r2,3", rows(4), ["r1", None, "r4"]),
    ],
    ids=["larger than the place", "without a header", "columns in another order", "half a line"],
)
def test_a_file_that_was_replaced_is_read_from_its_beginning(
    tmp_path: Path, before: str, after: str, expected: list[str | None]
) -> None:
    path = tmp_path / "in.csv"
    path.write_text(before)
    assert followed(path, lambda: path.write_text(after))[0] == expected
    path.write_text(before)
    with pytest.raises(ConnectorError, match="has no column 'flow'"):
        followed(path, lambda: path.write_text("heat,id\n3,r3\n"))


def test_a_file_that_was_moved_away_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(HEADER + rows(1))

    def move() -> None:
        path.rename(tmp_path / "in.csv.1")
        path.touch()

    found, source = followed(path, move, add(tmp_path / "in.csv.1", rows(2)), add(path, HEADER + rows(3)))
    assert (found, source.cuts) == (["r1", "r2", "r3"], 1)


def test_positions_are_those_of_the_present_file(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(HEADER + rows(*range(20)))
    with open_source(path, key="id", follow=True) as source:
        source.while_waiting(lambda: path.write_text(HEADER + rows(50, 51)))  # type: ignore[attr-defined]
        position = next(record.position for record in source if getattr(record, "key", None) == "r50")
    with open_source(path, key="id") as source:
        source.seek(position)
        assert [getattr(record, "key", None) for record in source] == ["r51"]


def test_what_only_grows_is_not_taken_for_cut(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(HEADER)
    steps = [add(path, "r1,"), add(path, "1\n" + rows(*range(2, 3000))), add(path, rows(3000))]
    found, source = followed(path, *steps)
    assert (len(found), source.cuts) == (3000, 0)

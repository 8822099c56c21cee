"""Headers and rows of CSV as people write them: padded, without names, with comments, divided otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_osr_connectors.files import BadRecord, open_source

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


def read(path: Path, text: str, **options: object) -> list[object]:
    path.write_text(text, encoding="utf-8")
    with open_source(path, label="y", **options) as source:  # type: ignore[arg-type]
        return [
            each.reason if isinstance(each, BadRecord) else ({**each.features}, str(each.label).strip())
            for each in source
        ]


@pytest.mark.parametrize("how", SAME)
def test_a_table_is_the_same_however_its_header_is_written(tmp_path: Path, how: str) -> None:
    path = tmp_path / "in.csv"
    assert read(path, SAME[how]) == read(path, PLAIN)
    assert read(path, SAME[how], features=["heat"]) == read(path, PLAIN, features=["heat"])


@pytest.mark.parametrize("again", ["\ufeffflow,heat,y", " flow, heat, y", '\ufeff"flow","heat","y"', "flow,heat,y,"])
def test_a_second_header_is_set_aside_however_it_is_written(tmp_path: Path, again: str) -> None:
    first, one, two = PLAIN.splitlines()
    found = read(tmp_path / "in.csv", f"{first}\n{one}\n{again}\n{two}\n")
    assert found[1] == "the row repeats the header: the file was put together from several"
    assert [found[0], found[2]] == read(tmp_path / "in.csv", PLAIN)


def test_what_stands_after_the_last_column_is_set_aside(tmp_path: Path) -> None:
    found = read(tmp_path / "in.csv", "flow,heat,y,\n1.5,2,idle,\n2.5,3,running,late\n")
    assert found[1] == "the row has 4 fields, the header 3. Check delimiters and quotes"


@pytest.mark.parametrize("header", ["#flow,heat,y", "#y,flow,heat"])
def test_a_header_that_looks_like_a_comment_is_none(tmp_path: Path, header: str) -> None:
    label = header.split(",")[0] if header.startswith("#y") else "y"
    path = tmp_path / "in.csv"
    path.write_text(f"{header}\n1,2,3\n")
    with open_source(path, label=label) as source:
        assert len([*source]) == 1


def test_names_that_differ_by_spaces_and_names_of_earlier_models_stay(tmp_path: Path) -> None:
    assert read(tmp_path / "in.csv", "a, a,y\n1,2,x\n") == [({"a": 1.0, " a": 2.0}, "x")]
    assert read(tmp_path / "in.csv", "a, b,y\n1,2,x\n", features=["a", " b"]) == [({"a": 1.0, " b": 2.0}, "x")]

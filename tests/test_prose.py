"""The linter of prose finds a bad sentence in each kind of source, and nothing in a good one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import prose

SOURCES = {
    "README.md": "# A page\n\n{}\n",
    "table.md": "| a | b |\n| --- | --- |\n| {} | 1 |\n",
    "note.md": "!!! note\n    A fact.\n    {}\n",
    "docstring.py": '"""A module.\n\n{}\n"""\n',
    "attribute.py": 'A = 1\n"""{}"""\n',
    "help.py": 'app.command(help="{}")\n',
    "message.py": 'raise ValueError(f"{}" f" {{name}} was found")\n',
    "page.html.j2": "<p>{{% if a %}}{}{{% endif %}}</p>\n",
    "title.html.j2": '<a title="{}">x</a>\n',
    "page.js": 'const text = "{}";\n',
    "decision.json": '{{"description": "{}"}}\n',
    "glossary.toml": '[terms]\nterm = "{}"\n',
}
"""A file of each kind, with a place for a sentence."""

LONG = " ".join(["The service writes a decision"] * 8) + "."

BAD = {
    "Events are told once for each fact.": "a verb of speech for data",
    "The instances are given back by the guard.": "an everyday verb as jargon",
    "The owner of the topic can change all of it.": "a vague reference",
    "The stream begins anew after an error.": "an archaic word",
    LONG: "a sentence has at most 35 words",
    "One event is one line; one line is one fact.": "a semicolon joins two sentences",
    "The recall is .93 in this run.": "a number has a leading zero",
}
"""A sentence that breaks a rule, and the rule."""


def findings(folder: Path, name: str, text: str) -> list[str]:
    path = folder / name
    path.write_text(SOURCES.get(name, "{}\n").format(text))
    return [finding.rule for each in prose.read_texts(path) for finding in prose.check(each)]


@pytest.mark.parametrize("name", SOURCES)
def test_a_bad_sentence_is_found_in_each_kind_of_source(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path, name, "The service emits each event once.") == []
    for sentence, rule in BAD.items():
        if name != "table.md" or ";" not in sentence:
            assert any(found.startswith(rule) for found in findings(tmp_path, name, sentence)), sentence


@pytest.mark.parametrize("heading", ["# What is promised", "## How we build", "### Where it lies"])
def test_a_heading_is_a_noun_phrase(tmp_path: Path, heading: str) -> None:
    assert findings(tmp_path, "page.md", heading) == ["a heading is a noun phrase"]
    assert findings(tmp_path, "page.md", "# Promises") == []


def test_code_and_quotes_are_no_prose(tmp_path: Path) -> None:
    text = 'The word "told" and `a; b` are quotes.\n\n```python\n"told"; .5\n```\n'
    assert findings(tmp_path, "page.md", text) == []


def test_the_mean_sentence_of_a_guide_is_short(tmp_path: Path) -> None:
    (path := tmp_path / "page.md").write_text("One two three four. One two three four five six.\n")
    assert prose.mean_length(list(prose.read_texts(path))) == 5


def test_a_finding_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "page.md").write_text("Events are told once.\n")
    assert prose.main([str(path)]) == 1
    assert f"{path}:1: a verb of speech for data: told" in capsys.readouterr().out
    path.write_text("Each event is emitted once.\n")
    assert prose.main([str(path)]) == 0

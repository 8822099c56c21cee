"""The command as a person meets it."""

from __future__ import annotations

from tests.report.conftest import Page
from tests.test_cli import call


def report(files, *arguments: object):
    return call("report", *arguments, cwd=files)


def test_everything_becomes_one_page(files):
    done = report(
        files,
        *("model.osr", "decisions.jsonl", "events.jsonl", "-o", "all.html", "--title", "Monday"),
        *("--truth", "truth.jsonl", "--label", "species", "--key", "id", "--input", "truth.jsonl"),
    )
    assert done.returncode == 0, done.stderr
    assert "report written to all.html" in done.stderr
    text = (files / "all.html").read_text()
    page = Page(text)
    assert "<title>Monday</title>" in text
    assert page.state["stream"]["name"] == "Monday"
    assert page.state["accuracy"]["n"] == 600
    assert page.state["plane"]["points"]
    examples = [one for card in page.state["inbox"] for some in card["examples"].values() for one in some]
    assert {name for one in examples for name in one["features"]} == {"species"}  # a column of --input
    assert len(text) < 2_000_000


def test_a_mistake_is_one_line(files, tmp_path):
    whole = (files / "decisions.jsonl").read_text()
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "wrong.jsonl").write_text(whole.replace('"seq": 7}', '"seq": "\\u001b[2J"}'))
    for arguments, said in (
        (("decisions.jsonl", "--truth", "truth.jsonl"), "--truth truth.jsonl needs --label"),
        (("decisions.jsonl", "-o", "decisions.jsonl"), "is one of the input files"),
        (("decisions.jsonl", "-o", "no/such/folder.html"), "cannot write no/such/folder.html"),
        ((tmp_path / "empty.jsonl",), "there is nothing to report"),
        ((tmp_path / "wrong.jsonl",), "wrong.jsonl, line 8 is no decision (seq is '\\x1b[2J', not a"),
        (("decisions.jsonl", "events.jsonl", "-i", "none.csv"), "none.csv"),
        (("model.osr", "--truth", "truth.jsonl", "--label", "species"), "--truth needs decisions"),
    ):
        done = report(files, *arguments)
        assert done.returncode == 1, arguments
        assert said in done.stderr.replace("\n", " ")
        assert "Traceback" not in done.stderr
    assert (files / "decisions.jsonl").read_text() == whole
    assert not (files / "report.html").exists()

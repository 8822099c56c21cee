"""Every command and example of the read-me and of the site runs as it is written."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.documents.brokers import usual_broker
from tests.documents.reading import PAGES, ROOT, blocks, needs_broker
from tests.documents.running import Failed, Session

NOT_RUN: dict[str, int] = {
    "README.md": 1,  # clone
    "docs/kafka.md": 3,  # images from a network, a transaction that hangs, a service of the machine
    "docs/tutorials/kafka.md": 1,  # the same: an environment
    "docs/index.md": 1,  # clone
    "docs/tutorials/images.md": 1,  # needs USPS: tests/test_examples_images.py
    "docs/mlflow.md": 1,  # installs
    "docs/spark.md": 4,  # installs, and pyspark: tests/spark
    "docs/installing.md": 5,  # clone, installs, images
}
"""Blocks of a page that are shown and not run: they need a network, or something of the reader's."""


STARTED = {"README.md", "docs/installing.md", "docs/mcp.md"}
"""Pages whose ``stream-osr`` is started as a reader starts it; on the others it is forked (:class:`Session`)."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    with usual_broker(text, request.config, monkeypatch) if needs_broker(text) else nullcontext():
        Session(name_of(page), tmp_path, forked=name_of(page) not in STARTED).run(text)


def test_what_is_not_run_is_listed() -> None:
    found = {name_of(page): sum(bool(block.why_not) for block in blocks(page.read_text())) for page in PAGES}
    assert {name: count for name, count in found.items() if count} == NOT_RUN


@pytest.mark.parametrize(
    "page",
    [
        "```bash\nfalse\n```\n",
        "```bash\necho one\n```\n\nprints\n\n```text\ntwo\n```\n",
        "```python\n>>> 1 + 1\n7\n```\n",
        "    ls\n",
        "```bash\nmkdir a && cd a\n```\n",
        "<!-- meanwhile -->\n```bash\nexit 3\n```\n\n```bash\nsleep 1\n```\n",
        "<!-- meanwhile -->\n```bash\ntrap 'exit 3' INT; echo up; sleep 60\n```\n\n```text\nup\n```\n\n"
        "<!-- after Ctrl-C -->\n```bash\ntrue\n```\n",
    ],
)
def test_a_page_that_is_wrong_fails(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Failed):
        Session("page", tmp_path).run(page)

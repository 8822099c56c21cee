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

LONG: dict[str, int] = {"docs/tutorials/images.md": 1, "docs/tutorials/texts.md": 2}
"""Blocks of a page that repeat an example with other seeds; one seed is run without them."""

STARTED = {"README.md"}
"""Pages whose ``stream-osr`` is started as a reader starts it; on the others it is forked (:class:`Session`)."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    run(page, tmp_path, monkeypatch, request)


@pytest.mark.long
@pytest.mark.parametrize("page", [ROOT / page for page in LONG], ids=name_of)
def test_long_commands_of_a_page_do_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    run(page, tmp_path, monkeypatch, request, long=True)


def run(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, *, long: bool = False
) -> None:
    monkeypatch.chdir(folder)
    text = page.read_text()
    with usual_broker(text, request.config, monkeypatch) if needs_broker(text) else nullcontext():
        Session(name_of(page), folder, forked=name_of(page) not in STARTED, long=long).run(text)


def test_what_is_not_run_is_listed() -> None:
    remarks = {name_of(page): [block.remark for block in blocks(page.read_text())] for page in PAGES}
    for listed, remark in ((NOT_RUN, "not run:"), (LONG, "long")):
        found = {name: sum(each.startswith(remark) for each in given) for name, given in remarks.items()}
        assert {name: count for name, count in found.items() if count} == listed


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

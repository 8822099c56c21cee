"""Every command and example of the read-me and of the site runs as it is written."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.documents.brokers import usual_broker
from tests.documents.reading import PAGES, ROOT, blocks, needs_broker
from tests.documents.running import Session

NOT_RUN: dict[str, int] = {
    "README.md": 1,  # clone
    "docs/kafka.md": 2,  # images from a network, a service of the machine
    "docs/kafka_operation.md": 2,  # dead letters of a service, a transaction that hangs
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


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


RUN = [pytest.param(page, False, id=name_of(page)) for page in PAGES]
RUN += [pytest.param(ROOT / name, True, id=f"{name} long", marks=pytest.mark.long) for name in LONG]


@pytest.mark.parametrize(("page", "long"), RUN)
def test_a_page_does_what_it_says(
    page: Path, long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    with usual_broker(text, pytestconfig, monkeypatch) if needs_broker(text) else nullcontext():
        Session(name_of(page), tmp_path, forked=True, long=long).run(text)


def test_blocks_that_are_not_run_are_listed() -> None:
    remarks = [(name_of(page), block.remark) for page in PAGES for block in blocks(page.read_text())]
    assert Counter(name for name, remark in remarks if remark.startswith("not run:")) == NOT_RUN
    assert Counter(name for name, remark in remarks if remark.startswith("long")) == LONG

"""Tables in a notebook: a browser shows them whole, runs no content of the data and makes no request."""

from __future__ import annotations

from copy import copy

import numpy as np

from stream_osr.decision import Decisions
from tests.blobs import around
from tests.report.browser import opened_page
from tests.report.conftest import EVIL_CLASSES, EVIL_FEATURES, KNOWN


def test_tables_of_hostile_labels_are_text(run, browser, tmp_path):
    model, rng = copy(run.model), np.random.default_rng(0)
    for x in [x for centre in KNOWN.values() for x in around(centre, 10, rng, EVIL_FEATURES)]:
        model.learn_one(x, key=f"</td><script>window.hacked=1</script>{model.pending}")
    model.flush()
    decisions, found, summary = Decisions(model.drain()), model.new_classes(), model.summary()
    assert len(decisions) == 30
    shown = [decisions, decisions[0], found, summary]
    path = tmp_path / "notebook.html"
    path.write_text("<!doctype html>" + "".join(f"<div>{each._repr_html_()}</div>" for each in shown), "utf-8")
    with opened_page(browser, path.as_uri(), "body") as opened:
        texts = opened.page.locator("div").all_inner_texts()
        assert opened.page.locator("body :not(div, table, caption, thead, tbody, tr, th, td, p)").count() == 0
        assert [table.locator("tbody tr").count() for table in opened.page.locator("table").all()] == [
            20, 1, len(found.candidates), len(EVIL_CLASSES) + 2
        ]  # fmt: skip
        assert opened.page.evaluate("window.hacked === undefined")
        assert opened.requests == [path.as_uri()]
        assert opened.said == []
    for text in (texts[0], texts[3]):
        assert EVIL_CLASSES[0] in text
    assert "30 decisions, the first 20 of them" in texts[0]
    assert "<script>window.hacked" in texts[1]
    assert f"estimated number of new classes: {found.estimate}, candidates: {len(found.candidates)}" in texts[2]
    assert summary.text().splitlines()[-1] in texts[3]

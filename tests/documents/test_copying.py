"""The copy button of a session: the copied lines can be pasted into Python."""

from __future__ import annotations

from codeop import CommandCompiler
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page

from tests.documents.reading import ROOT, blocks

pytestmark = pytest.mark.xdist_group("site")


SESSIONS = ".highlight:has(.gp) [data-clipboard-target]"
"""Copy buttons."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Open a page in a context of its own: one that hangs fails one test."""
    permissions = ["clipboard-read", "clipboard-write"]
    with browser.new_context(base_url=address, permissions=permissions) as context:
        yield context.new_page()


def copied(page: Page, place: str) -> list[str]:
    page.goto(place)
    page.locator(SESSIONS).last.wait_for(state="attached", timeout=10_000)
    page.evaluate("navigator.clipboard.writeText('nothing')")
    found = []
    for button in page.locator(SESSIONS).all():
        button.dispatch_event("click")
        found.append(page.evaluate("navigator.clipboard.readText()"))
    return found


def typed(session: str) -> None:
    """Type lines as at a prompt: each compiles or waits for more, and at the end nothing waits."""
    compiler, waiting = CommandCompiler(), list[str]()
    for line in session.splitlines():
        waiting.append(line)
        if compiler("\n".join(waiting), "<session>", "single") is not None:
            waiting = []
    assert not "".join(waiting).strip(), waiting


@pytest.mark.parametrize(
    "name", ["index", "tutorials/river", "tutorials/naming", "python", "signals", "files", "upgrade"]
)
def test_a_copied_session_can_be_pasted(page: Page, name: str) -> None:
    got = copied(page, "/" if name == "index" else f"/{name}/")
    text = (ROOT / "docs" / f"{name}.md").read_text()
    assert len(got) == sum(block.text.startswith(">>> ") for block in blocks(text) if block.language == "python")
    for session in (*got, "".join(got)):
        typed(session)

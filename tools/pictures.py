"""Pictures of the pages: ``python -m tools.pictures FOLDER [--docs]`` (``make pictures``).

It runs the demonstration, and takes pictures of its report, of the live page and of the home page of the site. Each
is taken at two widths, light and dark. A page that is wider than its window ends the program with an error.
``--docs`` also writes the two pictures of the documentation.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
WIDTHS = (1280, 380)
"""Pixels."""
SCHEMES = ("light", "dark")
DOCS = {"report": 1452, "live": 1719}
"""Pictures of the documentation, and their heights in pixels."""
DOCS_WIDTH = 1180
COMMAND = (sys.executable, "-m", "stream_osr_connectors")
OUTPUT = Path("demo-output")
DRAWN = {"report": "html[data-seq]", "live": "article", "site": "main h1"}
"""Elements that are there when a page is complete."""


class Silent(SimpleHTTPRequestHandler):
    """A server of files without a log."""

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextmanager
def watched(folder: Path) -> Iterator[str]:
    """Show the run of the demonstration on the live page."""
    table = ["--input", str(OUTPUT / "stream.csv"), "--key", "key"]
    command = [*COMMAND, "watch", str(OUTPUT / "decisions.jsonl"), *table, "--allow-commands", "--port", "0"]
    environment = {**os.environ, "STREAM_OSR_TOKENS": f"operator:{secrets.token_urlsafe(24)}"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        yield re.findall(r"http://\S+", line)[0]
        process.terminate()


def demonstrate(folder: Path) -> Path:
    """Run the demonstration, and write its report."""
    quiet = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([*COMMAND, "demo"], **quiet)  # type: ignore[call-overload]
    files = [str(OUTPUT / name) for name in ("decisions.jsonl.checkpoint", "decisions.jsonl", "events.jsonl")]
    truth = ["--truth", str(OUTPUT / "truth.csv"), "--key", "key", "--label", "label", "-o", "report.html"]
    subprocess.run([*COMMAND, "report", *files, *truth], **quiet)  # type: ignore[call-overload]
    return folder / "report.html"


def take(pages: dict[str, str], out: Path, *, docs: bool) -> list[str]:
    """Take the pictures; return the pages that are wider than their windows."""
    wide = []
    with sync_playwright() as player:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
        browser = player.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, address in pages.items():
            sizes = [(width, scheme, out / f"{name}-{width}-{scheme}.png") for width in WIDTHS for scheme in SCHEMES]
            if docs and name in DOCS:
                sizes.append((DOCS_WIDTH, "light", ROOT / "docs" / f"{name}.png"))
            for width, scheme, picture in sizes:
                page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
                page.goto(address)
                page.wait_for_selector(DRAWN[name])
                page.wait_for_timeout(1500)
                actual, height = page.evaluate(
                    "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
                )
                if picture.parent == out:
                    page.screenshot(path=picture, full_page=True)
                    print(f"{picture.name}: {height} pixels high")
                else:
                    clip = {"x": 0, "y": 0, "width": width, "height": min(height, DOCS[name])}
                    page.screenshot(path=picture, full_page=True, clip=clip)  # type: ignore[arg-type]
                if actual > width:
                    wide.append(f"{picture.name} is {actual} pixels wide")
                page.close()
        browser.close()
    return wide


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tools.pictures", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the pictures")
    parser.add_argument("--docs", action="store_true", help="write the pictures of the documentation, too")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        report = demonstrate(folder)
        with watched(folder) as live, served(ROOT / "site") as site:
            wide = take({"report": report.as_uri(), "live": live, "site": site}, options.folder, docs=options.docs)
    if wide:
        sys.exit("\n".join(wide))


if __name__ == "__main__":
    main()

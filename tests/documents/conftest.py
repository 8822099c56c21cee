"""The site, built once for all its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.reading import ROOT
from tests.report.browser import browser

__all__ = ["browser"]

NOWHERE = "http://127.0.0.1:9"
"""A proxy that is not there: every request over the network fails."""


def built(folder: Path, configuration: Path) -> Path:
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), NOWHERE)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # with --quiet no warning would count
    done = subprocess.run(
        [*command, "--config-file", configuration, "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, **proxies, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"), ROOT / "mkdocs.yml")

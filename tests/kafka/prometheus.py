"""A real Prometheus, its Alertmanager and a webhook, on free ports; skipped where they are not installed."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.kafka.brokers import _free_ports

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka"
PATIENCE = 90.0
"""Seconds for anything to come; the machine may be busy."""

Found = TypeVar("Found")


def promtool(*arguments: str | Path) -> None:
    """Have Prometheus's own tool say that all is well."""
    told = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "SUCCESS" in told.stdout


def until(what: Callable[[], Found | None], about: str) -> Found:
    """Ask again and again until there is an answer."""
    ends = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < ends, f"after {PATIENCE:.0f} s: {about}"
        time.sleep(0.2)
    return found


class Prometheus:
    """Asked by its HTTP interface."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, **parameters: str) -> Any:
        """Give the data of an answer; one that is no success fails the test and says why."""
        try:
            with urlopen(f"{self.address}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
                told = json.load(answer)
        except HTTPError as error:
            with error:
                told = {"status": "error", "error": error.read().decode()}
        assert told["status"] == "success", f"{parameters}: {told.get('error')}"
        return told["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Evaluate an expression now: labels and value of each series."""
        data = self.ask("query", query=expression)
        assert data["resultType"] == "vector", expression
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Listen for alerts: the address to post to, and what has been posted."""
    posted: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *what: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/alerts", posted
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def watching(folder: Path, targets: dict[str, str], hook: str) -> Iterator[Prometheus]:
    """Run both with the settings of the examples, only quicker, over addresses by job; alerts go to ``hook``."""
    prometheus, alertmanager = "prometheus", "prometheus-alertmanager"
    port, alert_port = _free_ports(2)
    told = yaml.safe_load((EXAMPLE / "alertmanager.yaml").read_text())
    told["receivers"][0]["webhook_configs"][0]["url"] = hook
    told["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    asked = yaml.safe_load((EXAMPLE / "prometheus.yaml").read_text())
    asked["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    asked["rule_files"] = [str(EXAMPLE / "alerts.yaml")]
    asked["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alert_port}"]
    asked["scrape_configs"] = [
        {"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()
    ]
    for name, settings in (("alertmanager", told), ("prometheus", asked)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    ends = [f"--web.listen-address=127.0.0.1:{each}" for each in (port, alert_port)]
    with (
        (folder / "prometheus.log").open("w") as log,
        _process([alertmanager, f"--config.file={folder}/alertmanager.yaml", f"--storage.path={folder}/alerts",
                  "--cluster.listen-address=", ends[1]], log),
        _process([prometheus, f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/metrics",
                  ends[0]], log),
    ):  # fmt: skip
        for each, ready in ((alert_port, "-/ready"), (port, "-/ready")):
            until(lambda each=each, ready=ready: _answers(f"http://127.0.0.1:{each}/{ready}"), "it does not answer")
        yield Prometheus(f"http://127.0.0.1:{port}")


@contextmanager
def _process(command: list[str], log: Any) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False

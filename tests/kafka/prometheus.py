"""A real Prometheus, its Alertmanager and a webhook, on free ports; skipped where they are not installed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.kafka.brokers import _free_ports
from tests.kafka.registries import serving
from tests.kafka.streams import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka"
PATIENCE = 90.0
"""Seconds for anything to come; the machine may be busy."""


def promtool(*arguments: str | Path) -> None:
    """Check that Prometheus's own tool succeeds."""
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


class Prometheus:
    """A Prometheus, queried by its HTTP interface."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer; fail with the reason if it is no success."""
        try:
            with urlopen(f"{self.address}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
                content = json.load(answer)
        except HTTPError as error:
            with error:
                content = {"status": "error", "error": error.read().decode()}
        assert content["status"] == "success", f"{parameters}: {content.get('error')}"
        return content["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Evaluate an expression now: labels and value of each series."""
        data = self.ask("query", query=expression)
        assert data["resultType"] == "vector", expression
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Listen for alerts: the address to post to, and what has been posted."""
    posted: list[dict[str, Any]] = []

    def answer(path: str, body: bytes | None) -> tuple[int, Any]:
        posted.append(json.loads(body or b""))
        return 200, {}

    with serving(answer) as address:
        yield f"{address}/alerts", posted


@contextmanager
def watching(folder: Path, targets: dict[str, str], hook: str) -> Iterator[Prometheus]:
    """Run both with the settings of the examples, only quicker, over addresses by job; alerts go to ``hook``."""
    import yaml

    port, alert_port = _free_ports(2)
    alerting = yaml.safe_load((EXAMPLE / "alertmanager.yaml").read_text())
    alerting["receivers"][0]["webhook_configs"][0]["url"] = hook
    alerting["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    scraping = yaml.safe_load((EXAMPLE / "prometheus.yaml").read_text())
    scraping["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    scraping["rule_files"] = [str(EXAMPLE / "alerts.yaml")]
    scraping["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alert_port}"]
    scraping["scrape_configs"] = [
        {"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()
    ]
    for name, settings in (("alertmanager", alerting), ("prometheus", scraping)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    ends = [f"--web.listen-address=127.0.0.1:{each}" for each in (port, alert_port)]
    with (
        (folder / "prometheus.log").open("w") as log,
        _process(["prometheus-alertmanager", f"--config.file={folder}/alertmanager.yaml",
                  f"--storage.path={folder}/alerts", "--cluster.listen-address=", ends[1]], log),
        _process(["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/metrics",
                  ends[0]], log),
    ):  # fmt: skip
        for each in (alert_port, port):
            until(lambda each=each: _answers(f"http://127.0.0.1:{each}/-/ready"), PATIENCE, lambda: "no answer")
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

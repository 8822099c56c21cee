"""What is written about the service agrees with it: settings, metrics, the example."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from stream_osr import Signals
from stream_osr.discovery.new_classes import Estimate
from stream_osr.stream import MenuSize, StageCounts
from stream_osr.trust.recall import ExpectedRecall
from stream_osr_connectors.kafka import ServiceSettings, stats
from stream_osr_connectors.kafka.ops.logs import JsonLines
from stream_osr_connectors.kafka.ops.metrics import METRICS, Overview
from stream_osr_connectors.kafka.ops.monitor import Monitor
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.stats import LOST, PartitionStats, ServiceStats
from tests.documents.reading import blocks
from tests.kafka.prometheus import promtool
from tests.kafka.test_monitor import get

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kafka"
PAGE = (ROOT / "docs" / "kafka.md").read_text()
HISTORIES = Path(__file__).with_name("alerts.yaml")


def exposed() -> dict[str, set[str]]:
    """Names of all samples, and their labels."""
    figures = ServiceStats(progress=0.0, model="m", fingerprint="f")
    recall = stats.PartitionRecall(ExpectedRecall(0.97, 0.95, 0.98, 0.01), 0.96)
    found = stats.ModelMetrics(
        Signals(),
        StageCounts(1, 0, 0, 0, 0),
        Estimate(0, 0, 0),
        0.1,
        1,
        {"sky": stats.ClassMetrics(recall.now, 0.5)},
    )
    figures.partitions[Place("in", 0)] = PartitionStats(
        end=1,
        unstable=0,
        snapshot=0.0,
        menu=MenuSize(1, 2, 3, 4.0, 5.0),
        recall=recall,
        dependent=False,
        found=found,
        keys=1,
        keys_awake=1,
    )
    of_kinds = [
        LOST + "retention",
        stats.REPEATED + "offsets",
        stats.KNOWN_OF + "sky",
        stats.DRIFTED + "sky",
    ]
    of_kinds += ["known", stats.SUMMED + "SubclassGrew", stats.OF_TYPE + "SubclassGrew"]
    for name in [*(row.name for row in METRICS), *of_kinds]:
        figures.add(name, Place("in", 0))
    monitor = Monitor("127.0.0.1", 0, Overview(lambda: {"w": figures}, 1.0))
    try:
        families = text_string_to_metric_families(get(f"http://{monitor.address}", "/metrics", "text/plain")[1])
    finally:
        monitor.close()
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def named(text: str) -> set[str]:
    """Metrics that a text names."""
    return set(re.findall(r"\bstream_osr_[a-z0-9_]+", text))


def dashboard_expressions() -> list[str]:
    """What Grafana asks Prometheus for."""
    dashboard = json.loads((EXAMPLE / "grafana.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def test_alerts_and_dashboard_name_metrics_that_there_are() -> None:
    there = exposed()
    rules = yaml.safe_load((EXAMPLE / "alerts.yaml").read_text())
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    expressions += dashboard_expressions()
    dashboard = json.loads((EXAMPLE / "grafana.json").read_text())
    expressions += [each["query"] for each in dashboard["templating"]["list"]]
    found = {name for expression in expressions for name in named(expression)}
    assert len(found) > 20
    assert found <= there.keys()
    assert named(HISTORIES.read_text()) <= there.keys()
    own = set().union(*there.values()) | {"job"}
    for expression in expressions:
        for names in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
            assert {name.strip() for name in names.split(",")} <= own, expression


@pytest.mark.needs("prometheus")
def test_alerts_and_dashboard_can_be_parsed_by_prometheus(tmp_path: Path) -> None:
    """Its own tool checks rules; what the dashboard asks for is put to it as rules, too."""
    asked = tmp_path / "dashboard.yaml"
    expressions = [re.sub(r"\$__rate_interval", "5m", each) for each in dashboard_expressions()]
    rules = [{"record": f"asked:{number}", "expr": each} for number, each in enumerate(expressions)]
    asked.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    for file in (EXAMPLE / "alerts.yaml", asked):
        promtool("check", "rules", file)


@pytest.mark.needs("prometheus")
def test_alerts_fire_when_they_should_and_only_then() -> None:
    """Nothing unaccounted for passes, nor a service that does nothing; see the histories."""
    promtool("test", "rules", HISTORIES)


def test_the_page_lists_the_metrics() -> None:
    assert {name for name in exposed() if name not in named(PAGE)} == set()
    assert {name for name in named(PAGE) if name not in exposed()} == set()


def test_the_page_lists_the_alerts() -> None:
    rules = yaml.safe_load((EXAMPLE / "alerts.yaml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert set(re.findall(r"\bStreamOSR[A-Z]\w+", PAGE)) == alerts


def test_the_page_lists_the_settings() -> None:
    settings = PAGE[PAGE.index("\n## Settings\n") :]
    rows = [row for row in settings.splitlines() if row.startswith("| `") and row.count("|") == 4]
    own = "\n".join(row for row in rows if row.split("`")[1] in ServiceSettings.model_fields)
    assert own == settings_table(), "the table of settings should be:\n" + settings_table()


def test_the_settings_of_the_example_are_settings() -> None:
    settings = yaml.safe_load((EXAMPLE / "service.yaml").read_text())
    assert ServiceSettings(**settings).dead_letters == "segments.dlq"


@pytest.mark.parametrize("page", ["README.md", "docs/kafka.md", "docs/tutorials/kafka.md"])
def test_the_settings_that_a_page_shows_are_settings(page: str) -> None:
    """Some blocks are a part of the file; what a service cannot do without is added."""
    least = {"model": "model.osr", "brokers": "127.0.0.1:9092", "input": "in"}
    shown = [block for block in blocks((ROOT / page).read_text()) if block.language == "yaml"]
    assert shown or page == "README.md"
    for block in shown:
        settings = yaml.safe_load(block.text)
        assert ServiceSettings(**{**least, **settings}).model_fields_set >= settings.keys()


def settings_table() -> str:
    """The settings as rows of a table."""
    return "\n".join(
        f"| `{name}` | {_default(field)} | {field.description} |"
        for name, field in ServiceSettings.model_fields.items()
    )


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "the host's name"
    if field.default is None or field.default == "":
        return ""
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return f"{field.default:g}" if isinstance(field.default, float) else str(field.default)


def test_the_fields_of_a_log_line_are_those_of_the_page() -> None:
    """In their order, and the page names each level."""
    section = PAGE.partition("\n### Log lines\n")[2].partition("\n## ")[0]
    table = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))
    handler = JsonLines("w")
    record = logging.makeLogRecord({"levelname": "INFO", "name": "stream_osr", "msg": "3 read"})
    assert [*json.loads(handler.format(record))] == [name for name in table if name != "error"]
    try:
        raise ValueError("as a test")
    except ValueError:
        record.exc_info = sys.exc_info()
    line = json.loads(handler.format(record))
    assert [*line] == [*table]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])  # RFC 3339
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        assert f"`{logging.getLevelName(level).lower()}`" in table["level"]
    assert line["error"].splitlines()[-1] == "ValueError: as a test"

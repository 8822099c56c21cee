"""The page and the files of the example agree with the service: settings, metrics, alerts, the dashboard, Docker."""

from __future__ import annotations

import itertools
import json
import logging
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from prometheus_client.core import CounterMetricFamily, InfoMetricFamily, Metric

from stream_osr_connectors.kafka import ServiceSettings, stats
from stream_osr_connectors.kafka.ops.logs import JsonLines
from stream_osr_connectors.kafka.ops.metrics import METRICS, PREFIX
from tests.documents.commands import RUNNERS, problem
from tests.documents.reading import blocks
from tests.kafka.prometheus import promtool
from tests.kafka.test_found import FOUND, PLACE, RECALL, samples_of
from tests.kafka.test_monitor import live

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kafka"
SETUP, OPERATION, REFERENCE = (
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("kafka", "kafka_operation", "kafka_reference")
)
HISTORIES = Path(__file__).with_name("alerts.yaml")
DASHBOARD = json.loads((EXAMPLE / "grafana.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = [rule for group in yaml.safe_load((EXAMPLE / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"] for rule in RULES}
SETTINGS = yaml.safe_load((EXAMPLE / "service.yaml").read_text())
COMPOSE = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if name != "kafka"}
BEGINS_WITH = json.loads(re.findall(r"^ENTRYPOINT (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[-1])


def exposed() -> dict[str, set[str]]:
    """Names of all samples, and their labels."""
    figures, recall = live(), stats.PartitionRecall(RECALL, 0.96)
    known = {"unstable": 0, "snapshot": 0.0, "dependent": False, "keys": 1, "keys_awake": 1, "key_memory_needed": 1}
    figures.partitions[PLACE] = replace(figures.partitions[PLACE], recall=recall, found=FOUND, **known)
    names = ["known", stats.LOST + "retention", stats.REPEATED + "offsets", stats.KNOWN_OF + "sky"]
    names += [stats.DRIFTED + "sky", stats.SUMMED + "SubclassGrew", stats.OF_TYPE + "SubclassGrew"]
    for name in [*names, *(row.name for row in METRICS)]:
        figures.add(name, PLACE)
    return {name: {*itertools.chain(*(labels for labels, _ in each))} for name, each in samples_of(figures).items()}


def named(text: str) -> set[str]:
    """Metrics that a text names."""
    return set(re.findall(r"\bstream_osr_[a-z0-9_]+", text))


def dashboard_expressions() -> list[str]:
    """Queries of the dashboard."""
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def test_alerts_and_dashboard_name_metrics_that_there_are() -> None:
    there = exposed()
    expressions = [rule["expr"] for rule in RULES] + dashboard_expressions()
    expressions += [each["query"] for each in DASHBOARD["templating"]["list"]]
    found = {name for expression in expressions for name in named(expression)}
    assert len(found) > 20
    assert found <= there.keys()
    assert named(HISTORIES.read_text()) <= there.keys()
    own = set().union(*there.values()) | {"job"}
    for expression in expressions:
        for names in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
            assert {name.strip() for name in names.split(",")} <= own, expression


@pytest.mark.needs("prometheus")
def test_alerts_fire_in_histories_and_settings_are_valid_by_the_tools_of_prometheus() -> None:
    promtool("test", "rules", HISTORIES)
    promtool("check", "config", EXAMPLE / "prometheus.yaml")
    checked = ["amtool", "check-config", EXAMPLE / "alertmanager.yaml"]
    assert "SUCCESS" in subprocess.run(checked, capture_output=True, check=True, text=True, timeout=60).stdout


def test_the_pages_list_the_metrics_and_the_alerts() -> None:
    section = REFERENCE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    own = "\n".join(row for row in section.splitlines() if row.startswith("| `"))
    assert own == metrics_table(), "the table of metrics should be:\n" + metrics_table()
    assert {whole(name) for name in exposed()} == named(own)
    assert {whole(name) for name in named(SETUP + OPERATION + REFERENCE)} == named(own)
    assert set(re.findall(r"\bStreamOSR[A-Z]\w+", SETUP + OPERATION + REFERENCE)) == ALERTS


def metrics_table() -> str:
    """The metrics as rows of a table, with one row for neighbours of the same help text."""
    rows = []
    for text, metrics in itertools.groupby(METRICS, key=lambda metric: metric.text):
        names = ", ".join(f"`{PREFIX}{each.name}{ENDING.get(each.kind, '')}`" for each in metrics)
        rows.append(f"| {names} | {text} |")
    return "\n".join(rows)


ENDING: dict[type[Metric], str] = {CounterMetricFamily: "_total", InfoMetricFamily: "_info"}


def whole(name: str) -> str:
    """Name of a metric without the ending of a histogram's sample."""
    found = re.fullmatch(r"(.*_seconds)_(?:bucket|sum|count)", name)
    return found[1] if found else name


def test_the_page_lists_the_settings() -> None:
    settings = REFERENCE[REFERENCE.index("\n## Settings\n") :]
    rows = [row for row in settings.splitlines() if row.startswith("| `") and row.count("|") == 4]
    own = "\n".join(row for row in rows if row.split("`")[1] in ServiceSettings.model_fields)
    assert own == settings_table(), "the table of settings should be:\n" + settings_table()


def test_settings_of_the_example_and_of_the_pages_are_settings() -> None:
    """Some blocks are a part of the file; what a service cannot do without is added."""
    assert ServiceSettings(**SETTINGS).dead_letters == "segments.dlq"
    least = {"model": "model.osr", "brokers": "127.0.0.1:9092", "input": "in"}
    for page in ("README.md", "docs/kafka.md", "docs/tutorials/kafka.md"):
        shown = [block for block in blocks((ROOT / page).read_text()) if block.language == "yaml"]
        assert shown or page == "README.md"
        for block in shown:
            settings = yaml.safe_load(block.text)
            assert ServiceSettings(**{**least, **settings}).model_fields_set >= settings.keys(), page


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
    section = OPERATION.partition("\n### Log lines\n")[2].partition("\n## ")[0]
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


def validate(document: Any, schema: str) -> None:
    """Check a document by a schema of this folder."""
    rules = json.loads(Path(__file__).with_name(schema).read_text())
    jsonschema.Draft202012Validator.check_schema(rules)
    jsonschema.Draft202012Validator(rules).validate(document)


def test_the_compose_file_is_valid_and_what_it_names_is_there() -> None:
    validate(COMPOSE, "compose.schema.json")
    for name, service in SERVICES.items():
        assert service.get("depends_on", {}).keys() <= SERVICES.keys() - {name}
        for volume in service.get("volumes", ()):
            place = volume.partition(":")[0]
            assert (EXAMPLE / place).exists() if place.startswith(".") else place in COMPOSE["volumes"]
    for service in OURS.values():
        names = {name.removeprefix("STREAM_OSR_").lower(): value for name, value in service["environment"].items()}
        assert names.keys() <= ServiceSettings.model_fields.keys()
        assert ServiceSettings(**{**SETTINGS, **names}).model_fields_set >= names.keys()


def lines_of(service: dict[str, Any]) -> list[str]:
    """The commands that a container runs, as one would type them in the checkout."""
    commands = service.get("entrypoint", BEGINS_WITH), service.get("command", [])
    words = [word for each in commands for word in (shlex.split(each) if isinstance(each, str) else each)]
    lines = words[2].split(" && ") if words[:2] == ["sh", "-c"] else [shlex.join(words)]
    return [line.replace("/examples/", "examples/kafka/") for line in lines]


def test_commands_of_the_compose_file_are_commands() -> None:
    lines = [line for service in OURS.values() for line in lines_of(service)]
    assert len(lines) == 5
    for line in lines:
        assert line.split()[0] in RUNNERS
        assert problem(line) is None, line
        for name in re.findall(r"examples/\S+", line):
            assert (ROOT / name).is_file(), name
    for service in OURS.values():
        assert ".:/examples:ro" in service["volumes"], "or it does not see the files of the example"
    for line in re.findall(r"^# +(stream-osr .*)$", (EXAMPLE / "compose.yaml").read_text(), re.MULTILINE):
        assert problem(line) is None, line


def test_brokers_and_ports_of_the_compose_file_agree() -> None:
    broker = SERVICES["kafka"]["environment"]
    address = broker["KAFKA_ADVERTISED_LISTENERS"].removeprefix("PLAINTEXT://")
    assert f"PLAINTEXT://:{address.partition(':')[2]}" in broker["KAFKA_LISTENERS"].split(",")
    for service in OURS.values():
        assert service["environment"]["STREAM_OSR_BROKERS"] == address
        named = [line.split("--brokers ")[1].split()[0] for line in lines_of(service) if "--brokers " in line]
        assert named in ([], [address])
    service = OURS["service"]
    port = SETTINGS["metrics_port"]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"], "everything that reaches the port can read it"
    assert int(service["stop_grace_period"].removesuffix("s")) > ServiceSettings(**SETTINGS).stop_timeout


def test_the_compose_file_runs_the_model_that_it_makes() -> None:
    made = re.search(r"stream-osr demo --output (\S+)", lines_of(OURS["prepare"])[0])
    assert made is not None
    volume = OURS["service"]["volumes"][0].partition(":")[2]
    assert OURS["service"]["environment"]["STREAM_OSR_MODEL"] == f"{made[1]}/model.osr"
    for name in ("STREAM_OSR_MODEL", "STREAM_OSR_STATE"):
        assert OURS["service"]["environment"][name].startswith(f"{volume}/"), "or it is gone with the container"


def test_the_dashboard_is_valid_and_its_variables_and_legends_fit_its_queries() -> None:
    validate(DASHBOARD, "dashboard.schema.json")
    there = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(DASHBOARD)))
    assert used == there == {"source", "job", "topic", "class"}
    for target in (target for panel in PANELS for target in panel["targets"]):
        for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
            by = re.search(r"by \(([^)]*)\)", target["expr"])
            assert by is None or label in by[1].replace(" ", "").split(","), (target["expr"], label)


def test_the_alertmanager_names_alerts_that_there_are() -> None:
    text = (EXAMPLE / "alertmanager.yaml").read_text()
    assert {*re.findall(r"StreamOSR\w+", text)} <= ALERTS
    assert yaml.safe_load(text)["receivers"][0]["webhook_configs"][0]["send_resolved"] is True

"""The dashboard, the alerts and their way to a person, against a real Prometheus that reads a real service."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from stream_osr_connectors.kafka.ops.metrics import Overview
from stream_osr_connectors.kafka.ops.monitor import Monitor
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.model_metrics import class_names, find
from stream_osr_connectors.kafka.stats import PartitionStats, ServiceStats
from tests.kafka.brokers import Broker
from tests.kafka.prometheus import EXAMPLE, Prometheus, until, watching, webhook
from tests.kafka.scraping import address, metrics, total
from tests.kafka.streams import Stream, Worker, instances, recognizer_after, small_model
from tests.kafka.test_found import FOUND, HOSTILE
from tests.kafka.test_monitor import WATCHDOG, port, scrape

DASHBOARD = json.loads((EXAMPLE / "grafana.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = yaml.safe_load((EXAMPLE / "alerts.yaml").read_text())["groups"]
VARIABLES = {"$__rate_interval": "10s", "$job": ".*", "$topic": ".*", "$class": ".*"}
"""What Grafana puts in their places."""


def test_the_dashboard_is_one_by_the_schema() -> None:
    schema = json.loads(Path(__file__).with_name("dashboard.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(DASHBOARD)


def test_variables_that_are_used_are_there_and_all_are_used() -> None:
    there = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(DASHBOARD)))
    assert used == there == {"source", "job", "topic", "class"}


def test_a_label_of_a_legend_is_one_that_the_query_leaves() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                by = re.search(r"by \(([^)]*)\)", target["expr"])
                assert by is None or label in by[1].replace(" ", "").split(","), (panel["title"], label)


@pytest.mark.needs("prometheus")
def test_the_settings_of_the_alertmanager_are_such(tmp_path: Path) -> None:
    checked = ["amtool", "check-config", str(EXAMPLE / "alertmanager.yaml")]
    assert b"SUCCESS" in subprocess.run(checked, capture_output=True, check=True, timeout=60).stdout
    checked = ["promtool", "check", "config", str(EXAMPLE / "prometheus.yaml")]
    assert b"is valid" in subprocess.run(checked, capture_output=True, check=True, timeout=60).stdout
    names = {rule["alert"] for group in RULES for rule in group["rules"]}
    told = (EXAMPLE / "alertmanager.yaml").read_text()
    assert {*re.findall(r"StreamOSR\w+", told)} <= names
    assert yaml.safe_load(told)["receivers"][0]["webhook_configs"][0]["send_resolved"] is True


@pytest.mark.needs("prometheus")
def test_what_a_real_prometheus_makes_of_it(broker: Broker, tmp_path: Path) -> None:
    """A quiet stream wakes nobody, and every query is answered; something new reaches a webhook, in words."""
    stream = Stream(broker.address, tmp_path, 2, small_model(chains=2), metrics_port=0)
    worker = Worker(stream)
    hostile = ServiceStats(partitions={Place(stream.topic, 0): PartitionStats(found=FOUND)})
    monitor = Monitor("127.0.0.1", 0, Overview(lambda: {"h": hostile}, WATCHDOG))
    targets = {"osr": address(worker).removeprefix("http://"), "hostile": monitor.address}
    try:
        with webhook() as (hook, posted), watching(tmp_path, targets, hook) as prometheus:
            stream.send([each for each in instances(400, 2) if is_known(each[1].value)])
            stream.wait()
            until(lambda: len(novelty(prometheus)) == 2, "Prometheus has not read what both partitions have found")
            assert {*novelty(prometheus).values()} == {0}
            every_query_is_answered(prometheus)
            every_rule_is_evaluated(prometheus)
            names_of_classes_arrive(prometheus)
            assert [alert for alert, _ in firing(prometheus) if alert["job"] == "osr"] == [], "it is a quiet stream"

            stream.send(instances(400, 2, seed=1, begin=400))
            stream.wait()
            told = until(lambda: first_alert(posted, "StreamOSREmerged"), "no alert has reached the webhook")
            it_says_what_is_new_and_what_to_do(told, stream.topic)
            assert max(novelty(prometheus).values()) >= 1
            every_query_is_answered(prometheus)
    finally:
        monitor.close()
    assert worker.stop() == 0


def test_what_was_found_is_told_again_after_a_crash(broker: Broker, tmp_path: Path) -> None:
    """The figures are those of a recognizer in this process, before and after: nothing seems to emerge anew."""
    stream = Stream(broker.address, tmp_path, 2, small_model(chains=2), metrics_port=0, snapshot_interval=3600.0)
    worker = Worker(stream)
    stream.send(instances(400, 2))
    stream.wait()
    expected = state_of(stream)
    assert sum(value for _, value in expected["stream_osr_signals_total"]) >= 2
    for replayed in (0, 400):
        until(lambda worker=worker: shown(metrics(worker)) == expected, "the figures are not those of the recognizer")
        assert total(metrics(worker), "stream_osr_replayed_total") == replayed
        worker.kill()
        worker = Worker(stream)
    worker.await_line("metrics at")


STATE = {
    *("stream_osr_signals_total", "stream_osr_subclasses_at", "stream_osr_unknown_usual", "stream_osr_known_classes"),
    *("stream_osr_new_classes", "stream_osr_new_classes_low", "stream_osr_new_classes_high"),
    *("stream_osr_class_expected_recall", "stream_osr_class_expected_recall_low"),
    *("stream_osr_class_density_rank", "stream_osr_class_false_unknown"),
}
Samples = dict[str, list[tuple[dict[str, str], float]]]


def shown(samples: Samples) -> Samples:
    """What follows from the state, in order."""
    return {name: sorted(each, key=repr) for name, each in samples.items() if name in STATE}


def state_of(stream: Stream) -> Samples:
    """What a worker should show of a stream, by recognizers that have decided the same micro-batches here."""
    figures = ServiceStats()
    for number, decisions in enumerate(stream.read("decisions")):
        values = [json.loads(record.value) for record in decisions]
        ends = [
            a["offset"] for a, b in zip(values, [*values[1:], {"batch": -1}], strict=True) if a["batch"] != b["batch"]
        ]
        model = recognizer_after(stream, number, [value["offset"] for value in values], ends)
        figures.partitions[Place(stream.topic, number)] = PartitionStats(found=find(model)[0])
    with port({"w": figures}, stream.topic) as at:
        return shown(scrape(at))


def is_known(instance: bytes | None) -> bool:
    """Say whether an instance is of a known class: the new one lies above both."""
    return float(json.loads(instance or b"{}")["b"]) < 7.0


def novelty(prometheus: Prometheus) -> dict[str, float]:
    """Subclasses that were announced, by partition, as Prometheus has read it."""
    asked = prometheus.query('stream_osr_signals_total{job="osr", signal="novelty"}')
    return {labels["partition"]: value for labels, value in asked}


def every_query_is_answered(prometheus: Prometheus) -> None:
    """Of the dashboard, with and without anything to show, and of metrics that it has read."""
    read = {*prometheus.ask("label/__name__/values")}
    for expression in (target["expr"] for panel in PANELS for target in panel["targets"]):
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        prometheus.query(expression)
        assert named(expression) <= read, expression
    for variable in DASHBOARD["templating"]["list"][1:]:
        metric, label = re.fullmatch(r"label_values\((.+), ([a-z]+)\)", variable["query"]).groups()
        metric = metric.replace("$job", "osr").replace("$topic", ".*")
        assert prometheus.ask(f"label/{label}/values", **{"match[]": metric}), (
            f"nothing to choose: {variable['name']}"
        )


def every_rule_is_evaluated(prometheus: Prometheus) -> None:
    """None has failed, and none is of a metric that has not been read."""
    read = {*prometheus.ask("label/__name__/values")}
    groups = until(lambda: evaluated(prometheus.ask("rules")["groups"]), "the rules have not been evaluated")
    told = {rule["name"]: rule for group in groups for rule in group["rules"]}
    assert told.keys() == {rule["alert"] for group in RULES for rule in group["rules"]}
    assert {rule["health"] for rule in told.values()} == {"ok"}, [rule.get("lastError") for rule in told.values()]
    for rule in told.values():
        assert named(rule["query"]) <= read, rule["name"]


def evaluated(groups: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Give the groups if all of their rules have been evaluated."""
    return groups if all(rule["health"] != "unknown" for group in groups for rule in group["rules"]) else None


def names_of_classes_arrive(prometheus: Prometheus) -> None:
    """As they are shown, whatever people call their classes."""
    query = 'stream_osr_class_density_rank{job="hostile"}'
    asked = until(lambda: prometheus.query(query), str(prometheus.ask("targets")["activeTargets"]))
    assert {labels["class"] for labels, _ in asked} == {*class_names(HOSTILE).values()}


def firing(prometheus: Prometheus) -> list[tuple[dict[str, str], float]]:
    """Alerts that fire."""
    return prometheus.query('ALERTS{alertstate="firing"}')


def first_alert(posted: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """Find an alert among what was posted."""
    return next((alert for each in posted for alert in each["alerts"] if alert["labels"]["alertname"] == name), None)


def it_says_what_is_new_and_what_to_do(alert: dict[str, Any], topic: str) -> None:
    """As a person gets it."""
    labels, told = alert["labels"], alert["annotations"]
    assert (alert["status"], labels["severity"], labels["topic"]) == ("firing", "info", topic)
    place = f"{topic}/{labels['partition']}"
    assert re.fullmatch(rf"Something new in {place}: [1-9][0-9]* emerged in 15 minutes", told["summary"]), told
    assert f"`stream-osr promote {place}:ID CLASS`" in told["description"]


def named(expression: str) -> set[str]:
    """Metrics of ours in an expression."""
    return set(re.findall(r"\bstream_osr_[a-z0-9_]+", expression))

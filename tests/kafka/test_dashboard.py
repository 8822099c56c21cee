"""The dashboard, the alerts and their way to a person, against a real Prometheus that reads a real service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.brokers import Broker
from tests.kafka.prometheus import PATIENCE, Prometheus, watching, webhook
from tests.kafka.scraping import address
from tests.kafka.streams import Stream, Worker, instances, small_model, until
from tests.kafka.test_documents import ALERTS, DASHBOARD, PANELS

pytestmark = pytest.mark.needs("broker")

VARIABLES = {"$__rate_interval": "10s", "$job": ".*", "$topic": ".*", "$class": ".*"}
"""Values that Grafana substitutes."""


@pytest.mark.needs("prometheus")
def test_what_a_real_prometheus_makes_of_it(broker: Broker, tmp_path: Path) -> None:
    """A quiet stream raises no alert, and every query is answered; something new reaches a webhook, in words."""
    stream = Stream(broker.address, tmp_path, 2, small_model(chains=2), metrics_port=0)
    worker = Worker(stream)
    targets = {"osr": address(worker).removeprefix("http://")}
    with webhook() as (hook, posted), watching(tmp_path, targets, hook) as prometheus:
        stream.send([each for each in instances(400, 2) if is_known(each[1].value)])
        stream.wait()
        until(lambda: len(novelty(prometheus)) == 2, PATIENCE, lambda: "the novelty of both partitions is not read")
        assert {*novelty(prometheus).values()} == {0}
        check_queries(prometheus)
        check_rules(prometheus)
        assert prometheus.query('ALERTS{alertstate="firing"}') == [], "it is a quiet stream"

        stream.send(instances(400, 2, seed=1, begin=400))
        stream.wait()
        alert = until(lambda: first_alert(posted, "StreamOSREmerged"), PATIENCE, lambda: f"posted: {posted}")
        check_alert(alert, stream.topic)
        assert max(novelty(prometheus).values()) >= 1
        check_queries(prometheus)
    assert worker.stop() == 0


def is_known(instance: bytes | None) -> bool:
    """Say whether an instance is of a known class: the new one lies above both."""
    return float(json.loads(instance or b"{}")["b"]) < 7.0


def novelty(prometheus: Prometheus) -> dict[str, float]:
    """Subclasses that were announced, by partition, as Prometheus has read it."""
    found = prometheus.query('stream_osr_signals_total{job="osr", signal="novelty"}')
    return {labels["partition"]: value for labels, value in found}


def check_queries(prometheus: Prometheus) -> None:
    """Every query of the dashboard is answered, and there is something to choose for each variable."""
    for expression in (target["expr"] for panel in PANELS for target in panel["targets"]):
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        prometheus.query(expression)
    for variable in DASHBOARD["templating"]["list"][1:]:
        metric, label = re.fullmatch(r"label_values\((.+), ([a-z]+)\)", variable["query"]).groups()
        metric = metric.replace("$job", "osr").replace("$topic", ".*")
        choices = prometheus.ask(f"label/{label}/values", **{"match[]": metric})
        assert choices, f"nothing to choose: {variable['name']}"


def check_rules(prometheus: Prometheus) -> None:
    """Every rule is evaluated without an error."""
    rules = until(lambda: evaluated(prometheus.ask("rules")["groups"]), PATIENCE, lambda: "not evaluated")
    assert {rule["name"] for rule in rules} == ALERTS
    assert {rule["health"] for rule in rules} == {"ok"}, [rule.get("lastError") for rule in rules]


def evaluated(groups: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return the rules if all of them have been evaluated."""
    rules = [rule for group in groups for rule in group["rules"]]
    return rules if all(rule["health"] != "unknown" for rule in rules) else None


def first_alert(posted: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """Find an alert among what was posted."""
    return next((alert for each in posted for alert in each["alerts"] if alert["labels"]["alertname"] == name), None)


def check_alert(alert: dict[str, Any], topic: str) -> None:
    """It says what is new and what to do."""
    labels, texts = alert["labels"], alert["annotations"]
    assert (alert["status"], labels["severity"], labels["topic"]) == ("firing", "info", topic)
    place = f"{topic}/{labels['partition']}"
    assert re.fullmatch(rf"Something new in {place}: [1-9][0-9]* emerged in 15 minutes", texts["summary"]), texts
    assert f"`stream-osr promote {place}:ID CLASS`" in texts["description"]

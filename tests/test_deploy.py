"""A group of machines: the manifest for Kubernetes and the file for Docker Compose, by schema and as processes.

Docker is not on the machine that runs the tests, so no image runs, and no cluster schedules the pods. What containers
run (commands, settings, variables, ports, paths of the probes) is read from the files and run as processes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from stream_osr import OpenSetRecognizer
from stream_osr_connectors.cli.warmup import warm_up
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.client.errors import quieten
from stream_osr_connectors.kafka.ops.metrics import METRICS
from stream_osr_connectors.kafka.settings_errors import unknown_variables
from tests.documents.commands import problem
from tests.documents.reading import blocks
from tests.kafka.brokers import Broker, SecondBroker
from tests.kafka.faults.auditing import audit
from tests.kafka.faults.trials import kill_workers
from tests.kafka.prometheus import promtool
from tests.kafka.scraping import address, metrics, status, total
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once, instances, small_model
from tests.processes import COMMAND, Process, run
from tests.tiers import do_without

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "kafka"
PAGE = (ROOT / "docs" / "scaling.md").read_text()
CLUSTER: dict[str, Any] = yaml.safe_load((EXAMPLE / "cluster.yaml").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((EXAMPLE / "compose-cluster.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

VERSIONS = ("1.30", "1.33", "1.37")
MANIFEST: dict[str, Any] = {
    document["kind"]: document for document in yaml.safe_load_all((EXAMPLE / "kubernetes.yaml").read_text())
}
"""Documents by kind; each kind occurs once."""


def template(kind: str) -> Any:
    """Pods of a kind."""
    return MANIFEST[kind]["spec"]["template"]["spec"]


def container(kind: str = "StatefulSet") -> Any:
    """The only container of a pod."""
    (only,) = template(kind)["containers"]
    return only


def option(arguments: list[str], name: str) -> str:
    """Value of an option."""
    return arguments[arguments.index(name) + 1]


PARTITIONS = int(option(container("Job")["args"], "--partitions"))


# The manifest.


def test_each_document_is_valid_by_the_schema() -> None:
    assert (EXAMPLE / "kubernetes.yaml").read_text().count("\nkind: ") == len(MANIFEST)
    for version in VERSIONS:
        for kind, document in MANIFEST.items():
            assert kubernetes_validate.validate(document, version, strict=True) == version, kind


def test_selectors_find_the_pods() -> None:
    scaled, service = MANIFEST["StatefulSet"], MANIFEST["Service"]
    labels = scaled["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels
    for found in (
        scaled["spec"]["selector"],
        MANIFEST["PodDisruptionBudget"]["spec"]["selector"],
        *(each["labelSelector"] for each in template("StatefulSet")["topologySpreadConstraints"]),
    ):
        assert found["matchLabels"] == labels
    assert scaled["spec"]["serviceName"] == service["metadata"]["name"]


def test_probes_and_ports_are_those_of_the_service() -> None:
    settings, service = ServiceSettings(**CLUSTER), container()
    ports = {each["name"]: each["containerPort"] for each in service["ports"]}
    probes = {name: service[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    paths = {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert {name: probe["path"] for name, probe in probes.items()} == paths
    published = MANIFEST["Service"]["spec"]["ports"]
    assert {each["port"] for each in probes.values()} | {each["targetPort"] for each in published} <= ports.keys()
    assert [*ports.values()] == [each["port"] for each in published] == [settings.metrics_port]
    annotations = MANIFEST["StatefulSet"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(settings.metrics_port)
    assert settings.metrics_host == "0.0.0.0", "probes come from outside"


def test_state_and_name_of_a_pod_fit_the_settings() -> None:
    settings, pods, service = ServiceSettings(**CLUSTER), template("StatefulSet"), container()
    assert pods["terminationGracePeriodSeconds"] > settings.stop_timeout
    mounts = {each["mountPath"]: each["name"] for each in service["volumeMounts"]}
    state = next(volume for path, volume in mounts.items() if settings.state.is_relative_to(path))
    assert {"name": state, "emptyDir": {}} in pods["volumes"]
    assert "volumeClaimTemplates" not in MANIFEST["StatefulSet"]["spec"]
    assert settings.state_topic is not None
    variables = {each["name"]: each for each in service["env"]}
    assert variables["STREAM_OSR_INSTANCE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert not any(unknown_variables(variables, ServiceSettings.model_fields))


def test_the_autoscaler_scales_by_the_lag_of_the_input() -> None:
    settings, scaled = ServiceSettings(**CLUSTER), MANIFEST["StatefulSet"]
    scaler = MANIFEST["HorizontalPodAutoscaler"]["spec"]
    target = {"apiVersion": scaled["apiVersion"], "kind": "StatefulSet", "name": scaled["metadata"]["name"]}
    assert scaler["scaleTargetRef"] == target
    assert "replicas" not in scaled["spec"]
    assert scaler["maxReplicas"] * settings.workers <= PARTITIONS, "each worker has a partition"
    (lag,) = (each["external"]["metric"] for each in scaler["metrics"] if each["type"] == "External")
    assert lag["name"] == "stream_osr_lag_records"
    assert "lag_records" in {row.name for row in METRICS}
    assert lag["selector"] == {"matchLabels": {"topic": settings.input}}


@pytest.mark.parametrize("kind", ["StatefulSet", "Job"])
def test_commands_read_the_settings_of_the_config_map(kind: str) -> None:
    arguments, settings = container(kind)["args"], MANIFEST["ConfigMap"]
    config = Path(option(arguments, "--config"))
    (mount,) = (each for each in container(kind)["volumeMounts"] if each["mountPath"] == str(config.parent))
    (volume,) = (each for each in template(kind)["volumes"] if each["name"] == mount["name"])
    assert volume["configMap"]["name"] == settings["metadata"]["name"]
    assert config.name in settings["data"]
    assert problem(shlex.join(["stream-osr", *arguments])) is None


def test_the_config_map_has_the_settings_of_the_file() -> None:
    assert yaml.safe_load(MANIFEST["ConfigMap"]["data"]["service.yaml"]) == CLUSTER
    assert CLUSTER.keys() <= ServiceSettings.model_fields.keys() - {"instance"}, "each machine has its own instance"


# The file for Docker Compose.


def with_config(arguments: list[str], config: str) -> list[str]:
    """Arguments of the manifest, with another file of settings."""
    return [config if each == option(arguments, "--config") else each for each in arguments]


def commands_of(service: Mapping[str, Any]) -> list[list[str]]:
    """Arguments of `stream-osr` in a service, with files as Docker mounts them."""
    if service.get("entrypoint") == ["sh", "-c"]:
        (line,) = service["command"]
        return [shlex.split(each)[1:] for each in line.split(" && ")]
    return [shlex.split(service["command"])]


MACHINES = {name: service for name, service in SERVICES.items() if name.startswith("osr-")}
BROKERS = {name: service for name, service in SERVICES.items() if name.startswith("kafka-")}


def test_compose_is_valid_by_the_schema() -> None:
    schema = json.loads((ROOT / "tests" / "kafka" / "compose.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(COMPOSE)
    for service in SERVICES.values():
        assert service.get("depends_on", {}).keys() <= SERVICES.keys()
        for volume in service.get("volumes", ()):
            place = volume.partition(":")[0]
            assert (EXAMPLE / place).exists() if place.startswith(".") else place in COMPOSE["volumes"]


def test_compose_has_three_brokers_that_replicate() -> None:
    found = [dict(service["environment"]) for service in BROKERS.values()]
    nodes = [each.pop("KAFKA_NODE_ID") for each in found]
    named = [each.pop("KAFKA_ADVERTISED_LISTENERS").removeprefix("PLAINTEXT://") for each in found]
    first, *others = found
    assert others == [first, first], "the brokers are of one cluster"
    assert first["CLUSTER_ID"]
    for name in ("DEFAULT", "OFFSETS_TOPIC", "TRANSACTION_STATE_LOG"):
        assert first[f"KAFKA_{name}_REPLICATION_FACTOR"] == 3
    assert first["KAFKA_MIN_INSYNC_REPLICAS"] == first["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == 2
    voters = first["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")
    assert voters == [f"{node}@{name}:9093" for node, name in zip(nodes, BROKERS, strict=True)]
    assert named == CLUSTER["brokers"].split(",") == [f"{name}:9092" for name in BROKERS]
    for service in BROKERS.values():
        assert "localhost:9092" in service["healthcheck"]["test"][1]
    assert SERVICES["prepare"]["depends_on"] == {name: {"condition": "service_healthy"} for name in BROKERS}
    for name in ("produce", "consume"):
        assert option(SERVICES[name]["entrypoint"], "--brokers") == CLUSTER["brokers"]


def test_compose_runs_what_the_manifest_runs() -> None:
    demo, topics = commands_of(SERVICES["prepare"])
    assert topics == with_config(container("Job")["args"], option(topics, "--config"))
    made = Path(option(demo, "--output")).relative_to("/data") / "model.osr"
    assert "model:/data" in SERVICES["prepare"]["volumes"]
    assert len(MACHINES) == 2
    for name, service in MACHINES.items():
        (arguments,) = commands_of(service)
        mounted = {each.split(":")[1]: each.split(":")[0] for each in service["volumes"]}
        config = Path(option(arguments, "--config"))
        assert EXAMPLE / mounted[str(config.parent)] / config.name == EXAMPLE / "cluster.yaml"
        assert arguments == with_config(container()["args"], str(config))
        assert service["environment"] == {"STREAM_OSR_MODEL": f"/model/{made}", "STREAM_OSR_INSTANCE": name}
        assert "model:/model:ro" in service["volumes"]
        assert not any(CLUSTER["state"].startswith(f"{path}/") for path in mounted), "each has its own state"
        grace = int(service["stop_grace_period"].removesuffix("s"))
        assert grace == template("StatefulSet")["terminationGracePeriodSeconds"]
        (port,) = service["ports"]
        assert re.fullmatch(rf"127\.0\.0\.1:\d+:{CLUSTER['metrics_port']}", port)
    assert len({service["ports"][0] for service in MACHINES.values()}) == 2


# The page.


@pytest.mark.needs("prometheus")
def test_the_rule_of_the_page_gives_the_metric_that_the_autoscaler_reads(tmp_path: Path) -> None:
    rules = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"]
    (rule,) = (each for found in rules for each in found["externalRules"])
    scaled = MANIFEST["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["external"]["metric"]
    assert rule["name"]["as"] == scaled["name"]
    assert rule["seriesQuery"].startswith(f"{scaled['name']}{{")
    matchers = ",".join(f'{name}="{value}"' for name, value in scaled["selector"]["matchLabels"].items())
    query = rule["metricsQuery"].replace("<<.Series>>", scaled["name"]).replace("<<.LabelMatchers>>", matchers)
    assert "<<" not in query
    series = [
        {"series": f'{scaled["name"]}{{topic="{topic}",partition="{number}",worker="w{worker}"}}', "values": lag}
        for topic, number, worker, lag in (
            ("segments", 0, 0, "10"),
            ("segments", 0, 1, "30"),  # moves to this worker, and both are scraped
            ("segments", 1, 1, "5"),
            ("other", 0, 0, "100"),
        )
    ]
    expected = [{"expr": query, "eval_time": "0m", "exp_samples": [{"labels": "{}", "value": 35}]}]
    (tests := tmp_path / "lag.yaml").write_text(
        yaml.safe_dump({"rule_files": [], "tests": [{"input_series": series, "promql_expr_test": expected}]})
    )
    promtool("test", "rules", tests)


def test_the_page_has_the_figures_of_the_page_on_kafka() -> None:
    """Each row of throughput by workers, and the number of partitions of the examples."""
    kafka = (ROOT / "docs" / "kafka_reference.md").read_text()
    table = re.findall(r"^\| (\d+) \| (\d+) \| \d+ \| \d+ / \d+ ", kafka, re.MULTILINE)
    assert len(table) == 3
    assert re.findall(r"^\| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE) == table
    assert f"`--partitions {PARTITIONS}`" in PAGE


# As processes.


class ThirdBroker(SecondBroker):
    """One more broker of the same cluster."""

    NODE = 3


INTERNAL = """
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
"""
"""As in the file for Docker Compose."""


def together(calls: list[Callable[[], None]]) -> None:
    """Do things at the same time; the first error counts."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


@pytest.fixture
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Broker, Broker, Broker]]:
    """Three brokers of one cluster."""
    quieten()
    folders = [tmp_path_factory.mktemp(f"broker-{number}") for number in range(3)]
    first = Broker(folders[0], Path(request.config.cache.mkdir("kafka-jars")))
    found = (first, SecondBroker(folders[1], first), ThirdBroker(folders[2], first))
    for folder in folders:
        (properties,) = folder.glob("*.properties")
        properties.write_text(properties.read_text() + INTERNAL)
    try:
        first.start()
        together([each.start for each in found[1:]] + [warm_up])
        yield found
    except subprocess.CalledProcessError as error:
        do_without("broker", f"it did not start: {(error.stderr or error.stdout or '').strip()[-600:]}")
    finally:
        together([each.kill for each in found])


class Deployed(Stream):
    """The stream of the examples, in topics that a command of the manifest made.

    Its own clients come to the first broker, which stays; the pods know all.
    """

    def __init__(self, brokers: tuple[Broker, ...], folder: Path, model: OpenSetRecognizer) -> None:
        self.address, self.folder, self.model = brokers[0].address, folder, model
        self.topic, self.partitions = CLUSTER["input"], PARTITIONS
        self.sent: list[list[Sent]] = [[] for _ in range(PARTITIONS)]
        self.counted = None
        self.settings = {**CLUSTER, "brokers": ",".join(each.address for each in brokers)}
        self._fed = 0
        model.save(folder / "model.osr")

    def feed(self, n: int) -> None:
        """Put records of now into the input: the topics have the usual retention."""
        now = round(time.time() * 1000)
        records = instances(n, PARTITIONS, seed=self._fed, begin=self._fed)
        self.send((number, each._replace(timestamp=now + place)) for place, (number, each) in enumerate(records))
        self._fed += n


class Pod(Worker):
    """A container of the manifest as a process, in a folder that stands for its file system.

    Parameters
    ----------
    stream
        Where its brokers and its model are.
    name
        Of the pod.
    kind
        Of the document.
    """

    def __init__(self, stream: Deployed, name: str, kind: str = "StatefulSet") -> None:
        self.root = stream.folder / name
        shutil.rmtree(self.root, ignore_errors=True)  # an emptyDir ends with its pod
        spec = container(kind)
        config = self.inside(Path(option(spec["args"], "--config")))
        config.parent.mkdir(parents=True)
        config.write_text(MANIFEST["ConfigMap"]["data"][config.name])
        given = {each["name"]: each.get("value", name) for each in spec.get("env", ())}
        here = {  # of another machine, and two pods share one network: nothing else is changed
            "STREAM_OSR_BROKERS": stream.settings["brokers"],
            "STREAM_OSR_MODEL": str(stream.folder / "model.osr"),
            "STREAM_OSR_STATE": str(self.inside(Path(CLUSTER["state"]))),
            "STREAM_OSR_METRICS_PORT": "0",
        }
        self.log = stream.folder / f"{name}-{next(self.numbers)}.log"
        with self.log.open("w") as log:
            self.process = Process(
                [*COMMAND, *with_config(spec["args"], str(config))],
                stdout=log.fileno(),
                stderr=log.fileno(),
                cwd=self.root,
                env={**os.environ, **given, **here},
            )
        self.started.append(self)

    def inside(self, path: Path) -> Path:
        """Where a path of the container is."""
        return self.root / path.relative_to("/")

    def probe(self, name: str) -> bool:
        """Ask as the kubelet does."""
        return status(self, container()[f"{name}Probe"]["httpGet"]["path"]) == 200

    def partitions(self) -> float:
        """Count what it has been assigned."""
        return total(metrics(self), "stream_osr_assigned_partitions")


def check_health(pod: Pod) -> None:
    """Run the health check of Docker Compose."""
    (kind, program, *words) = MACHINES["osr-1"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    there, here = f"http://127.0.0.1:{CLUSTER['metrics_port']}", address(pod).replace("0.0.0.0", "127.0.0.1")
    assert there in words[-1]
    for text, code in ((words[-1].replace(there, here), 0), (words[-1].replace(there, "http://127.0.0.1:9"), 1)):
        assert run(*words[:-1], text).returncode == code


@pytest.mark.parametrize("a_broker_fails", [False, pytest.param(True, marks=pytest.mark.long)])
def test_two_pods_share_the_work_and_survive_a_restart_and_the_loss_of_a_broker(
    brokers: tuple[Broker, Broker, Broker], tmp_path: Path, a_broker_fails: bool
) -> None:
    """The images cannot run without a container runtime: these are processes, each with folders of its own.

    With the loss of a broker it takes longer: a transaction ends after the setting transaction_deadline.
    """
    stream = Deployed(brokers, tmp_path, small_model())
    try:
        for _ in range(2):  # as a Job that is applied again
            assert Pod(stream, "topics", "Job").process.wait(60) == 0
        stream.feed(240)
        pods = [Pod(stream, f"stream-osr-{number}") for number in range(2)]
        stream.wait()
        stream.wait(lambda: [pod.partitions() for pod in pods] == [PARTITIONS / 2, PARTITIONS / 2])
        stream.wait(lambda: all(pod.probe("startup") and pod.probe("readiness") for pod in pods))
        assert all(pod.probe("liveness") for pod in pods)
        check_health(pods[0])
        assert total(metrics(pods[0]), "stream_osr_lag_records", topic=stream.topic) == 0
        worker = {labels["worker"] for pod in pods for labels, _ in metrics(pod)["stream_osr_ready"]}
        assert worker == {"stream-osr-0", "stream-osr-1"}

        pods[1].process.send_signal(signal.SIGTERM)
        grace = template("StatefulSet")["terminationGracePeriodSeconds"]
        assert pods[1].process.wait(grace) == 0
        stream.feed(120)
        pods[1] = Pod(stream, "stream-osr-1")
        assert not pods[1].inside(Path(CLUSTER["state"])).exists(), "all of the state comes from the topic"
        stream.wait()
        assert pods[0].partitions() == PARTITIONS / 2, "it kept its place in the group"

        if a_broker_fails:
            brokers[2].kill()
            stream.feed(120)
            stream.wait()
            stream.wait(lambda: all(pod.probe("readiness") for pod in pods))
        for pod in pods:
            assert total(metrics(pod), "stream_osr_unaccounted_records_total") == 0
            pod.process.send_signal(signal.SIGTERM)
        assert [pod.process.wait(grace) for pod in pods] == [0, 0]
        check_exactly_once(stream)
        audit(stream)
    finally:
        kill_workers()

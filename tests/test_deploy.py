"""A group of machines: the manifest for Kubernetes and the file for Docker Compose, by schema and as processes.

Docker is not on the machine that runs the tests, so no image runs, and no cluster schedules the pods. What containers
run (commands, settings, variables, ports, paths of the probes) is read from the files and run as processes.
"""

from __future__ import annotations

import copy
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
from stream_osr_connectors.kafka.settings import unknown_variables
from tests.documents.commands import problem
from tests.documents.reading import blocks
from tests.kafka.brokers import Broker, SecondBroker
from tests.kafka.faults.auditing import audit
from tests.kafka.prometheus import promtool
from tests.kafka.scraping import address, metrics, status, total
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once, instances, small_model
from tests.processes import COMMAND, Process, run
from tests.tiers import do_without

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "kafka"
PAGE = (ROOT / "docs" / "scaling.md").read_text()
CLUSTER: dict[str, Any] = yaml.safe_load((EXAMPLE / "cluster.yaml").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((EXAMPLE / "compose-cluster.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

Manifest = dict[str, dict[str, Any]]
"""Documents by kind; each kind occurs once."""


def manifest() -> Manifest:
    """Read the manifest."""
    documents = [*yaml.safe_load_all((EXAMPLE / "kubernetes.yaml").read_text())]
    found = {each["kind"]: each for each in documents}
    assert len(found) == len(documents)
    return found


MANIFEST = manifest()
VERSIONS = ("1.30", "1.33", "1.37")


def template(documents: Manifest, kind: str) -> Any:
    """Pods of a kind."""
    return documents[kind]["spec"]["template"]["spec"]


def container(documents: Manifest, kind: str = "StatefulSet") -> Any:
    """The only container of a pod."""
    (only,) = template(documents, kind)["containers"]
    return only


def settings_of(documents: Manifest) -> dict[str, Any]:
    """Settings in the ConfigMap."""
    return dict(yaml.safe_load(documents["ConfigMap"]["data"]["service.yaml"]))


def option(arguments: list[str], name: str) -> str:
    """Value of an option."""
    return arguments[arguments.index(name) + 1]


PARTITIONS = int(option(container(MANIFEST, "Job")["args"], "--partitions"))


# The manifest.


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", MANIFEST)
def test_each_document_is_one_by_the_schema(kind: str, version: str) -> None:
    assert kubernetes_validate.validate(MANIFEST[kind], version, strict=True) == version


def no_such_field(documents: Manifest) -> None:
    container(documents)["livenessProbes"] = container(documents).pop("livenessProbe")


def field_at_another_level(documents: Manifest) -> None:
    documents["StatefulSet"]["spec"]["terminationGracePeriodSeconds"] = 45


def word_for_a_number(documents: Manifest) -> None:
    documents["HorizontalPodAutoscaler"]["spec"]["maxReplicas"] = "twelve"


def without_what_is_required(documents: Manifest) -> None:
    del documents["StatefulSet"]["spec"]["selector"]


@pytest.mark.parametrize(
    "broken", [no_such_field, field_at_another_level, word_for_a_number, without_what_is_required]
)
def test_a_broken_manifest_is_none_by_the_schema(broken: Callable[[Manifest], None]) -> None:
    documents = copy.deepcopy(MANIFEST)
    broken(documents)
    refused = set()
    for kind, each in documents.items():
        try:
            kubernetes_validate.validate(each, VERSIONS[-1], strict=True)
        except kubernetes_validate.ValidationError:
            refused.add(kind)
    assert refused == {kind for kind, each in documents.items() if each != MANIFEST[kind]} != set()


def disagreements(documents: Manifest) -> list[str]:
    """What a schema cannot see."""
    pods, service = template(documents, "StatefulSet"), container(documents)
    scaler, scaled = documents["HorizontalPodAutoscaler"]["spec"], documents["StatefulSet"]
    labels = scaled["spec"]["template"]["metadata"]["labels"]
    selectors = [
        documents["Service"]["spec"]["selector"],
        *(documents[kind]["spec"]["selector"]["matchLabels"] for kind in ("StatefulSet", "PodDisruptionBudget")),
        *(each["labelSelector"]["matchLabels"] for each in pods["topologySpreadConstraints"]),
    ]
    settings = ServiceSettings(**settings_of(documents))
    ports = {each["name"]: each["containerPort"] for each in service["ports"]}
    probes = {name: service[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    mounts = {each["mountPath"]: each["name"] for each in service["volumeMounts"]}
    kept = next((volume for path, volume in mounts.items() if settings.state.is_relative_to(path)), None)
    variables = {each["name"]: each for each in service["env"]}
    instance = variables.get("STREAM_OSR_INSTANCE", {}).get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    lag = [each["external"]["metric"] for each in scaler["metrics"] if each["type"] == "External"]
    wrong = {
        "a selector finds other pods": any(each != labels for each in selectors),
        "the Service has another name": scaled["spec"]["serviceName"] != documents["Service"]["metadata"]["name"],
        "a port has no name in the container": any(
            each not in ports
            for each in (
                *(probe["port"] for probe in probes.values()),
                *(port["targetPort"] for port in documents["Service"]["spec"]["ports"]),
            )
        ),
        "the service listens at another port": [*ports.values()] != [settings.metrics_port]
        or [port["port"] for port in documents["Service"]["spec"]["ports"]] != [settings.metrics_port]
        or scaled["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] != str(settings.metrics_port),
        "no probe from outside reaches the port": settings.metrics_host != "0.0.0.0",
        "a probe has another path": {name: probe["path"] for name, probe in probes.items()}
        != {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"},
        "the grace period ends before a shutdown": pods["terminationGracePeriodSeconds"] <= settings.stop_timeout,
        "the state is no emptyDir": {"name": kept, "emptyDir": {}} not in pods["volumes"],
        "the state is in a volume of its own": "volumeClaimTemplates" in scaled["spec"],
        "the state is in no topic": settings.state_topic is None,
        "the instance is not the name of the pod": instance != "metadata.name",
        "the autoscaler does not scale the StatefulSet": scaler["scaleTargetRef"]
        != {"apiVersion": scaled["apiVersion"], "kind": "StatefulSet", "name": scaled["metadata"]["name"]},
        "the StatefulSet sets replicas, too": "replicas" in scaled["spec"],
        "a worker has no partition": scaler["maxReplicas"] * settings.workers
        > int(option(container(documents, "Job")["args"], "--partitions")),
        "the lag is no metric of the service": [each["name"].removeprefix("stream_osr_") for each in lag]
        != [row.name for row in METRICS if row.name == "lag_records"],
        "the lag is that of another topic": [each["selector"] for each in lag]
        != [{"matchLabels": {"topic": settings.input}}],
        "a variable is no setting": any(unknown_variables(variables, ServiceSettings.model_fields)),
    }
    for kind in ("StatefulSet", "Job"):
        arguments = container(documents, kind)["args"]
        config = Path(option(arguments, "--config"))
        there = {each["mountPath"]: each["name"] for each in container(documents, kind)["volumeMounts"]}
        volume = {"name": there.get(str(config.parent)), "configMap": documents["ConfigMap"]["metadata"]["name"]}
        shown = [
            {"name": each["name"], "configMap": each["configMap"]["name"]}
            for each in template(documents, kind)["volumes"]
            if "configMap" in each
        ]
        wrong |= {
            f"{kind}: the settings are elsewhere": config.name not in documents["ConfigMap"]["data"]
            or volume not in shown,
            f"{kind}: the command is none": problem(shlex.join(["stream-osr", *arguments])) is not None,
        }
    return [what for what, is_so in wrong.items() if is_so]


def test_the_documents_agree() -> None:
    assert disagreements(MANIFEST) == []


def with_settings(documents: Manifest, **changed: Any) -> None:
    documents["ConfigMap"]["data"]["service.yaml"] = yaml.safe_dump({**settings_of(documents), **changed})


def put(place: Callable[[Manifest], Any], **changed: Any) -> Callable[[Manifest], None]:
    """Change fields at a place."""
    return lambda documents: place(documents).update(changed)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (put(lambda m: m["Service"]["spec"]["selector"], app="other"), "a selector finds other pods"),
        (put(lambda m: m["Service"]["metadata"], name="other"), "the Service has another name"),
        (put(lambda m: container(m)["livenessProbe"]["httpGet"], port="http"), "a port has no name in the container"),
        (lambda m: with_settings(m, metrics_port=9000), "the service listens at another port"),
        (lambda m: with_settings(m, metrics_host="127.0.0.1"), "no probe from outside reaches the port"),
        (put(lambda m: container(m)["livenessProbe"]["httpGet"], path="/readyz"), "a probe has another path"),
        (lambda m: with_settings(m, stop_timeout=50), "the grace period ends before a shutdown"),
        (lambda m: with_settings(m, state="/var/state"), "the state is no emptyDir"),
        (put(lambda m: m["StatefulSet"]["spec"], volumeClaimTemplates=[]), "the state is in a volume of its own"),
        (lambda m: with_settings(m, state_topic=None), "the state is in no topic"),
        (lambda m: container(m)["env"].clear(), "the instance is not the name of the pod"),
        (
            put(lambda m: m["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"], kind="Deployment"),
            "the autoscaler does not scale the StatefulSet",
        ),
        (
            put(lambda m: m["StatefulSet"]["spec"], replicas=3),
            "the StatefulSet sets replicas, too",
        ),
        (put(lambda m: m["HorizontalPodAutoscaler"]["spec"], maxReplicas=13), "a worker has no partition"),
        (lambda m: with_settings(m, input="other"), "the lag is that of another topic"),
        (
            lambda m: container(m)["env"].append({"name": "STREAM_OSR_GROP", "value": "a"}),
            "a variable is no setting",
        ),
        (put(lambda m: m["ConfigMap"]["metadata"], name="other"), "StatefulSet: the settings are elsewhere"),
        (lambda m: container(m, "Job")["args"].append("--creat"), "Job: the command is none"),
    ],
)
def test_a_disagreement_is_found(change: Callable[[Manifest], None], found: str) -> None:
    documents = copy.deepcopy(MANIFEST)
    change(documents)
    assert found in disagreements(documents)


def test_each_setting_is_one() -> None:
    assert settings_of(MANIFEST) == CLUSTER, "the ConfigMap and cluster.yaml differ"
    assert CLUSTER.keys() <= ServiceSettings.model_fields.keys()
    assert "instance" not in CLUSTER, "each machine has its own"
    ServiceSettings(**CLUSTER)


# The file for Docker Compose.


def variables_of(service: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in the variables of a service."""
    return {name.removeprefix("STREAM_OSR_").lower(): value for name, value in service["environment"].items()}


def commands_of(service: Mapping[str, Any]) -> list[list[str]]:
    """Arguments of `stream-osr` in a service, with files as Docker mounts them."""
    if service.get("entrypoint") == ["sh", "-c"]:
        (line,) = service["command"]
        return [shlex.split(each)[1:] for each in line.split(" && ")]
    return [shlex.split(service["command"])]


MACHINES = {name: service for name, service in SERVICES.items() if name.startswith("osr-")}
BROKERS = {name: service for name, service in SERVICES.items() if name.startswith("kafka-")}


def test_compose_is_one_by_the_schema() -> None:
    schema = json.loads((ROOT / "tests" / "kafka" / "compose.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(COMPOSE)
    for service in SERVICES.values():
        assert service.get("depends_on", {}).keys() <= SERVICES.keys()
        for volume in service.get("volumes", ()):
            place = volume.partition(":")[0]
            assert (EXAMPLE / place).exists() if place.startswith(".") else place in COMPOSE["volumes"]


def test_compose_has_three_brokers_that_replicate() -> None:
    shared = {"NODE_ID", "ADVERTISED_LISTENERS"}
    found = [
        {name.removeprefix("KAFKA_"): value for name, value in service["environment"].items()}
        for service in BROKERS.values()
    ]
    assert len(found) == 3
    rest = [{name: value for name, value in each.items() if name not in shared} for each in found]
    assert rest[0] == rest[1] == rest[2], "the brokers are of one cluster"
    assert rest[0]["CLUSTER_ID"]
    for name in ("DEFAULT", "OFFSETS_TOPIC", "TRANSACTION_STATE_LOG"):
        assert rest[0][f"{name}_REPLICATION_FACTOR"] == 3
    assert rest[0]["MIN_INSYNC_REPLICAS"] == rest[0]["TRANSACTION_STATE_LOG_MIN_ISR"] == 2
    voters = rest[0]["CONTROLLER_QUORUM_VOTERS"].split(",")
    assert voters == [f"{each['NODE_ID']}@{name}:9093" for each, name in zip(found, BROKERS, strict=True)]
    named = [each["ADVERTISED_LISTENERS"].removeprefix("PLAINTEXT://") for each in found]
    assert named == CLUSTER["brokers"].split(",") == [f"{name}:9092" for name in BROKERS]
    for service in BROKERS.values():
        assert "localhost:9092" in service["healthcheck"]["test"][1]
    assert SERVICES["prepare"]["depends_on"] == {name: {"condition": "service_healthy"} for name in BROKERS}
    for name in ("produce", "consume"):
        assert option(SERVICES[name]["entrypoint"], "--brokers") == CLUSTER["brokers"]


def test_compose_runs_what_the_manifest_runs() -> None:
    assert len(MACHINES) == 2
    for name, service in MACHINES.items():
        (arguments,) = commands_of(service)
        mounted = {each.split(":")[1]: each.split(":")[0] for each in service["volumes"]}
        config = Path(option(arguments, "--config"))
        assert EXAMPLE / mounted[str(config.parent)] / config.name == EXAMPLE / "cluster.yaml"
        expected = container(MANIFEST)["args"]
        assert arguments == [str(config) if each == option(expected, "--config") else each for each in expected]
        assert variables_of(service).keys() == {"model", "instance"}
        assert variables_of(service)["instance"] == name
        assert not any(CLUSTER["state"].startswith(f"{path}/") for path in mounted), "each has its own state"
        grace = int(service["stop_grace_period"].removesuffix("s"))
        assert grace == template(MANIFEST, "StatefulSet")["terminationGracePeriodSeconds"]
        (port,) = service["ports"]
        assert re.fullmatch(rf"127\.0\.0\.1:\d+:{CLUSTER['metrics_port']}", port)
    assert len({service["ports"][0] for service in MACHINES.values()}) == 2
    demo, topics = commands_of(SERVICES["prepare"])
    config = Path(option(topics, "--config"))
    expected = container(MANIFEST, "Job")["args"]
    assert topics == [str(config) if each == option(expected, "--config") else each for each in expected]
    made = Path(option(demo, "--output")).relative_to("/data") / "model.osr"
    assert "model:/data" in SERVICES["prepare"]["volumes"]
    assert "model:/model:ro" in MACHINES["osr-1"]["volumes"]
    assert {variables_of(service)["model"] for service in MACHINES.values()} == {f"/model/{made}"}


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
    kafka = (ROOT / "docs" / "kafka.md").read_text()
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
        spec = container(MANIFEST, kind)
        config = Path(option(spec["args"], "--config"))
        (self.inside(config)).parent.mkdir(parents=True)
        self.inside(config).write_text(MANIFEST["ConfigMap"]["data"][config.name])
        arguments = [str(self.inside(config)) if each == str(config) else each for each in spec["args"]]
        fields = {"metadata.name": name}
        given = {
            each["name"]: each.get("value") or fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in spec.get("env", ())
        }
        here = {  # of another machine, and two pods share one network: nothing else is changed
            "STREAM_OSR_BROKERS": stream.settings["brokers"],
            "STREAM_OSR_MODEL": str(stream.folder / "model.osr"),
            "STREAM_OSR_STATE": str(self.inside(Path(CLUSTER["state"]))),
            "STREAM_OSR_METRICS_PORT": "0",
        }
        self.log = stream.folder / f"{name}-{next(self.numbers)}.log"
        with self.log.open("w") as log:
            self.process = Process(
                [*COMMAND, *arguments],
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
        return status(self, container(MANIFEST)[f"{name}Probe"]["httpGet"]["path"]) == 200

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
        grace = template(MANIFEST, "StatefulSet")["terminationGracePeriodSeconds"]
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
        for each in Worker.started:
            if each.process.poll() is None:
                each.kill()
        Worker.started.clear()

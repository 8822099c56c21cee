"""The file for people with Docker, which no test runs: what it says is possible, and agrees with the project."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from stream_osr_connectors.kafka import ServiceSettings
from tests.documents.commands import RUNNERS, problem

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "kafka" / "compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if name != "kafka"}
BEGINS_WITH = json.loads(re.findall(r"^ENTRYPOINT (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[-1])
EXAMPLES = "/examples"
SETTINGS = yaml.safe_load((ROOT / "examples" / "kafka" / "service.yaml").read_text())


def test_it_is_one_by_the_schema() -> None:
    schema = json.loads(Path(__file__).with_name("compose.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(COMPOSE)


def test_services_and_volumes_that_it_names_are_there() -> None:
    for name, service in SERVICES.items():
        assert service.get("depends_on", {}).keys() <= SERVICES.keys() - {name}
        for volume in service.get("volumes", ()):
            place = volume.partition(":")[0]
            assert (FILE.parent / place).exists() if place.startswith(".") else place in COMPOSE["volumes"]


def test_its_variables_are_settings_and_fit_the_file_of_the_example() -> None:
    for service in OURS.values():
        names = {name.removeprefix("STREAM_OSR_").lower(): value for name, value in service["environment"].items()}
        assert names.keys() <= ServiceSettings.model_fields.keys()
        assert ServiceSettings(**{**SETTINGS, **names}).model_fields_set >= names.keys()


def lines_of(service: dict[str, Any]) -> list[str]:
    """The commands that a container runs, as one would type them in the checkout."""
    words = [*_words(service.get("entrypoint", BEGINS_WITH)), *_words(service.get("command", []))]
    lines = words[2].split(" && ") if words[:2] == ["sh", "-c"] else [shlex.join(words)]
    return [line.replace("/examples/", "examples/kafka/") for line in lines]


def _words(command: str | list[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else command


def test_its_commands_are_commands() -> None:
    lines = [line for service in OURS.values() for line in lines_of(service)]
    assert len(lines) == 5
    for line in lines:
        assert line.split()[0] in RUNNERS
        assert problem(line) is None, line
        for name in re.findall(r"examples/\S+", line):
            assert (ROOT / name).is_file(), name
    for service in OURS.values():
        assert f".:{EXAMPLES}:ro" in service["volumes"], "or it does not see the files of the example"
    for line in re.findall(r"^# +(stream-osr .*)$", FILE.read_text(), re.MULTILINE):
        assert problem(line) is None, line


def test_brokers_and_ports_agree() -> None:
    broker = SERVICES["kafka"]["environment"]
    address = broker["KAFKA_ADVERTISED_LISTENERS"].removeprefix("PLAINTEXT://")
    assert f"PLAINTEXT://:{address.partition(':')[2]}" in broker["KAFKA_LISTENERS"].split(",")
    for service in OURS.values():
        assert service["environment"]["STREAM_OSR_BROKERS"] == address
        named = [line.split("--brokers ")[1].split()[0] for line in lines_of(service) if "--brokers " in line]
        assert named in ([], [address])
    service = OURS["service"]
    assert service["ports"] == [f"127.0.0.1:{SETTINGS['metrics_port']}:{SETTINGS['metrics_port']}"], (
        "whoever reaches the port can read it"
    )
    assert int(service["stop_grace_period"].removesuffix("s")) > ServiceSettings(**SETTINGS).stop_timeout


def test_the_model_that_it_runs_is_the_one_that_it_makes() -> None:
    made = re.search(r"stream-osr demo --output (\S+)", lines_of(OURS["prepare"])[0])
    assert made is not None
    volume = OURS["service"]["volumes"][0].partition(":")[2]
    assert OURS["service"]["environment"]["STREAM_OSR_MODEL"] == f"{made[1]}/model.osr"
    for name in ("STREAM_OSR_MODEL", "STREAM_OSR_STATE"):
        assert OURS["service"]["environment"][name].startswith(f"{volume}/"), "or it is gone with the container"

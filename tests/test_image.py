"""The Dockerfile fits the project: what it copies and installs is there. `make image-check` builds it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from stream_osr_connectors.cli import is_service

ROOT = Path(__file__).parents[1]
TEXT = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
STEPS = [tuple(re.sub(r"\s+", " ", line).split(" ", 1)) for line in TEXT.replace("\\\n", " ").splitlines() if line]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COPIED = [name for step, rest in STEPS if step == "COPY" and "--from" not in rest for name in rest.split(" ")[:-1]]


def only(kind: str) -> str:
    """What stands behind the last instruction of a kind."""
    return [rest for step, rest in STEPS if step == kind][-1]


def test_files_to_copy_exist_and_are_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    for name in COPIED:
        assert (ROOT / name).exists(), name
        assert not [pattern for pattern in ignored if fnmatch(name, pattern)], name


def test_all_that_makes_the_wheel_is_copied() -> None:
    packages = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    project = PYPROJECT["project"]
    needed = {*(package.split("/")[0] for package in packages), "README.md", *project["license-files"]}
    assert needed | {"pyproject.toml", "constraints.txt", "tools"} == {*COPIED}


def test_the_extras_that_it_installs_are_extras() -> None:
    extras = only("ARG").removeprefix("EXTRAS=")
    assert {"kafka", "plot", "live"} <= {*extras.split(",")} <= PYPROJECT["project"]["optional-dependencies"].keys()


def test_the_page_on_installing_lists_the_extras() -> None:
    page = (ROOT / "docs" / "installing.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert {*listed} == PYPROJECT["project"]["optional-dependencies"].keys()


def test_its_environment_holds_settings_and_the_port_of_the_example() -> None:
    import yaml

    from stream_osr_connectors.kafka import ServiceSettings

    settings = dict(re.findall(r"STREAM_OSR_(\w+)=(\S+)", only("ENV")))
    assert {name.lower() for name in settings} <= ServiceSettings.model_fields.keys()
    example = yaml.safe_load((ROOT / "examples" / "kafka" / "service.yaml").read_text())
    assert only("EXPOSE") == settings["METRICS_PORT"] == str(example["metrics_port"])


@pytest.mark.parametrize(
    "words",
    ["run --config service.yaml", "run --config=s.yaml", "serve --brokers b:9092", "run -i serve.csv", "demo"],
)
def test_health_is_checked_if_the_command_is_a_service(words: str, tmp_path: Path) -> None:
    check, _, rest = only("HEALTHCHECK").partition(" CMD ")[2].partition(" /proc/1/cmdline || exit 0; ")
    (tmp_path / "cmdline").write_bytes(f"python stream-osr {words} ".replace(" ", "\0").encode())
    found = subprocess.run(["sh", "-c", f"{check} {tmp_path / 'cmdline'}"]).returncode == 0
    assert found == is_service(words.split())
    assert rest.startswith("python -c ")


def test_it_does_not_run_as_root() -> None:
    assert only("USER") == "osr"
    assert STEPS.index(("USER", "osr")) > max(i for i, (step, _) in enumerate(STEPS) if step in {"RUN", "COPY"})


def test_the_example_with_a_broker_uses_it() -> None:
    import yaml

    compose = yaml.safe_load((ROOT / "examples" / "kafka" / "compose.yaml").read_text())["services"]
    assert compose["prepare"]["build"] == {"context": "../.."}
    assert {service["image"] for service in compose.values()} == {compose["kafka"]["image"], "stream-osr"}
    for service in compose.values():
        words = f"{service.get('entrypoint')} {service.get('command')}"
        for name in re.findall(r"/examples/([\w.]+)", words):
            assert (ROOT / "examples" / "kafka" / name).is_file()

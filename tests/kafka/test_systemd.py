"""The unit of the examples: systemd accepts it, runs it, starts it again where that helps, and stops it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stream_osr_connectors.kafka import ServiceSettings, exits
from tests.kafka.brokers import Broker
from tests.kafka.streams import Stream, check_exactly_once, instances, make_topic, small_model
from tests.kafka.systemd import NAME, ROOT, UNIT, systemd

EXPOSED = 20
"""Tenths of what `systemd-analyze security` counts at most; without any hardening it is 96."""

CODES = sorted(value for name, value in vars(exits).items() if name.isupper() and type(value) is int)
USAGE = 2
"""How a command line ends that cannot be read."""

FOR_A_PERSON = {exits.REFUSED, exits.TAKEN, USAGE}


def setting(name: str) -> str:
    """A setting of the unit."""
    (found,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(found)


@pytest.mark.needs("systemd")
def test_systemd_has_nothing_against_the_unit(tmp_path: Path) -> None:
    """Its command is not where an installation has it."""
    unit = tmp_path / NAME
    unit.write_text(UNIT.read_text().replace("/opt/stream-osr/bin/stream-osr", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    measured = ["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSED}", unit]
    done = subprocess.run(measured, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-300:]


def test_the_unit_agrees_with_the_settings_and_with_the_page() -> None:
    assert float(setting("TimeoutStopSec")) > ServiceSettings.model_fields["stop_timeout"].default
    variables = {name.lower() for name in re.findall(r"STREAM_OSR_([A-Z_]+)=", UNIT.read_text())}
    assert variables <= ServiceSettings.model_fields.keys()
    assert {int(code) for code in setting("RestartPreventExitStatus").split()} == FOR_A_PERSON
    page = (ROOT / "docs" / "kafka_reference.md").read_text()
    table = page.partition("| exit code |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \| .* \| .* \| (.*) \|$", table, re.MULTILINE)
    assert {int(code): restart for code, restart in rows} == {
        code: "not started again" if code in {0, *FOR_A_PERSON} else "started again" for code in (0, USAGE, *CODES)
    }


@pytest.mark.needs("systemd")
def test_which_ends_systemd_starts_again(tmp_path: Path) -> None:
    """Each exit code of the service, and signals: by a real systemd, of a command that ends so."""
    with systemd(tmp_path) as manager:
        for code in (0, USAGE, *CODES):
            manager.drop_in(ExecStartPre="", ExecStart=f"/bin/sh -c 'sleep 0.1; exit {code}'", RestartSec="1h")
            manager.ctl("start")
            again = code not in {0, *FOR_A_PERSON}
            manager.until(SubState="auto-restart" if again else "dead" if code == 0 else "failed")
            manager.ctl("stop")
        for signal, again in (("KILL", True), ("SEGV", True), ("TERM", False)):
            manager.drop_in(
                ExecStartPre="", ExecStart=f"/bin/sh -c 'sleep 0.1; kill -{signal} $$$$'", RestartSec="1h"
            )
            manager.ctl("start")
            manager.until(SubState="auto-restart" if again else "dead")
            manager.ctl("stop")


@pytest.mark.needs("systemd")
def test_systemd_runs_the_service(broker: Broker, tmp_path: Path) -> None:
    """As it is in the examples; killed, it is started again, and everything is decided exactly once."""
    import yaml

    (folder := tmp_path / "stream").mkdir()
    stream = Stream(broker.address, folder, 2, small_model(), workers=2, instance="w")
    make_topic(broker.address, f"{stream.settings['group']}.state", 2, **{"cleanup.policy": "compact"})
    stream.send(instances(200, 2))
    with systemd(tmp_path) as manager:
        manager.copy(folder / "model.osr", "model.osr")
        named = {name: value for name, value in stream.settings.items() if name not in ("state", "model")}
        manager.configure("service.yaml", yaml.safe_dump({**named, "model": "model.osr"}))
        manager.ctl("start")
        stream.wait()
        (process,) = manager.show("MainPID")
        assert manager.inside("ps", "-o", "user=", "-p", process).stdout.strip() == "stream-osr"
        manager.ctl("kill", "--signal=KILL")
        manager.until(NRestarts="1", ActiveState="active")
        stream.send(instances(200, 2, seed=1, begin=200))
        stream.wait()
        manager.ctl("reload")
        manager.ctl("stop")
        assert manager.show("ActiveState", "Result", "ExecMainStatus") == ["inactive", "success", "0"]
        assert manager.log.read_text().splitlines()[-1].endswith("stopped")
        kept = manager.inside("stat", "-c", "%U %a", "/var/lib/stream-osr").stdout.split()
        assert kept == ["stream-osr", "700"]
        assert len(manager.inside("find", "/var/lib/stream-osr", "-name", "*.osr").stdout.splitlines()) >= 1

        manager.configure("service.yaml", "no such setting: 1\n")
        manager.drop_in(ExecStartPre="")
        manager.ctl("start")
        manager.until(ActiveState="failed", NRestarts="0", ExecMainStatus="1")
    check_exactly_once(stream)

"""Kills of a service under load: each key is decided once, with the bits of a run over the journal."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.http.serving import Service, await_decisions, check_against_files, instances

pytestmark = pytest.mark.thorough
CLIENTS = 4
LINE_BYTES = 250


class Client(threading.Thread):
    """Sends instances one by one, each until it is accepted, and some once more."""

    def __init__(self, address: str, those: list[dict[str, Any]], seed: int) -> None:
        super().__init__(daemon=True)
        self._address, self._those, self._chance = address, those, random.Random(seed)
        self.answers: dict[str, list[dict[str, Any]]] = {each["key"]: [] for each in those}
        self.trouble = ""

    def run(self) -> None:
        with httpx.Client(base_url=self._address, timeout=10, trust_env=False) as client:
            for each in self._those:
                times = 1 + (self._chance.random() < 0.2)
                while len(self.answers[each["key"]]) < times:
                    self._send(client, each)
                    if self.trouble:
                        return

    def _send(self, client: httpx.Client, each: dict[str, Any]) -> None:
        try:
            answer = client.post("/v1/instances", json=each)
        except httpx.TransportError:
            time.sleep(0.05)
            return
        if answer.status_code == 200:
            self.answers[each["key"]].append(answer.json())
        elif answer.status_code in (429, 503):
            time.sleep(0.05)
        else:
            self.trouble = answer.text


@pytest.mark.parametrize(("kills", "n"), [(3, 480), pytest.param(20, 6400, marks=pytest.mark.long)])
def test_killed_services_decide_each_key_once(kills: int, n: int, tmp_path: Path) -> None:
    chance = random.Random(kills)
    one = Service(tmp_path, "--checkpoint-every", 150)
    port, journal = one.port, one.state / "journal.jsonl"
    those = instances(n)
    clients = [Client(one.address, those[number::CLIENTS], number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for kill in range(kills):
        wanted = LINE_BYTES * n * (kill + chance.random()) / (kills + 1)
        while journal.stat().st_size < wanted and any(client.is_alive() for client in clients):
            time.sleep(0.001)
        time.sleep(chance.random() * 0.05)
        assert any(client.is_alive() for client in clients), "a kill after the load is none"
        one.process.kill()
        one.process.wait(60)
        one = Service(tmp_path, "--checkpoint-every", 150, port=port)
    for client in clients:
        client.join(300)
        assert not client.trouble
    with one.client() as client:
        await_decisions(client, n)
    one.stop()
    accepted = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [each["n"] for each in accepted] == [*range(1, n + 1)]
    by_key = {each["key"]: each for each in accepted}
    assert by_key.keys() == {each["key"] for each in those}
    for client in clients:
        for key, answers in client.answers.items():
            assert answers
            for answer in answers:
                assert (answer["n"], answer["immediate"]) == (by_key[key]["n"], by_key[key]["immediate"])
    check_against_files(tmp_path, n)

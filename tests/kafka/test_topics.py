"""What is known of topics whose settings the brokers do not tell: they answer, with nothing, who lacks the right."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from stream_osr_connectors.kafka import ServiceSettings, exits
from stream_osr_connectors.kafka.client.admin import TopicAdmin
from stream_osr_connectors.kafka.client.interface import ClientError, ErrorKind, Offset, Topic
from stream_osr_connectors.kafka.places import Place
from stream_osr_connectors.kafka.run.topics import TopicLimits, _found, takes_of
from stream_osr_connectors.kafka.wire.timestamps import TimestampLimits

TOLD = {"max.message.bytes": "2000000", "retention.ms": "604800000", "cleanup.policy": "delete"}
KNOWN = TopicLimits(2_000_000, TimestampLimits(keeps_ms=604_740_000))


class Brokers(TopicAdmin):
    """Brokers that tell the settings of some topics; of the others they answer with none.

    Parameters
    ----------
    told
        The settings.
    error
        Raised instead.
    """

    def __init__(self, told: dict[str, dict[str, str]], error: ClientError | None = None) -> None:
        self._told, self._error = told, error

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic("id", 2, 1) for name in names}

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        if self._error is not None:
            raise self._error
        return {name: self._told.get(name, {}) for name in names}

    def ends(self, places: Iterable[Place], *, stable: bool = True) -> dict[Place, int]:
        return dict.fromkeys(places, 0)

    def committed(self, group: str, topic: str) -> dict[int, Offset]:
        return {}

    def create(self, topics: Mapping[str, Mapping[str, Any]]) -> None:
        self._told |= dict.fromkeys(topics, TOLD)

    def close(self) -> None:
        pass


def test_who_may_not_ask_goes_on_with_what_was_known_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first = takes_of(Brokers({"out": TOLD, "events": TOLD}), ["out", "events"], {})
    assert first == {"out": KNOWN, "events": KNOWN}
    assert not caplog.records

    silent = Brokers({"events": TOLD})
    second = takes_of(silent, ["out", "events", "new"], first)
    assert second == {"out": KNOWN._replace(confirmed=False), "events": KNOWN, "new": TopicLimits(confirmed=False)}
    assert takes_of(silent, ["out", "events", "new"], second) == second
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for word in ("not known: out, new (", "DESCRIBE_CONFIGS", "timestamps", "not replaced"):
        assert word in record.getMessage()

    third = takes_of(Brokers({"out": TOLD, "events": TOLD}), ["out", "events"], second)
    assert third == first
    takes_of(silent, ["out"], third)
    assert len(caplog.records) == 2, "it was taken away again"


def test_brokers_that_do_not_answer_change_nothing_that_was_known(caplog: pytest.LogCaptureFixture) -> None:
    away = Brokers({}, ClientError(ErrorKind.AGAIN, "KafkaTimeoutError"))
    assert takes_of(away, ["out"], {"out": KNOWN}) == {"out": KNOWN._replace(confirmed=False)}
    assert "KafkaTimeoutError" in caplog.text


def test_the_topics_cannot_be_judged_without_the_right_to_their_settings(tmp_path: Path) -> None:
    settings = ServiceSettings(model=tmp_path / "m.osr", brokers="127.0.0.1:1", input="in", output="out")
    names = [
        settings.input,
        settings.output,
        settings.events,
        settings.dead_letters,
        settings.topics["state_topic"] or "",
    ]
    assert _found(Brokers(dict.fromkeys(names, TOLD)), settings)["out"].number("max.message.bytes") == 2_000_000
    with pytest.raises(exits.NoRightError, match="of topic out: the user lacks the right DESCRIBE_CONFIGS"):
        _found(Brokers({name: TOLD for name in names if name != "out"}), settings)

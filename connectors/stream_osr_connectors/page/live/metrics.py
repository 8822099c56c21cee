"""What the metrics of a Kafka service tell: the recall of its known classes, and what was not as it should be."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families

from stream_osr_connectors.kafka.settings import ServiceSettings
from stream_osr_connectors.page.live.inside import Nothing

TURN = 2.0
"""Seconds between two looks."""
MOST_BYTES = 1 << 24

_opener = build_opener(ProxyHandler({}))


class FromMetrics(Nothing):
    """What a service says at its port, asked by a thread.

    Parameters
    ----------
    settings
        Of the service, which name the port.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        host = settings.metrics_host if settings.metrics_host not in ("0.0.0.0", "::", "") else "127.0.0.1"
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{settings.metrics_port}/metrics"
        self.version = 0
        self._told: Mapping[str, Any] = {}
        self._trouble = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with _opener.open(self._address, timeout=5) as answer:
                    told = what_they_tell(answer.read(MOST_BYTES).decode())
                trouble = ""
            except (URLError, OSError, ValueError) as error:
                told, trouble = {}, f"The recall is not known: {self._address} does not answer ({error})."
            if (told, trouble) != (self._told, self._trouble):
                self._told, self._trouble = told, trouble
                self.version += 1
            self._stop.wait(TURN)

    def told(self) -> Mapping[str, Any]:
        """Tell what the service says."""
        return self._told

    def notes(self) -> Sequence[str]:
        """Say why nothing is known."""
        return [self._trouble] if self._trouble else []

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(10)


def what_they_tell(text: str) -> dict[str, Any]:
    """Read metrics: the recall of the partition with the lowest, which is the one to look at.

    >>> what_they_tell('stream_osr_expected_recall{partition="0"} 0.5')
    {'recall': {'value': 0.5, 'low': 0.0, 'high': 1.0, 'promised': None}}
    """
    by_name: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            place = f"{sample.labels.get('topic')}/{sample.labels.get('partition')}"
            by_name.setdefault(sample.name.removeprefix("stream_osr_"), {})[place] = sample.value
    recall = by_name.get("expected_recall")
    if not recall:
        return {}
    place = min(recall, key=lambda each: recall[each])
    value, low = recall[place], by_name.get("expected_recall_low", {}).get(place, 0.0)
    high = min(1.0, value + (value - low))
    promised = by_name.get("promised_recall", {}).get(place)
    told: dict[str, Any] = {"value": value, "low": low, "high": round(high, 6), "promised": promised}
    return {"recall": told} | ({"dependent": any(by_name["dependent"].values())} if "dependent" in by_name else {})

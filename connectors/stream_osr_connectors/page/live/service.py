"""What the page needs of a Kafka service, put together from its settings."""

from __future__ import annotations

from pathlib import Path

from stream_osr_connectors.kafka.client import quieten
from stream_osr_connectors.kafka.settings import load_settings
from stream_osr_connectors.page.live.feeds.service import ServiceFeed
from stream_osr_connectors.page.live.inside import Inside, Nothing
from stream_osr_connectors.page.live.metrics import FromMetrics
from stream_osr_connectors.page.live.service_acts import ServiceActs


def parts(config: Path | None, last: int, allowed: bool) -> tuple[ServiceFeed, Inside, ServiceActs]:
    """Read the settings, and follow the service.

    Parameters
    ----------
    config
        Its settings.
    last
        How many of the latest decisions are read.
    allowed
        Whether anything may be asked of it.

    Raises
    ------
    StreamOSRError
        If a setting is wrong, or the topics cannot be read.
    """
    quieten()
    settings = load_settings(config, [], model=Path())
    feed = ServiceFeed(settings, last)
    inside: Inside = Nothing() if settings.metrics_port is None else FromMetrics(settings)
    return feed, inside, ServiceActs(settings, allowed=allowed)

"""Listening, and putting feed, summary and server together."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from stream_osr.errors import ConnectorError
from stream_osr_connectors.page.live.acts import Acts
from stream_osr_connectors.page.live.connections import IDLE_SECONDS, MOST_CONNECTIONS, Connection
from stream_osr_connectors.page.live.examples import Examples
from stream_osr_connectors.page.live.feeds.seam import Feed
from stream_osr_connectors.page.live.guarding import Doors, Tokens
from stream_osr_connectors.page.live.images import Images
from stream_osr_connectors.page.live.inside import Inside
from stream_osr_connectors.page.live.server import make_app
from stream_osr_connectors.page.live.watcher import Watcher

STOP_SECONDS = 2
"""How long open pages hold up the end."""


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address; port 0: a free one.

    Raises
    ------
    ConnectorError
        If that cannot be.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(256)  # whoever comes before the server does waits
    except OSError as error:
        listening.close()
        raise ConnectorError(
            f"cannot listen at {host}:{port}: {error.strerror or error}; --port 0 takes a free one"
        ) from None
    return listening


def configure(app: ASGIApp) -> uvicorn.Config:
    """Configure the server of an application."""
    return uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=int(IDLE_SECONDS),
        timeout_graceful_shutdown=STOP_SECONDS,
        limit_concurrency=MOST_CONNECTIONS + 1,
        h11_max_incomplete_event_size=1 << 16,
    )


def serve(
    listening: socket.socket,
    feed: Feed,
    inside: Inside,
    acts: Acts,
    *,
    tokens: Tokens | None = None,
    images: Images | None = None,
    names: Sequence[str] = (),
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Show a stream until SIGINT or SIGTERM.

    Parameters
    ----------
    listening
        From :func:`listen`.
    feed, inside, acts
        What is followed, what else is known of it, and how people's wishes reach it.
    tokens
        Who may act.
    images
        Addresses of pictures.
    names
        Further names (``HOST:PORT``) under which the page is reached.
    ready
        Told the address of the page.
    """
    host, port = listening.getsockname()[:2]
    examples = Examples(feed, images)
    watcher = Watcher(feed, inside, acts, examples)
    app = make_app(watcher, Doors(host, port, names), tokens, images)
    config = configure(app)
    ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
    before = {number: signal.signal(number, _heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(config).run(sockets=[listening])  # it hears them itself, and raises them again at its end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        inside.stop()
        acts.stop()
        listening.close()


def _heard(number: int, frame: FrameType | None) -> None:
    """Do nothing: the server has ended for it."""

"""The service: its parts, from the start to the end of the process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from stream_osr import OpenSetRecognizer
from stream_osr.errors import ConnectorError
from stream_osr.support.parallel import one_thread

from ..page.live.access import KnownHosts, Tokens
from ..page.live.page_host import address_of, configure, run_server
from .acceptor import Acceptor
from .folder_run import FolderRun
from .instances import InstanceReader
from .routes import make_app


def serve(
    listening: socket.socket,
    folder: Path,
    model: OpenSetRecognizer,
    *,
    horizon: int,
    checkpoint_every: int,
    segment_bytes: int,
    by: str | None = None,
    contributions: int | None = None,
    carries: bool = False,
    tokens: Tokens | None = None,
    names: Sequence[str] = (),
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a model until SIGINT or SIGTERM.

    Parameters
    ----------
    listening
        From :func:`stream_osr_connectors.page.live.page_host.listen`.
    folder, model, horizon, checkpoint_every, segment_bytes, contributions, carries
        As for :class:`.folder_run.FolderRun`.
    by
        As for :class:`.instances.InstanceReader`.
    tokens
        Tokens that requests need.
    names
        Additional names (``HOST:PORT``) of the server.
    ready
        Callback that receives the address.

    Raises
    ------
    ConnectorError
        If a file cannot be used. All accepted instances are in the journal, and the next start continues.
    """
    with one_thread():  # predictions and the run share the limit, which is global
        run = FolderRun(
            folder, model, horizon=horizon, checkpoint_every=checkpoint_every, segment_bytes=segment_bytes,
            by=by, contributions=contributions, carries=carries,
        )  # fmt: skip
        reader = InstanceReader(run.model, by)
        acceptor = Acceptor(run.journal, reader.predict)
        host, port = listening.getsockname()[:2]
        hosts = KnownHosts(host, port, names)
        server = uvicorn.Server(configure(make_app(run, acceptor, reader, hosts, tokens)))

        def end() -> None:
            server.should_exit = True

        run.on_end = acceptor.on_end = end
        try:
            run.start()
            acceptor.start()
            ready(address_of(listening))
            run_server(server, listening)
        finally:
            acceptor.stop()
            run.stop()
            listening.close()
    if failure := run.failure or acceptor.failure:
        raise ConnectorError(f"the service has ended. {failure}")


def check_model(model: OpenSetRecognizer) -> None:
    """Check that a model can be served.

    Raises
    ------
    ConnectorError
        If a feature has a name that is not text, or the model skips instances with missing values.
    """
    if not all(isinstance(name, str) for name in model.trained.names):
        raise ConnectorError("a feature of the model has a name that is not text, and JSON has only such names")
    if model.value.parameters.on_missing == "skip":
        raise ConnectorError(
            "the model skips instances with missing values, and a skipped instance has no decision. Train with "
            "on_missing='impute' or 'error'"
        )

"""The command ``stream-osr serve --http``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from stream_osr.errors import ConnectorError
from stream_osr.support.extras import needing
from stream_osr_connectors.cli import options
from stream_osr_connectors.cli.options import option
from stream_osr_connectors.terminal import Terminal


@dataclass(kw_only=True)
class ServeHttpOptions:
    """Options of ``stream-osr serve --http``."""

    http: bool = option("Serve over HTTP, not Kafka.", "--http", default=...)
    model: Path = option("Model made by `stream-osr fit`.", "--model", "-m", default=...)
    state: Path = option("Folder for the journal, the outputs and the checkpoint.", "--state", default=...)
    batch_size: int | None = option("Micro-batch size, in instances.")
    max_wait: float | None = option("Time units after which a micro-batch closes.")
    decision_delay: int | None = option("Delay each decision by N instances (default: 0).")
    min_probability: float | None = option("Label as unknown below this probability, 0 to 1 (default: 0).")
    half_life: float | None = option("Instances after which the weight of a stream instance halves (default: 200).")
    chains: int | None = option("Number of the model's chains to run. Fewer are faster.")
    contributions: int | None = option("Show the contributions of N features with each decision.", min=1)
    by: str | None = option("Field of stream keys: one recognizer for each key, for example for each device.")
    on_model_change: Literal["refuse", "carry"] = option(
        "For another model than that of the folder: refuse to start, or carry the subclasses over to it.",
        default="refuse",
    )
    checkpoint_every: int = option("Records between two checkpoints.", min=1, default=10_000)
    horizon: int = option("Number of latest keys that are decided once.", min=1, default=100_000)
    segment_bytes: int = option(
        "Size of a journal segment in bytes. 0: one segment, which is never deleted.", min=0, default=1 << 26
    )
    host: str = option("Address to listen on.", default="127.0.0.1")
    port: int = option("Port to listen on. 0 chooses a free port.", min=0, max=65535, default=8800)
    name: list[str] | None = option("Further HOST or HOST:PORT under which clients may reach the service.")
    tokens: Path | None = option("File of tokens, one name:token per line. Each request below /v1 then needs one.")


@options.takes(ServeHttpOptions)
def serve_http(given: ServeHttpOptions) -> None:
    """Decide instances that arrive by HTTP (extra: http).

    Each accepted instance is in the journal on disk before it is answered. After a crash the same command continues.

    Example: stream-osr serve --http --model model.osr --state service
    """
    with needing("the service needs {}. Install it: pip install 'stream-osr[http]'"):
        from stream_osr_connectors.http_service.service import check_model, serve
        from stream_osr_connectors.page.live import page_host
        from stream_osr_connectors.page.live.access import is_local, read_tokens
    from stream_osr_connectors.cli.run import begin

    console = Terminal(stderr=True)
    tokens = None if given.tokens is None else read_tokens(given.tokens, os.environ)
    model = begin(cast(Any, given))
    check_model(model)
    try:
        given.state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConnectorError(f"cannot create {given.state}: {error.strerror}. Check the path") from None
    if tokens is None and not is_local(given.host):
        console.say(f"anyone who can reach {given.host} can send and read instances. --tokens FILE prevents that")

    def ready(address: str) -> None:
        said = "" if tokens is not None else ". Commands are refused (--tokens allows them)"
        Terminal().say(f"{address} decides instances{said}. Press Ctrl-C to stop")

    with page_host.listen(given.host, given.port) as listening:
        serve(
            listening, given.state, model, horizon=given.horizon, checkpoint_every=given.checkpoint_every,
            segment_bytes=given.segment_bytes, by=given.by, contributions=given.contributions,
            carries=given.on_model_change == "carry", tokens=tokens, names=given.name or (), ready=ready,
        )  # fmt: skip

"""Settings of the service, and one-line messages about wrong settings."""

from __future__ import annotations

import importlib
import os
import re
import socket
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, YamlConfigSettingsSource
from pydantic_settings import PydanticBaseSettingsSource as Source

from stream_osr.errors import ConnectorError
from stream_osr.printable_text import brief
from stream_osr_connectors.values import LabelType

from .settings_errors import PREFIX, check_file, explained, read_secret

SUBJECTS = {
    "model": "Model and topics",
    "group": "Group and workers",
    "decoder": "Records",
    "batch_size": "Micro-batches and decisions",
    "state": "State and recovery",
    "transaction_deadline": "Timeouts",
    "metrics_port": "Metrics and logs",
    "security_protocol": "Security",
}
"""Subject of the settings from each of these on, in the order of the table."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]


class ServiceSettings(BaseSettings):
    """Settings of ``stream-osr serve``. The description of each field is its help text.

    Examples
    --------
    >>> settings = ServiceSettings(model="model.osr", brokers="k1:9092,k2:9092", input="sensors")
    >>> settings.output, settings.dead_letters
    ('sensors.decisions', 'sensors.dlq')
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, protected_namespaces=(), use_attribute_docstrings=True
    )

    model: Path
    """Model file of `stream-osr fit`."""
    brokers: str
    """Comma-separated host:port of the first brokers."""
    input: str
    """Topic of instances, or several comma-separated topics."""
    output: str = ""
    """Topic of decisions. Default: INPUT.decisions. With several inputs all defaults start with GROUP."""
    events: str = ""
    """Topic of events. Default: INPUT.events."""
    dead_letters: str = ""
    """Topic of unusable records. Default: INPUT.dlq."""
    labels: str | None = None
    """Topic of commands and late labels, with one partition."""
    subclasses: str | None = None
    """Compacted topic of summaries for `stream-osr reconcile`, with one partition."""
    links: str = ""
    """Compacted topic of links from `stream-osr reconcile`. Default: INPUT.links."""
    global_events: str = ""
    """Topic of events from `stream-osr reconcile`. Default: INPUT.global-events."""

    group: Annotated[str, Field(min_length=1)] = "stream-osr"
    """Consumer group."""
    instance: Annotated[str, Field(min_length=1)] = Field(default_factory=socket.gethostname)
    """Unique name of this worker in the group, the same after a restart."""
    workers: AtLeastOne = 1
    """Number of worker processes."""
    start: str = "earliest"
    """Start of a group without committed offsets: earliest, latest, or a time in ISO 8601."""
    stop: str | None = None
    """End of the service: end (of the input at the start), or a time in ISO 8601."""

    decoder: str = "json"
    """json, or module:function that takes the settings and returns a decoder."""
    encoder: str = "json"
    """json, or module:function that takes the settings and returns an encoder."""
    by: str | None = None
    """Key of the stream, for a recognizer per key: key (of the record), or a field."""
    max_keys: AtLeastOne = 1000
    """Most keys of a partition, with by. Records of further keys become dead letters."""
    key_memory: AtLeastOne = 1 << 28
    """Bytes for recognizers by key of a partition. Others are stored in compact form."""
    key: str | None = None
    """Field of the key. Default: the key of the record."""
    time: str | None = None
    """Field of the time. Default: the timestamp of the record."""
    label: str | None = None
    """Field of true labels, from which the model learns."""
    features: tuple[str, ...] | None = None
    """Feature fields. Default: the model's."""
    label_type: LabelType = "auto"
    """Type of labels: auto, str or int."""
    max_instance_bytes: AtLeastOne = 1_000_000
    """Maximum size of a value. Longer values become dead letters."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    """Compression of published messages."""

    batch_size: AtLeastOne | None = None
    """Instances in a micro-batch. Default: the model's."""
    max_wait: Seconds | None = 1.0
    """Seconds after which a partial micro-batch is closed."""
    commit_batches: AtLeastOne = 8
    """Most micro-batches in a transaction."""
    on_missing: Literal["impute", "error", "skip"] | None = None
    """Treatment of missing features. Default: the model's."""
    min_probability: Annotated[float | None, Field(ge=0, le=1)] = None
    """Minimum probability of a known label. Default: the model's."""
    contributions: AtLeastOne | None = None
    """Features whose contributions each decision has."""
    threads: AtLeastOne | None = None
    """Threads for the chains. Default: the model's."""
    seed: Annotated[int | None, Field(ge=0)] = None
    """Seed of all random numbers. Default: the model's."""

    state: Path = Path("state")
    """Folder of snapshots, in a systemd unit its StateDirectory. Alone, it must be shared by all workers."""
    state_topic: str | None = None
    """Compacted topic of snapshots. Default: GROUP.state, or none with state or state_url."""
    state_url: str | None = None
    """URL of snapshots in a file system of fsspec, such as s3://bucket/states (extra url)."""
    snapshot_interval: Seconds = 60.0
    """Seconds between two snapshots of a partition."""
    snapshots: Annotated[int, Field(ge=2)] = 3
    """Number of snapshots stored for each partition."""
    on_lost_state: Literal["fail", "cold"] = "fail"
    """If no snapshot can restore the state: suspend the partition (fail), or start empty (cold)."""
    on_gap: Literal["carry", "fail", "cold"] = "carry"
    """If unread records were deleted: keep the subclasses (carry), suspend (fail), or start empty (cold)."""
    on_model_change: Literal["refuse", "carry", "cold"] = "refuse"
    """With another model: do not start (refuse), keep the subclasses (carry), or start empty (cold)."""

    transaction_deadline: Seconds = 15.0
    """Seconds after which the service abandons a transaction."""
    transaction_timeout: Seconds = 30.0
    """Seconds after which brokers abort the transaction of a dead worker."""
    session_timeout: Seconds = 30.0
    """Seconds without a heartbeat after which partitions move."""
    stop_timeout: Seconds = 30.0
    """Maximum seconds for a shutdown."""
    on_stop: Literal["leave", "keep"] = "leave"
    """On a shutdown: leave the group, or keep the membership until session_timeout."""
    watchdog: Seconds = 300.0
    """Seconds without progress after which a worker ends itself."""
    metrics_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """Port of /metrics, /healthz and /readyz."""
    metrics_host: str = "127.0.0.1"
    """Address at which this port listens."""
    log_format: Literal["text", "json"] = "text"
    """Lines of text, or one JSON object on each line."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum severity of log lines."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Protocol of the connection to the brokers."""
    tls_ca: Path | None = None
    """Certificates of trusted authorities (PEM). Default: those of the system."""
    tls_certificate: Path | None = None
    """Client certificate (PEM)."""
    tls_key: Path | None = None
    """Private key of the client certificate (PEM)."""
    tls_key_password: SecretStr | None = None
    """Password of the private key."""
    tls_check_hostname: bool = True
    """Check that the certificate names the host."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """Login mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    sasl_username: str | None = None
    """User name for SASL."""
    sasl_password: SecretStr | None = None
    """Password. Prefer the environment variable or the file."""
    sasl_password_file: Path | None = None
    """File with the password, read at each connection."""
    sasl_token_file: Path | None = None
    """File with the OAUTHBEARER token, read at each login."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: dict[str, Any]) -> dict[str, Any]:
        values = {name: _plain(name, value) for name, value in values.items()}
        topic = values.get("input")
        if isinstance(topic, str):
            topics = [name.strip() for name in topic.split(",") if name.strip()]
            values = {**values, "input": ",".join(topics)}
            topic = topics[0] if len(topics) == 1 else values.get("group") or cls.model_fields["group"].default
        names = {"output": "decisions", "events": "events", "dead_letters": "dlq"}
        names |= {"links": "links", "global_events": "global-events"}
        given = {name: values.get(name) or f"{topic}.{suffix}" for name, suffix in names.items()}
        if all(values.get(name) is None for name in ("state", "state_topic", "state_url")):
            given["state_topic"] = f"{values.get('group') or cls.model_fields['group'].default}.state"
        if values.get("state") is None and (folder := os.environ.get("STATE_DIRECTORY")):  # of a systemd unit
            given["state"] = folder.partition(":")[0]
        features = values.get("features")
        if isinstance(features, str):
            given["features"] = [name.strip() for name in features.split(",") if name.strip()]
        return {**values, **given}

    @model_validator(mode="after")
    def _fit_together(self) -> ServiceSettings:
        named = [("input", topic) for topic in self.inputs]
        named += [(role, topic) for role, topic in self.topics.items() if role != "input" and topic is not None]
        for place, (role, topic) in enumerate(named):
            for other, its in named[:place]:
                if its == topic:
                    raise ValueError(f"{other} and {role} are the same topic, {topic}: give each its own")
        for name, value, words in (("start", self.start, ("earliest", "latest")), ("stop", self.stop, ("end",))):
            if value is None or value in words:
                continue
            try:
                milliseconds(value)
            except ValueError:
                raise ValueError(
                    f"{name} is {value!r}, expected {', '.join(words)} or a time such as 2026-11-25T08:00:00Z"
                ) from None
        if (
            self.start_time is not None
            and self.stop not in (None, "end")
            and milliseconds(self.stop) <= self.start_time
        ):
            raise ValueError(f"stop, {self.stop}, is not after start, {self.start}: no record lies between them")
        if self.state_topic is not None and self.state_url is not None:
            raise ValueError("state_topic and state_url are both given: give one of them")
        self._check_names()
        if ":/" in str(self.state):
            raise ValueError(f"state is {str(self.state)!r}, which is no folder: give a URL as state_url")
        if self.transaction_timeout < self.transaction_deadline:
            raise ValueError(
                f"transaction_timeout is {self.transaction_timeout:g} s and transaction_deadline "
                f"{self.transaction_deadline:g} s: the broker could abort a transaction before its commit. "
                "Increase transaction_timeout"
            )
        if self.label is not None and self.label in (self.features or ()):
            raise ValueError(
                f"{self.label!r} is both the label and a feature, so the features contain the answer. Set features "
                "without it"
            )
        if self.by is not None and self.subclasses is not None:
            raise ValueError(
                "by and subclasses are both given: `stream-osr reconcile` cannot join keys. Give one of them"
            )
        if self.by == "":
            raise ValueError("by is empty: give key, or the name of a field")
        if self.security_protocol.startswith("SASL_"):
            self._check_login()
        if self.sasl_password is not None and self.sasl_password_file is not None:
            raise ValueError("sasl_password and sasl_password_file are both given: give one of them")
        return self

    def _check_names(self) -> None:
        """Check names of topics, brokers, fields and features."""
        for role, topics in self.topics.items():
            for topic in self.inputs if role == "input" else () if topics is None else (topics,):
                if not _TOPIC.fullmatch(topic):
                    raise ValueError(
                        f"{role} is {brief(topic)}, which cannot be the name of a topic. Set {role} to at most 249 "
                        "letters, digits, dots, underscores and hyphens"
                    )
        for address in self.brokers.split(","):
            if not _ADDRESS.fullmatch(address.strip()):
                raise ValueError(f"brokers is {brief(self.brokers)}, expected host:port, separated by commas")
        for name in ("key", "time", "label"):
            if getattr(self, name) == "":
                raise ValueError(f"{name} is empty: give the name of a field, or leave it out")
        if self.features is not None and len({*self.features} - {""}) < max(1, len(self.features)):
            raise ValueError(f"features is {brief(','.join(self.features))}, expected names, each of them once")
        if self.state_url is not None and "://" not in self.state_url:
            raise ValueError(f"state_url is {brief(self.state_url)}, expected a URL such as s3://bucket/states")

    def _check_login(self) -> None:
        """Check that all settings of the SASL mechanism are present."""
        if self.sasl_mechanism is None:
            raise ValueError(f"security_protocol is {self.security_protocol}: give sasl_mechanism, too")
        password = self.sasl_password or self.sasl_password_file
        needed: dict[str, object] = {"sasl_username": self.sasl_username, "sasl_password": password}
        if self.sasl_mechanism == "OAUTHBEARER":
            needed = {"sasl_token_file": self.sasl_token_file}
        for name, value in needed.items():
            if value is None:
                raise ValueError(f"sasl_mechanism is {self.sasl_mechanism}: give {name}, too")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Topics of instances."""
        return tuple(self.input.split(","))

    @property
    def start_time(self) -> int | None:
        """Start time of a new group in milliseconds since 1970, ``None`` for a start at an end of the input."""
        return None if self.start in ("earliest", "latest") else milliseconds(self.start)

    @property
    def topics(self) -> dict[str, str | None]:
        """Names of all topics by setting, ``None`` for no topic."""
        names = ("input", "output", "events", "dead_letters", "labels", "subclasses", "links", "global_events")
        return {name: getattr(self, name) for name in (*names, "state_topic")}

    @property
    def uses_tls(self) -> bool:
        """Whether connections to brokers use TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def password(self) -> SecretStr | None:
        """Password for SASL, from the setting or the file.

        Raises
        ------
        InvalidParameter
            If the file cannot be read.
        """
        if self.sasl_password_file is None:
            return self.sasl_password
        return SecretStr(read_secret("sasl_password_file", self.sasl_password_file).rstrip("\r\n"))


_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s,:]+)(:\d{1,5})?")


def _plain(name: str, value: object) -> object:
    """Return a value of a file as text where YAML has another type: a list of addresses or topics, or a date."""
    if isinstance(value, bool) and name != "tls_check_hostname":
        raise ValueError(f"{name} is {str(value).lower()}. Put it in quotes if it is text, or give a number")
    if name in ("brokers", "input") and isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if name in ("start", "stop") and isinstance(value, date):
        return value.isoformat()
    return value


def milliseconds(text: str) -> int:
    """Convert a time in ISO 8601 to milliseconds since 1970. A time without a zone is UTC.

    >>> milliseconds("1970-01-01T00:00:01.5Z"), milliseconds("1970-01-02"), milliseconds("1970-01-01T01:00+01:00")
    (1500, 86400000, 0)
    """
    time = datetime.fromisoformat(text)
    return round(1000 * (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def load_settings(config: Path | None = None, **given: Any) -> ServiceSettings:
    """Read the settings.

    Parameters
    ----------
    config
        YAML file with the fields of :class:`ServiceSettings`.
    given
        Values that override the environment and the file, such as the options of a command line.

    Raises
    ------
    InvalidParameter
        With the setting, the expected value and its possible sources. The message contains no secrets.
    """
    if config is not None:
        check_file(config)

    class Sources(ServiceSettings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: Source, **usual: Source
        ) -> tuple[Source, ...]:
            file = YamlConfigSettingsSource(settings_cls, yaml_file=config)
            return usual["init_settings"], usual["env_settings"], file

    Sources.__name__ = ServiceSettings.__name__
    try:
        return Sources(**given)
    except ValidationError as error:
        raise explained(error, ServiceSettings.model_fields) from None


def function_of(
    settings: ServiceSettings, setting: Literal["decoder", "encoder"]
) -> Callable[[ServiceSettings], Any]:
    """Import the function that a setting names.

    Parameters
    ----------
    settings
        Settings of the service.
    setting
        Name of the setting, and of the function's result.

    Raises
    ------
    ConnectorError
        If there is no such function.
    """
    named: str = getattr(settings, setting)
    module, _, name = named.partition(":")
    try:
        function: Callable[[ServiceSettings], Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConnectorError(
            f"{setting} {named!r} cannot be loaded ({error}). Give json, or module:function of a function "
            f"that takes the settings and returns {'an' if setting == 'encoder' else 'a'} {setting}"
        ) from None
    return function

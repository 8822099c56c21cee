"""What an operator can set: one model, from a YAML file, environment variables and flags.

A flag wins over an environment variable, that over the file, that over the default. Secrets are `SecretStr`: they are
read from the environment, a file or the YAML file, and never printed.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from stream_osr.errors import InvalidParameter
from stream_osr_connectors.values import LabelType

from .setting_names import PREFIX, check_flags, explained

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]


class ServiceSettings(BaseSettings):
    """Settings of ``stream-osr run --config``; what each means is its description.

    Examples
    --------
    >>> settings = ServiceSettings(model="model.osr", brokers="k1:9092,k2:9092", input="sensors")
    >>> settings.output, settings.dead_letters
    ('sensors.decisions', 'sensors.dlq')
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, protected_namespaces=(), cli_kebab_case=True
    )

    model: Annotated[Path, Field(description="Model made by `stream-osr fit`.")]
    brokers: Annotated[str, Field(description="Comma-separated host:port of brokers to begin with.")]
    input: Annotated[str, Field(description="Topic of the instances.")]
    output: Annotated[str, Field(description="Topic of the decisions; INPUT.decisions if not given.")] = ""
    events: Annotated[str, Field(description="Topic of the events; INPUT.events if not given.")] = ""
    dead_letters: Annotated[str, Field(description="Topic of unusable records; INPUT.dlq if not given.")] = ""
    labels: Annotated[
        str | None, Field(description="Topic of names, mutes and late labels, of one partition; none if not given.")
    ] = None
    subclasses: Annotated[
        str | None,
        Field(
            description="Topic of one partition, compacted, of what `stream-osr reconcile` reads; none if not given."
        ),
    ] = None
    links: Annotated[str, Field(description="Topic of its links, compacted; INPUT.links if not given.")] = ""
    global_events: Annotated[str, Field(description="Topic of its events; INPUT.global-events if not given.")] = ""

    group: Annotated[str, Field(description="Consumer group.", min_length=1)] = "stream-osr"
    instance: Annotated[
        str,
        Field(description="Name of this worker in the group: its own, and the same after a restart.", min_length=1),
    ] = Field(default_factory=socket.gethostname)
    workers: Annotated[AtLeastOne, Field(description="Worker processes.")] = 1
    start: Annotated[
        Literal["earliest", "latest"], Field(description="Where a group begins that has committed nothing yet.")
    ] = "earliest"

    decoder: Annotated[str, Field(description="json, or module:function that makes a decoder of these settings.")] = (
        "json"
    )
    key: Annotated[str | None, Field(description="Field of the key; the record's key if not given.")] = None
    time: Annotated[str | None, Field(description="Field of the time; the record's timestamp if not given.")] = None
    label: Annotated[str | None, Field(description="Field of labels, where there are some: evidence.")] = None
    features: Annotated[
        tuple[str, ...] | None, Field(description="Feature fields; those of the model if not given.")
    ] = None
    label_type: Annotated[LabelType, Field(description="What labels become: auto, str or int.")] = "auto"
    max_instance_bytes: Annotated[
        AtLeastOne, Field(description="Longest value that is decoded; longer ones are dead letters.")
    ] = 1_000_000

    batch_size: Annotated[AtLeastOne | None, Field(description="Records of a micro-batch; the model's.")] = None
    max_wait: Annotated[
        Seconds | None, Field(description="Seconds after which a micro-batch is closed though it is not full.")
    ] = 1.0
    commit_batches: Annotated[AtLeastOne, Field(description="Micro-batches that may share a transaction.")] = 8
    on_missing: Annotated[
        Literal["impute", "error", "skip"] | None, Field(description="Missing features; as the model says.")
    ] = None
    min_probability: Annotated[
        float | None, Field(description="Least probability of a known label; the model's.", ge=0, le=1)
    ] = None
    threads: Annotated[AtLeastOne | None, Field(description="Threads for the chains; as the model says.")] = None
    seed: Annotated[int | None, Field(description="Of everything random; the model's.", ge=0)] = None

    state: Annotated[Path, Field(description="Folder of the snapshots, seen by all workers.")] = Path("state")
    snapshot_interval: Annotated[Seconds, Field(description="Seconds between the snapshots of a partition.")] = 60.0
    snapshots: Annotated[int, Field(description="Snapshots kept of each partition.", ge=2)] = 3
    on_lost_state: Annotated[
        Literal["fail", "cold"],
        Field(description="No snapshot leads to the committed offset: stop, or begin anew from there."),
    ] = "fail"
    on_model_change: Annotated[
        Literal["refuse", "carry", "cold"],
        Field(
            description="Another model than the one that the group has run: stop, go on with what has emerged, or "
            "begin anew with it."
        ),
    ] = "refuse"

    transaction_deadline: Annotated[
        Seconds, Field(description="Seconds after which a transaction counts as stuck and its producer is replaced.")
    ] = 15.0
    transaction_timeout: Annotated[
        Seconds, Field(description="Seconds after which the broker aborts the transaction of a dead worker.")
    ] = 30.0
    session_timeout: Annotated[
        Seconds, Field(description="Seconds without a sign of life after which partitions go to other workers.")
    ] = 30.0
    stop_timeout: Annotated[Seconds, Field(description="Seconds that stopping may take.")] = 30.0
    watchdog: Annotated[
        Seconds,
        Field(description="Seconds without a turn of the loop after which a worker ends itself."),
    ] = 300.0
    metrics_port: Annotated[
        int | None, Field(description="Port of /metrics, /healthz and /readyz; none if not given.", ge=0, le=65535)
    ] = None
    metrics_host: Annotated[str, Field(description="Address that this port listens at.")] = "127.0.0.1"
    log_format: Annotated[
        Literal["text", "json"], Field(description="Lines of text, or a JSON object on each line.")
    ] = "text"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="Least severity of what is logged.")
    ] = "info"
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], Field(description="Of what is published.")
    ] = "none"

    security_protocol: Annotated[
        Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"], Field(description="How to talk to the brokers.")
    ] = "PLAINTEXT"
    tls_ca: Annotated[Path | None, Field(description="Certificates of authorities to trust (PEM).")] = None
    tls_certificate: Annotated[Path | None, Field(description="Own certificate (PEM).")] = None
    tls_key: Annotated[Path | None, Field(description="Its private key (PEM).")] = None
    tls_key_password: Annotated[SecretStr | None, Field(description="Password of the private key.")] = None
    tls_check_hostname: Annotated[bool, Field(description="Check that a certificate is the host's.")] = True
    sasl_mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None, Field(description="How to log in.")
    ] = None
    sasl_username: Annotated[str | None, Field(description="User name.")] = None
    sasl_password: Annotated[SecretStr | None, Field(description="Password; better from environment or file.")] = None
    sasl_password_file: Annotated[Path | None, Field(description="File that holds the password.")] = None
    sasl_token_file: Annotated[
        Path | None, Field(description="File that holds the OAUTHBEARER token, read again at each login.")
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: dict[str, Any]) -> dict[str, Any]:
        topic = values.get("input")
        names = {"output": "decisions", "events": "events", "dead_letters": "dlq"}
        names |= {"links": "links", "global_events": "global-events"}
        given = {name: values.get(name) or f"{topic}.{suffix}" for name, suffix in names.items()}
        features = values.get("features")
        if isinstance(features, str):
            given["features"] = [name.strip() for name in features.split(",") if name.strip()]
        return {**values, **given}

    @model_validator(mode="after")
    def _fit_together(self) -> ServiceSettings:
        named = ("input", "output", "events", "dead_letters", "labels", "subclasses", "links", "global_events")
        topics = {name: getattr(self, name) for name in named}
        for name, topic in topics.items():
            others = [other for other, its in topics.items() if its == topic and other != name]
            if topic is not None and others:
                raise ValueError(f"{name} and {others[0]} are the same topic, {topic}: give each its own")
        if self.transaction_timeout < self.transaction_deadline:
            raise ValueError(
                f"transaction_timeout is {self.transaction_timeout:g} s and transaction_deadline "
                f"{self.transaction_deadline:g} s: the broker would abort what may still be committed; make it longer"
            )
        if self.label is not None and self.label in (self.features or ()):
            raise ValueError(
                f"{self.label!r} is named both as the label and as a feature, which gives the answer away"
            )
        if self.security_protocol.startswith("SASL_"):
            self._check_login()
        if self.sasl_password is not None and self.sasl_password_file is not None:
            raise ValueError("sasl_password and sasl_password_file are both given: give one of them")
        return self

    def _check_login(self) -> None:
        """Make sure that everything is there that the mechanism needs."""
        if self.sasl_mechanism is None:
            raise ValueError(f"security_protocol is {self.security_protocol}: give sasl_mechanism, too")
        if self.sasl_mechanism == "OAUTHBEARER":
            needed: dict[str, object] = {"sasl_token_file": self.sasl_token_file}
        else:
            needed = {
                "sasl_username": self.sasl_username,
                "sasl_password": self.sasl_password or self.sasl_password_file,
            }
        for name, value in needed.items():
            if value is None:
                raise ValueError(f"sasl_mechanism is {self.sasl_mechanism}: give {name}, too")

    @property
    def uses_tls(self) -> bool:
        """The brokers are talked to by TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def password(self) -> SecretStr | None:
        """Password for SASL, wherever it comes from.

        Raises
        ------
        InvalidParameter
            If the file cannot be read.
        """
        if self.sasl_password_file is None:
            return self.sasl_password
        try:
            return SecretStr(self.sasl_password_file.read_text().rstrip("\r\n"))
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise InvalidParameter(f"cannot read sasl_password_file {self.sasl_password_file}: {why}") from None


def load_settings(config: Path | None = None, flags: Sequence[str] = (), **given: Any) -> ServiceSettings:
    """Read the settings.

    Parameters
    ----------
    config
        YAML file: a mapping of the fields of :class:`ServiceSettings`.
    flags
        Command line: ``["--batch-size", "64"]``.
    given
        Values that win over everything.

    Raises
    ------
    InvalidParameter
        Naming the setting, what was expected, and where it may come from; values of secrets are not in it.
    """
    if config is not None and "--help" not in flags:
        _check_yaml(config)
    check_flags(flags, ServiceSettings.model_fields)

    class Sources(ServiceSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            command: CliSettingsSource[Any] = CliSettingsSource(
                settings_cls,
                cli_parse_args=list(flags),
                cli_prog_name="stream-osr serve",
                cli_hide_none_type=True,
                cli_avoid_json=True,
            )
            return init_settings, command, env_settings, YamlConfigSettingsSource(settings_cls, yaml_file=config)

    Sources.__name__ = ServiceSettings.__name__
    Sources.__doc__ = "Kafka service: decide the instances of a topic, exactly once."
    try:
        return Sources(**given)
    except ValidationError as error:
        raise explained(error, ServiceSettings.model_fields) from None


def _check_yaml(config: Path) -> None:
    """Refuse a file that is no mapping: an empty list, say, would be taken for one without settings."""
    try:
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"cannot read {config}: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where is not None else ""
        raise InvalidParameter(f"{config} is not YAML{line}; it should hold lines like `input: sensors`") from None
    if not isinstance(content, dict):
        raise InvalidParameter(f"{config} holds no settings; it should hold lines like `input: sensors`")

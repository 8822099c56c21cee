"""Models of a group. Each has a name, is stored among the group's states, and is recorded in a journal."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.archive.checks import recognizer
from stream_osr.archive.files import from_bytes, to_bytes
from stream_osr.archive.recognizers import content_of, restored
from stream_osr.config import WITHOUT_END, archived, grouped
from stream_osr.errors import InvalidParameter, PersistenceError, StreamOSRError
from stream_osr.printable_text import brief

from ...engine import check_carries, check_contributions
from ..client.errors import start_explained
from ..log import logger
from ..places import Place
from ..settings import ServiceSettings
from ..stats import StorageStats
from .folder_states import GroupStates
from .group_states import open_states
from .partition import seed_of

_WITHOUT_EFFECT = ("batch_size", "max_wait", "n_jobs", "min_probability")
"""Arguments that may change in a running group, because they do not affect the state."""

_IDENTITY = re.compile(r"[0-9a-f]{16}")


def identity_of(trained: TrainedModel, arguments: Mapping[str, Any], by: str | None) -> str:
    """Return the identity of a trained part with all arguments that affect the state, and with the setting `by`."""
    shaping = {name: value for name, value in sorted(arguments.items()) if name not in _WITHOUT_EFFECT}
    if by is not None:
        shaping["by"] = by
    return hashlib.sha256(f"{trained.fingerprint} {shaping}".encode()).hexdigest()[:16]


class ModelName(NamedTuple):
    """Name of a model, with which a worker runs the same model as its siblings.

    Attributes
    ----------
    identity
        Identity of the trained part and all arguments that affect the state.
    batch_size, min_probability, n_jobs
        Values of the file and the settings. The stored model with this identity may have other values.
    """

    identity: str
    batch_size: int
    min_probability: float
    n_jobs: int | None


class ModelFile(NamedTuple):
    """The trained model with the arguments of recognizers.

    Attributes
    ----------
    trained
        Trained part, which all recognizers share.
    arguments
        Arguments of the constructor, by plain names.
    batch_size
        Batch size of the file.
    identity
        Identity of the trained part and all arguments that affect the state.
    """

    trained: TrainedModel
    arguments: dict[str, Any]
    batch_size: int
    identity: str

    @classmethod
    def load(cls, settings: ServiceSettings) -> ModelFile:
        """Load the model file, and override its arguments by the settings.

        Raises
        ------
        PersistenceError
            If the file cannot be read.
        NotTrained
            If the training of the model has not ended.
        InvalidParameter
            If decisions are delayed, and the settings ask for contributions.
        """
        loaded = OpenSetRecognizer.load(settings.model)
        changes = {
            "on_missing": settings.on_missing,
            "min_probability": settings.min_probability,
            "n_jobs": settings.threads,
            "seed": settings.seed,
        }
        own = archived(loaded)
        arguments = {**own, **{name: value for name, value in changes.items() if value is not None}}
        arguments |= {"batch_size": WITHOUT_END, "max_wait": None}
        check_contributions(settings.contributions, arguments["decision_delay"])
        _check_fields(settings, loaded.trained)
        identity = identity_of(loaded.trained, arguments, settings.by)
        return cls(loaded.trained, arguments, int(own["batch_size"]), identity)

    def archive(self) -> bytes:
        """Return the model as an archive, as `OpenSetRecognizer.save` writes it."""
        model = OpenSetRecognizer.from_trained(self.trained, **grouped(**self.arguments))
        return to_bytes("recognizer", content_of(model, model.value), name=f"the model {self.identity}")

    def keep(self, states: GroupStates) -> None:
        """Store the model, because snapshots can only be read with it after a change of the model.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        name = f"{self.identity}.model"
        try:
            if (kept := states.read(name)) is not None:
                if _of_archive(kept, name).trained.fingerprint == self.trained.fingerprint:
                    return
                logger.warning("%s holds another model and is written again", name)
        except PersistenceError as error:
            logger.warning("%s: it is written again", error)
        states.write(name, self.archive())

    @classmethod
    def kept(cls, states: GroupStates, identity: str) -> ModelFile:
        """Load a model that :meth:`keep` stored.

        Raises
        ------
        PersistenceError
            If the model does not exist.
        """
        name = f"{identity}.model"
        data = states.read(name)
        if data is None:
            raise PersistenceError(f"there is no file {name} in {states.where}")
        model = _of_archive(data, name)
        return cls(model.trained, archived(model), WITHOUT_END, identity)

    @classmethod
    def given(cls, archive: bytes, name: ModelName) -> ModelFile:
        """Load a model from the archive of the parent."""
        model = _of_archive(archive, f"the model {name.identity}")
        free = {"min_probability": name.min_probability, "n_jobs": name.n_jobs}
        return cls(model.trained, {**archived(model), **free}, name.batch_size, name.identity)

    @property
    def name(self) -> ModelName:
        """Name of the model for workers."""
        return ModelName(self.identity, self.batch_size, self.arguments["min_probability"], self.arguments["n_jobs"])

    @property
    def features(self) -> list[str] | None:
        """Names of the features, or ``None`` if they are not text."""
        names = self.trained.names
        return [str(name) for name in names] if all(isinstance(name, str) for name in names) else None

    def recognizer(self, place: Place) -> OpenSetRecognizer:
        """Create a new recognizer for a partition."""
        seed = seed_of(self.arguments["seed"], place)
        return OpenSetRecognizer.from_trained(self.trained, **grouped(**{**self.arguments, "seed": seed}))

    def check_carries(self, earlier: ModelFile) -> None:
        """Check that this model can continue a stream of an earlier model.

        Raises
        ------
        InvalidParameter
            If it cannot. The message has the reason.
        """
        place = Place("", 0)  # the check depends on the models alone
        check_carries(self.recognizer(place), earlier.recognizer(place))


class Journal(NamedTuple):
    """The identities of a group's models in the state ``models``, one on each line, the newest last.

    Attributes
    ----------
    states
        States of the group.
    """

    states: GroupStates

    def read(self) -> list[str]:
        """Read the journal. Invalid lines are skipped, such as after a crash.

        Raises
        ------
        PersistenceError
            If the journal exists and cannot be read.
        """
        text = (self.states.read("models") or b"").decode("ascii", "replace")
        return [line for line in text.splitlines() if _IDENTITY.fullmatch(line)]

    def append(self, identity: str) -> None:
        """Append a model, unless it is the latest one.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        known = self.read()
        if known[-1:] != [identity]:
            self.states.write("models", "".join(f"{each}\n" for each in (*known, identity)).encode())

    def is_later(self, identity: str, than: str) -> bool:
        """Return whether a model was added after the last occurrence of another one."""
        newest = {each: place for place, each in enumerate(self.read())}
        return than in newest and newest.get(identity, -1) > newest[than]


def _check_fields(settings: ServiceSettings, trained: TrainedModel) -> None:
    """Refuse settings of fields that do not fit to the model, because each record would become a dead letter."""
    names = [str(name) for name in trained.names]
    if settings.label in names:
        raise InvalidParameter(f"label is {brief(settings.label)}, which is a feature of {settings.model}")
    given = settings.features
    lacking = [] if given is None else [name for name in names if not {name, name.partition("[")[0]} & {*given}]
    if lacking:
        raise InvalidParameter(
            f"features lacks {', '.join(map(brief, lacking[:10]))}{', ...' * (len(lacking) > 10)}, which "
            f"{settings.model} needs. Leave features out: the default is the features of the model"
        )


def _of_archive(data: bytes, name: str) -> OpenSetRecognizer:
    return restored(OpenSetRecognizer, from_bytes(data, "recognizer", recognizer, name=name))


LOOK_SECONDS = 2.0
"""Seconds between two checks of the model file."""


class CurrentModel:
    """The current model and its file.

    Parameters
    ----------
    settings
        Of the service.
    kept
        Whether the model and the journal are stored among the states of the group.
    storage
        Statistics to update.

    Attributes
    ----------
    model
        Current model.

    Raises
    ------
    PersistenceError
        If the file cannot be read, or the model cannot be stored.
    NotTrained
        If the training of the model has not ended.
    """

    def __init__(self, settings: ServiceSettings, *, kept: bool = True, storage: StorageStats | None = None) -> None:
        self._settings, self._kept = settings, kept
        self._storage = None if storage is None else StorageStats(storage.loop)
        self._looked, self._said = time.monotonic(), False
        self._seen = _stamp(settings.model)
        self.model = ModelFile.load(settings)
        self._digest = digest_of(settings.model)
        self._keep(self.model)

    def _keep(self, model: ModelFile) -> None:
        if not self._kept:
            return
        with closing(open_states(self._settings, self._storage)) as states, start_explained(self._settings):
            states.refresh(0)
            Journal(states).append(model.identity)  # first, so that no other worker deletes an old file of the model
            model.keep(states)

    def look(self) -> None:
        """Check regularly whether the file has changed, and log it once."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        stamp = _stamp(self._settings.model)
        if self._said or stamp in (None, self._seen):
            return
        self._seen = stamp
        if digest_of(self._settings.model) not in (None, self._digest):
            self._said = True
            text = (
                "the model file %s has changed since it was loaded. SIGHUP loads it, until then the model %s goes on"
            )
            logger.warning(text, self._settings.model, self.model.identity)

    def replace(self) -> bool:
        """Load the file again, and return whether the model changed. If not, the log has the reason."""
        settings = self._settings
        self._seen, self._said = _stamp(settings.model), False
        try:
            model, digest = ModelFile.load(settings), digest_of(settings.model)
            if model.name == self.model.name:
                logger.info("%s holds the model that runs, %s: nothing changes", settings.model, model.identity)
                self._digest = digest
                return False
            if self._kept:
                self._check_fits(model)
            self._keep(model)
        except StreamOSRError as error:
            logger.error("the model %s stays: %s", self.model.identity, error)
            return False
        logger.info("%s is loaded: the model %s follows %s", settings.model, model.identity, self.model.identity)
        self.model, self._digest = model, digest
        return True

    def _check_fits(self, model: ModelFile) -> None:
        """Reject a model that every worker would reject."""
        change = self._settings.on_model_change
        if model.identity == self.model.identity or change == "cold":
            return
        if change == "refuse":
            raise InvalidParameter(
                f"{self._settings.model} holds another one, {model.identity}, and on_model_change is refuse. Start "
                "the service with on_model_change: carry (keep emerged subclasses) or cold (reset the state)"
            )
        try:
            model.check_carries(self.model)
        except InvalidParameter as error:
            raise InvalidParameter(f"{self._settings.model}: {error} (on_model_change: cold)") from None


def digest_of(path: Path) -> str | None:
    """Return the digest of a file, or ``None`` if it cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return a stamp that changes with the file, or ``None`` if there is no file."""
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None

"""Models of a group: each has a name, is kept beside the snapshots, and stands in a journal when it is given."""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stream_osr import OpenSetRecognizer, TrainedModel
from stream_osr.atomic import flush_folder
from stream_osr.config import WITHOUT_END, archived, grouped
from stream_osr.errors import InvalidLabel, InvalidParameter, PersistenceError, StreamOSRError

from ..log import logger
from ..places import Place
from ..settings import ServiceSettings
from .partition import seed_of

_WITHOUT_EFFECT = ("batch_size", "max_wait", "n_jobs", "min_probability")
"""Arguments that may change under a running group: a replay leads to the same state."""

_IDENTITY = re.compile(r"[0-9a-f]{16}")


class ModelName(NamedTuple):
    """Name of a model: all that a worker needs to run the same model as its siblings.

    Attributes
    ----------
    identity
        Names the trained part and all arguments that a replay depends on.
    batch_size, min_probability, n_jobs
        Of the file and the settings; what was kept under this identity may have others.
    """

    identity: str
    batch_size: int
    min_probability: float
    n_jobs: int | None


class ModelFile(NamedTuple):
    """The trained model, and how recognizers over it are made.

    Attributes
    ----------
    trained
        Shared by all recognizers.
    arguments
        Of their constructor, by their plain names.
    batch_size
        Of the file.
    identity
        Names the trained part and all arguments that a replay depends on.
    """

    trained: TrainedModel
    arguments: dict[str, Any]
    batch_size: int
    identity: str

    @classmethod
    def load(cls, settings: ServiceSettings) -> ModelFile:
        """Read the file, and let the settings override its arguments.

        Raises
        ------
        PersistenceError
            If it cannot be read.
        NotTrained
            If its training has not ended.
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
        shaping = {name: value for name, value in sorted(arguments.items()) if name not in _WITHOUT_EFFECT}
        identity = hashlib.sha256(f"{loaded.trained.fingerprint} {shaping}".encode()).hexdigest()[:16]
        return cls(loaded.trained, arguments, int(own["batch_size"]), identity)

    def keep(self, folder: Path) -> None:
        """Keep it beside the snapshots: under another model later, they can only be read with this one.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        path = _kept_at(folder, self.identity)
        try:
            if path.exists():
                if OpenSetRecognizer.load(path).trained.fingerprint == self.trained.fingerprint:
                    os.utime(path)  # it is in use
                    return
                logger.warning("%s holds another model and is written anew", path)
        except StreamOSRError as error:
            logger.warning("%s; it is written anew", error)
        except OSError:  # another worker's file, say: it can be read, and that is enough
            return
        OpenSetRecognizer.from_trained(self.trained, **grouped(**self.arguments)).save(path)

    @classmethod
    def kept(cls, folder: Path, identity: str) -> ModelFile:
        """Read what :meth:`keep` has kept.

        Raises
        ------
        PersistenceError
            If it is not there.
        """
        model = OpenSetRecognizer.load(_kept_at(folder, identity))
        return cls(model.trained, archived(model), WITHOUT_END, identity)

    @classmethod
    def named(cls, folder: Path, name: ModelName) -> ModelFile:
        """Read the model that the parent has loaded and kept.

        Raises
        ------
        PersistenceError
            If it is not there.
        """
        model = cls.kept(folder, name.identity)
        free = {"min_probability": name.min_probability, "n_jobs": name.n_jobs}
        return model._replace(arguments={**model.arguments, **free}, batch_size=name.batch_size)

    @property
    def name(self) -> ModelName:
        """Name by which a worker runs this model."""
        return ModelName(self.identity, self.batch_size, self.arguments["min_probability"], self.arguments["n_jobs"])

    @property
    def features(self) -> list[str] | None:
        """Names of the features; None if they are not text."""
        names = self.trained.names
        return [str(name) for name in names] if all(isinstance(name, str) for name in names) else None

    def recognizer(self, place: Place) -> OpenSetRecognizer:
        """Make the recognizer of a partition, which has seen nothing yet."""
        seed = seed_of(self.arguments["seed"], place)
        return OpenSetRecognizer.from_trained(self.trained, **grouped(**{**self.arguments, "seed": seed}))

    def check_carries(self, earlier: ModelFile) -> None:
        """Check that a stream of an earlier model can go on under this one.

        Raises
        ------
        InvalidParameter
            If it cannot; the message says why.
        """
        place = Place("", 0)  # the check depends on the models alone
        try:
            self.recognizer(place).carry_over(earlier.recognizer(place))
        except InvalidLabel as error:
            raise InvalidParameter(str(error)) from None


class Journal(NamedTuple):
    """The identities that a group has been given, the newest last: a line each, in the file ``models``.

    Attributes
    ----------
    folder
        That of the group's snapshots.
    """

    folder: Path

    def read(self) -> list[str]:
        """Read it; lines that are none, after a crash in the middle of one, are left out.

        Raises
        ------
        PersistenceError
            If it is there and cannot be read.
        """
        try:
            text = (self.folder / "models").read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise PersistenceError(f"cannot read {self.folder / 'models'}: {error.strerror}") from None
        return [line for line in text.splitlines() if _IDENTITY.fullmatch(line)]

    def append(self, identity: str) -> None:
        """Note that the group is given a model, unless it is the one that it was given last.

        Raises
        ------
        PersistenceError
            If it cannot be written.
        """
        if self.read()[-1:] == [identity]:
            return
        path = self.folder / "models"
        try:
            with path.open("a+b") as file:
                file.seek(0)
                whole = file.read()
                begin = b"\n" if whole and not whole.endswith(b"\n") else b""  # a crash in the middle of a line
                file.write(begin + identity.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            if not whole:
                flush_folder(self.folder)
        except OSError as error:
            raise PersistenceError(
                f"cannot write {path}: {error.strerror}; check that there is room, or set another folder as state"
            ) from None

    def is_later(self, identity: str, than: str) -> bool:
        """Say whether the group was given a model after another one had been given it for the last time."""
        newest = {each: place for place, each in enumerate(self.read())}
        return than in newest and newest.get(identity, -1) > newest[than]


def _kept_at(folder: Path, identity: str) -> Path:
    return folder / f"{identity}.model"


LOOK_SECONDS = 2.0
"""How often it is looked whether the file has changed."""


class CurrentModel:
    """The model that runs, and the file that it came from.

    Parameters
    ----------
    settings
        Of the service.
    folder
        Where it is kept and its journal is; None: it is not kept.

    Attributes
    ----------
    model
        The one that runs.

    Raises
    ------
    PersistenceError
        If the file cannot be read, or the model not be kept.
    NotTrained
        If its training has not ended.
    """

    def __init__(self, settings: ServiceSettings, folder: Path | None) -> None:
        self._settings, self._folder = settings, folder
        self._looked, self._said = time.monotonic(), False
        self._seen = _stamp(settings.model)
        self.model = ModelFile.load(settings)
        self._digest = _digest(settings.model)
        self._keep(self.model)

    def _keep(self, model: ModelFile) -> None:
        if self._folder is not None:
            model.keep(self._folder)
            Journal(self._folder).append(model.identity)

    def look(self) -> None:
        """Now and then, see whether the file has changed, and say so once."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        stamp = _stamp(self._settings.model)
        if self._said or stamp in (None, self._seen):
            return
        self._seen = stamp
        if _digest(self._settings.model) not in (None, self._digest):
            self._said = True
            text = (
                "the model file %s has changed since it was loaded; SIGHUP loads it, until then the model %s goes on"
            )
            logger.warning(text, self._settings.model, self.model.identity)

    def replace(self) -> bool:
        """Load the file again; say whether there is another model to be run now. If not, the log says why."""
        settings = self._settings
        self._seen, self._said = _stamp(settings.model), False
        try:
            model, digest = ModelFile.load(settings), _digest(settings.model)
            if model.name == self.model.name:
                logger.info("%s holds the model that runs, %s: nothing changes", settings.model, model.identity)
                self._digest = digest
                return False
            if self._folder is not None:
                self._check_fits(model)
            self._keep(model)
        except StreamOSRError as error:
            logger.error("the model %s stays: %s", self.model.identity, error)
            return False
        logger.info("%s is loaded: the model %s follows %s", settings.model, model.identity, self.model.identity)
        self.model, self._digest = model, digest
        return True

    def _check_fits(self, model: ModelFile) -> None:
        """Refuse what every worker would refuse."""
        change = self._settings.on_model_change
        if model.identity == self.model.identity or change == "cold":
            return
        if change == "refuse":
            raise InvalidParameter(
                f"{self._settings.model} holds another one, {model.identity}, and on_model_change is refuse; start "
                "the service with on_model_change: carry (go on with what has emerged) or cold (begin anew)"
            )
        try:
            model.check_carries(self.model)
        except InvalidParameter as error:
            raise InvalidParameter(f"{self._settings.model}: {error} (on_model_change: cold)") from None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Tell a file by what changes with it; None: there is none now."""
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


def _digest(path: Path) -> str | None:
    """Tell a file by its content; None: it cannot be read now."""
    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return None

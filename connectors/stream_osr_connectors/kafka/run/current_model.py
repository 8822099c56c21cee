"""The model that a service runs: read once, by whoever leads, and replaced only when told to.

The parent of several workers, or a worker without one, reads the file that the settings name and keeps it. Workers
under a parent read what was kept: a file that changes meanwhile changes nothing.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from stream_osr.errors import InvalidParameter, StreamOSRError

from ..log import logger
from ..settings import ServiceSettings
from .models import Journal, ModelFile

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
            told = (
                "the model file %s has changed since it was loaded; SIGHUP loads it, until then the model %s goes on"
            )
            logger.warning(told, self._settings.model, self.model.identity)

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
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _digest(path: Path) -> str | None:
    """Tell a file by its content; None: it cannot be read now."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None

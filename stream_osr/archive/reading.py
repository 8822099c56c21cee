"""Reading archives: checked wholly before anything is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from stream_osr.archive.checking import check_records, told
from stream_osr.archive.container import Archive, NoFile, open_archive
from stream_osr.archive.form import Form, Refused, form_of, in_memory, numbered
from stream_osr.archive.migrations import STEPS, bring_up
from stream_osr.archive.records import BY_TYPE, RECORDS, VERSION
from stream_osr.archive.writing import FORMAT
from stream_osr.errors import PersistenceError
from stream_osr.showing import printable, shown
from stream_osr.trained import TrainedModel


class _Reader:
    """Turns JSON trees into forms."""

    def __init__(self, arrays: Mapping[str, np.ndarray], beside: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._beside = beside
        self._read: dict[int, Any] = {}

    def value(self, tree: Any, where: str) -> Any:
        if isinstance(tree, list):
            raise Refused(where, "a bare list", "one that says what it is")
        if not isinstance(tree, dict):
            return tree
        if "record" in tree:
            name = str(tree["record"])
            values = {field: self.value(each, f"{name}.{field}") for field, each in tree["values"].items()}
            out = self._read[tree["number"]] = Form(name, values)
            return out
        if "tuple" in tree:
            return tuple(self.value(each, where) for each in tree["tuple"])
        if "list" in tree:
            return [self.value(each, where) for each in tree["list"]]
        if "dict" in tree:
            return {self._key(key, where): self.value(each, f"{where}[{shown(key)}]") for key, each in tree["dict"]}
        return self._there(tree, where)

    def _there(self, tree: Mapping[str, Any], where: str) -> Any:
        """Find an array, or what was read before."""
        try:
            if "beside" in tree:
                return self._beside[tree["beside"]]
            if "same" in tree:
                return self._read[tree["same"]]
            out = self._read[tree["number"]] = self._arrays[tree["array"]]
        except (KeyError, TypeError):
            raise Refused(where, f"a reference, {shown(tree)}, to nothing", "one to what is there") from None
        return out

    def _key(self, tree: Any, where: str) -> Any:
        key = self.value(tree, f"a key of {where}")
        try:
            hash(key)
        except TypeError:
            raise Refused(f"a key of {where}", shown(key), "something that can be hashed") from None
        return key


def read_archive(path: str | PathLike[str], kind: str, beside: Any = ()) -> Any:
    """Read what :func:`write_archive` wrote, beside the same value.

    Raises
    ------
    PersistenceError
        If the file is missing, damaged, of another kind or of a format version that is not read, holds more than its
        own size, or something that no recognizer of ours can have left there: it names record and field.
    """
    archive = _opened(path)
    _check_version(archive.manifest, path)
    if (held := archive.manifest["kind"]) != kind:
        raise PersistenceError(f"{path} holds a {printable(str(held), 60)}, not a {kind}")
    known: dict[int, tuple[Any, Any]] = {}
    around = form_of(beside, BY_TYPE, known)
    built = {id(form): value for form, value in known.values()}
    try:
        manifest = bring_up(archive.manifest)
        places = dict(numbered(around))
        check_records(around)
        content = _Reader(archive.arrays, places).value(manifest["content"], kind)
        check_records(content)
        return in_memory(content, RECORDS, built)
    except Refused as refused:
        raise PersistenceError(f"{path} is damaged: {told(refused)}") from None
    except Exception as error:  # what does not fit together may lead to anything
        raise PersistenceError(f"{path} is damaged: its manifest does not fit together; save it again") from error


def _opened(path: str | PathLike[str]) -> Archive:
    try:
        archive = open_archive(Path(path))
        if archive.manifest["format"] != FORMAT:
            raise KeyError("format")
        int(archive.manifest["version"]), archive.manifest["kind"], archive.manifest["content"]
    except FileNotFoundError:
        raise PersistenceError(f"there is no file {path}; check the path") from None
    except NoFile:
        raise PersistenceError(f"{path} is a device or a pipe, not a saved model; give a file") from None
    except IsADirectoryError:
        raise PersistenceError(f"{path} is a folder, not a saved model") from None
    except Refused as refused:
        raise PersistenceError(f"{path} is damaged: {told(refused)}") from None
    except Exception as error:  # what a damaged archive can raise is anybody's guess
        if isinstance(error, OSError) and error.errno is not None:
            rights = "; it holds rows and is its owner's alone until somebody widens its rights"
            more = rights if isinstance(error, PermissionError) else ""
            raise PersistenceError(f"cannot read {path}: {error.strerror}{more}") from None
        raise PersistenceError(f"{path} is damaged, or not a saved stream-osr model; save it again") from error
    return archive


def _check_version(manifest: Mapping[str, Any], path: str | PathLike[str]) -> None:
    version = int(manifest["version"])
    if version != VERSION and version not in STEPS:
        read = " and ".join(map(str, [*STEPS, VERSION]))
        raise PersistenceError(
            f"{path} has format version {version}, this program reads {read}; read it with the release of stream-osr "
            "that wrote it, or train the model anew"
        )


def load_trained(path: str | PathLike[str]) -> TrainedModel:
    """Read a trained part."""
    trained = read_archive(path, "trained model")
    if not isinstance(trained, TrainedModel):
        raise PersistenceError(f"{path} is damaged: it holds {shown(trained)} and no trained model; save it again")
    return trained

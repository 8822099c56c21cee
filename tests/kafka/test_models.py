"""The model of a service: kept, named, given to workers by name, and replaced only on request."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import WITHOUT_END
from stream_osr.errors import PersistenceError
from stream_osr_connectors.kafka import ServiceSettings
from stream_osr_connectors.kafka.run import models as current_model
from stream_osr_connectors.kafka.run.folder_states import FolderStates
from stream_osr_connectors.kafka.run.models import CurrentModel, Journal, ModelFile
from tests.blobs import fitted_once, learn_all, training_part

X, Y = ("0" * 15 + last for last in "ab")


def settings_of(folder: Path, **settings: Any) -> ServiceSettings:
    given = {"model": folder / "model.osr", "brokers": "b", "input": "in", "state": folder, "group": "kept"}
    return ServiceSettings(**given | settings)


def of_other_features() -> OpenSetRecognizer:
    """A recognizer of the features a and c."""
    model = OpenSetRecognizer(chains=1, seed=5)
    learn_all(model, [({"a": x["a"], "c": x["b"]}, y) for x, y in training_part()]).freeze()
    return model


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model file and an empty folder for kept models."""
    monkeypatch.setattr(current_model, "LOOK_SECONDS", 0.0)
    fitted_once(chains=1, batch_size=48, min_probability=0.25, seed=5).save(tmp_path / "model.osr")
    FolderStates(tmp_path / "kept").open()
    return tmp_path


@pytest.fixture
def current(saved: Path) -> CurrentModel:
    return CurrentModel(settings_of(saved, on_model_change="carry"))


def journal_of(saved: Path) -> list[str]:
    return Journal(FolderStates(saved / "kept")).read()


def test_a_worker_gets_the_model_as_the_parent_has_it(saved: Path) -> None:
    folder = saved / "kept"
    first = ModelFile.load(settings_of(saved))
    first.keep(FolderStates(folder))
    fitted_once(chains=1, batch_size=64, min_probability=0.75, seed=5).save(saved / "model.osr")
    second = ModelFile.load(settings_of(saved, threads=2))
    second.keep(FolderStates(folder))
    assert first.identity == second.identity, "these may change under a running group"
    for change in ({"seed": 6}, {"on_missing": "skip"}):
        assert ModelFile.load(settings_of(saved, **change)).identity != first.identity
    assert [path.name for path in folder.iterdir()] == [f"{first.identity}.model"]
    for model in (first, second):
        given = ModelFile.given(model.archive(), model.name)
        assert given.name == model.name
        assert given.arguments == model.arguments
        assert given.trained.fingerprint == model.trained.fingerprint
    assert (first.name.batch_size, first.name.min_probability, first.name.n_jobs) == (48, 0.25, None)
    assert (second.name.batch_size, second.name.min_probability, second.name.n_jobs) == (64, 0.75, 2)
    assert ModelFile.kept(FolderStates(folder), first.identity).batch_size == WITHOUT_END


def test_what_was_kept_and_is_damaged_is_written_anew(saved: Path, caplog: Any) -> None:
    states = FolderStates(saved / "kept")
    model = ModelFile.load(settings_of(saved))
    path = states.folder / f"{model.identity}.model"
    other = ModelFile.load(settings_of(saved, seed=9))
    fitted_once(60, chains=1).save(saved / "other.osr")
    for content in (b"", (saved / "model.osr").read_bytes()[:5000], (saved / "other.osr").read_bytes()):
        path.write_bytes(content)
        caplog.clear()
        model.keep(states)
        assert "written again" in caplog.text
        assert ModelFile.kept(states, model.identity).trained.fingerprint == model.trained.fingerprint
    before = path.read_bytes()
    os.utime(path, (0, 0))
    caplog.clear()
    model.keep(states)
    assert not caplog.text
    assert path.read_bytes() == before
    assert path.stat().st_mtime == 0, "it is not written again"
    with pytest.raises(PersistenceError, match="there is no file"):
        ModelFile.kept(states, other.identity)


def test_a_journal_that_was_torn_goes_on(tmp_path: Path) -> None:
    journal = Journal(FolderStates(tmp_path))
    (tmp_path / "models").write_bytes(X.encode() + b"\n" + Y.encode()[:7])
    assert journal.read() == [X]
    journal.append(Y)
    assert journal.read() == [X, Y]
    (tmp_path / "models").write_bytes(os.urandom(300))
    assert journal.read() == []
    (tmp_path / "models").unlink()
    (tmp_path / "models").mkdir()
    with pytest.raises(PersistenceError, match=r"cannot read .*models: Is a directory"):
        journal.append(X)


def test_a_changed_file_changes_nothing_and_is_said_once(saved: Path, current: CurrentModel, caplog: Any) -> None:
    running = current.model
    file = saved / "model.osr"
    file.write_bytes(file.read_bytes())
    os.utime(file, (1, 1))
    current.look()
    assert not caplog.text, "the same content, though written anew"
    for n in range(3):
        fitted_once(60 + n, chains=1, seed=6).save(file)
        current.look()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    message = f"model.osr has changed since it was loaded. SIGHUP loads it, until then the model {running.identity}"
    assert message in caplog.text
    file.unlink()
    current.look()
    assert current.model is running
    assert journal_of(saved) == [running.identity]


def test_it_is_replaced_on_request(saved: Path, current: CurrentModel, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    first = current.model
    assert not current.replace()
    assert f"holds the model that runs, {first.identity}: nothing changes" in caplog.text
    fitted_once(60, chains=1, seed=6).save(saved / "model.osr")
    assert current.replace()
    assert current.model.identity != first.identity
    assert ModelFile.kept(FolderStates(saved / "kept"), current.model.identity).identity == current.model.identity
    assert journal_of(saved) == [first.identity, current.model.identity]
    caplog.clear()
    current.look()
    assert not caplog.text
    fitted_once(60, chains=1, seed=6, batch_size=17).save(saved / "model.osr")
    assert current.replace(), "what a replay does not depend on is given to the workers, too"
    assert current.model.batch_size == 17
    assert len(journal_of(saved)) == 2


def test_what_cannot_follow_is_said_and_the_model_stays(saved: Path, caplog: Any) -> None:
    def refusal(**settings: Any) -> str:
        (saved / "model.osr").write_bytes(content)
        current = CurrentModel(settings_of(saved, **settings))
        running = current.model
        following.replace(saved / "model.osr")
        caplog.clear()
        assert not current.replace()
        assert current.model is running
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert record.exc_info is None
        assert journal_of(saved) == [running.identity]
        return record.getMessage()

    content, following = (saved / "model.osr").read_bytes(), saved / "next.osr"
    following.write_bytes(content[:-300])
    assert "is damaged" in refusal()
    OpenSetRecognizer().save(following)
    assert "stays: " in refusal()
    fitted_once(60, chains=1, seed=6).save(following)
    assert "on_model_change is refuse" in refusal()
    of_other_features().save(following)
    assert "the features differ" in refusal(on_model_change="carry")

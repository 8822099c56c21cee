"""The flavour for MLflow: what is logged, and that it decides as the recognizer does, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import numpy as np
import pytest

from stream_osr.config import grouped
from stream_osr.errors import InvalidInstance, InvalidParameter, NotTrained
from tests import processes
from tests.blobs import fitted
from tools.kept import keep, take

pytest.importorskip("mlflow.pyfunc", reason="needs the extra mlflow", exc_type=ImportError)
import mlflow
import pandas as pd

from stream_osr import OpenSetRecognizer
from stream_osr.frames import decisions_frame
from stream_osr_connectors.mlflow import load_model, log_model, save_model
from tests.blobs import archived, bits
from tools.wheel import ROOT

pytestmark = pytest.mark.thorough

CENTRES = {"left": (0.0, 5.0, "cold"), "right": (12.0, 5.0, "hot"), "new": (5.0, 40.0, "hot")}
ELSEWHERE = """
import json, sys
import mlflow, pandas
model, rows = mlflow.pyfunc.load_model(sys.argv[1]), pandas.DataFrame(json.load(open(sys.argv[2])))
found = model.predict(rows), model.predict(rows, params={"stream": True})
open(sys.argv[3], "w").write("\\n".join(repr(each.to_dict("list")) for each in found))
"""
"""Decides rows in a process of its own. The text of a float has all bits."""


def table(n: int, seed: int, labels: str) -> tuple[pd.DataFrame, list[str]]:
    """Rows with two numbers, a category, a flag, and a missing value now and then."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(labels.split(), size=n).tolist()
    rows = [CENTRES[each] for each in truth]
    frame = pd.DataFrame({"flow": [row[0] for row in rows], "load": [row[1] for row in rows]})
    frame = (frame + rng.normal(size=(n, 2))).mask(rng.random((n, 2)) < 0.02)
    heat = np.where(rng.random(n) < 0.9, [row[2] for row in rows], "warm").astype(object)
    return frame.assign(heat=heat, open=rng.random(n) < 0.5), truth


@pytest.fixture(scope="module")
def model() -> OpenSetRecognizer:
    """A recognizer whose stream has a new class, and instances that wait."""
    model = OpenSetRecognizer(**grouped(batch_size=32, seed=3, missing=["-99"]))
    model.learn_many(*table(160, 1, "left right"))
    model.freeze()
    model.learn_many(table(90, 2, "left right new")[0], key=range(90))
    return model


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return table(70, 3, "left right new")[0].set_axis(range(100, 170))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store of MLflow in a database of a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    yield tmp_path
    mlflow.set_tracking_uri(None)


def logged(model: OpenSetRecognizer) -> str:
    with mlflow.start_run():
        return log_model(model).model_uri


def expected(model: OpenSetRecognizer, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The results of the recognizer itself: for each row alone, and for the rows as a stream."""
    found = model.predict_proba_many(rows)
    alone = pd.DataFrame({"label": model.predict_many(rows).to_numpy(dtype=object)}, index=rows.index)
    alone["probability"] = found.max(axis=1).to_numpy()
    alone["p_unknown"] = found["unknown"].to_numpy()
    for label in ("left", "right"):
        alone[f"P({label})"] = found[label].to_numpy()
    twin = copy(model)
    twin.learn_many(rows, key=range(len(rows)))
    twin.flush()
    stream = decisions_frame(list(twin.drain())[-len(rows) :], probabilities=True)
    return alone.astype({"label": object}), stream.set_axis(rows.index)


def test_another_process_decides_the_same(model: OpenSetRecognizer, rows: pd.DataFrame, store: Path) -> None:
    uri = logged(model)
    Path("rows.json").write_text(json.dumps(rows.to_dict("list")))
    environment = {**os.environ, "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri()}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT}/connectors"
    done = processes.run("-c", ELSEWHERE, uri, "rows.json", "found.txt", env=environment)
    assert done.returncode == 0, done.stderr
    alone, stream = expected(model, rows)
    assert Path("found.txt").read_text().split("\n") == [repr(each.to_dict("list")) for each in (alone, stream)]
    assert {"left", "right", "unknown"} == {*alone["label"]}
    assert stream["subclass_id"].notna().any()


def test_predictions_change_nothing(model: OpenSetRecognizer, rows: pd.DataFrame, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model")
    again = load_model(str(tmp_path / "model"))
    assert bits(archived(again.value.stream)) == bits(archived(model.value.stream))
    assert again.pending == model.pending > 0
    stored = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    first = stored.predict(rows), stored.predict(rows, params={"stream": True})
    turned = stored.predict(rows[::-1])
    pd.testing.assert_frame_equal(turned[::-1], first[0], check_exact=True)
    pd.testing.assert_frame_equal(stored.predict(rows, params={"stream": True}), first[1], check_exact=True)


def test_signature_example_and_card(model: OpenSetRecognizer, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model")
    stored = mlflow.models.Model.load(str(tmp_path / "model"))
    inputs = {each.name: each.type.name for each in stored.signature.inputs}
    assert inputs == {"flow": "double", "load": "double", "heat": "string", "open": "boolean"}
    assert [each.name for each in stored.signature.outputs] == [
        "label", "probability", "p_unknown", "P(left)", "P(right)"
    ]  # fmt: skip
    example = stored.load_input_example(str(tmp_path / "model"))
    assert mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(example).shape == (1, 5)
    card = (tmp_path / "model" / "data" / "stream_osr" / "model_card.md").read_text()
    assert f"Expected recall of the known classes: {model.trained.report.known_recall:.3f}" in card
    for line in ("| flow | number |", "| heat | category, 3 values |", "| left |", "missing values: -99."):
        assert line in card
    needed = (tmp_path / "model" / "requirements.txt").read_text().split()
    assert {each.partition("==")[0] for each in needed} >= {"stream-osr", "numpy", "numba", "mlflow-skinny"}


def test_names_that_are_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = OpenSetRecognizer(**grouped(batch_size=32, chains=1, seed=5))
    X = rng.normal(size=(80, 2)) + np.repeat([[0.0, 0.0], [12.0, 0.0]], 40, axis=0)
    model.learn_many(X, np.repeat(["left", "right"], 40))
    model.freeze()
    save_model(model, tmp_path / "model", input_example=pd.DataFrame(X[:3]))
    found = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(pd.DataFrame(X, columns=["0", "1"]))
    assert found["label"].tolist() == model.predict_many(X).tolist()


def test_refusals(model: OpenSetRecognizer, rows: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(NotTrained):
        save_model(OpenSetRecognizer(), tmp_path / "none")
    assert not (tmp_path / "none").exists()
    twice = OpenSetRecognizer(**grouped(chains=1))
    for n in range(40):
        twice.learn_one({1: n % 7, "1": n % 5}, "left")
        twice.learn_one({1: 20 + n % 7, "1": n % 5}, "right")
    twice.freeze()
    with pytest.raises(InvalidParameter, match="same name as text"):
        save_model(twice, tmp_path / "twice")
    with pytest.raises(InvalidInstance, match="flow"):
        save_model(model, tmp_path / "bad", input_example=rows[:2].drop(columns="flow").assign(flow=[1.0, np.inf]))
    mlflow.pyfunc.save_model(str(tmp_path / "other"), loader_module="json", pip_requirements=[])
    with pytest.raises(InvalidParameter, match="has the loader 'json': expected"):
        load_model(str(tmp_path / "other"))


@pytest.mark.long
def test_a_new_environment_decides_the_same(rows: pd.DataFrame, store: Path) -> None:
    """With the wheel and the pinned versions, and nothing of the checkout."""
    model = fitted(batch_size=32, seed=5)
    rows = rows[["flow", "load"]].set_axis(["a", "b"], axis="columns").fillna(0.0)
    save_model(model, store / "model")
    Path("rows.json").write_text(json.dumps(rows.to_dict("list")))
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", store, ROOT], check=True)
    subprocess.run([sys.executable, "-m", "venv", store / "env"], check=True)
    python, (wheel,) = store / "env" / "bin" / "python", store.glob("*.whl")
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "-c", ROOT / "constraints.txt", f"{wheel}[mlflow]"], check=True)
    subprocess.run([*pip, "check"], check=True)
    keep(ROOT, store / "kept")
    take(ROOT, store / "kept", next((store / "env" / "lib").glob("python*/site-packages")))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    call = [python, "-c", ELSEWHERE, store / "model", "rows.json", "found.txt"]
    subprocess.run(call, env=environment, cwd=store, check=True)
    stored = mlflow.pyfunc.load_model(str(store / "model"))
    wanted = stored.predict(rows), stored.predict(rows, params={"stream": True})
    assert Path("found.txt").read_text().split("\n") == [repr(each.to_dict("list")) for each in wanted]

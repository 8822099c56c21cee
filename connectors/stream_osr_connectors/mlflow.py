"""Models in MLflow: a pyfunc flavour with signature, input example and model card (extra ``mlflow``).

The stored model is the archive of ``model.save``. It contains no code, and no object is pickled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from stream_osr import OpenSetRecognizer
from stream_osr.discovery.explain import values_of
from stream_osr.errors import InvalidParameter
from stream_osr.frames import decisions_frame
from stream_osr.instances.labels import unknown_label
from stream_osr.instances.missing_values import is_missing
from stream_osr.printable_text import printable
from stream_osr.stream.decisions import most_probable
from stream_osr.support.extras import needing
from stream_osr.training.trained import TrainedModel

with needing("the flavour for MLflow needs {}. Install it with pip install 'stream-osr[mlflow]'"):
    import mlflow
    import numpy as np
    import pandas
    from mlflow.models import Model, infer_signature
    from packaging.requirements import Requirement

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

__all__ = ["load_model", "log_model", "save_model"]

ARCHIVE, CARD = "model.osr", "model_card.md"
"""Files of a stored model, in its folder ``data/stream_osr``."""
_FOLDER = "stream_osr"
_PARAMS = {"stream": False}


def save_model(
    model: OpenSetRecognizer, path: str | os.PathLike[str], *, input_example: Any = None, **more: Any
) -> None:
    """Save a trained recognizer as an MLflow model in a folder.

    Parameters
    ----------
    model
        A recognizer whose training has ended. Its stream, with waiting instances, is part of the stored model.
    path
        A folder that does not exist yet.
    input_example
        Rows for the input example and the signature, as a pandas frame. ``None``: one row with the mean of each
        number and a value of each category. It repeats no training instance.
    more
        Further arguments of ``mlflow.pyfunc.save_model``, such as ``signature``, ``pip_requirements`` and
        ``metadata``. The default of ``pip_requirements`` names the installed versions.

    Raises
    ------
    NotTrained
        If training has not ended.
    InvalidParameter
        If the names of two features are the same text.
    InvalidInstance
        If the input example cannot be predicted.

    Examples
    --------
    >>> save_model(model, "pump-model")  # doctest: +SKIP
    >>> mlflow.pyfunc.load_model("pump-model").predict(rows)["label"].tolist()  # doctest: +SKIP
    ['normal', 'unknown']
    """
    with _arguments(model, input_example, more) as given:
        mlflow.pyfunc.save_model(os.fspath(path), **given)


def log_model(model: OpenSetRecognizer, name: str = "model", *, input_example: Any = None, **more: Any) -> ModelInfo:
    """Log a trained recognizer as an MLflow model of the active run.

    Parameters
    ----------
    model, input_example
        As in :func:`save_model`.
    name
        Name of the model in the run.
    more
        Further arguments of ``mlflow.pyfunc.log_model``, such as ``registered_model_name``.

    Returns
    -------
    Description of the model. Its ``model_uri`` is the argument of :func:`load_model`.

    Raises
    ------
    NotTrained, InvalidParameter, InvalidInstance
        As in :func:`save_model`.

    Examples
    --------
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     info = log_model(model, registered_model_name="pump")
    """
    with _arguments(model, input_example, more) as given:
        return mlflow.pyfunc.log_model(name=name, **given)


def load_model(model_uri: str) -> OpenSetRecognizer:
    """Load the recognizer of a stored model. It continues where the saved one stopped, bit for bit.

    Loading executes no code from the model. ``mlflow.pyfunc.load_model`` returns a model with ``predict`` instead.

    Parameters
    ----------
    model_uri
        Address of the model, such as ``models:/pump/3`` or a folder.

    Raises
    ------
    PersistenceError
        If the archive in the model is damaged.
    InvalidParameter
        If another flavour wrote the model.
    """
    folder = Path(mlflow.artifacts.download_artifacts(model_uri))
    flavor = Model.load(os.fspath(folder)).flavors.get("python_function", {})
    if flavor.get("loader_module") != __name__:
        raise InvalidParameter(
            f"{printable(str(model_uri), 200)} has the loader {flavor.get('loader_module')!r}: "
            f"expected {__name__!r}. "
            "Give a model that stream_osr_connectors.mlflow has saved"
        )
    return OpenSetRecognizer.load(folder / "data" / _FOLDER / ARCHIVE)


class PyfuncRecognizer:
    """Recognizer with the method that MLflow calls. Predictions never change it.

    Parameters
    ----------
    model
        A trained recognizer.

    Raises
    ------
    InvalidParameter
        If the names of two features are the same text.

    Examples
    --------
    >>> model = OpenSetRecognizer(seed=1)
    >>> for n in range(40):
    ...     model.learn_one({"a": n % 7, "b": n % 5}, "left")
    ...     model.learn_one({"a": 20 + n % 7, "b": n % 5}, "right")
    >>> report = model.freeze()
    >>> rows = pandas.DataFrame({"a": [2.0, 90.0], "b": [2.0, 2.0]})
    >>> PyfuncRecognizer(model).predict(rows)[["label", "p_unknown"]].round(2)
         label  p_unknown
    0     left        0.0
    1  unknown        1.0
    """

    def __init__(self, model: OpenSetRecognizer) -> None:
        self.model = model
        self.names = {str(name): name for name in model.trained.names}
        if len(self.names) < len(model.trained.names):
            raise InvalidParameter("two features have the same name as text: MLflow needs other names. Rename one")

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> pandas.DataFrame:
        """Decide rows. A call always starts from the saved state and does not change it.

        Parameters
        ----------
        model_input
            Frame or array with one column for each feature.
        params
            ``{"stream": True}``: decide the rows together, as the next rows of the saved stream. Otherwise each row
            is predicted alone, and the result does not depend on the other rows.

        Returns
        -------
        A row for each input row. Columns are ``label``, ``probability``, ``p_unknown`` and ``P(label)`` for each
        known class. With ``stream`` there are all other fields of :class:`stream_osr.Decision`. ``key`` is then the
        number of the row, and a row that ``on_missing="skip"`` skips has no result.

        Raises
        ------
        InvalidInstance
            If a row cannot be used. The message names it.
        """
        rows = pandas.DataFrame(model_input)
        index, rows = rows.index, rows.rename(columns=lambda name: self.names.get(str(name), name))
        if (params or {}).get("stream", False):
            found = self._as_stream(rows)
            return found.set_axis(index[found["key"].to_numpy(dtype=int)])
        probabilities = self.model.predict_proba_many(rows)
        *known, _ = probabilities.columns
        values = probabilities.to_numpy()
        places = most_probable(values, self.model.value.parameters.min_probability)
        columns = {
            "label": pandas.Series([probabilities.columns[place] for place in places.tolist()], dtype=object),
            "probability": values[np.arange(len(values)), places],
            "p_unknown": values[:, -1],
            **{f"P({label})": values[:, place] for place, label in enumerate(known)},
        }
        return pandas.DataFrame(columns).set_axis(index)

    def _as_stream(self, rows: pandas.DataFrame) -> pandas.DataFrame:
        twin = copy(self.model)
        _, stream = twin.value.running
        first = stream.state.seen + len(twin.value.buffer)
        twin.learn_many(rows, key=range(len(rows)))
        twin.flush()
        return decisions_frame([each for each in twin.drain() if each.seq >= first], probabilities=True)


def _load_pyfunc(path: str) -> PyfuncRecognizer:
    """Load a stored model for MLflow, from its folder of data."""
    return PyfuncRecognizer(OpenSetRecognizer.load(Path(path) / ARCHIVE))


@contextmanager
def _arguments(model: OpenSetRecognizer, example: Any, more: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Write the files of a model, and yield the arguments for MLflow."""
    trained, predictor = model.trained, PyfuncRecognizer(model)
    example = _typical(trained) if example is None else pandas.DataFrame(example)
    example = example.set_axis(map(str, example.columns), axis="columns")
    numeric = {name for name, own in predictor.names.items() if own not in trained.values}
    example = example.astype({name: float for name in example.columns if name in numeric})
    with TemporaryDirectory() as folder:
        data = Path(folder) / _FOLDER
        data.mkdir()
        model.save(data / ARCHIVE)
        (data / CARD).write_text(model_card(model), encoding="utf-8")
        yield {
            "loader_module": __name__,
            "data_path": os.fspath(data),
            "input_example": (example, dict(_PARAMS)),
            "signature": infer_signature(example, predictor.predict(example), dict(_PARAMS)),
            "pip_requirements": _requirements(),
            **more,
        }


def _typical(trained: TrainedModel) -> pandas.DataFrame:
    """Make a row with the mean of each number in training, and one value of each category."""
    space, known = trained.whitening, trained.categories
    row = np.zeros((1, len(space.places) + space.backward.shape[0]))
    row[0, : len(space.places)] = np.cumsum([0, *space.places.tolist()])[:-1] + 1
    found = {name: values[0] for name, values in values_of(row, space, trained.names, known).items()}
    out: dict[str, Any] = {}
    for name in trained.names:
        value = found.get(name)
        if name in trained.values:
            out[str(name)] = value == "true" if {*trained.values[name]} <= {"true", "false"} else value
        else:
            out[str(name)] = float("nan") if value is None or is_missing(value) else float(value)
    return pandas.DataFrame([out])


def model_card(model: OpenSetRecognizer) -> str:
    """Describe a trained recognizer as Markdown: expected recall, classes, features and missing markers.

    Parameters
    ----------
    model
        A trained recognizer.
    """
    trained, report = model.trained, model.trained.report
    classes = [f"| {_cell(label)} | {size} | {report.subclasses.get(label, 0)} |"
               for label, size in report.instances.items()]  # fmt: skip
    features = []
    for name in trained.names:
        kind = f"category, {len(trained.values[name])} values" if name in trained.values else "number"
        features.append(f"| {_cell(name)} | {kind} | {report.missing_share.get(name, 0.0):.1%} |")
    markers = ", ".join(map(_cell, trained.missing)) or "none declared (the usual ones apply)"
    later = [label for label in model.value.labels if label not in report.instances]
    unknown = unknown_label(model.value.parameters.unknown, model.value.labels)
    low, high = report.recall_interval or (report.known_recall, report.known_recall)
    return "\n".join([
        "# Model card", "",
        f"Open-set recognizer, trained with stream-osr {version('stream-osr')}, fingerprint `{trained.fingerprint}`.",
        f"Unknown instances have the label {_cell(unknown)}.", "",
        f"Expected recall of the known classes: {report.known_recall:.3f} (95 % interval {low:.3f} to {high:.3f}).",
        "", "## Classes", "", "| class | training instances | subclasses |", "| --- | --- | --- |", *classes, "",
        *([f"Classes named after training: {', '.join(map(_cell, later))}.", ""] if later else []),
        "## Features", "", "| feature | kind | missing in training |", "| --- | --- | --- |", *features, "",
        *[f"Left out: {_cell(name)} ({_cell(why)})." for name, why in report.left_out.items()],
        f"Additional markers of missing values: {markers}.", "",
        "## Training report", "", *(f"- {_cell(line)}" for line in str(report).splitlines()), "",
    ])  # fmt: skip


def _cell(value: object) -> str:
    """Write text of others for a table.

    >>> print(_cell("a|b").replace(chr(92), "/"))
    a/|b
    """
    return printable(str(value), 1000).replace("|", "\\|")


def _requirements() -> list[str]:
    """List the installed versions on which the bits of a decision depend, and those that loading needs."""
    own = [Requirement(each) for each in requires("stream-osr") or ()]
    core = [each.name for each in own if each.marker is None]
    out = []
    for name in ("stream-osr", *core, "pandas", "mlflow-skinny"):
        try:
            out.append(f"{name}=={version(name)}")
        except PackageNotFoundError:  # the full package brings the same modules
            out.append(f"mlflow=={mlflow.__version__}")
    return out

"""Arrays of numpy, lists of dicts and iterators where data frames may stand, and which of them are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidFeature, InvalidInstance, InvalidLabel
from tests.blobs import further


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 11)), np.repeat([0, 1], 100)  # "10" comes before "2"
    X[:, 2] *= 5
    X[y == 1, 10] += 20
    return X, y, rng.normal(30, 1, size=(70, 11))


def trained(X: Any, y: Any) -> OpenSetRecognizer:
    model = OpenSetRecognizer(batch_size=32, chains=2)
    model.learn_many(X, y)
    model.freeze()
    return model


def test_an_array_is_a_frame_without_names(data: Any) -> None:
    import pandas as pd

    X, y, new = data
    arrays, frames = trained(X, y), trained(pd.DataFrame(X), pd.Series(y))
    assert arrays.trained.names == tuple(range(11))
    assert arrays.trained.fingerprint == frames.trained.fingerprint
    arrays.learn_many(new, key=np.arange(70))
    frames.learn_many(pd.DataFrame(new), key=range(70))
    decided, same = ([(d.key, d.label, d.p_unknown) for d in model.drain()] for model in (arrays, frames))
    assert decided == same
    assert len(decided) == 64
    queries = np.concatenate([X, new])
    queries[3, 4] = np.nan
    frame = pd.DataFrame(queries)
    assert arrays.predict_many(queries).tolist() == frames.predict_many(frame).to_list()
    assert (arrays.predict_proba_many(queries) == frames.predict_proba_many(frame).to_numpy()).all()
    assert set(arrays.predict_many(new)) == {-1}


def test_text_is_a_category() -> None:
    sizes = np.random.default_rng(0).normal(size=80)
    X = np.array([*zip(sizes, ["red", "blue"] * 40, strict=True)], object)
    model = trained(X, ["warm", "cold"] * 40)
    assert model.trained.values == {1: ("red", "blue")}
    assert model.predict_many(X[:4]).tolist() == ["warm", "cold"] * 2


@pytest.mark.parametrize("frozen", [False, True])
def test_other_arrays_are_refused_and_nothing_is_learnt(data: Any, frozen: bool) -> None:
    X, y, _ = data
    model = OpenSetRecognizer(batch_size=32, chains=2)
    model.learn_many(X[90:110], y[90:110])
    if frozen:
        model.freeze()
    for other, why in (
        (X[:, :4], "the array has 4 columns, and training had 11 features"),
        (X[0], r"the array has the shape \(11,\): expected two dimensions"),
    ):
        for ask in (model.predict_many, model.predict_proba_many, model.learn_many, lambda X: model.learn_many(X, y)):
            with pytest.raises(InvalidInstance, match=why):
                ask(other)
    with pytest.raises(InvalidFeature, match="feature 4 of row 1 is inf"):
        model.learn_many(np.where(np.arange(22).reshape(2, 11) == 15, np.inf, 0.0))
    assert not model.pending
    assert model.freeze().instances == {0: 10, 1: 10}


# Lists of dicts, and iterators of frames


def test_a_list_of_dicts_is_a_frame(data: Any) -> None:
    import pandas as pd

    X, y, new = data
    lists, frames = trained(records(X), y), trained(pd.DataFrame(X), y)
    assert lists.trained.fingerprint == frames.trained.fingerprint
    queries = [*records(new), {0: 1.0}]  # the last one has gaps
    frame = pd.DataFrame(queries)
    assert lists.predict_many(queries).tolist() == frames.predict_many(frame).to_list()
    assert (lists.predict_proba_many(queries) == frames.predict_proba_many(frame).to_numpy()).all()
    assert lists.predict_many([]).tolist() == []
    for ask in (lists.predict_many, lists.predict_proba_many, lists.learn_many):
        with pytest.raises(InvalidInstance, match=r"row 1 of the list is 5 \(int\), and row 0 a dict"):
            ask([queries[0], 5])
        with pytest.raises(InvalidInstance, match="a list of dicts: this is list"):
            ask([[1.0, 2.0]])


def records(X: np.ndarray) -> list[dict[int, float]]:
    return [dict(enumerate(row)) for row in X.tolist()]


NAMES = [f"f{n}" for n in range(11)]


@pytest.mark.parametrize("library", ["polars", *further("pandas", "pyarrow")])
def test_an_iterator_of_frames_is_one_frame(data: Any, library: str) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    def make(table: pd.DataFrame) -> Any:
        if library == "pyarrow":
            return pa.Table.from_pandas(table, preserve_index=False)
        return pl.from_pandas(table) if library == "polars" else table

    X, y, new = data
    table, stream = pd.DataFrame(X, columns=NAMES).assign(y=y), pd.DataFrame(new, columns=NAMES)
    stream = stream.assign(key=range(70), t=np.arange(70) / 4)
    whole, pieces = (OpenSetRecognizer(batch_size=32, chains=2) for _ in range(2))
    whole.learn_many(table[NAMES], table["y"])
    whole.learn_many(stream[NAMES], key=stream["key"], t=stream["t"])
    pieces.learn_many((make(table[at : at + 90]) for at in range(0, 200, 90)), "y")
    pieces.learn_many((make(stream[at : at + 30]) for at in range(0, 70, 30)), key="key", t="t")
    assert [*pieces.drain()] == [*whole.drain()]
    assert pieces.pending == whole.pending == 6
    pieces.learn_many(iter([records(new)[:0], stream[:0][NAMES]]))
    assert pieces.pending == 6


@pytest.mark.parametrize("frozen", [True, *further(False)])
def test_an_error_names_the_frame_and_the_row_and_the_others_are_learnt(data: Any, frozen: bool) -> None:
    import pandas as pd

    X, y, _ = data
    good = pd.DataFrame(X[90:110], columns=NAMES).assign(y=np.where(y[90:110], "right", "left"))
    model = OpenSetRecognizer(batch_size=64, chains=1)
    model.learn_many(good[NAMES], good["y"])
    if frozen:
        model.freeze()
    text = good.astype({"f3": object})
    text.loc[7, "f3"] = "high"
    bad = {
        "feature 'f3' of row 7 of frame 1 is 'high'": (text, InvalidFeature),
        "frame 1: row 2: .*'unknown'": (good.assign(y=["left", "left", "unknown", *good["y"][3:]]), InvalidLabel),
        "frame 1: there is no column 'y' among 'f0', 'f1'": (good[NAMES], InvalidInstance),
        "frame 1: the rows are ndarray and have no column 'y'. Give data frames": (X, InvalidInstance),
    }
    for message, (frame, kind) in bad.items():
        before, frames = seen(model), iter([good, frame, good])
        with pytest.raises(kind, match=message):
            model.learn_many(frames, "y")
        assert seen(model) == before + 20  # the frame before the bad one
        model.learn_many(frames, "y")  # goes on with the frame after it
        assert seen(model) == before + 40
    assert model.counters["bad_rows"] == 1
    with pytest.raises(InvalidInstance, match=r"y is \[1\] \(list\): expected the name of a column"):
        model.learn_many(iter([good]), [1])

    def broken() -> Any:
        yield good
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        model.learn_many(broken(), "y")


def seen(model: OpenSetRecognizer) -> int:
    """Number of labelled instances so far."""
    return len(model.value.evidence) if model.value.training is None else sum(model.value.training.seen)

"""Lists of numbers in one field are the same as fields with a number each, from every kind of source."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidFeature, InvalidInstance
from stream_osr.training.schema_check import check_features
from stream_osr_connectors.json_fields import JsonFields
from tests.blobs import further, learn_all, refused

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 3
NAMES = [f"emb[{number}]" for number in range(WIDTH)]
LABELS = ["left"] * 40 + ["right"] * 40


def drawn(centres: list[float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of half precision, and a further number of each row."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(np.array(centres)[:, None], size=(len(centres), WIDTH)).astype(np.float16)
    return vectors, rng.integers(0, 5, len(centres)).astype(float)


TRAINING = drawn([0.0] * 40 + [6.0] * 40, 1)
STREAM = drawn([0.0, 6.0, -8.0, -8.0] * 12, 2)
GAPS = drawn([0.0, 6.0, -8.0], 3)
GAPS[0][1, 2] = GAPS[0][2] = np.nan  # a number is missing, and a whole list


def lists(vectors: np.ndarray) -> list[list[float | None] | None]:
    """Python's numbers; the list with gaps alone is null."""
    return [None if np.isnan(row).all() else [None if np.isnan(v) else float(v) for v in row] for row in vectors]


def frame(**columns: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns)


def scalars(vectors: np.ndarray, size: np.ndarray) -> pd.DataFrame:
    return frame(size=size, **dict(zip(NAMES, vectors.T.astype(float), strict=True)))


def dicts(vectors: np.ndarray, size: np.ndarray, kind: Callable[[Any], Any] = list) -> list[dict[str, Any]]:
    return [{"size": s, "emb": None if v is None else kind(v)} for v, s in zip(lists(vectors), size, strict=True)]


def of_arrays(vectors: np.ndarray, size: np.ndarray) -> pd.DataFrame:
    return frame(size=size, emb=[None if np.isnan(row).all() else row for row in vectors])


def frame_of(kind: str) -> Callable[[np.ndarray, np.ndarray], Any]:
    """A function that makes a frame of vectors in one column and the further numbers in another."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    def pandas_lists(vectors: np.ndarray, size: np.ndarray) -> pd.DataFrame:
        dtype = pd.ArrowDtype(pa.list_(pa.float32())) if kind == "pandas, Arrow" else object
        return pd.DataFrame({"size": size, "emb": pd.Series(lists(vectors), dtype=dtype)})

    def polars_lists(vectors: np.ndarray, size: np.ndarray) -> pl.DataFrame:
        dtype = pl.Array(pl.Float32, WIDTH) if kind == "polars Array" else pl.List(pl.Float32)
        return pl.DataFrame({"size": size, "emb": pl.Series(lists(vectors), dtype=dtype)})

    def arrow_lists(vectors: np.ndarray, size: np.ndarray) -> pa.Table:
        return pa.table({"size": size, "emb": pa.array(lists(vectors), pa.list_(pa.float16(), WIDTH))})

    def structured(vectors: np.ndarray, size: np.ndarray) -> np.ndarray:
        out = np.zeros(len(size), [("size", float), ("emb", np.float16, (WIDTH,))])
        out["size"], out["emb"] = size, vectors
        return out

    makers = {"pandas": pandas_lists, "polars": polars_lists, "pyarrow": arrow_lists, "numpy": structured}
    return of_arrays if kind == "pandas, arrays" else makers[kind.replace(",", "").split()[0]]


FRAMES = (
    *("pandas, arrays", "pandas, lists", "pandas, Arrow"),
    *("polars List", "polars Array", "pyarrow", "numpy"),
)


def outcome(model: OpenSetRecognizer) -> Any:
    model.flush()
    counts = {name: model.counters[name] for name in ("extra", "missing")}
    return model.trained.fingerprint, [decision.probabilities for decision in model.drain()], counts


def by_frames(make: Callable[[np.ndarray, np.ndarray], Any]) -> Any:
    model = OpenSetRecognizer(batch_size=16, chains=1, seed=1)
    model.learn_many(make(*TRAINING), LABELS)
    model.freeze()
    found = [np.asarray(model.predict_proba_many(make(*rows))).tolist() for rows in (STREAM, GAPS)]
    model.learn_many(make(*STREAM))
    model.learn_many(make(*GAPS))
    return outcome(model), found


def by_records(parts: list[list[Any]]) -> Any:
    model = OpenSetRecognizer(batch_size=16, chains=1, seed=1)
    learn_all(model, zip(parts[0], LABELS, strict=True)).freeze()
    found = [[list(model.predict_proba_one(x).values()) for x in part] for part in parts[1:]]
    for x in parts[1]:
        check_features(model.trained, x)
    learn_all(model, [(x, None) for part in parts[1:] for x in part])
    return outcome(model), found


FURTHER = (*FRAMES[:5], "arrays", "tuples")


@pytest.fixture(scope="module")
def expected() -> Any:
    return by_frames(scalars)


@pytest.mark.parametrize("source", ["numpy", "pyarrow", "lists", *further(*FURTHER)])
def test_lists_give_the_bits_of_single_columns(source: str, expected: Any) -> None:
    if source in FRAMES:
        found = by_frames(frame_of(source))
    else:
        kind = {"lists": list, "arrays": partial(np.array, dtype=np.float16), "tuples": tuple}[source]
        found = by_records([dicts(*rows, kind) for rows in (TRAINING, STREAM, GAPS)])
    (fingerprint, decided, counts), predicted = found
    assert (fingerprint, decided, counts) == expected[0]
    assert np.allclose(predicted[0], expected[1][0], atol=1e-12)
    assert np.allclose(predicted[1], expected[1][1], atol=1e-12)


@pytest.fixture(scope="module")
def model() -> OpenSetRecognizer:
    out = OpenSetRecognizer(batch_size=16, chains=1, seed=1)
    out.learn_many(of_arrays(*TRAINING), LABELS)
    out.freeze()
    return out


WRONG = {
    "short": ([1.5], r"feature 'emb'.* is \[1.5\] \(list\): it has 1 number, and the lists of training have 3\."),
    "long": (np.zeros(4), "the lists of training have 3. Give 3, or train a model on lists of 4"),
    "empty": ([], "it has 0 numbers, and the lists of training have 3"),
    "text": ([1.0, "a", 2.0], r"item 1 is 'a' \(str\)\. Give a list of numbers, or leave the field out"),
    "nested": ([[1.0], [2.0], [3.0]], r"item 0 is \[1.0\] \(list\)\. Give a list of numbers"),
    "matrix": (np.zeros((3, 2)), r"item 0 is \[0.0, 0.0\] \(list\)"),
    "times": (np.zeros(3, "M8[ns]"), "expected numbers alone in a list, and item 0 is"),
    "single": (7.0, "training had lists of 3 numbers in this field .* Give single values a field of their own"),
    "infinite": ([1.0, np.inf, 2.0], r"feature 'emb\[1\]'.* is inf .*expected a finite number"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_lists_that_cannot_be_used_are_refused_and_counted(model: OpenSetRecognizer, case: str) -> None:
    value, message = WRONG[case]
    x = {"size": 1.0, "emb": value}
    with refused(model, InvalidFeature, message):
        model.predict_proba_one(x)
    if case != "infinite":
        with pytest.raises(InvalidFeature, match=message):
            check_features(model.trained, x)
    before = model.counters["bad_rows"]
    with pytest.raises(InvalidFeature, match=message):
        model.learn_one(x)
    assert model.counters["bad_rows"] == before + 1
    for many in (model.predict_many, model.learn_many):
        with pytest.raises(InvalidFeature, match=r" of row 1 is "):
            many([dicts(*STREAM)[0], x])


def test_fields_that_contradict_each_other(model: OpenSetRecognizer) -> None:
    with refused(model, InvalidFeature, r"also has the field 'emb\[0\]'\. Rename one"):
        model.predict_proba_one({"emb": [1.0, 2.0, 3.0], "emb[0]": 1.0})
    with refused(model, InvalidFeature, "'size' is .*training had single values in this field. Give lists a field"):
        model.predict_proba_one({"emb": [1.0, 2.0, 3.0], "size": [1.0]})
    both = scalars(*STREAM).assign(emb=1.0)  # a further column beside columns with such names
    assert model.predict_many(both).tolist() == model.predict_many(scalars(*STREAM)).tolist()
    strange = of_arrays(*STREAM).assign(tags=[["a"]] * len(STREAM[1]))
    assert model.predict_many(strange).tolist() == model.predict_many(both).tolist()


def test_training_fixes_the_length() -> None:
    model = OpenSetRecognizer()
    model.learn_one({"emb": [1.0, 2.0]}, "left")
    for value, message in (
        ([0.0] * 10_001, "expected a list of 1 to 10000 numbers, found 10001. Reduce it, for instance to principal"),
        ([], "found 0. Give None if it is missing"),
    ):
        with pytest.raises(InvalidFeature, match=message):
            model.learn_one({"emb": [1.0, 2.0], "wide": value}, "left")
    for value, message in (
        ([1.0], "it has 1 number, and the lists of training have 2"),
        (1.0, "training had lists of 2 numbers"),
    ):
        with pytest.raises(InvalidFeature, match=message):
            model.learn_one({"emb": value}, "left")
    with pytest.raises(InvalidFeature, match="text as its name"):
        model.learn_one({0: [1.0, 2.0]}, "left")
    with pytest.raises(InvalidInstance, match="there are 10001 features then"):
        model.learn_one({"emb": [1.0, 2.0], "wide": [1.0] * 9999}, "left")
    assert model.value.features == ("emb[0]", "emb[1]")


def test_lists_that_begin_late_or_lack_a_number() -> None:
    vectors = TRAINING[0].astype(float)
    vectors[:, 1] = np.nan
    rows: list[Any] = [None, *vectors[1:]]
    model = OpenSetRecognizer(batch_size=16, chains=1)
    model.learn_many(frame(emb=rows, size=TRAINING[1]), LABELS)
    report = model.freeze()
    assert report.left_out == {"emb": "null before the first list", "emb[1]": "no value in training"}
    assert model.trained.names == ("emb[0]", "emb[2]", "size")
    with pytest.raises(InvalidFeature, match="the lists of training have 3"):
        model.predict_one({"emb": [1.0, 2.0], "size": 1.0})
    assert model.predict_many(of_arrays(*STREAM)).tolist() == [model.predict_one(x) for x in dicts(*STREAM)]


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_narrow_floats_are_read_as_their_exact_values(model: OpenSetRecognizer, kind: Any) -> None:
    narrow = {"size": kind(2.0), **dict(zip(NAMES, STREAM[0][0].astype(kind), strict=True))}
    exact = {name: float(value) for name, value in narrow.items()}
    assert model.predict_proba_one(narrow) == model.predict_proba_one(exact)
    table = scalars(*STREAM).astype(kind)
    assert model.predict_proba_many(table).equals(model.predict_proba_many(table.astype(float)))


@pytest.mark.parametrize("nested", [False, True])
def test_json_with_named_features_has_them_in_a_list(model: OpenSetRecognizer, nested: bool) -> None:
    """The features of a run and of the Kafka service have the names in the model."""
    fields = JsonFields(key="id", features=[*map(str, model.trained.names)])

    def read(**its: Any) -> Any:
        record = fields.record({"id": "k", "features": its} if nested else {"id": "k", **its})
        return record.features, record.ignored

    for emb in ([1.0, 2.0, 3.0], None, 7.0):
        assert read(emb=emb, size=1, note="x") == ({"emb": emb, "size": 1}, ("note",))
    single = dict.fromkeys([*NAMES, "size"], 1.0)
    assert read(**single) == (single, ())
    assert read(**single, emb=[1.0]) == (single, ("emb",))
    assert read(size=1) == ({**dict.fromkeys(NAMES), "size": 1}, ())
    assert JsonFields().record({"features": [1.0, 2.0]}).features == {"features": [1.0, 2.0]}


def test_the_estimator_accepts_frames_with_lists() -> None:
    from stream_osr.sklearn import OpenSetClassifier

    estimator = OpenSetClassifier(chains=1).fit(of_arrays(*TRAINING), LABELS)
    single = OpenSetClassifier(chains=1).fit(scalars(*TRAINING), LABELS)
    assert estimator.predict_proba(of_arrays(*STREAM)).tolist() == single.predict_proba(scalars(*STREAM)).tolist()

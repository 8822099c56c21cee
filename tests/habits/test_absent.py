"""What an instance does not name: zero behind river's extractors of words, missing behind sensors."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_osr import OpenSetRecognizer
from stream_osr.config import grouped
from stream_osr.errors import InvalidFeature
from tests.blobs import learn_all
from tests.habits.values import each_value

WORDS = {"pets": ["cat", "dog", "pet", "vet", "fur"], "money": ["stock", "bond", "bank", "rate", "fund"]}
LABELS = ["pets", "money"] * 60


def text(rng: np.random.Generator, label: str) -> str:
    return " ".join(rng.choice(WORDS[label], 6))


def recognizer(**arguments: Any) -> OpenSetRecognizer:
    return OpenSetRecognizer(**grouped(chains=1, **arguments))


@pytest.mark.parametrize("extractor", each_value(["words", "pairs", "tfidf", "weights", "hashed"], first=1))
def test_rivers_extractors(extractor: str) -> None:
    from river import compose, feature_extraction, preprocessing

    steps: list[Any] = {
        "words": [feature_extraction.BagOfWords()],
        "pairs": [feature_extraction.BagOfWords(ngram_range=(1, 2))],
        "tfidf": [feature_extraction.TFIDF()],
        "weights": [feature_extraction.TFIDF(normalize=False)],
        "hashed": [feature_extraction.BagOfWords(), preprocessing.FeatureHasher(n_features=40, seed=1)],
    }[extractor]
    model, rng = compose.Pipeline(*steps, recognizer()), np.random.default_rng(0)
    for label in LABELS:
        model.learn_one(text(rng, label), label)
    assert sum(model.predict_one(text(rng, label)) == label for label in LABELS[:60]) >= 57, "in training"
    model.learn_one(text(rng, "pets"))  # ends training, and lacks nothing
    report = model[-1].freeze()
    assert sum(model.predict_one(text(rng, label)) == label for label in LABELS[:60]) >= 57
    assert set(report.absent_zero) == set(model[-1].trained.names)
    assert "zero in an instance that does not name them" in str(report)
    assert model[-1].counters["missing"] == model[-1].counters["bad_rows"] == 0


def test_one_topic_alone() -> None:
    model, rng = recognizer(), np.random.default_rng(0)
    for _ in range(60):
        model.learn_one(dict(Counter(rng.choice(WORDS["pets"] + WORDS["money"], 3).tolist())), "texts")
    assert len(model.freeze().absent_zero) == 10


def sparse(n: int) -> list[tuple[dict[Any, float], Any]]:
    from river import stream

    rng, lines = np.random.default_rng(0), []
    for i in range(n):
        counts = rng.poisson((5, 0.05, 0.05, 5, 1) if i % 2 else (0.05, 5, 5, 0.05, 1))
        lines.append(f"{1 + i % 2} " + " ".join(f"{j}:{count}" for j, count in enumerate(counts, 1) if count))
    return list(stream.iter_libsvm(io.StringIO("\n".join(lines))))


@pytest.mark.parametrize("arguments", [{"absent": "zero"}, {"absent": "zero", "on_missing": "error"}, {}])
def test_libsvm(arguments: dict[str, Any], tmp_path: Path) -> None:
    model, data = recognizer(**arguments), sparse(160)
    for x, y in data[:100]:
        model.learn_one(x, y)
    model.save(tmp_path / "training.osr")
    for which in (model, OpenSetRecognizer.load(tmp_path / "training.osr")):
        assert len(which.freeze().absent_zero) == 5
        assert sum(which.predict_one(x) == y for x, y in data[100:]) >= 57
    model.save(tmp_path / "model.osr")
    loaded = OpenSetRecognizer.load(tmp_path / "model.osr")
    assert loaded.trained.fingerprint == model.trained.fingerprint
    assert [loaded.predict_proba_one(x) for x, _ in data[100:]] == [model.predict_proba_one(x) for x, _ in data[100:]]


def test_absent_is_zero_as_if_it_had_been_written() -> None:
    data = sparse(100)
    names = sorted({name for x, _ in data for name in x})
    written = [({name: x.get(name, 0.0) for name in names}, y) for x, y in data]
    short, whole = learn_all(recognizer(absent="zero", seed=2), data), learn_all(recognizer(seed=2), written)
    short.freeze()
    whole.freeze()
    for (x, _), (z, _) in zip(data, written, strict=True):
        assert short.predict_proba_one(x) == whole.predict_proba_one(z)


def reading(rng: np.random.Generator, label: str, offset: float) -> dict[str, float]:
    centre = (0, 0, 0) if label == "pets" else (4, 0, 4)
    whole = {name: offset + float(rng.normal(c)) for name, c in zip("abc", centre, strict=True)}
    return {name: value for name, value in whole.items() if rng.random() < 0.6} or whole


@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_readings_that_fail_at_random_are_missing(offset: float) -> None:
    model, rng = recognizer(), np.random.default_rng(1)
    for label in LABELS:
        model.learn_one(reading(rng, label, offset), label)
    report = model.freeze()
    assert report.absent_zero == ()
    assert report.missing_values > 60
    right = sum(model.predict_one(reading(rng, label, offset)) == label for label in LABELS)
    assert right > 100


def test_what_is_written_as_missing_is_missing() -> None:
    model, rng = recognizer(), np.random.default_rng(0)
    for label in LABELS:
        drawn = dict.fromkeys(text(rng, label).split(), 1)
        model.learn_one({word: drawn.get(word) for word in WORDS["pets"] + WORDS["money"]}, label)
    report = model.freeze()
    assert report.absent_zero == ()
    assert "absent='zero'" in str(report)


def test_none_stays_missing_where_absent_is_zero_and_absent_if_the_caller_says_so() -> None:
    model = recognizer(absent="zero", on_missing="error")
    model.learn_one({"a": 1.0}, "left")
    with pytest.raises(InvalidFeature, match="'a' is None"):
        model.learn_one({"a": None}, "left")
    model.learn_one({"b": 1.0}, "left")
    assert model.counters["missing"] == 0
    model = recognizer(absent="missing")
    for x, y in sparse(60):
        model.learn_one(x, y)
    assert model.freeze().absent_zero == ()
    assert model.counters["missing"] > 0

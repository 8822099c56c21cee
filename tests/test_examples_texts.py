"""Texts: the corpus is what the example says, and the figures are those of its page and the read-me."""

from __future__ import annotations

import doctest
from types import ModuleType

import numpy as np
import pytest

from tests.examples import example

Corpus = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def texts() -> ModuleType:
    return example("texts")


@pytest.fixture(scope="module")
def corpus(texts: ModuleType) -> Corpus:
    return texts.corpus()


def test_examples_in_docstrings(texts: ModuleType) -> None:
    assert doctest.testmod(texts).failed == 0


def test_each_text_is_there_once_and_is_prose(texts: ModuleType, corpus: Corpus) -> None:
    found, topics = corpus
    assert len({text[:100] for text in found}) > 0.98 * len(found)
    assert min(len(text.split()) for text in found) >= texts.LEAST_WORDS
    assert not any(">>>" in text or "scipy.stats" in text or "sklearn." in text for text in found)
    assert set(topics.tolist()) == set(texts.TOPICS)
    assert np.unique(topics, return_counts=True)[1].min() > 30


@pytest.mark.thorough
def test_the_archive_is_neither_trained_on_nor_decided(texts: ModuleType, corpus: Corpus) -> None:
    done = texts.once(*corpus, 0, **texts.VARIANTS["with the archive"])
    assert done.scores.seen < (1 - texts.ARCHIVED + 0.05) * len(corpus[0])
    assert done.figures().unknown > 0.93
    assert done.figures().known > 0.93

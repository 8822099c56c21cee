"""Words: river's `TFIDF` in front of the recognizer, topics of documentation, some known, others appearing.

The texts are those of `texts.py`: the documentation of public functions and classes of scipy, numpy and scikit-learn,
each of one topic. A pipeline of river weighs the words of a text and hands them to the recognizer. `TFIDF` leaves out
words that a text does not have; training finds that they are zero, and not missing. Nothing is downloaded.

    python examples/words.py                # one run, what emerged
    python examples/words.py --seeds 3      # means of three
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from river import feature_extraction
from scoring import one_after_another
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from texts import corpus

from stream_osr import NewClasses, OpenSetRecognizer
from stream_osr.config import grouped

KNOWN = ("clustering", "interpolation", "metrics")
NEW = ("strings", "random numbers")
TRAINING = 0.6
"""Share of the texts of a known topic that train."""


class Found(NamedTuple):
    """What came of a run: shares of the texts that were called right, and the candidate new topics.

    Attributes
    ----------
    words
        Words that the recognizer knows.
    known, new
        Share of the texts of known topics that got their topic, and of those of new topics that were called unknown.
    candidates
        What emerged.
    topics
        Calls of each topic.
    """

    words: int
    known: float
    new: float
    candidates: NewClasses
    topics: Counter[tuple[str, str]]


def pipeline(**arguments: Any) -> Any:
    """Weigh words, and recognize topics by them."""
    words = feature_extraction.TFIDF(stop_words=set(ENGLISH_STOP_WORDS), tokenizer_pattern=r"[a-zA-Z]{3,}")
    return words | OpenSetRecognizer(**grouped(**arguments))


def once(texts: np.ndarray, topics: np.ndarray, seed: int, **arguments: Any) -> Found:
    """Train on the known topics, and let the others appear one after the other."""
    rng = np.random.default_rng(seed)
    trains = np.isin(topics, KNOWN) & (rng.random(len(texts)) < TRAINING)
    training, rest = rng.permutation(np.flatnonzero(trains)), np.flatnonzero(np.isin(topics, KNOWN + NEW) & ~trains)
    stream = rest[one_after_another(topics[rest].tolist(), NEW, rng)]
    model = pipeline(batch_size=32, seed=seed, **arguments)
    for at in training.tolist():
        model.learn_one(texts[at], str(topics[at]))
    for at in stream.tolist():
        model.learn_one(texts[at], key=at)
    recognizer = model[-1]
    recognizer.flush()
    called = Counter((str(topics[decision.key]), decision.label) for decision in recognizer.drain())
    known = sum(n for (topic, label), n in called.items() if topic == label) / np.isin(topics[stream], KNOWN).sum()
    new = sum(called[topic, "unknown"] for topic in NEW) / np.isin(topics[stream], NEW).sum()
    names = recognizer.trained.names
    return Found(len(names), float(known), float(new), recognizer.new_classes(), called)


def main() -> None:
    """Run once and tell what emerged, or several times and average."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="which texts train, and all else that is random")
    parser.add_argument("--seeds", type=int, default=1, help="run with so many seeds, from --seed on")
    arguments = parser.parse_args()
    texts, topics = corpus()
    runs = [once(texts, topics, arguments.seed + number) for number in range(arguments.seeds)]
    print(f"known topics {', '.join(KNOWN)}; new ones {', '.join(NEW)}; {runs[0].words} words")
    print(f"known topics right {np.mean([run.known for run in runs]):.3f}")
    print(f"new topics called unknown {np.mean([run.new for run in runs]):.3f}")
    if arguments.seeds == 1:
        print(runs[0].candidates)


if __name__ == "__main__":
    main()

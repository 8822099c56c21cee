"""Texts: documentation that is installed with scipy, numpy and scikit-learn, some topics known, others appearing.

A text is the documentation of one public function or class, its topic the part of the library that it is from:
statistics, signal processing, clustering, ... Six of twelve topics train, the other six appear one after the other.
Which, the seed says. Nothing is downloaded.

A text becomes a vector by TF-IDF and a truncated singular value decomposition (latent semantic analysis), brought to
length one. Words and directions are learnt from the training texts, or from an archive as well: a quarter of all
texts, put aside beforehand, without their topics. The archive is neither trained on nor decided.

    python examples/texts.py                # one run, what emerged
    python examples/texts.py --seeds 3      # vectors as they come, of length one, with the archive; means of three
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from scoring import HEADINGS, Run, mean, one_after_another, row, run, split
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

TOPICS = {
    "clustering": ("scipy.cluster.hierarchy", "sklearn.cluster"),
    "images": ("scipy.ndimage",),
    "interpolation": ("scipy.interpolate",),
    "linear algebra": ("scipy.linalg", "scipy.sparse.linalg"),
    "linear models": ("sklearn.linear_model",),
    "metrics": ("sklearn.metrics",),
    "optimization": ("scipy.optimize",),
    "random numbers": ("numpy.random",),
    "signals": ("scipy.signal",),
    "special functions": ("scipy.special",),
    "statistics": ("scipy.stats",),
    "strings": ("numpy.strings",),
}
EVERYWHERE = {"fit", "fit_predict", "fit_transform", "transform", "inverse_transform", "partial_fit", "predict"} | {
    "predict_proba", "decision_function", "score", "get_params", "set_params", "get_metadata_routing",
    "get_feature_names_out",
}  # fmt: skip
"""Methods that say the same in every estimator."""
LEAST_WORDS = 40
COMPONENTS = 40
"""Chosen among 20, 30, 40 and 60 on the seeds 100 to 105; so were the length, and the archive."""
ARCHIVED = 0.25


def texts_of(modules: Sequence[str]) -> list[str]:
    """Collect what the public functions, classes and methods of modules say of themselves, near-duplicates once.

    Examples, directives and dotted names are left out: they name the topic.
    """
    found: dict[str, str] = {}
    for module in map(import_module, modules):
        public = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
        for thing in (getattr(module, name, None) for name in public):
            members = vars(thing) if inspect.isclass(thing) else {}
            methods = [its for name, its in members.items() if not name.startswith("_") and name not in EVERYWHERE]
            for documented in (thing, *filter(callable, methods)):
                if callable(documented) and not inspect.ismodule(documented):
                    text = prose(inspect.getdoc(documented) or "")
                    beginning = re.sub(r"\W+", " ", text)[:150]
                    if len(text.split()) >= LEAST_WORDS:
                        found.setdefault(beginning, text)
    return list(found.values())


def prose(text: str) -> str:
    """Leave out examples in code, directives, roles and dotted names.

    >>> prose("Fit a line, see `scipy.stats.linregress`." + chr(10) + ">>> fit(x)")
    'Fit a line, see  .'
    """
    lines = [line for line in text.split("\n") if not re.match(r"\s*(>>>|\.\.\. |\.\. )", line)]
    return re.sub(r"`*\b\w+(\.\w+)+\b`*|:\w+:`[^`]*`", " ", " ".join(lines))


def corpus() -> tuple[np.ndarray, np.ndarray]:
    """Collect texts, shape (n,), and their topics."""
    own = {topic: texts_of(modules) for topic, modules in TOPICS.items()}
    topics = [topic for topic, its in own.items() for _ in its]
    return np.array([text for its in own.values() for text in its], dtype=object), np.array(topics)


def embedding(texts: Sequence[str], *, length_one: bool = True) -> Callable[[Sequence[str]], np.ndarray]:
    """Fit TF-IDF and a truncated singular value decomposition.

    Parameters
    ----------
    texts
        What they are fitted on; words in fewer than three of them, or in more than three of ten, are left out.
    length_one
        Bring vectors to length one, so that how long a text is does not count, nor how much of it is in words that
        are known.

    Returns
    -------
    From n texts to an array of shape (n, 40).
    """
    words = TfidfVectorizer(
        sublinear_tf=True, stop_words="english", min_df=3, max_df=0.3, token_pattern=r"[a-zA-Z]{3,}"
    )
    steps: list[Any] = [words, TruncatedSVD(COMPONENTS, random_state=0)]
    pipeline = make_pipeline(*steps, *([Normalizer()] if length_one else []))
    return pipeline.fit(texts).transform


VARIANTS = {
    "as they come": {"length_one": False, "archive": False},
    "length one": {"length_one": True, "archive": False},
    "with the archive": {"length_one": True, "archive": True},
}


def once(texts: np.ndarray, topics: np.ndarray, seed: int, *, length_one: bool, archive: bool) -> Run:
    """Train on six topics, and let the others appear."""
    rng = np.random.default_rng(seed)
    aside = rng.random(len(texts)) < ARCHIVED
    archived, texts, topics = texts[aside].tolist(), texts[~aside], topics[~aside]
    part = split(np.arange(len(texts))[:, None], topics, n_known=6, n_unknown=6, seed=seed)
    order = one_after_another(part.y_test, part.unknown, rng)
    training, stream = texts[part.X_train[:, 0]].tolist(), texts[part.X_test[order, 0]].tolist()
    embed = embedding(training + (archived if archive else []), length_one=length_one)
    labels, truth = part.y_train.tolist(), part.y_test[order].tolist()
    return run(
        zip(embed(training), labels, strict=True), zip(embed(stream), truth, strict=True), batch_size=64, seed=seed
    )


def main() -> None:
    """Run once and tell what emerged, or several times and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="which topics are known, and all else that is random")
    parser.add_argument("--seeds", type=int, help="compare over so many seeds, from --seed on")
    arguments = parser.parse_args()
    texts, topics = corpus()
    print(f"{len(texts)} texts of {len(TOPICS)} topics")
    if arguments.seeds is None:
        name, variant = list(VARIANTS.items())[-1]
        done = once(texts, topics, arguments.seed, **variant)
        print(HEADINGS)
        print(row(name, done.figures()))
        print(done.candidates())
        return
    print(HEADINGS)
    for name, variant in VARIANTS.items():
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        print(row(name, mean(once(texts, topics, seed, **variant).figures() for seed in seeds)))


if __name__ == "__main__":
    main()

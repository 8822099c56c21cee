"""Two baselines with a threshold: a gradient-boosted forest, and the frozen model. Neither uses the stream."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from stream_osr import OpenSetRecognizer

REFUSED = 0.05
"""Share of the training instances that the forest refuses, out of fold."""
EXCEEDED = 0.01
"""Share of the training instances that the calibrated frozen model refuses, out of their block."""
FOLDS = BLOCKS = 4


def forest(training: pd.DataFrame, y: np.ndarray, stream: pd.DataFrame, unknown: str, seed: int) -> np.ndarray:
    """Label the stream with a forest; instances whose largest probability is below the threshold are unknown."""
    coder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    encode = make_column_transformer((coder, make_column_selector(dtype_exclude=np.number)), remainder="passthrough")
    classifier = make_pipeline(encode, HistGradientBoostingClassifier(random_state=seed))
    outside = cross_val_predict(classifier, training, y, cv=FOLDS, method="predict_proba")
    threshold = np.quantile(outside.max(axis=1), REFUSED)
    classifier.fit(training, y)
    probabilities = classifier.predict_proba(stream)
    labels = classifier.classes_[probabilities.argmax(axis=1)]
    return np.where(probabilities.max(axis=1) < threshold, unknown, labels)


def calibrated(
    training: pd.DataFrame, y: np.ndarray, probabilities: pd.DataFrame, unknown: str, seed: int
) -> np.ndarray:
    """Label the stream by the frozen model's `probabilities` and one threshold on P(unknown).

    Each class is cut into four blocks of arrival. A model of the other three blocks predicts the fourth one. The
    threshold is a quantile of these P(unknown).
    """
    rank = pd.Series(y).groupby(y).cumcount().to_numpy()
    block = BLOCKS * rank // pd.Series(y).groupby(y).transform("size").to_numpy()
    outside = []
    for at in range(BLOCKS):
        model = OpenSetRecognizer(seed=seed, unknown=unknown)
        model.learn_many(training[block != at], y[block != at].tolist())
        model.freeze()
        outside.append(np.asarray(model.predict_proba_many(training[block == at])[unknown]))
    threshold = np.quantile(np.concatenate(outside), 1 - EXCEEDED)
    labels = probabilities.drop(columns=unknown).idxmax(axis=1).to_numpy(str)
    return np.where(probabilities[unknown] > threshold, unknown, labels)

"""How many known instances are called unknown where densities say little: python -m benchmarks.low_dimensions.

Gaussian classes about five standard deviations apart, 40 training instances each; a stream of 600, a tenth of one new
class, the others known. Means of three seeds.
"""

from __future__ import annotations

import numpy as np

from stream_osr.instances.features import Features
from stream_osr.model.feature_space.whitening import whiten
from stream_osr.parameters import parameters
from stream_osr.stream import BufferedInstance, close_batch, open_stream
from stream_osr.training.trained import train_model

TRAINING, STREAM, BATCH = 40, 600, 64


def shares(d: int, n_classes: int, seed: int) -> tuple[float, float, float]:
    """Shares of the known instances called unknown and called right, and of the new ones called unknown."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes + 1, d))
    centres = centres / np.linalg.norm(centres, axis=1, keepdims=True) * 4.0 + rng.normal(size=(n_classes + 1, d))
    X = np.concatenate([centre + rng.normal(size=(TRAINING, d)) for centre in centres[:-1]])
    truth = rng.choice(n_classes + 1, size=STREAM, p=[0.9 / n_classes] * n_classes + [0.1])
    test = centres[truth] + rng.normal(size=(STREAM, d))
    chosen = parameters(seed=seed)
    group = np.repeat(np.arange(n_classes), TRAINING)
    trained = train_model(Features(range(d)), X, group, tuple(range(n_classes)), chosen)
    stream, called = open_stream(trained, chosen), []
    for rows in np.split(whiten(trained.whitening, test), range(BATCH, STREAM, BATCH)):
        arrived = [BufferedInstance(row, None, None) for row in rows]
        stream, batch = close_batch(trained, stream, arrived, [], chosen)
        called += [decision.label for decision in batch.decisions]
    label, known = np.array(called), truth < n_classes
    return (
        float((label[known] == -1).mean()),
        float((label == truth)[known].mean()),
        float((label[~known] == -1).mean()),
    )


if __name__ == "__main__":
    for d, n_classes in ((2, 2), (2, 5), (4, 2), (8, 5)):
        lost, right, found = np.mean([shares(d, n_classes, seed) for seed in range(3)], axis=0)
        print(f"d = {d}, {n_classes} known: called unknown {lost:.3f}, right {right:.3f}; new ones found {found:.3f}")

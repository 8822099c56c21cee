"""Images: pixels put into a vector by hand, known digits, and others that appear in the stream.

Half of the ten digits train, the other half appear one after the other. Which, the seed says. The recognizer is left
at its defaults; what changes is what it is given: the pixels; the directions of the strokes at each place (histograms
of oriented gradients), reduced to 30 principal components of the training images; or those directions reduced to the
four discriminants that tell the five known digits apart best.

    python examples/images.py                          # scikit-learn's bundled digits, 8 x 8: one run, what emerged
    python examples/images.py --seeds 3                # three embeddings side by side, means over three runs
    python examples/images.py --data USPS --seeds 3    # the same on 16 x 16, from STREAM_OSR_DATA/USPS.npz
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from scoring import HEADINGS, DatasetNotFoundError, Run, load, mean, one_after_another, row, run, split
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

Embedding = Callable[[np.ndarray], np.ndarray]
"""From images, shape (n, side, side), to vectors, shape (n, p)."""

COMPONENTS = 30
"""Of the gradients; chosen among 20, 30 and 45 on the seeds 102 to 105."""


def images_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read images, shape (n, side, side), and their digits."""
    if name == "USPS":
        data = load(name)
        return data.X.reshape(-1, 16, 16), data.y
    digits = load_digits()
    return digits.images, digits.target


def pixels(images: np.ndarray) -> np.ndarray:
    """Take the pixels as they are."""
    return images.reshape(len(images), -1)


def gradients(images: np.ndarray, cells: int = 4, directions: int = 8) -> np.ndarray:
    """Say how strongly the grey changes in each direction at each place.

    Each pixel's gradient counts for the two directions next to its own and for the cells around it, by how near they
    are. The whole is brought to length one, so that contrast does not count, and its root is taken, so that a few
    strong edges do not drown the others.

    Parameters
    ----------
    images
        Shape (n, side, side).
    cells
        Places along each side.
    directions
        Directions in the full circle: a stroke's two edges are told apart.

    Returns
    -------
    Shape (n, directions * cells * cells).

    References
    ----------
    N. Dalal and B. Triggs, "Histograms of oriented gradients for human detection", CVPR 2005.
    """
    down, right = np.gradient(images, axis=(1, 2))
    strength = np.hypot(right, down)
    turn = np.arctan2(down, right) / (2 * np.pi) * directions % directions
    circle = np.abs(turn[:, None] - np.arange(directions)[:, None, None])
    near = np.clip(1 - np.minimum(circle, directions - circle), 0, None)
    side = images.shape[1]
    at = (np.arange(side) + 0.5) * cells / side - 0.5
    window = np.clip(1 - np.abs(at[:, None] - np.arange(cells)), 0, None)
    sums = np.einsum("ndrc,nrc,ri,cj->ndij", near, strength, window, window, optimize=True).reshape(len(images), -1)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.sqrt(sums / np.where(lengths > 0, lengths, 1.0))


def reduced(embed: Embedding, training: np.ndarray, components: int = COMPONENTS) -> Embedding:
    """Put a principal component analysis of the training images behind an embedding."""
    pca = PCA(components, random_state=0).fit(embed(training))
    return lambda images: pca.transform(embed(images))


def discriminants(training: np.ndarray, digits: np.ndarray) -> Embedding:
    """Reduce gradients to what tells the known digits apart, and nothing else."""
    analysis = LinearDiscriminantAnalysis().fit(gradients(training), digits)
    return lambda images: analysis.transform(gradients(images))


EMBEDDINGS: dict[str, Callable[[np.ndarray, np.ndarray], Embedding]] = {
    "pixels": lambda training, digits: pixels,
    "gradients": lambda training, digits: reduced(gradients, training),
    "discriminants": discriminants,
}
"""From training images and their digits."""


def once(images: np.ndarray, digits: np.ndarray, embedding: str, seed: int) -> Run:
    """Train on five digits, and let the others appear."""
    part = split(pixels(images), digits, n_known=5, n_unknown=5, seed=seed)
    order = one_after_another(part.y_test, part.unknown, np.random.default_rng(seed))
    training, stream = (X.reshape(-1, *images.shape[1:]) for X in (part.X_train, part.X_test[order]))
    embed = EMBEDDINGS[embedding](training, part.y_train)
    labels, truth = part.y_train.tolist(), part.y_test[order].tolist()
    return run(
        zip(embed(training), labels, strict=True), zip(embed(stream), truth, strict=True), batch_size=64, seed=seed
    )


def main() -> None:
    """Run once and tell what emerged, or several times and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "USPS"), default="digits")
    parser.add_argument("--embedding", choices=list(EMBEDDINGS), default="gradients")
    parser.add_argument("--seed", type=int, default=0, help="which digits are known, and all else that is random")
    parser.add_argument("--seeds", type=int, help="compare all embeddings over so many seeds, from --seed on")
    arguments = parser.parse_args()
    try:
        images, digits = images_of(arguments.data)
    except DatasetNotFoundError as error:
        sys.exit(f"error: {error}")
    if arguments.seeds is None:
        done = once(images, digits, arguments.embedding, arguments.seed)
        print(HEADINGS)
        print(row(arguments.embedding, done.figures()))
        print(done.candidates())
        return
    print(HEADINGS)
    for embedding in EMBEDDINGS:
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        print(row(embedding, mean(once(images, digits, embedding, seed).figures() for seed in seeds)))


if __name__ == "__main__":
    main()

"""The trained part of a recognizer: immutable, without the training instances, shared without copying."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from stream_osr.config import Label, Parameters
from stream_osr.errors import InvalidParameter
from stream_osr.features import Features, Name
from stream_osr.hdp.blas import one_thread
from stream_osr.hdp.concentration import ALPHA_RATE, ALPHA_SHAPE
from stream_osr.hdp.dishes import log_prior_predictives
from stream_osr.hdp.known import Densities, Known, densities
from stream_osr.hdp.prior import make_prior
from stream_osr.hdp.space import Space, fit_space, whiten
from stream_osr.hdp.training import summarize, train

NU_ABOVE_DIMENSION = 20.0
DEFAULT_SCALE = 0.1
DEFAULT_BETA = 0.1


@dataclass(frozen=True)
class TrainingReport:
    """What training found, for a person to act on.

    Attributes
    ----------
    instances
        Training instances of each class.
    subclasses
        Subclasses kept of each class.
    known_recall
        Share of the training instances that would get their own label, each judged by leave-one-out predictive
        densities given the seating, in a stream of known instances only. Expect a little less on new data.
    small_classes
        Classes with fewer instances than whitened dimensions: their covariance leans on the prior.
    constant_features
        Features that did not vary: any value of theirs near the constant tells nothing.
    missing_values
        Missing values in the training rows, filled with the feature's mean.
    variance_left_out
        Share of the variance outside the PCA; novelty that shows only there is invisible.
    """

    instances: dict[Label, int]
    subclasses: dict[Label, int]
    known_recall: float
    small_classes: tuple[Label, ...] = ()
    constant_features: tuple[Name, ...] = ()
    missing_values: int = 0
    variance_left_out: float = 0.0

    def __str__(self) -> str:
        n, k = sum(self.instances.values()), sum(self.subclasses.values())
        lines = [
            f"trained on {n} instances of {len(self.instances)} classes, {k} subclasses; "
            f"expected recall of known classes {self.known_recall:.3f} (leave-one-out)"
        ]
        if self.small_classes:
            listed = ", ".join(f"{c!r} ({self.instances[c]})" for c in self.small_classes)
            lines.append(f"fewer instances than dimensions: {listed}; more instances, or a PCA, would help")
        if self.constant_features:
            lines.append(f"constant in training: {', '.join(map(repr, self.constant_features))}")
        if self.missing_values:
            lines.append(f"{self.missing_values} missing values were filled with the feature's mean")
        if self.variance_left_out > 0.10:
            lines.append(f"the PCA leaves out {self.variance_left_out:.1%} of the variance")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Known classes, frozen: what :meth:`stream_osr.OpenSetRecognizer.freeze` makes of the training groups.

    Several recognizers can share one (one for each Kafka partition, say); none changes it.

    Attributes
    ----------
    names
        Features, in the order of the rows.
    labels
        Labels of the known classes.
    space
        Map to whitened coordinates.
    known
        Statistics of the known subclasses.
    report
        What training found.
    """

    names: tuple[Name, ...]
    labels: tuple[Label, ...]
    space: Space
    known: Known
    report: TrainingReport = field(compare=False)

    @cached_property
    def features(self) -> Features:
        """Reader of rows."""
        return Features(self.names)

    @cached_property
    def densities(self) -> Densities:
        """Frozen densities of the known classes."""
        return densities(self.known)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decisions depend on, as 64 hexadecimal digits."""
        digest = hashlib.sha256(repr((self.names, self.labels)).encode())
        for part in (*self.space, *self.known.prior, *self.known.dishes, *self.known[2:]):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


def train_model(
    features: Features,
    X: np.ndarray,
    group: np.ndarray,
    labels: tuple[Label, ...],
    parameters: Parameters,
    *,
    sweeps: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> TrainedModel:
    """Train on labelled rows.

    Parameters
    ----------
    features
        Names of the columns.
    X
        Rows, NaN = missing, shape (n, p), n >= 1.
    group
        Class number of each, shape (n,).
    labels
        Label of each class number.
    parameters
        Hyperparameters and seed.
    sweeps
        Overrides ``parameters.training_sweeps``.
    progress
        Called with the number of each finished sweep.

    Raises
    ------
    InvalidParameter
        If the instances do not allow what the hyperparameters ask for.
    """
    p = parameters
    with one_thread():
        space = fit_space(X, group, pca_components=p.pca_components, pca_variance=p.pca_variance)
        rows = whiten(space, X)
        d = rows.shape[1]
        prior = make_prior(
            p.covariance,
            d,
            nu=d + NU_ABOVE_DIMENSION if p.nu is None else p.nu,
            scale=DEFAULT_SCALE if p.scale is None else p.scale,
            beta=DEFAULT_BETA if p.beta is None else p.beta,
        )
        training = train(
            rows,
            group,
            space,
            prior,
            np.random.default_rng([p.seed, len(X)]),
            sweeps=p.training_sweeps if sweeps is None else sweeps,
            exclusive=p.exclusive,
            progress=progress,
        )
        known, log_density = summarize(training, p.epsilon)
        if not len(known.ids):
            raise InvalidParameter(
                f"epsilon is {p.epsilon:g}, and every subclass holds a smaller share of its class: nothing would be "
                "known; lower it (the default is 0.01)"
            )
        recall = _known_recall(known, log_density, training.seating.guests.rows, group, p.half_life)
    counts = np.bincount(group, minlength=len(labels))
    report = TrainingReport(
        instances={label: int(n) for label, n in zip(labels, counts, strict=True)},
        subclasses={label: int((known.seated[j] > 0).sum()) for j, label in enumerate(labels)},
        known_recall=recall,
        small_classes=tuple(label for label, n in zip(labels, counts, strict=True) if n < d),
        constant_features=tuple(n for n, c in zip(features.names, space.constant, strict=True) if c),
        missing_values=int(np.isnan(X).sum()),
        variance_left_out=space.variance_left,
    )
    return TrainedModel(features.names, labels, training.space, known, report)


def _known_recall(
    known: Known, log_density: np.ndarray, rows: np.ndarray, group: np.ndarray, half_life: float
) -> float:
    """Leave-one-out recall in a long stream of known instances, at the shares of the training set."""
    menu = densities(known).menu
    alpha = ALPHA_SHAPE / ALPHA_RATE
    share = alpha / (menu.sum() + known.gamma)
    lasting = min(half_life / math.log(2.0), 1e6)
    seats = lasting * known.size / known.size.sum() + share * menu
    log_new = math.log(share * known.gamma) + log_prior_predictives(rows, known.prior)
    scores = log_density + np.log(seats)
    right = (scores.argmax(axis=1) == group) & (scores.max(axis=1) > log_new)
    return float(right.mean())

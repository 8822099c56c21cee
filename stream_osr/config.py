"""Parameters of the recognizer, checked once and in one place."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import wraps
from inspect import cleandoc, signature
from typing import Annotated, Any, Final, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stream_osr.errors import InvalidParameter
from stream_osr.limits import MOST_LABEL_BYTES, trouble_with
from stream_osr.reading import spelled
from stream_osr.showing import typed

Label = bool | int | str
FeatureName = int | str
T = TypeVar("T")

WITHOUT_END: Final = 1 << 62
"""A ``batch_size`` with which micro-batches end only where the caller says (``close_batch``)."""

SEE_ARGUMENTS: Final = "Those of :class:`Arguments`, which says what they mean."
""":func:`documented` puts it there."""


Positive = Annotated[float, Field(gt=0)]
PositiveFinite = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]


TOGETHER = 256
"""Instances that are re-seated together: the batch's, and those of the window (``docs/results/experiments.md``)."""


def refusing(cls: type[T]) -> type[T]:
    """Let a class say, of an argument that it has not, which class it is and what may have been meant.

    >>> from stream_osr import OpenSetRecognizer
    >>> OpenSetRecognizer(min_probabilty=0.9)
    Traceback (most recent call last):
        ...
    TypeError: OpenSetRecognizer has no parameter 'min_probabilty'; did you mean 'min_probability'?
    """
    plain: Any = cls.__init__
    names = [*signature(plain).parameters][1:]

    @wraps(plain)
    def construct(self: Any, *values: Any, **given: Any) -> None:
        strange = [name for name in given if name not in names]
        if strange:
            near = get_close_matches(strange[0], names, 1)
            meant = f"did you mean {near[0]!r}?" if near else "stream_osr.config.Arguments says which there are"
            raise TypeError(f"{type(self).__name__} has no parameter {strange[0]!r}; {meant}")
        plain(self, *values, **given)

    type.__setattr__(cls, "__init__", construct)
    return cls


@refusing
@dataclass(eq=False, repr=False)
class Arguments:
    """Arguments of :class:`stream_osr.OpenSetRecognizer`, with their bounds.

    Parameters
    ----------
    batch_size
        Instances of a micro-batch.
    max_wait
        Close a batch before an instance whose ``t`` is this much later than that of the batch's first; ``None``:
        batches close by count alone. Time is what the caller says, never the clock.
    unknown
        Label of unknown instances; ``None``: ``"unknown"`` beside string labels, ``-1`` beside others.
    pca_components, pca_variance
        Project to so many principal components of the training instances, or to as many as hold this share of
        their variance. For high dimensions; not both.
    nu, scale, beta
        Normal-inverse-Wishart base measure: degrees of freedom (above d - 1), prior covariance as a multiple of
        the pooled within-class one, precision of the prior mean. ``None``: drawn once a training sweep from the
        marginal likelihood given the partition (some chains: d + 20, 0.1, 0.1; see ``ensemble``).
    epsilon
        A known subclass with less than this share of its class is dropped when training ends; its weight goes to the
        broad term of the class, if there are such.
    exclusive
        A subclass belongs to one known class only.
    chains
        Models, trained and run side by side, whose probabilities are averaged; time and memory grow with it.
    ensemble
        Base measures of the chains. ``"mixed"``: they differ, in turn: coarse; drawn, with new subclasses placed by
        a Student-t that the known classes teach (three or more of them); drawn; drawn and placed. Only with
        several chains. ``"drawn"``: each is normal-inverse-Wishart with its hyperparameters drawn,
        and new subclasses lie where that places them. It says nothing of the rest: seats fade, known classes are
        frozen and have broad terms as ever (``docs/inference.md``, section 12, has what is exact and what is not).
    broad
        Add to the density of each known class a broad term: where it lies that its subclasses do not describe. For
        classes of many scattered centres, with a halo, or of few instances.
    learn_odds
        Shift the odds of unknown so that what is accepted as known looks like known training instances.
    select
        ``"evidence"``, or ``"validation"``: choose ``nu`` and ``scale`` on a simulation of closed and open sets among
        the training instances, over the grid of the paper [1]_; takes some hundred trainings, needs three classes.
    training_sweeps
        Gibbs sweeps of training.
    sweeps
        Re-seating sweeps over each micro-batch; probabilities are averaged over the later half.
    window
        Latest instances that are re-seated together with each micro-batch; ``None``: so many that with the batch
        there are 256, and at least ``decision_delay``.
    half_life
        Instances after which a seat in the stream's restaurant weighs half. It keeps the model from ageing: with
        seats that never fade, nothing new is seen after a million instances.
    decision_delay
        Hold each decision back until so many later instances have come, while later batches re-seat its instance in
        the window; ``first_label`` of a decision is what it was at once. At most ``window``, if that is given.
    min_probability
        Call an instance unknown when no known class has this probability. It may be set on a trained recognizer:
        ``model.set_min_probability(0.9)``.
    order
        ``"arrival"``: neighbouring instances may resemble each other, in training and in the stream. Training tests
        whether they do, class by class. Where they do, known classes predict in order of arrival, and what training
        promises comes from blocks of arrival. ``"shuffled"``: the order carries no information; nothing is tested.
    max_training
        Training instances kept of each class (a uniform sample beyond it).
    max_classes
        Known classes that there may be, in training and by labels and promotions that come later: a label that would
        open one more is refused. Time and memory of a micro-batch, and the length of each decision, grow with them.
    max_subclasses
        Emerged subclasses that are compared with every instance however long nothing arrives in them. Of the others
        the statistics are kept, and compared when something new emerges.
    max_dormant
        Subclasses that are kept in that way; beyond it the smallest are forgotten. Each takes (d + 1)^2 numbers and a
        few rows, in every chain.
    label_horizon
        Decided instances that are remembered for labels that come late (:meth:`learn_label`).
    references
        Training instances that are kept with the model, shared among its classes, and asked again as the stream runs:
        an emerging subclass that takes them at the rate at which it takes the stream's instances describes a known
        class anew and is not new. 0: none are kept, and nothing guards the known classes.
    max_false_unknown
        Call an instance unknown only if it is, in each known class, among the least usual so large a share of the
        reference instances: of a class that has not moved at most about this share is called unknown on average then,
        whatever its distribution. It costs new classes that lie close to known ones; ``None``: no such promise.
    follow_drift
        Known classes follow slow movement of their instances: each as a whole, by at most .004 of its standard
        deviations for each of them; a jump is not followed. Shape and width stay. The risk: nobody can tell a class
        that moves from a new one that takes its place step by step, and a new class that overlaps a known one pulls
        it until it is found, and somewhat afterwards. ``ClassDrifted`` then tells only of what is too fast, or of
        another kind. Off, whatever moves away turns unknown.
    drift_interval
        Watch the known classes for drift (``ClassDrifted``), with so many instances of a class between two false
        alarms on average, at least 1000; ``None``: do not.
    n_jobs
        Threads for the chains, in training and in each micro-batch; ``None``: as many as there are chains, and cores.
        Results do not depend on it.
    freezing
        ``"auto"``: the first unlabelled instance ends training. ``"manual"``: before :meth:`freeze` it is an error.
    categorical
        Names of features that are categories although their values are numbers; ``None``: none. Text and booleans are
        by themselves. A name that training never sees is an error when it ends.
    numeric
        Names of features that are numbers although many of their values are not: these are missing. ``None``: a text
        feature is numeric if nearly all of its values in training are numbers (``docs/files.md``).
    missing
        Texts and numbers that stand for a missing value, for example ``["-999"]``, beside the usual markers.
    on_missing
        Missing or NaN features: ``"impute"`` (with full covariances they are integrated out where an instance is
        decided, and drawn given the others where it enters statistics; else they are the training mean), raise an
        ``"error"``, or ``"skip"`` the instance.
    absent
        What a feature is that an instance does not name: ``"missing"``, ``"zero"`` (all numeric features: sparse
        vectors leave zeros out), or ``"auto"``: training decides. Features are zero where they look like sparse
        vectors: a third of their values is absent, hardly any is written as zero and none as ``None`` or NaN, and
        absence depends on the class. The training report says what was decided. ``None`` and NaN are missing values.
    seed
        All randomness flows from it: the same seed, input and flushes give the same bits, for the same processor type
        and library versions.
    """

    batch_size: AtLeastOne = 256
    max_wait: PositiveFinite | None = None
    unknown: Label | None = None
    pca_components: AtLeastOne | None = None
    pca_variance: Share | None = None
    nu: PositiveFinite | None = None
    scale: PositiveFinite | None = None
    beta: PositiveFinite | None = None
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.01
    exclusive: bool = True
    chains: AtLeastOne = 4
    ensemble: Literal["mixed", "drawn"] = "mixed"
    broad: bool = True
    learn_odds: bool = True
    select: Literal["evidence", "validation"] = "evidence"
    training_sweeps: NotNegative = 25
    sweeps: NotNegative = 5
    window: NotNegative | None = None
    half_life: Positive = 200.0
    decision_delay: NotNegative = 0
    min_probability: Annotated[float, Field(ge=0, le=1)] = 0.0
    order: Literal["arrival", "shuffled"] = "arrival"
    max_training: AtLeastOne = 5000
    max_classes: AtLeastOne = 1000
    max_subclasses: AtLeastOne = 200
    max_dormant: AtLeastOne = 1000
    label_horizon: NotNegative = 10_000
    references: NotNegative = 1000
    max_false_unknown: Annotated[float, Field(gt=0, lt=1)] | None = None
    follow_drift: bool = False
    drift_interval: Annotated[float, Field(ge=1e3)] | None = 1e6
    n_jobs: AtLeastOne | None = None
    freezing: Literal["auto", "manual"] = "auto"
    categorical: Collection[FeatureName] | None = None
    numeric: Collection[FeatureName] | None = None
    missing: Collection[str | int | float] | None = None
    on_missing: Literal["impute", "error", "skip"] = "impute"
    absent: Literal["auto", "missing", "zero"] = "auto"
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def arguments(self) -> dict[str, Any]:
        """All of them by name, as they were given."""
        given = {field.name: getattr(self, field.name) for field in fields(Arguments)}
        return {**given, **{name: _in_order(given[name]) for name in LISTS}}


LISTS = {"categorical": "names of features", "numeric": "names of features", "missing": "texts and numbers"}
"""Arguments that are lists, and what of."""


def _in_order(value: Any) -> Any:
    """Put names into a tuple, those of a set in one order; all else stays."""
    if isinstance(value, Set):
        return tuple(sorted(value, key=repr))
    return tuple(value) if isinstance(value, Collection) and not isinstance(value, str | bytes) else value


def documented(cls: type[T]) -> type[T]:
    """Put what the arguments mean where the documentation of a class names :class:`Arguments`."""
    if cls.__doc__ and Arguments.__doc__:  # python -OO has none
        meaning = cleandoc(Arguments.__doc__).partition("----------\n")[2]
        cls.__doc__ = cleandoc(cls.__doc__).replace(SEE_ARGUMENTS, meaning)
    return cls


class Parameters(BaseModel, Arguments):
    """Arguments that have been checked.

    Examples
    --------
    >>> parameters(batch_size=64).batch_size
    64
    >>> parameters(batch_size=0)
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidParameter: batch_size is 0: input should be greater than or equal to 1
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    categorical: tuple[FeatureName, ...] | None = None
    numeric: tuple[FeatureName, ...] | None = None
    missing: tuple[str | int | float, ...] | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Parameters:
        trouble = trouble_with(self.unknown, MOST_LABEL_BYTES)
        if trouble:
            raise ValueError(f"unknown is {typed(self.unknown)}: {trouble}; give it a short name")
        if both := [name for name in self.numeric or () if name in (self.categorical or ())]:
            raise ValueError(f"numeric and categorical both have {both[0]!r}: it is one of them")
        if self.pca_components is not None and self.pca_variance is not None:
            raise ValueError("pca_components and pca_variance are both given: give one of them")
        if self.window is not None and self.decision_delay > self.window:
            raise ValueError(
                f"decision_delay is {self.decision_delay} and window {self.window}: an instance is re-seated only "
                "while it is in the window; make the window as long as the delay"
            )
        if self.decision_delay and not self.sweeps:
            raise ValueError("decision_delay waits for re-seating sweeps, and sweeps is 0: set one of them otherwise")
        return self

    @property
    def markers(self) -> frozenset[str]:
        """What stands for a missing value beside the usual markers, as values are spelled."""
        return frozenset(map(spelled, self.missing or ()))

    @property
    def chooses_coordinates(self) -> bool:
        """Whether coordinates are chosen from the training part: no PCA is asked for."""
        return self.pca_components is None and self.pca_variance is None

    def window_after(self, batch: int) -> int:
        """Count the latest instances that are re-seated with the batch after one of so many instances.

        >>> parameters().window_after(64), parameters(window=20).window_after(64)
        (192, 20)
        """
        return max(TOGETHER - batch, self.decision_delay) if self.window is None else self.window


def parameters(**values: object) -> Parameters:
    """Check the values of parameters; anything left out has its default.

    Raises
    ------
    InvalidParameter
        Naming the parameter, what was found and what was expected.
    """
    try:
        # numpy's scalars are taken for Python's: a parameter often comes out of a grid
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        return Parameters.model_validate(plain)
    except ValidationError as error:
        errors = error.errors()
        first = errors[0]
        message = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:
            raise InvalidParameter(message) from None
        name = first["loc"][0]
        if name in LISTS:
            raise InvalidParameter(f"{name} is {values[name]!r}: give a list of {LISTS[name]}") from None
        choices = [str(e["loc"][1]) for e in errors if len(e["loc"]) > 1 and e["loc"][0] == name]
        if choices:  # none of the types that it may have
            message = f"input should be of type {' or '.join(choices)}"
        raise InvalidParameter(f"{name} is {first['input']!r}: {message[:1].lower()}{message[1:]}") from None

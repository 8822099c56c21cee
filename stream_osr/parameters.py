"""Parameters of the recognizer, checked once and in one place."""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stream_osr.errors import InvalidParameter
from stream_osr.instances.labels import Label as Label
from stream_osr.instances.reading import spelled
from stream_osr.printable_text import typed
from stream_osr.support.limits import MOST_LABEL_BYTES, trouble_with

FeatureName = int | str
Positive = Annotated[float, Field(gt=0)]
PositiveFinite = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
TOGETHER = 256
"""Number of instances that are re-seated together: the batch and the window."""
LISTS: Final = {
    "categorical": "names of features",
    "numeric": "names of features",
    "alarms": "names of features",
    "missing": "texts and numbers",
}
"""Arguments that are lists, and the kind of their items."""


@dataclass(frozen=True, repr=False)
class Group:
    """Arguments that belong together.

    They are checked at once, and printed where they differ from the defaults.
    """

    def __post_init__(self) -> None:
        vars(self).update({name: in_order(value) for name, value in vars(self).items() if name in LISTS})
        parameters(**vars(self))

    def __repr__(self) -> str:
        reported = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in reported)})"


@dataclass(frozen=True, repr=False)
class Input(Group):
    """Options for reading instances: kinds of features, missing values, order of arrival.

    Parameters
    ----------
    categorical
        Names of features that are categories although their values are numbers. ``None``: only features with text or
        booleans are categories. A name that training never sees is an error when training ends.
    numeric
        Names of features that are numbers although many of their values are not. Those values count as missing.
        ``None``: a text feature is numeric if nearly all training values are numbers (``docs/files.md``).
    alarms
        Names of features whose change alone means *unknown*, such as a warning lamp. A class excludes an instance
        whose value in such a feature no training instance of the class has. A missing value excludes nothing.
        The feature is a category, or a number with few values in training.
    missing
        Texts and numbers that stand for a missing value in your data, for example ``["-999"]``. They add to the usual
        markers.
    on_missing
        Treatment of missing or NaN values. ``"impute"``: decisions integrate them out, and statistics use values
        drawn given the other features. ``"error"``: raise an error. ``"skip"``: skip the instance.
    absent
        Value of a feature that an instance does not name: ``"missing"``, ``"zero"`` or ``"auto"``. Set ``"zero"`` for
        sparse vectors, which leave zeros out. It applies to all numeric features. With ``"auto"``, training looks for
        features like those of sparse vectors. A third of their values is absent, hardly any is written as zero, and
        none as ``None`` or NaN. Their absence depends on the class. The training report names these features.
        ``None`` and NaN always count as missing.
    order
        ``"arrival"``: neighbouring instances may resemble each other, in training and in the stream. Training tests
        this for each class. If they do, known classes predict in order of arrival, and blocks of arrival give the
        expected recall. ``"shuffled"``: the order carries no information, and training does not test it.

    Examples
    --------
    >>> from stream_osr import Input, OpenSetRecognizer
    >>> model = OpenSetRecognizer(input=Input(missing=["-999"], on_missing="skip"))
    >>> model.learn_one({"height": "-999", "width": 3.0}, "left")
    >>> model.counters["skipped"]
    1
    >>> model.input
    Input(missing=('-999',), on_missing='skip')
    """

    categorical: Collection[FeatureName] | None = None
    numeric: Collection[FeatureName] | None = None
    alarms: Collection[FeatureName] | None = None
    missing: Collection[str | int | float] | None = None
    on_missing: Literal["impute", "error", "skip"] = "impute"
    absent: Literal["auto", "missing", "zero"] = "auto"
    order: Literal["arrival", "shuffled"] = "arrival"


@dataclass(frozen=True, repr=False)
class Limits(Group):
    """Limits on memory and time: numbers of instances, classes and subclasses to keep.

    Parameters
    ----------
    max_training
        Largest number of training instances of each class. Beyond it, training keeps a uniform sample. Raise it if
        classes are complex, lower it to train faster.
    max_classes
        Largest number of known classes, including those that late labels and promotions open. A label that would open
        one more is refused. Time, memory and the length of each decision grow with the known classes.
    max_subclasses
        Largest number of emerged subclasses that every instance is compared with. Others become dormant. The model
        keeps their statistics and compares them when something new emerges.
    max_dormant
        Largest number of dormant subclasses. Beyond it, the smallest are forgotten. Each takes (d + 1)^2 numbers and
        a few rows in every chain.
    label_horizon
        Number of decided instances that late labels can refer to (``learn_label``). Raise it if labels come later.
    references
        Number of training instances to keep for testing emerging subclasses, shared among the classes. If a subclass
        attracts them as often as it attracts stream instances, it belongs to a known class. It is then not reported
        as new. 0 turns this check off.

    Examples
    --------
    >>> from stream_osr import Limits, OpenSetRecognizer
    >>> model = OpenSetRecognizer(limits=Limits(max_classes=2))
    >>> for label in ("left", "right"):
    ...     model.learn_one({"a": 1.0}, label)
    >>> model.learn_one({"a": 1.0}, "middle")
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidLabel: label is 'middle' (str): it would open a class beside 2 others, and max_classes \
allows 2. Is it the label's column? Merge classes, or train with a larger max_classes
    """

    max_training: AtLeastOne = 5000
    max_classes: AtLeastOne = 1000
    max_subclasses: AtLeastOne = 200
    max_dormant: AtLeastOne = 1000
    label_horizon: NotNegative = 10_000
    references: NotNegative = 1000


@dataclass(frozen=True, repr=False)
class ModelOptions(Group):
    """Options of the mixture model and its sampler. The defaults suit most data.

    Parameters
    ----------
    nu, scale, beta
        Normal-inverse-Wishart base measure. ``nu`` are the degrees of freedom (above d - 1). ``scale`` is the prior
        covariance as a multiple of the pooled within-class one. ``beta`` is the precision of the prior mean.
        ``None``: each training sweep draws them from the marginal likelihood given the partition. Some chains use d +
        20, 0.1 and 0.1 (see ``ensemble``).
    epsilon
        Known subclasses with less than this share of their class are dropped when training ends. Their weight goes to
        the class's background component, if it has one. Lower it if small subclasses matter.
    background_component
        Give each known class a broad component beside its subclasses. It covers regions between them, for classes
        with many scattered centres, with a halo, or with few instances.
    learn_odds
        Adjust the odds of unknown so that accepted instances look like known training instances.
    ensemble
        Base measures of the chains. ``"mixed"``: the chains use four kinds in turn, which makes their average more
        accurate. The first is coarse. The second has drawn hyperparameters and places new subclasses by a Student-t
        learnt from three or more known classes. The third only has drawn hyperparameters, and the fourth is like the
        second. It needs several chains. ``"drawn"``: every chain is normal-inverse-Wishart with drawn
        hyperparameters. The other approximations stay: weights decay, known classes are frozen and keep their
        background component (``docs/inference.md``, section 12).
    training_sweeps
        Number of Gibbs sweeps in training.
    sweeps
        Number of re-seating sweeps over each micro-batch. The later half is averaged into probabilities. More sweeps
        take more time and give smoother probabilities.
    window
        Number of latest instances that are re-seated with each micro-batch, except those with a certain seat at an
        emerging subclass that has enough instances. ``None``: batch and window together have 256 instances, and the
        window has at least ``decision_delay``.
    drift_interval
        Mean number of independent instances of a class between two false drift alarms (``ClassDrifted``), at least
        1000. Lower it to detect drift earlier. ``None``: drift is not monitored.
    freezing
        ``"auto"``: the first unlabelled instance ends training. ``"manual"``: an unlabelled instance before
        ``freeze`` is an error.

    Examples
    --------
    >>> from stream_osr import ModelOptions, OpenSetRecognizer
    >>> model = OpenSetRecognizer(model=ModelOptions(sweeps=3, freezing="manual"))
    >>> model.learn_one({"a": 1.0})
    Traceback (most recent call last):
        ...
    stream_osr.errors.NotTrained: an unlabelled instance came before freeze(), and freezing='manual'. Call freeze() \
first
    >>> ModelOptions(epsilon=1.0)
    Traceback (most recent call last):
        ...
    stream_osr.errors.InvalidParameter: epsilon is 1.0: input should be less than 1
    """

    nu: PositiveFinite | None = None
    scale: PositiveFinite | None = None
    beta: PositiveFinite | None = None
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.01
    background_component: bool = True
    learn_odds: bool = True
    ensemble: Literal["mixed", "drawn"] = "mixed"
    training_sweeps: NotNegative = 25
    sweeps: NotNegative = 5
    window: NotNegative | None = None
    drift_interval: Annotated[float, Field(ge=1e3)] | None = 1e6
    freezing: Literal["auto", "manual"] = "auto"


@dataclass(eq=False, repr=False)
class CommonArguments:
    """Arguments outside the groups."""

    batch_size: AtLeastOne = 256
    max_wait: PositiveFinite | None = None
    unknown: Label | None = None
    decision_delay: NotNegative = 0
    min_probability: Annotated[float, Field(ge=0, le=1)] = 0.0
    max_false_unknown: Annotated[float, Field(gt=0, lt=1)] | None = None
    follow_drift: bool = False
    half_life: Positive = 200.0
    chains: AtLeastOne = 4
    n_jobs: AtLeastOne | None = None
    pca: int | float | None = None
    seed: Annotated[int, Field(ge=0)] = 0


class Parameters(BaseModel, CommonArguments, Input, Limits, ModelOptions):  # type: ignore[misc]  # frozen by pydantic
    """Checked arguments.

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
    alarms: tuple[FeatureName, ...] | None = None
    missing: tuple[str | int | float, ...] | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Parameters:
        trouble = trouble_with(self.unknown, MOST_LABEL_BYTES)
        if trouble:
            raise ValueError(f"unknown is {typed(self.unknown)}: {trouble}. Give it a short name")
        if both := [name for name in self.numeric or () if name in (self.categorical or ())]:
            raise ValueError(f"numeric and categorical both have {both[0]!r}: name it in one of them")
        if self.pca is not None and not (self.pca >= 1 if isinstance(self.pca, int) else 0.0 < self.pca <= 1.0):
            raise ValueError(
                f"pca is {self.pca}: give a number of components, 1 or more, or a share of the variance, above 0.0 "
                "and at most 1.0"
            )
        if self.window is not None and self.decision_delay > self.window:
            raise ValueError(
                f"decision_delay is {self.decision_delay} and window {self.window}: an instance is re-seated only "
                "while it is in the window. Make the window as long as the delay"
            )
        if self.decision_delay and not self.sweeps:
            raise ValueError("decision_delay waits for re-seating sweeps, and sweeps is 0: change one of them")
        return self

    @property
    def markers(self) -> frozenset[str]:
        """Spellings of a missing value, in addition to the usual ones."""
        return frozenset(map(spelled, self.missing or ()))

    def window_after(self, batch: int) -> int:
        """Return the number of latest instances to re-seat with the next batch, after a batch of a given size.

        >>> parameters().window_after(64), parameters(window=20).window_after(64)
        (192, 20)
        """
        return max(TOGETHER - batch, self.decision_delay) if self.window is None else self.window


def parameters(**values: object) -> Parameters:
    """Check the values of parameters. Parameters that are not given have their defaults.

    Raises
    ------
    InvalidParameter
        With the parameter, the value that was found and the values that are expected.
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


def in_order(value: Any) -> Any:
    """Convert a collection of names to a tuple, sorted if it is a set. Other values stay unchanged."""
    if isinstance(value, Set):
        return tuple(sorted(value, key=repr))
    return tuple(value) if isinstance(value, Collection) and not isinstance(value, str | bytes) else value

"""Parameters of the recognizer, checked once and in one place."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import wraps
from inspect import cleandoc, signature
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stream_osr.errors import InvalidParameter
from stream_osr.instances.labels import Label as Label
from stream_osr.instances.reading import spelled
from stream_osr.printable_text import typed
from stream_osr.support.limits import MOST_LABEL_BYTES, trouble_with

FeatureName = int | str
T = TypeVar("T")

WITHOUT_END: Final = 1 << 62
"""A ``batch_size`` for callers that close each micro-batch themselves (``close_batch``)."""

SEE_ARGUMENTS: Final = "The parameters of :class:`stream_osr.config.Arguments`."
"""Text that :func:`documented` replaces by the parameters."""


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

    @property
    def pca_components(self) -> int | None:
        """Number of principal components to project to, if given."""
        return self.pca if isinstance(self.pca, int) else None

    @property
    def pca_variance(self) -> float | None:
        """Share of the variance to project to, if given."""
        return self.pca if isinstance(self.pca, float) else None

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


GROUPS: Final[dict[str, type[Group]]] = {"input": Input, "limits": Limits, "model": ModelOptions}
"""Arguments of the constructor that group other arguments."""

PLACES: Final = {
    **{f.name: (group, f.name) for group, kind in GROUPS.items() for f in fields(kind) if f.name != "categorical"},
    "broad": ("model", "background_component"),
    "pca_components": ("pca", ""),
    "pca_variance": ("pca", ""),
}
"""Constructor argument, and name in its group, of each plain name.

Archives use plain names, and grids of parameters may. Until 0.2 the constructor accepts them with a warning."""

REPRODUCTION: Final = {"covariance": "full", "exclusive": True, "select": "evidence"}
"""Plain names in archives of which only one value is left. ``benchmarks/paper`` has the paper's method."""


def grouped(**given: Any) -> dict[str, Any]:
    """Convert arguments with plain names to those of the constructor.

    Raises
    ------
    InvalidParameter
        If a value cannot be used.

    Examples
    --------
    >>> grouped(seed=1, sweeps=3, pca_variance=0.9)
    {'seed': 1, 'pca': 0.9, 'model': ModelOptions(sweeps=3)}
    """
    for name, only in REPRODUCTION.items():
        if (value := given.pop(name, only)) != only:
            raise InvalidParameter(
                f"{name} is {value!r}: expected {only!r}. The paper's method is in benchmarks/paper"
            )
    components, share = given.pop("pca_components", None), given.pop("pca_variance", None)
    if components is not None and share is not None:
        raise InvalidParameter("pca_components and pca_variance are both given: give one of them, as pca")
    if isinstance(components, float):
        raise InvalidParameter(f"pca_components is {components}: expected a whole number")
    if share is not None:
        if not isinstance(share, int | float) or not 0 < share <= 1:
            raise InvalidParameter(f"pca_variance is {typed(share)}: expected a share, above 0.0 and at most 1.0")
        given["pca"] = float(share)
    elif components is not None:
        given["pca"] = components
    for group, kind in GROUPS.items():
        own = {inside: given.pop(name) for name, (at, inside) in PLACES.items() if at == group and name in given}
        if own and (made := replace(before := given.get(group) or kind(), **own)) != before:
            given[group] = made
    return given


def _place(name: str) -> str:
    """Return how to give an argument with a plain name."""
    group, inside = PLACES.get(name, ("", ""))
    if group in GROUPS:
        return f"{group}={GROUPS[group].__name__}({inside}=...)"
    return f"{group}=..." if group else "no longer available: the paper's method is in benchmarks/paper"


def refusing(cls: type[T]) -> type[T]:
    """Make a class report an unknown argument with its own name and the closest match.

    Until 0.2 the class accepts plain names, with a warning.

    >>> from stream_osr import OpenSetRecognizer
    >>> OpenSetRecognizer(min_probabilty=0.9)
    Traceback (most recent call last):
        ...
    TypeError: OpenSetRecognizer has no parameter 'min_probabilty'; did you mean 'min_probability'?
    >>> OpenSetRecognizer(max_class=9)
    Traceback (most recent call last):
        ...
    TypeError: OpenSetRecognizer has no parameter 'max_class'; did you mean limits=Limits(max_classes=...)?
    """
    init: Any = cls.__init__
    names = [*signature(init).parameters][1:]

    @wraps(init)
    def construct(self: Any, *values: Any, **given: Any) -> None:
        if old := [name for name in given if name in PLACES or name in REPRODUCTION]:
            text = ", ".join(f"{name} is {_place(name)}" for name in old)
            warnings.warn(f"{text}. The plain name will be removed in 0.2", DeprecationWarning, stacklevel=2)
            given = grouped(**given)
        strange = [name for name in given if name not in names]
        if strange:
            near = get_close_matches(strange[0], [*names, *PLACES], 1)
            meant = "stream_osr.config.Arguments lists all parameters"
            if near:
                meant = f"did you mean {repr(near[0]) if near[0] in names else _place(near[0])}?"
            raise TypeError(f"{type(self).__name__} has no parameter {strange[0]!r}; {meant}")
        init(self, *values, **given)

    type.__setattr__(cls, "__init__", construct)
    return cls


@refusing
@dataclass(eq=False, repr=False)
class Arguments(CommonArguments):
    """Arguments of :class:`stream_osr.OpenSetRecognizer`, with their bounds.

    Parameters
    ----------
    batch_size
        Number of instances in a micro-batch. Smaller batches decide earlier, larger batches use more context and take
        less time for each instance.
    max_wait
        Longest time that a batch waits. The batch closes before an instance whose ``t`` is this much later than the
        first ``t`` of the batch. ``None``: batches close by count alone. Time comes from ``t``, never from the clock.
    unknown
        Label of unknown instances. ``None``: ``"unknown"`` if labels are strings, otherwise ``-1``.
    decision_delay
        Delay each decision by this number of instances, so that later batches can revise it. With a delay the window
        keeps instances whose seat is certain, so that other decisions may differ too. ``first_label`` shows the
        label before the delay. It is at most ``window``, if that is given.
    min_probability
        Label an instance as unknown if no known class has at least this probability. Raise it to accept fewer
        doubtful instances. A trained recognizer can change it: ``model.set_min_probability(0.9)``.
    max_false_unknown
        Upper bound on the share of a known class's instances that are called unknown. It holds on average for any
        distribution, as long as the class has not moved. It makes new classes close to known ones harder to find.
        ``None``: no bound.
    follow_drift
        Let known classes follow slow drift. Each instance moves its class as a whole by at most 0.004 standard
        deviations of the class. Shape and width stay, and a jump is not followed. The risk: the model cannot
        distinguish a moving class from a new class that replaces it step by step. A new class that overlaps a known
        one pulls it until it is found, and somewhat afterwards. ``ClassDrifted`` then reports only drift that is too
        fast or of another kind. If ``False``, instances that move away become unknown.
    half_life
        Number of instances after which the weight of an instance in the stream is halved. A longer half-life forgets
        more slowly. Without decay, the model would recognize nothing new after a million instances.
    chains
        Number of models that are trained and run side by side. Their probabilities are averaged. Time and memory grow
        with it.
    n_jobs
        Number of threads for the chains. ``None``: one for each chain, at most one for each core. Results do not
        depend on it.
    pca
        Project to principal components of the training instances, for high dimensions. A whole number is the number
        of components, and a float such as ``0.99`` their share of the variance. ``None``: training chooses
        directions.
    seed
        Seed of all random numbers. The same seed, input and flushes give the same bits on the same processor type
        with the same library versions.
    categorical
        Names of features that are categories although their values are numbers. It is short for
        ``input=Input(categorical=...)``.
    input
        Options for reading instances (:class:`stream_osr.Input`).
    limits
        Limits on memory and time (:class:`stream_osr.Limits`).
    model
        Options of the mixture model and its sampler (:class:`stream_osr.ModelOptions`).
    """

    categorical: Collection[FeatureName] | None = None
    input: Input | None = None
    limits: Limits | None = None
    model: ModelOptions | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return an argument of a group by its plain name."""
            if name not in PLACES:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return {**plain(self), **archived(self)}[name]

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the constructor by name, as given."""
        given = {field.name: getattr(self, field.name) for field in fields(Arguments)}
        return {**given, "categorical": in_order(self.categorical)}


def regrouped(given: Arguments, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert changed arguments, which may have plain names, to arguments of the constructor."""
    return grouped(**{**{name: getattr(given, name) for name in GROUPS}, **changes})


def plain(given: Arguments) -> dict[str, Any]:
    """Return the given arguments by the names of :class:`Parameters`."""
    out = {field.name: getattr(given, field.name) for field in fields(CommonArguments)}
    for name, kind in GROUPS.items():
        group = getattr(given, name)
        if not isinstance(group, kind | None):
            raise InvalidParameter(f"{name} is {group!r}: give {kind.__name__}(...)")
        out |= vars(group or kind())
    if given.categorical is not None:
        if out["categorical"] is not None:
            raise InvalidParameter("categorical is given twice, beside input and in it: give one of them")
        out["categorical"] = in_order(given.categorical)
    return out


def archived(given: Arguments) -> dict[str, Any]:
    """Return the given arguments by the names that archives use."""
    out = plain(given)
    checked = parameters(**out)
    out |= {"pca_components": checked.pca_components, "pca_variance": checked.pca_variance, **REPRODUCTION}
    out["broad"] = out.pop("background_component")
    del out["pca"]
    return out


def in_order(value: Any) -> Any:
    """Convert a collection of names to a tuple, sorted if it is a set. Other values stay unchanged."""
    if isinstance(value, Set):
        return tuple(sorted(value, key=repr))
    return tuple(value) if isinstance(value, Collection) and not isinstance(value, str | bytes) else value


def documented(cls: type[T]) -> type[T]:
    """Insert the parameters of :class:`Arguments` into the docstring of a class."""
    if cls.__doc__ and Arguments.__doc__:  # python -OO has none
        meaning = cleandoc(Arguments.__doc__).partition("----------\n")[2]
        cls.__doc__ = cleandoc(cls.__doc__).replace(SEE_ARGUMENTS, meaning)
    return cls

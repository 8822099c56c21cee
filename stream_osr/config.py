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
from stream_osr.limits import MOST_LABEL_BYTES, trouble_with
from stream_osr.printable_text import typed
from stream_osr.reading import spelled

Label = bool | int | str
FeatureName = int | str
T = TypeVar("T")

WITHOUT_END: Final = 1 << 62
"""A ``batch_size`` with which micro-batches end only where the caller says (``close_batch``)."""

SEE_ARGUMENTS: Final = "Those of :class:`stream_osr.config.Arguments`, which says what they mean."
""":func:`documented` puts it there."""


Positive = Annotated[float, Field(gt=0)]
PositiveFinite = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]


TOGETHER = 256
"""Instances that are re-seated together: those of the batch and those of the window."""

LISTS: Final = {"categorical": "names of features", "numeric": "names of features", "missing": "texts and numbers"}
"""Arguments that are lists, and what of."""


@dataclass(frozen=True, repr=False)
class Group:
    """Arguments that are given together: checked at once, printed where they differ from the defaults."""

    def __post_init__(self) -> None:
        vars(self).update({name: in_order(value) for name, value in vars(self).items() if name in LISTS})
        parameters(**vars(self))

    def __repr__(self) -> str:
        reported = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in reported)})"


@dataclass(frozen=True, repr=False)
class Input(Group):
    """Reading of the instances: kinds of features, missing values, order of arrival.

    Parameters
    ----------
    categorical
        Names of features that are categories although their values are numbers; ``None``: none. Text and booleans are
        by themselves. A name that training never sees is an error when it ends.
    numeric
        Names of features that are numbers although many of their values are not: these are missing. ``None``: a text
        feature is numeric if nearly all of its values in training are numbers (``docs/files.md``).
    missing
        Texts and numbers that stand for a missing value, for example ``["-999"]``, beside the usual markers.
    on_missing
        Missing or NaN features: ``"impute"`` (they are integrated out where an instance is decided, and drawn given
        the others where it enters statistics), raise an ``"error"``, or ``"skip"`` the instance.
    absent
        Value of a feature that an instance does not name: ``"missing"``, ``"zero"`` (all numeric features: sparse
        vectors leave zeros out), or ``"auto"``: training decides. Features are zero if they look like sparse vectors:
        a third of their values is absent, hardly any is written as zero and none as ``None`` or NaN, and absence
        depends on the class. The training report names these features. ``None`` and NaN are missing values.
    order
        ``"arrival"``: neighbouring instances may resemble each other, in training and in the stream. Training tests
        this class by class. If they do, known classes predict in order of arrival, and the recall that training
        promises comes from blocks of arrival. ``"shuffled"``: the order carries no information; nothing is tested.

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
    missing: Collection[str | int | float] | None = None
    on_missing: Literal["impute", "error", "skip"] = "impute"
    absent: Literal["auto", "missing", "zero"] = "auto"
    order: Literal["arrival", "shuffled"] = "arrival"


@dataclass(frozen=True, repr=False)
class Limits(Group):
    """Bounds on memory and time: instances, classes and subclasses that are kept.

    Parameters
    ----------
    max_training
        Training instances kept of each class (a uniform sample beyond it).
    max_classes
        Known classes at most, in training and by later labels and promotions: a label that would open one more is
        refused. Time and memory of a micro-batch, and the length of each decision, grow with the known classes.
    max_subclasses
        Emerged subclasses that are compared with every instance, however long nothing has arrived in them. Of the
        others the statistics are kept, and compared when something new emerges.
    max_dormant
        Subclasses that are kept in that way; beyond it the smallest are forgotten. Each takes (d + 1)^2 numbers and a
        few rows, in every chain.
    label_horizon
        Decided instances that are remembered for labels that come late (``learn_label``).
    references
        Training instances kept to test emerging subclasses, shared among the classes. If a subclass attracts them as
        often as it attracts stream instances, it describes a known class again and is not reported as new. 0 turns
        this check off.

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
allows 2; is it the label's column? Merge classes, or train with a larger max_classes
    """

    max_training: AtLeastOne = 5000
    max_classes: AtLeastOne = 1000
    max_subclasses: AtLeastOne = 200
    max_dormant: AtLeastOne = 1000
    label_horizon: NotNegative = 10_000
    references: NotNegative = 1000


@dataclass(frozen=True, repr=False)
class ModelOptions(Group):
    """Options of the mixture model and its sampler; the defaults suit most data.

    Parameters
    ----------
    nu, scale, beta
        Normal-inverse-Wishart base measure: degrees of freedom (above d - 1), prior covariance as a multiple of
        the pooled within-class one, precision of the prior mean. ``None``: drawn once a training sweep from the
        marginal likelihood given the partition (some chains: d + 20, 0.1, 0.1; see ``ensemble``).
    epsilon
        Known subclasses that hold less than this share of their class are dropped when training ends. Their weight
        goes to the class's background component, if it has one.
    background_component
        Each known class has a broad component beside its subclasses, for regions that they do not describe: classes
        of many scattered centres, with a halo, or of few instances.
    learn_odds
        Shift the odds of unknown so that what is accepted as known looks like known training instances.
    ensemble
        Base measures of the chains. ``"mixed"``: they differ, in turn: coarse; drawn, with new subclasses placed by
        a Student-t that the known classes teach (three or more of them); drawn; drawn and placed. Only with
        several chains. ``"drawn"``: each is normal-inverse-Wishart with its hyperparameters drawn,
        and new subclasses lie where that places them. The other approximations stay: weights decay, known classes are
        frozen and keep their background component (``docs/inference.md``, section 12).
    training_sweeps
        Gibbs sweeps of training.
    sweeps
        Re-seating sweeps over each micro-batch; probabilities are averaged over the later half.
    window
        Latest instances that are re-seated together with each micro-batch; ``None``: so many that with the batch
        there are 256, and at least ``decision_delay``.
    drift_interval
        Watch the known classes for drift (``ClassDrifted``), with so many instances of a class between two false
        alarms on average, at least 1000; ``None``: do not.
    freezing
        ``"auto"``: the first unlabelled instance ends training. ``"manual"``: before ``freeze`` it is an error.

    Examples
    --------
    >>> from stream_osr import ModelOptions, OpenSetRecognizer
    >>> model = OpenSetRecognizer(model=ModelOptions(sweeps=3, freezing="manual"))
    >>> model.learn_one({"a": 1.0})
    Traceback (most recent call last):
        ...
    stream_osr.errors.NotTrained: an unlabelled instance came before freeze(), and freezing='manual'; call freeze() \
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
    """Arguments that are in no group."""

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
        if self.pca is not None and not (self.pca >= 1 if isinstance(self.pca, int) else 0.0 < self.pca <= 1.0):
            raise ValueError(
                f"pca is {self.pca}: give a number of components, 1 or more, or a share of the variance, above 0.0 "
                "and at most 1.0"
            )
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
        """Spellings of a missing value beside the usual ones."""
        return frozenset(map(spelled, self.missing or ()))

    @property
    def pca_components(self) -> int | None:
        """Principal components to project to, if their number was given."""
        return self.pca if isinstance(self.pca, int) else None

    @property
    def pca_variance(self) -> float | None:
        """Share of the variance to project to, if it was given."""
        return self.pca if isinstance(self.pca, float) else None

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


GROUPS: Final[dict[str, type[Group]]] = {"input": Input, "limits": Limits, "model": ModelOptions}
"""Arguments of the constructor that are groups of others."""

PLACES: Final = {
    **{f.name: (group, f.name) for group, kind in GROUPS.items() for f in fields(kind) if f.name != "categorical"},
    "broad": ("model", "background_component"),
    "pca_components": ("pca", ""),
    "pca_variance": ("pca", ""),
}
"""Argument of the constructor, and name in its group, of each plain name. Archives have plain names and grids of
parameters may; until 0.2 the constructor takes them with a warning."""

REPRODUCTION: Final = {"covariance": "full", "exclusive": True, "select": "evidence"}
"""Plain names of which one value is left, which archives have; ``benchmarks/paper`` has the paper's method."""


def grouped(**given: Any) -> dict[str, Any]:
    """Turn arguments with plain names into those of the constructor, which stay as they are.

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
            raise InvalidParameter(f"{name} is {value!r}: expected {only!r}; benchmarks/paper has the paper's method")
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
    """Say how an argument with a plain name is given."""
    group, inside = PLACES.get(name, ("", ""))
    if group in GROUPS:
        return f"{group}={GROUPS[group].__name__}({inside}=...)"
    return f"{group}=..." if group else "not there: the paper's method is in benchmarks/paper"


def refusing(cls: type[T]) -> type[T]:
    """Let a class say, of an argument that it has not, which class it is and what may have been meant.

    Until 0.2 it takes plain names, with a warning.

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
            warnings.warn(f"{text}; the plain name goes with 0.2", DeprecationWarning, stacklevel=2)
            given = grouped(**given)
        strange = [name for name in given if name not in names]
        if strange:
            near = get_close_matches(strange[0], [*names, *PLACES], 1)
            meant = "stream_osr.config.Arguments says which there are"
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
        Instances of a micro-batch.
    max_wait
        Close a batch before an instance whose ``t`` is this much later than that of the batch's first; ``None``:
        batches close by count alone. Time is what the caller says, never the clock.
    unknown
        Label of unknown instances; ``None``: ``"unknown"`` beside string labels, ``-1`` beside others.
    decision_delay
        Hold each decision back until so many later instances have come, while later batches re-seat its instance in
        the window; ``first_label`` of a decision is what it was at once. At most ``window``, if that is given.
    min_probability
        Call an instance unknown when no known class has this probability. It may be set on a trained recognizer:
        ``model.set_min_probability(0.9)``.
    max_false_unknown
        Upper bound on the share of a known class's instances that are called unknown. It holds on average for any
        distribution, as long as the class has not moved. It costs new classes that lie close to known ones; ``None``:
        no such bound.
    follow_drift
        Known classes follow slow movement of their instances: each as a whole, by at most .004 of its standard
        deviations for each of them; a jump is not followed. Shape and width stay. The risk: nobody can tell a class
        that moves from a new one that takes its place step by step, and a new class that overlaps a known one pulls
        it until it is found, and somewhat afterwards. ``ClassDrifted`` then tells only of what is too fast, or of
        another kind. Off, whatever moves away turns unknown.
    half_life
        Instances after which a seat in the stream's restaurant weighs half. It keeps the model from ageing: with
        seats that never fade, nothing new is seen after a million instances.
    chains
        Models, trained and run side by side, whose probabilities are averaged; time and memory grow with it.
    n_jobs
        Threads for the chains, in training and in each micro-batch; ``None``: as many as there are chains, and cores.
        Results do not depend on it.
    pca
        Principal components of the training instances to project to: their number (a whole number), or the share of
        the variance that they hold (``0.99``). For high dimensions; ``None``: directions are chosen in training.
    seed
        All randomness flows from it: the same seed, input and flushes give the same bits, for the same processor type
        and library versions.
    categorical
        Names of features that are categories although their values are numbers; short for
        ``input=Input(categorical=...)``.
    input
        Reading of the instances (:class:`stream_osr.Input`).
    limits
        Bounds on memory and time (:class:`stream_osr.Limits`).
    model
        Options of the mixture model and its sampler (:class:`stream_osr.ModelOptions`).
    """

    categorical: Collection[FeatureName] | None = None
    input: Input | None = None
    limits: Limits | None = None
    model: ModelOptions | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Arguments of a group, by their plain names."""
            if name not in PLACES:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return {**plain(self), **archived(self)}[name]

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the constructor by name, as they were given."""
        given = {field.name: getattr(self, field.name) for field in fields(Arguments)}
        return {**given, "categorical": in_order(self.categorical)}


def regrouped(given: Arguments, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Turn changes of arguments, which may have plain names, into arguments of the constructor."""
    return grouped(**{**{name: getattr(given, name) for name in GROUPS}, **changes})


def plain(given: Arguments) -> dict[str, Any]:
    """Arguments by the names of :class:`Parameters`, as they were given."""
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
    """Arguments by the names that archives have, as they were given."""
    out = plain(given)
    checked = parameters(**out)
    out |= {"pca_components": checked.pca_components, "pca_variance": checked.pca_variance, **REPRODUCTION}
    out["broad"] = out.pop("background_component")
    del out["pca"]
    return out


def in_order(value: Any) -> Any:
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

"""Arguments of the recognizer: groups, plain names, and messages about unknown ones."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import wraps
from inspect import cleandoc, signature
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stream_osr import parameters
from stream_osr.errors import InvalidParameter
from stream_osr.printable_text import typed

T = TypeVar("T")

WITHOUT_END: Final = 1 << 62
"""A ``batch_size`` for callers that close each micro-batch themselves (``close_batch``)."""

SEE_ARGUMENTS: Final = "The parameters of :class:`stream_osr.config.Arguments`."
"""Text that :func:`documented` replaces by the parameters."""


GROUPS: Final[dict[str, type[parameters.Group]]] = {
    "input": parameters.Input,
    "limits": parameters.Limits,
    "model": parameters.ModelOptions,
}
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
class Arguments(parameters.CommonArguments):
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

    categorical: Collection[parameters.FeatureName] | None = None
    input: parameters.Input | None = None
    limits: parameters.Limits | None = None
    model: parameters.ModelOptions | None = None

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
        return {**given, "categorical": parameters.in_order(self.categorical)}


def regrouped(given: Arguments, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert changed arguments, which may have plain names, to arguments of the constructor."""
    return grouped(**{**{name: getattr(given, name) for name in GROUPS}, **changes})


def plain(given: Arguments) -> dict[str, Any]:
    """Return the given arguments by the names of :class:`Parameters`."""
    out = {field.name: getattr(given, field.name) for field in fields(parameters.CommonArguments)}
    for name, kind in GROUPS.items():
        group = getattr(given, name)
        if not isinstance(group, kind | None):
            raise InvalidParameter(f"{name} is {group!r}: give {kind.__name__}(...)")
        out |= vars(group or kind())
    if given.categorical is not None:
        if out["categorical"] is not None:
            raise InvalidParameter("categorical is given twice, beside input and in it: give one of them")
        out["categorical"] = parameters.in_order(given.categorical)
    return out


def archived(given: Arguments) -> dict[str, Any]:
    """Return the given arguments by the names that archives use."""
    out = plain(given)
    pca = parameters.parameters(**out).pca
    number, share = (pca, None) if isinstance(pca, int) else (None, pca)
    out |= {"pca_components": number, "pca_variance": share, **REPRODUCTION}
    out["broad"] = out.pop("background_component")
    del out["pca"]
    return out


def documented(cls: type[T]) -> type[T]:
    """Insert the parameters of :class:`Arguments` into the docstring of a class."""
    if cls.__doc__ and Arguments.__doc__:  # python -OO has none
        meaning = cleandoc(Arguments.__doc__).partition("----------\n")[2]
        cls.__doc__ = cleandoc(cls.__doc__).replace(SEE_ARGUMENTS, meaning)
    return cls

"""Parameters of the recognizer, checked once and in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stream_osr.errors import InvalidParameter
from stream_osr.limits import MOST_LABEL_BYTES, trouble_with
from stream_osr.showing import typed

Label = bool | int | str

Positive = Annotated[float, Field(gt=0)]
PositiveFinite = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]


class Parameters(BaseModel):
    """Arguments of :class:`stream_osr.OpenSetRecognizer`; what they mean is said there.

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

    batch_size: AtLeastOne = 256
    max_wait: PositiveFinite | None = None
    unknown: Label | None = None
    covariance: Literal["full", "diagonal", "tied"] = "full"
    pca_components: AtLeastOne | None = None
    pca_variance: Share | None = None
    nu: PositiveFinite | None = None
    scale: PositiveFinite | None = None
    beta: PositiveFinite | None = None
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.01
    exclusive: bool = True
    chains: AtLeastOne = 4
    ensemble: Literal["mixed", "exact"] = "mixed"
    broad: bool = True
    learn_odds: bool = True
    select: Literal["evidence", "validation"] = "evidence"
    training_sweeps: NotNegative = 25
    sweeps: NotNegative = 5
    window: NotNegative = 256
    half_life: Positive = 200.0
    decision_delay: NotNegative = 0
    min_probability: Annotated[float, Field(ge=0, le=1)] = 0.0
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
    on_missing: Literal["impute", "error", "skip"] = "impute"
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _fit_together(self) -> Parameters:
        trouble = trouble_with(self.unknown, MOST_LABEL_BYTES)
        if trouble:
            raise ValueError(f"unknown is {typed(self.unknown)}: {trouble}; give it a short name")
        if self.pca_components is not None and self.pca_variance is not None:
            raise ValueError("pca_components and pca_variance are both given: give one of them")
        if self.decision_delay > self.window:
            raise ValueError(
                f"decision_delay is {self.decision_delay} and window {self.window}: an instance is re-seated only "
                "while it is in the window; make the window as long as the delay"
            )
        if self.decision_delay and not self.sweeps:
            raise ValueError("decision_delay waits for re-seating sweeps, and sweeps is 0: set one of them otherwise")
        return self


def parameters(**values: object) -> Parameters:
    """Check the values of parameters; anything left out has its default.

    Raises
    ------
    InvalidParameter
        Naming the parameter, what was found and what was expected.
    """
    try:
        return Parameters.model_validate(_numbers(values))
    except ValidationError as error:
        errors = error.errors()
        first = errors[0]
        message = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:
            raise InvalidParameter(message) from None
        name = first["loc"][0]
        choices = [str(e["loc"][1]) for e in errors if len(e["loc"]) > 1 and e["loc"][0] == name]
        if choices:  # none of the types that it may have
            message = f"input should be of type {' or '.join(choices)}"
        raise InvalidParameter(f"{name} is {first['input']!r}: {message[:1].lower()}{message[1:]}") from None


def _numbers(values: Mapping[str, object]) -> dict[str, object]:
    """Take numpy's scalars for Python's: a parameter often comes out of a grid."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}

"""Change of the model of a stream: the emerging subclasses continue under the next model."""

from __future__ import annotations

from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidLabel, InvalidParameter


def check_carries(model: OpenSetRecognizer, earlier: OpenSetRecognizer) -> None:
    """Check that a model can continue the streams of an earlier one. Both recognizers stay as they are.

    Raises
    ------
    InvalidParameter
        If it cannot. The message has the reason.
    """
    following, ended = (OpenSetRecognizer.from_trained(each.trained, **each.arguments) for each in (model, earlier))
    try:
        following.carry_over(ended)
    except InvalidLabel as error:
        raise InvalidParameter(str(error)) from None

"""Why an instance was decided as it was, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_osr_connectors.page.live.held import number_of


def why(decision: Mapping[str, Any]) -> str:
    """Say why, from what the decision tells.

    Examples
    --------
    >>> told = {"label": "unknown", "probabilities": {"red": 0.01, "unknown": 0.99}, "p_unknown": 0.99}
    >>> why({**told, "subclass_id": 3, "nearest_class": "red", "distance": 12.0, "density_rank": 0.2})
    'It is unknown with probability 0.99: of subclass 3. The nearest known class is red, 12.0 standard deviations \
off; 20.0 % of the instances of its training are as unusual.'
    """
    label, near = str(decision.get("label")), str(decision.get("nearest_class"))
    names = list(decision.get("probabilities") or ())
    unknown = bool(names) and label == str(names[-1])
    p = number_of(decision.get("p_unknown" if unknown else "probability"))
    seat = decision.get("subclass_id")
    out = f"It is {'unknown' if unknown else label}" + ("" if p is None else f" with probability {p:.2f}")
    if unknown:
        out += ": of no subclass yet" if seat is None else f": of subclass {seat}"
    distance, rank = number_of(decision.get("distance")), number_of(decision.get("density_rank"))
    off = "" if distance is None else f", {distance:.1f} standard deviations off"
    if near == label:
        out += f". It lies{off.lstrip(',')}" if off else ""
    else:
        out += f". The nearest known class is {near}{off}"
    if rank is not None:
        share = "no instance" if rank < 0.0005 else f"{100 * rank:.1f} % of the instances"
        out += f"; {share} of its training {'is' if rank < 0.0005 else 'are'} as unusual"
    first = decision.get("first_label")
    if first is not None and str(first) != label:
        out += f". At first it was taken for {first}"
    return out + "."

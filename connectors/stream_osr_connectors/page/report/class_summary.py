"""Emerged subclasses, the discovery table (the paper's Tables 1 and 2), and accuracy against true labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from stream_osr.discovery.event_base import category_text
from stream_osr.discovery.explain import exemplars, explain
from stream_osr.discovery.lifecycle import EMERGES_WITH
from stream_osr.discovery.signal_table import EVENT_TABLE, GONE, OTHER_KIND, QUIET
from stream_osr.discovery.summaries import Summary
from stream_osr.evaluation.calibration import auroc, expected_calibration_error
from stream_osr.stream import Stream
from stream_osr.training.trained import TrainedModel
from stream_osr_connectors.page.formatting import subclass_name
from stream_osr_connectors.page.input_records import reading, real, whole
from stream_osr_connectors.page.report.decisions_table import DecisionsTable


class FeatureShift(NamedTuple):
    """Shift of a feature in standard deviations of the nearest known subclass, and its mean in original units."""

    feature: str
    shift: float
    mean: float


class EmergedSubclass(NamedTuple):
    """An emerged subclass.

    Attributes
    ----------
    id
        Its identity.
    size
        Number of instances at the latest event.
    first, last
        Positions of the first and the latest instance.
    nearest, distance
        Label of the nearest known class, and the distance in standard deviations of that class.
    shifts
        Shift of each feature, the largest first.
    exemplars
        Keys of some instances.
    truth
        True classes with their counts, the most frequent first. Empty without labels.
    values
        Description of the categories in words, the most distinctive first.
    refuted
        Known class to which the subclass belongs according to the reference check. Empty if it is new.
    settled
        Decision of a person about the subclass, in words, or empty.
    alive
        Whether the model still has the subclass.
    """

    id: int
    size: int
    first: int
    last: int
    nearest: str
    distance: float
    shifts: tuple[FeatureShift, ...]
    exemplars: tuple[str, ...]
    truth: tuple[tuple[str, int], ...] = ()
    values: tuple[str, ...] = ()
    refuted: str = ""
    settled: str = ""
    alive: bool = True

    @property
    def settlement(self) -> str:
        """Reason why the subclass needs no check, or empty."""
        return f"not new: {self.refuted}" if self.refuted else self.settled or ("" if self.alive else GONE)


def from_events(events: Iterable[Mapping[str, Any]]) -> dict[int, EmergedSubclass]:
    """Read the latest state of each subclass from events (as `stream_osr.Event.as_dict` returns them).

    Raises
    ------
    ConnectorError
        If one of them is no event.
    """
    out: dict[int, EmergedSubclass] = {}
    for number, event in enumerate(events):
        with reading(event, "event", number):
            kind = EVENT_TABLE.get(event["type"], OTHER_KIND)
            if "explanation" in event and kind.status:
                settled = f"{kind.status}: {event['label']}" if "label" in event else kind.status
                out[event["subclass_id"]] = EmergedSubclass(
                    id=whole(event["subclass_id"], "subclass_id"),
                    size=whole(event["size"], "size"),
                    first=whole(event["first_seen"]["seq"], "first_seen"),
                    last=whole(event["last_seen"]["seq"], "last_seen"),
                    **_described(event["explanation"], event["exemplars"]),
                    settled=settled if kind.settled else "",
                )
            elif kind.name == "NamingUndone":
                out |= {key: out[key]._replace(settled="") for key in event["subclass_ids"] if key in out}
            elif (kind.status == GONE or kind.name == "SubclassSplit") and (
                before := out.get(key := event["subclass_id"])
            ):
                if kind.name == "SubclassSplit":
                    table = _described(event["explanation"], event["exemplars"])
                    new, sizes = whole(event["new_id"], "new_id"), [whole(size, "sizes") for size in event["sizes"]]
                    out[key] = before._replace(size=sizes[0])
                    out[new] = before._replace(id=new, size=sizes[1], **table)
                elif kind.name == "SubclassRefuted":
                    out[key] = before._replace(size=whole(event["size"], "size"), refuted=str(event["label"]))
                else:
                    out[key] = before._replace(alive=False)
    return out


def counts_of_sums(events: Iterable[Mapping[str, Any]]) -> tuple[Counter[str], set[int]]:
    """Count the events that only ``EventsSummed`` reports, by type, and find the subclasses that they announce.

    Raises
    ------
    ConnectorError
        If such an event cannot be read.
    """
    counts: Counter[str] = Counter()
    emerged: set[int] = set()
    for number, event in enumerate(events):
        if event.get("type") == "EventsSummed":
            with reading(event, "event", number):
                counts.update({str(kind): whole(count, "counts") for kind, count in event["counts"].items()})
                emerged.update(whole(key, "emerged") for key in event["emerged"])
    return counts, emerged


def emerged_slots(stream: Stream) -> dict[int, int]:
    """Return the slot in the sampler's tables of each announced subclass, by id."""
    announced = set(stream.life.ids[stream.life.emerged].tolist())
    return {int(key): slot for slot, key in enumerate(stream.state.ids) if int(key) in announced}


def from_model(trained: TrainedModel, stream: Stream) -> dict[int, EmergedSubclass]:
    """Describe the current emerged subclasses of a model."""
    chain, dishes = stream.chains[0], stream.state.dishes
    told_of = set(stream.life.ids[stream.life.announced_unmuted].tolist())
    out = {}
    for key, slot in emerged_slots(stream).items():
        life = stream.life.subclasses[key]
        among = chain.known, chain.frozen, trained.whitening, trained.names, stream.labels, trained.categories
        why = explain(dishes, slot, *among)
        typical = () if life.kept is None else exemplars(dishes, slot, life.kept, chain.known)
        table = _described(why._asdict(), typical)
        settled, places = "" if key in told_of else QUIET, (life.first.seq, life.last.seq)
        out[key] = EmergedSubclass(key, int(dishes.size[slot]), *places, **table, settled=settled)
    return out


def from_decisions(table: DecisionsTable) -> dict[int, EmergedSubclass]:
    """Describe the subclasses with enough instances for an announcement, from decisions alone."""
    out = {}
    for key in np.unique(table.subclass[table.unknown & (table.subclass >= 0)]).tolist():
        seq = table.seq[table.unknown & (table.subclass == key)]
        if len(seq) >= EMERGES_WITH:
            out[key] = EmergedSubclass(key, len(seq), int(seq.min()), int(seq.max()), "", math.nan, (), ())
    return out


def with_truth(emerged: Mapping[int, EmergedSubclass], table: DecisionsTable) -> dict[int, EmergedSubclass]:
    """Add the true classes of the instances in each subclass."""
    out = {}
    for key, subclass in emerged.items():
        codes = table.truth[table.judged & table.unknown & (table.subclass == key)]
        counts = Counter({table.names[code]: int((codes == code).sum()) for code in np.unique(codes)})
        out[key] = subclass._replace(truth=tuple(counts.most_common()))
    return out


def _described(why: Mapping[str, Any], exemplars: Iterable[Any]) -> dict[str, Any]:
    """Read the attributes of :class:`EmergedSubclass` that an explanation and typical keys contain."""
    mean = why["mean"]
    shifts = [
        FeatureShift(str(name), _number_of(s, "shift"), _number_of(mean[name], "mean"))
        for name, s in why["shift"].items()
    ]
    shifts.sort(key=lambda s: -abs(s.shift) if math.isfinite(s.shift) else 0.0)
    return {
        "nearest": str(why["nearest_class"]),
        "distance": _number_of(why["distance"], "distance"),
        "shifts": tuple(shifts),
        "exemplars": tuple(str(key) for key in exemplars if key is not None),
        "values": tuple(category_text(name, its) for name, its in why.get("values", {}).items()),
    }


def _number_of(value: Any, name: str) -> float:
    return math.nan if value is None or value != value else real(value, name)


class GroupRow(NamedTuple):
    """A row of the discovery table: a known class, or a part of the stream.

    Attributes
    ----------
    name
        Label of the class, or name of the part of the stream.
    new
        Whether the row is the new part of the stream.
    size
        Instances.
    share
        Share of the stream, ``None`` for a row of training data.
    subclasses
        Name and share of each subclass, the largest first. Shares may not sum to 1, because they exclude dropped
        subclasses and instances in none.
    """

    name: str
    new: bool
    size: int
    share: float | None
    subclasses: tuple[tuple[str, float], ...]


def discovery_table(
    summary: Summary | None, table: DecisionsTable, emerged: Mapping[int, EmergedSubclass]
) -> tuple[GroupRow, ...]:
    """Assemble the discovery table.

    Parameters
    ----------
    summary
        Summary of the model, if any. It supplies the known classes, and the stream if there are no decisions.
    table
        Decisions, possibly none.
    emerged
        Emerged subclasses.
    """
    groups = []
    for group in () if summary is None else summary.known:
        shares = tuple((subclass_name(key), share) for key, share in group.subclasses)
        groups.append(GroupRow(str(group.name), False, group.size, None, shares))
    if len(table):
        n, n_new = len(table), int(table.unknown.sum())
        sizes_of = np.bincount(table.label[~table.unknown], minlength=len(table.names))
        within = dict(zip(table.names, sizes_of.tolist(), strict=True))
        sizes = {key: int((table.unknown & (table.subclass == key)).sum()) for key in emerged}
    elif summary is not None and summary.stream_size:
        n = summary.stream_size
        n_new, within = round(n * summary.unknown_share), {}
        sizes = {key: size for key, size, announced in summary.emerging if announced}
    else:
        return tuple(groups)
    groups.append(GroupRow("stream, known", False, n - n_new, (n - n_new) / n, _shares(within, n - n_new)))
    new = {subclass_name(key): size for key, size in sizes.items()}
    groups.append(GroupRow("stream, new", True, n_new, n_new / n, _shares(new, n_new)))
    return tuple(groups)


def _shares(sizes: Mapping[str, int], whole: int) -> tuple[tuple[str, float], ...]:
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    # a subclass of the model may hold instances that were decided before they moved to it
    whole = max(whole, sum(sizes.values()), 1)
    return tuple((name, size / whole) for name, size in ordered if size)


class TruthComparison(NamedTuple):
    """Decisions against true labels.

    Attributes
    ----------
    n
        Decisions with a true label.
    columns
        Decided labels, the unknown label last.
    rows
        True label, whether it is of no known class, and the count of each decided label.
    known_right
        Share of the instances of known classes that got the right label.
    unknown_found
        Share of the instances of unknown classes that were called unknown.
    auroc
        Area under the ROC curve of ``p_unknown``.
    calibration_error
        Expected calibration error of ``p_unknown``.
    """

    n: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, bool, tuple[int, ...]], ...]
    known_right: float
    unknown_found: float
    auroc: float
    calibration_error: float


def compare_with_truth(table: DecisionsTable) -> TruthComparison | None:
    """Compare decisions with true labels, if any."""
    judged = table.judged
    if not judged.any():
        return None
    label, truth, new = table.label[judged], table.truth[judged], table.truly_unknown[judged]
    unknown, p = table.unknown[judged], table.p_unknown[judged]
    code = {name: number for number, name in enumerate(table.names)}
    called_unknown = np.unique(table.label[table.unknown])
    columns = (*table.known, table.names[int(called_unknown[0])] if len(called_unknown) else "unknown")
    wanted = [code.get(name, -2) for name in columns]
    rows = []
    for was_new in (False, True):
        names = {table.names[c] for c in np.unique(truth[new == was_new])}
        for name in [name for name in table.known if name in names] + sorted(names - set(table.known)):
            here = (truth == code[name]) & (new == was_new)
            rows.append((name, was_new, tuple(int((here & (label == c)).sum()) for c in wanted)))
    return TruthComparison(
        n=int(judged.sum()),
        columns=columns,
        rows=tuple(rows),
        known_right=_mean((label == truth)[~new]),
        unknown_found=_mean(unknown[new]),
        auroc=auroc(p, new),
        calibration_error=expected_calibration_error(p, new),
    )


def _mean(right: np.ndarray) -> float:
    return float(right.mean()) if len(right) else math.nan

"""The stream's part of a recognizer, as a value from batch to batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Annotated, Any, NamedTuple

import numpy as np

from stream_osr.decision import Decision
from stream_osr.discovery.data_quality import ColumnStates
from stream_osr.discovery.drift import Drift, UnknownRate, start_drift
from stream_osr.discovery.grouping import SubclassDistances, measure_subclasses
from stream_osr.discovery.histories import Lifecycle
from stream_osr.discovery.lifecycle import announced_ids
from stream_osr.discovery.new_classes import EmergingSubclasses, NewClasses, find_new_classes
from stream_osr.discovery.summaries import DecisionCounts, Signals
from stream_osr.model.known import Known
from stream_osr.model.prior import width_of
from stream_osr.model.restaurants import StreamState
from stream_osr.parameters import Label, Parameters
from stream_osr.stream.announcements import EventBudget
from stream_osr.stream.arrival_order import Arrival, begin
from stream_osr.stream.chain import PRIOR_SEATS, Chain, open_chains
from stream_osr.stream.frame import Frame
from stream_osr.stream.recent_instances import RecentInstances, from_batches
from stream_osr.stream.undo_log import Action
from stream_osr.support import rules
from stream_osr.support.parallel import one_thread
from stream_osr.training.trained import TrainedModel
from stream_osr.trust.prior_odds import PriorOdds, start_odds
from stream_osr.trust.recall import ReferenceResults
from stream_osr.trust.references import References

UNGROUPED = 0.05
"""Share of the remembered instances above which unknown instances in no emerged subclass are reported."""


class BufferedInstance(NamedTuple):
    """An unlabelled instance that waits for its batch: whitened row of shape (d,), time, key."""

    row: Annotated[np.ndarray, rules.array("f", "p", low=-1e100, high=1e100, allowed=("nan",))]
    t: rules.AnyNumber | None
    key: Any


class MenuSize(NamedTuple):
    """Numbers of subclasses on the leader's menu, and its concentrations.

    Attributes
    ----------
    known
        Subclasses of the known classes.
    emerging
        Emerging subclasses.
    active
        Emerging subclasses at the stage ``active`` (:class:`StageCounts`).
    alpha0
        Concentration of the stream's restaurant.
    gamma
        Concentration of the menu.
    references
        Reference instances for the reference check. 0: there is no check.
    """

    known: int
    emerging: int
    active: int
    alpha0: float
    gamma: float
    references: int = 0


class StageCounts(NamedTuple):
    """Numbers of emerging subclasses by stage. Each is counted once.

    Attributes
    ----------
    candidate
        Not announced yet, because they lack support.
    active
        Announced, with recent instances.
    dormant
        Announced, without instances for so long that their seats have faded. They may recur.
    muted
        A person has muted them: no further events.
    refuted
        They repeat a known class and are not new.
    """

    candidate: int
    active: int
    dormant: int
    muted: int
    refuted: int


class DelayedDecisions(NamedTuple):
    """Delayed decisions, while later batches re-seat their instances.

    Attributes
    ----------
    decisions
        The initial decisions, in order of arrival.
    probabilities
        Probabilities of each known class and, last, unknown after the latest batch, before the shift of the odds,
        (n, J + 1).
    subclass
        Emerging subclass of each instance, -1 if none, shape (n,).
    responsible
        Most responsible subclass (its position) of each known class, -1 if not known, shape (n, J).
    """

    decisions: Annotated[tuple[Decision, ...], rules.length("n")]
    probabilities: Annotated[np.ndarray, rules.array("f", "n", "J+1", low=0.0, high=1.0)]
    subclass: Annotated[np.ndarray, rules.array("i", "n", low=-1)]
    responsible: Annotated[np.ndarray, rules.array("i", "n", "J", low=-1)]


class ClassShift(NamedTuple):
    """Movement of known classes with their instances (:mod:`stream_osr.stream.class_shift`).

    Attributes
    ----------
    shift
        Total translation of each class, in whitened coordinates, shape (J, d).
    weight
        Faded number of instances that locate each class, shape (J,).
    sums
        Faded sums of their offsets from the positions that the class expects, shape (J, d).
    saved
        Counted instances since the last movement, shape (J,).
    """

    shift: Annotated[np.ndarray, rules.array("f", "J", "d", low=-1e12, high=1e12)]
    weight: Annotated[np.ndarray, rules.array("f", "J", low=0.0, high=1e12)]
    sums: Annotated[np.ndarray, rules.array("f", "J", "d", low=-1e12, high=1e12)]
    saved: Annotated[np.ndarray, rules.array("f", "J", low=0.0, high=100.0)]


class Copy(NamedTuple):
    """The first of several equal rows among the latest.

    Attributes
    ----------
    row
        Fingerprint of the row.
    raw
        Probabilities of each known class and, last, unknown, before the shift of the odds, shape (J + 1,).
    decision
        The initial decision.
    repeats
        Whether more copies have come than usual.
    """

    row: rules.Count
    raw: Annotated[np.ndarray, rules.array("f", "*", low=0.0, high=1.0)]
    decision: Decision
    repeats: bool = False


class ForeignValue(NamedTuple):
    """A foreign value of the latest instances that differ in one column (:mod:`stream_osr.stream.odd_columns`).

    Attributes
    ----------
    column, value
        Number of the raw column, and the value.
    size, certain
        Instances with the value, and those whose class is certain without it. Old ones fade.
    since, latest
        Positions of the first and the last instance.
    reported
        Whether the value has been reported as an error code.
    """

    column: rules.Count
    value: float
    size: rules.NonNegative
    certain: rules.NonNegative
    since: rules.Count
    latest: rules.Count
    reported: bool = False


class DataFaults(NamedTuple):
    """Faults of the data (:mod:`stream_osr.stream.faults`).

    Attributes
    ----------
    columns
        State of the raw columns.
    rows
        Fingerprints of the latest rows, shape (w,).
    copies
        First copies of the latest rows that came more than once.
    foreign
        Foreign values of single columns, in order of their latest instance.
    """

    columns: ColumnStates
    rows: Annotated[np.ndarray, rules.array("i", "*", low=0)] = np.zeros(0, np.int64)
    copies: tuple[Copy, ...] = ()
    foreign: tuple[ForeignValue, ...] = ()


class Stream(NamedTuple):
    """The stream's part of a recognizer.

    Attributes
    ----------
    labels
        Labels of the known classes: the trained ones, then those that late labels opened.
    chains
        The ensemble. Ids, events and explanations come from the first chain, the leader.
    odds
        The learnt shift of the odds of unknown.
    recent
        Latest decided batches, ``label_horizon`` instances or a little more.
    waiting
        Decisions delayed by ``decision_delay``.
    decided
        Instances decided so far as each known class and, last, as unknown.
    drift
        Drift detectors of the known classes.
    signals
        Counts of events and outliers. Data quality is counted before the stream.
    undo_log
        Commands that can be undone, in order (:mod:`stream_osr.stream.undo_log`).
    references
        This stream's own reference instances once classes have been opened. ``None``: those of the trained model.
    called
        Recent labels of the references. ``None`` before the first reference check.
    class_shift
        Class shifts of the known classes. ``None`` if they do not move, or not yet.
    unknown_rate
        Unknown share of the stream. ``None`` before the first decision.
    event_budget
        Recently reported events, and events that wait for a summary.
    arrival
        Locations of the known classes in order of arrival. ``None`` if the order carries no information.
    faults
        Failing columns and repeated rows. ``None`` before the first instance, or if training has no reference values.
    frame
        Offset of all known classes from their training place. ``None`` before the first batch, or if it cannot be
        found.
    """

    labels: Annotated[tuple[Label, ...], rules.length("J"), rules.distinct]
    chains: Annotated[tuple[Annotated[Chain, rules.sizes("J d w")], ...], rules.length("R"), rules.some]
    odds: PriorOdds
    recent: RecentInstances
    waiting: Annotated[DelayedDecisions, rules.sizes("J")]
    decided: Annotated[tuple[rules.Count, ...], rules.length("J+1")]
    drift: Annotated[Drift, rules.sizes(e="d+2")]
    signals: Signals
    undo_log: tuple[Action, ...] = ()
    references: Annotated[References, rules.sizes("w J R")] | None = None
    called: ReferenceResults | None = None
    class_shift: Annotated[ClassShift, rules.sizes("d")] | None = None
    unknown_rate: UnknownRate | None = None
    event_budget: EventBudget = EventBudget()
    arrival: Annotated[Arrival, rules.sizes("d")] | None = None
    faults: DataFaults | None = None
    frame: Frame | None = None

    @property
    def known(self) -> Known:
        """Known classes of the leader."""
        return self.chains[0].known

    @property
    def state(self) -> StreamState:
        """Sampler state of the leader."""
        return self.chains[0].state

    def led_by(self, leader: Chain) -> Stream:
        """Continue with another leader."""
        return self._replace(chains=(leader, *self.chains[1:]))

    @property
    def menu(self) -> MenuSize:
        """Numbers of subclasses, and concentrations."""
        alpha, gamma = (float(its[0]) for its in (self.state.franchise.alpha, self.state.franchise.gamma))
        return MenuSize(len(self.known.ids), len(self.state.ids), self.stages.active, alpha, gamma)

    @property
    def counts(self) -> DecisionCounts:
        """Numbers of decided instances."""
        return DecisionCounts(sum(self.decided), self.decided[-1])

    @property
    def stages(self) -> StageCounts:
        """Numbers of emerging subclasses of the leader by stage, including dormant ones."""
        counts = Counter(self.stage.values())
        return StageCounts(*(counts[name] for name in StageCounts._fields))

    @property
    def stage(self) -> dict[int, str]:
        """Stage (:class:`StageCounts`) of each emerging subclass of the leader, by id."""
        life = self.life
        by_rank = {
            "muted": life.muted,
            "refuted": life.owned,
            "dormant": life.emerged & life.dormant,
            "active": life.emerged,
        }
        stages = np.select([*by_rank.values()], [*by_rank], "candidate")
        return dict(zip(life.ids.tolist(), stages.tolist(), strict=True))

    @property
    def life(self) -> Lifecycle:
        """Histories of the emerging subclasses of the leader."""
        return self.chains[0].life


def widen(waiting: DelayedDecisions, n_classes: int) -> DelayedDecisions:
    """Make room for opened classes."""
    old = waiting.responsible.shape[1]
    return waiting._replace(
        probabilities=np.insert(waiting.probabilities, [old] * (n_classes - old), 0.0, axis=1),
        responsible=np.insert(waiting.responsible, [old] * (n_classes - old), -1, axis=1),
    )


def open_stream(trained: TrainedModel, parameters: Parameters) -> Stream:
    """Open a stream on a trained model, with a few seats of the known classes in their training shares.

    Without seats the first instances would be new with the odds of gamma against the trained tables. For a single
    class of few subclasses these odds are 100 to 3, which in low dimensions no density compensates.
    """
    n_classes = len(trained.labels)
    return Stream(
        labels=trained.labels,
        chains=open_chains(trained, parameters.chains, PRIOR_SEATS),
        odds=start_odds(parameters.learn_odds, trained.references is not None),
        recent=from_batches((), parameters.chains, width_of(trained.known.prior)),
        waiting=DelayedDecisions(
            (), np.zeros((0, n_classes + 1)), np.zeros(0, np.int64), np.zeros((0, n_classes), np.int64)
        ),
        decided=(0,) * (n_classes + 1),
        drift=start_drift(n_classes, trained.known.prior.n_features),
        signals=Signals(),
        arrival=None if trained.order is None else begin(trained.order),
    )


def expect_known(trained: TrainedModel, parameters: Parameters) -> Stream:
    """Open a stream as if it had run on known instances for long, in the shares of the training set.

    Immediate predictions during training assume this: labelled instances indicate that known classes arrive. A
    regular stream begins with few seats.
    """
    stream = open_stream(trained, parameters.model_copy(update={"chains": 0, "learn_odds": False}))
    lasting = min(parameters.half_life / math.log(2.0), 1e6)
    chains = open_chains(trained, len(trained.draws), lasting)
    return stream._replace(chains=chains, recent=from_batches((), len(chains), width_of(trained.known.prior)))


def new_classes(
    stream: Stream, before: Sequence[SubclassDistances] | None = None
) -> tuple[NewClasses, tuple[SubclassDistances, ...]]:
    """Find candidate new classes from all chains. The stream does not change.

    Parameters
    ----------
    stream
        The stream so far.
    before
        Distances from an earlier call. They save time and do not affect the result.

    Returns
    -------
    Candidates and their estimated number, and the distances in each chain. Nothing is measured before a subclass has
    emerged.
    """
    first = stream.chains[0].life
    ungrouped = _count_ungrouped(stream)
    if not len(announced_ids(first)):
        return NewClasses((), 0, first.delta, ungrouped=ungrouped), tuple(before or ())
    with one_thread():
        chains, distances = stream.chains, before or repeat(None)
        measured = tuple(measure_subclasses(c.known, c.state, old) for c, old in zip(chains, distances, strict=False))
        emerging = [EmergingSubclasses(c.known, c.frozen, c.state, c.life) for c in chains]
        found = find_new_classes(emerging, measured, stream.recent.subclass, stream.labels)
        return replace(found, ungrouped=ungrouped), measured


def _count_ungrouped(stream: Stream) -> int:
    """Count the remembered unknown instances in no emerged subclass, 0 if they are few."""
    life, recent = stream.life, stream.recent
    unknown = (recent.p_unknown > 0.5) & ~np.isin(recent.subclass[0], life.ids[life.emerged])
    count = int(unknown.sum())
    return count if count > UNGROUPED * len(unknown) else 0

"""What tests use of the inside of ``stream_osr.discovery``."""

from __future__ import annotations

from stream_osr.discovery import events
from stream_osr.discovery.data_quality import (
    WINDOW,
    ColumnStates,
    UsualColumns,
    follow_columns,
    start_columns,
    usual_columns,
    usual_copies,
)
from stream_osr.discovery.drift import (
    BLOCK,
    DENSER,
    LATELY,
    LEAST_PACE,
    MOST_OWED,
    PRIOR_BLOCKS,
    SHARES_HALF_LIFE,
    SPARSER,
    TOLERANCE,
    Alarm,
    Drift,
    follow,
    start_drift,
    threshold_for,
)
from stream_osr.discovery.events import Event, Explanation, Moment, Movement, SubclassEvent
from stream_osr.discovery.exemplars import choose
from stream_osr.discovery.explain import exemplars
from stream_osr.discovery.histories import (
    RECENT,
    TREND_HALF_LIFE,
    USUAL_HALF_LIFE,
    Coming,
    Lifecycle,
    MemberColumns,
    SubclassHistory,
    SubclassMember,
    lifecycle,
    moments_of,
    places_of,
    trend,
    unite,
    with_lives,
    without_lives,
)
from stream_osr.discovery.lifecycle import (
    BURST,
    EMERGES_ABOVE,
    EMERGES_WITH,
    EMERGES_WITHIN,
    KEPT_WITH,
    WAKES_WITHIN,
    LifecycleChanges,
    OnMenu,
    best_supported,
    comes_as_usual,
    estimate_new_classes,
    forget,
    observe,
    worth_telling,
)
from stream_osr.discovery.new_classes import (
    LEAST_SIZE,
    NEARLY_BEST,
    SHOWN,
    ClassCounts,
    Distances,
    Estimate,
    NewClasses,
    agree,
    agreement,
    compare,
    count_classes,
    estimate_number,
    gather,
    learn_threshold,
    measure,
    mutual_information,
)
from stream_osr.discovery.reconcile import LinkChanges as ReconcileChanges
from stream_osr.discovery.reconcile import Local, LocalSummary, ReconciledSubclasses, reconcile, restore
from stream_osr.discovery.reservoir import LEAST_ROOM, Reservoir, exchange, keep, objects, offer, priority, without
from stream_osr.discovery.summaries import ALL_MET, MOST_IGNORED, SchemaMismatch, Signals

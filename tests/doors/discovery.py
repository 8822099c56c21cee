"""What tests use of the inside of ``stream_osr.discovery``."""

from __future__ import annotations

from stream_osr.discovery import data_quality, drift, events, histories, new_classes
from stream_osr.discovery import lifecycle as rules
from stream_osr.discovery.events import Event, Explanation, Moment, Movement, SubclassEvent
from stream_osr.discovery.exemplars import choose
from stream_osr.discovery.explain import exemplars
from stream_osr.discovery.histories import Lifecycle, SubclassHistory, SubclassMember, lifecycle
from stream_osr.discovery.lifecycle import LifecycleChanges, estimate_new_classes
from stream_osr.discovery.new_classes import SHOWN, Estimate, NewClasses
from stream_osr.discovery.reconcile import LinkChanges as ReconcileChanges
from stream_osr.discovery.reconcile import Local, LocalSummary, ReconciledSubclasses, reconcile, restore
from stream_osr.discovery.reservoir import LEAST_ROOM, Reservoir, exchange, keep, objects, offer, priority, without
from stream_osr.discovery.signal_table import COUNTED, EVENT_TABLE
from stream_osr.discovery.summaries import ALL_MET, MOST_IGNORED, DiscoveryRow, SchemaMismatch, Signals

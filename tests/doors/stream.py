"""Names inside `stream_osr.stream` that tests reach for: they import them from here, and from nowhere else."""

from stream_osr.stream import announcements, batch, recognizer_state
from stream_osr.stream.announcements import BUDGETS, Telling, sum_up, tell_within_budgets
from stream_osr.stream.arrival_order import HALF_LIFE, MANY
from stream_osr.stream.batch import BatchOutput, close_batch
from stream_osr.stream.chain import Chain, Followed, Guard, IdentityChanges, Parted, follow_identities
from stream_osr.stream.class_shift import (
    PACE,
    PRIOR_WEIGHT,
    STEP,
    Ways,
    _weigh,
    class_shifts,
    measure_ways,
    without_class,
)
from stream_osr.stream.discovery_table import Line
from stream_osr.stream.hidden_classes import ASKED
from stream_osr.stream.late_labels import Evidence, learn_evidence
from stream_osr.stream.lifecycle import _join_same
from stream_osr.stream.monitoring import dependence, follow_dependence
from stream_osr.stream.naming import counterparts
from stream_osr.stream.predictions import PredictiveCache
from stream_osr.stream.recent_instances import (
    Decided,
    RecentInstances,
    as_batches,
    from_batches,
    recall,
    relabel,
    remember,
    remembered,
    reseat,
    sampled,
    unshared,
)
from stream_osr.stream.reference_check import (
    DEPENDENT,
    EXPECTED,
    LEAST_SUPPORT,
    MOSTLY_NEW,
    NOBODY,
    REMEMBERED,
    TYPICAL,
    _take_in,
    fit_guard,
    model_of,
    mostly_new,
    owners_of,
    recounted,
    start_guard,
    without_openings,
)
from stream_osr.stream.seating import Judged
from stream_osr.stream.state import Arrived, Following, Stream, open_stream
from stream_osr.stream.summaries import as_sums, from_sums, to_say

__all__ = [
    "ASKED",
    "BUDGETS",
    "DEPENDENT",
    "EXPECTED",
    "HALF_LIFE",
    "LEAST_SUPPORT",
    "MANY",
    "MOSTLY_NEW",
    "NOBODY",
    "PACE",
    "PRIOR_WEIGHT",
    "REMEMBERED",
    "STEP",
    "TYPICAL",
    "Arrived",
    "BatchOutput",
    "Chain",
    "Decided",
    "Evidence",
    "Followed",
    "Following",
    "Guard",
    "IdentityChanges",
    "Judged",
    "Line",
    "Parted",
    "PredictiveCache",
    "RecentInstances",
    "Stream",
    "Telling",
    "Ways",
    "_join_same",
    "_take_in",
    "_weigh",
    "announcements",
    "as_batches",
    "as_sums",
    "batch",
    "class_shifts",
    "close_batch",
    "counterparts",
    "dependence",
    "fit_guard",
    "follow_dependence",
    "follow_identities",
    "from_batches",
    "from_sums",
    "learn_evidence",
    "measure_ways",
    "model_of",
    "mostly_new",
    "open_stream",
    "owners_of",
    "recall",
    "recognizer_state",
    "recounted",
    "relabel",
    "remember",
    "remembered",
    "reseat",
    "sampled",
    "start_guard",
    "sum_up",
    "tell_within_budgets",
    "to_say",
    "unshared",
    "without_class",
    "without_openings",
]

"""Names inside `stream_osr.stream` that tests reach for: they import them from here, and from nowhere else."""

from stream_osr.stream import announcements, batch, class_shift, recognizer_state, reference_check
from stream_osr.stream.announcements import BUDGETS, EventBudget, sum_up, within_budgets
from stream_osr.stream.batch import BatchOutput, close_batch
from stream_osr.stream.chain import (
    Chain,
    IdentityChanges,
    LifecycleUpdate,
    ReferenceCheck,
    SplitOff,
    follow_identities,
)
from stream_osr.stream.class_shift import _weigh, class_shifts
from stream_osr.stream.discovery_table import SubclassRow
from stream_osr.stream.late_labels import Evidence, learn_evidence
from stream_osr.stream.lifecycle import _join_same
from stream_osr.stream.monitoring import dependence, follow_dependence
from stream_osr.stream.naming import counterparts
from stream_osr.stream.predictions import PredictiveCache
from stream_osr.stream.recent_instances import (
    DecidedBatch,
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
from stream_osr.stream.reference_check import DEPENDENT, TYPICAL, recounted
from stream_osr.stream.seating import BatchPosterior
from stream_osr.stream.state import BufferedInstance, ClassShift, Stream, open_stream
from stream_osr.stream.summaries import SubclassSums, as_sums, from_sums, to_say

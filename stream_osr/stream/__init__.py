"""A recognizer's stream: an ensemble of chains that turns micro-batches of rows into decisions and events.

All state is a value: :func:`close_batch` takes a :class:`Stream` and returns the next one. The first chain is the
leader: its identities, histories and names are reported. The other chains contribute probabilities and seats.
"""

from stream_osr.stream.batch import close_batch
from stream_osr.stream.monitoring import rank_among, recall_among
from stream_osr.stream.state import BufferedInstance, MenuSize, StageCounts, Stream, new_classes, open_stream

__all__ = [
    "BufferedInstance",
    "MenuSize",
    "StageCounts",
    "Stream",
    "close_batch",
    "new_classes",
    "open_stream",
    "rank_among",
    "recall_among",
]

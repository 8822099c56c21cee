"""A recognizer's stream: the chains that are averaged, a micro-batch from rows to decisions and events.

Everything is a value: :func:`close_batch` takes a :class:`Stream` and returns the next one. The first chain is the
leader, whose identities, lives and names are reported; the others give probabilities and seats.
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

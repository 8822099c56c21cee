"""Segments of the journal: files with consecutive instances. Old segments are deleted as a whole."""

from __future__ import annotations

import logging
import math
import os
import re
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from stream_osr.errors import ConnectorError
from stream_osr.support.atomic import flush_folder, private

from ..files.open_file import why

logger = logging.getLogger("stream_osr")


class JournalSegment(NamedTuple):
    """A segment: number of the first instance, and file."""

    first: int
    path: Path


class JournalSegments:
    """The segments of a journal in order. The last one is written.

    The first segment is ``journal.jsonl``. A segment that begins with instance 501 is ``journal-501.jsonl``.

    Parameters
    ----------
    path
        The file of the first segment, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._changing = path, Lock()
        form = re.compile(rf"{re.escape(path.stem)}-([1-9][0-9]{{0,17}}){re.escape(path.suffix)}")
        found = [(form.fullmatch(each.name), each) for each in path.parent.iterdir()]
        later = [JournalSegment(int(match[1]), each) for match, each in found if match is not None]
        first = [JournalSegment(1, path)] if path.exists() or not later else []
        self._all = (*first, *sorted(later))

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, at: int) -> JournalSegment:
        return self._all[at]

    def of(self, n: int) -> JournalSegment:
        """Return the segment that instance ``n`` is in, or will be in. Before the first segment: the first one."""
        found = self._all
        return found[max(0, bisect_right(found, n, key=lambda each: each.first) - 1)]

    def after(self, segment: JournalSegment) -> float:
        """Return the number of the first instance after a segment, or infinity."""
        return next((each.first for each in self._all if each.first > segment.first), math.inf)

    def add(self, first: int) -> int:
        """Create an empty segment at the end, and return its open file.

        Raises
        ------
        OSError
            If the file cannot be created. Nothing has then changed.
        """
        path = self._path.with_stem(f"{self._path.stem}-{first}")
        file = private(os.fspath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC)
        flush_folder(path.parent)
        with self._changing:
            self._all = (*self._all, JournalSegment(first, path))
        return file

    def drop(self, before: int) -> None:
        """Delete the segments with only instances before a number, the oldest first, except the last segment."""
        while len(self) > 1 and self[1].first <= before:
            try:
                self[0].path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("cannot delete %s: %s. The next checkpoint tries again", self[0].path, why(error))
                return
            flush_folder(self._path.parent)  # otherwise a power failure may restore this segment and not the next one
            with self._changing:
                self._all = self._all[1:]

    def size(self) -> int:
        """Return the size of all segments in bytes."""
        total = 0
        for each in self._all:
            with suppress(FileNotFoundError):
                total += each.path.stat().st_size
        return total

    def gap_after(self, segment: JournalSegment, last: int) -> ConnectorError:
        """Describe segments that are not consecutive. The last readable instance of a segment is ``last``."""
        return ConnectorError(
            f"{segment.path} ends with instance {last}, and the next file of the journal does not begin with "
            f"{last + 1}. Restore the files of the journal"
        )

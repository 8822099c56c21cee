"""Archives: what is saved outlives the code, and what is loaded has been checked (``docs/archives.md``)."""

from stream_osr.archive.checking import check_content
from stream_osr.archive.contents import check_recognizer
from stream_osr.archive.reading import load_trained, read_archive
from stream_osr.archive.records import VERSION
from stream_osr.archive.writing import FORMAT, save_trained, write_archive

__all__ = [
    "FORMAT",
    "VERSION",
    "check_content",
    "check_recognizer",
    "load_trained",
    "read_archive",
    "save_trained",
    "write_archive",
]

"""Archives: saved models outlive the code, and loaded models have been checked (``docs/archives.md``)."""

from stream_osr.archive.checks import check_content, check_recognizer
from stream_osr.archive.files import FORMAT, load_trained, read_archive, save_trained, write_archive
from stream_osr.archive.records import VERSION

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

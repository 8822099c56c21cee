"""What :mod:`stream_osr.archive` was called; this name goes with the next release."""

from stream_osr.archive import FORMAT, VERSION, load_trained, read_archive, save_trained, write_archive

__all__ = ["FORMAT", "VERSION", "load_trained", "read_archive", "save_trained", "write_archive"]

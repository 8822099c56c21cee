"""``python -m stream_osr`` is the command line."""

from stream_osr.cli import main

main()

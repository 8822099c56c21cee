"""``python -m stream_osr.cli`` is the command line."""

from stream_osr.cli import main

main()

"""``python -m stream_osr_connectors`` is the command line."""

from stream_osr_connectors.cli import main

main()

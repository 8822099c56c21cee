"""The paper's experimental evaluation: every data set, openness, batch size and method, repeated over seeds.

``cells`` says what is measured, ``methods`` what it is measured with; ``running`` does it, and ``results`` keeps
what was found. ``tables`` and ``figures`` are drawn from that file alone.
The command line is ``python -m benchmarks.openset``.
"""

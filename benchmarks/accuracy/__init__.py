"""The paper's experimental evaluation: every data set, openness, batch size and method, repeated over seeds.

``cells`` says what is measured, ``methods`` what it is measured with, ``results`` keeps what was found; ``tables``
and ``figures`` are drawn from that file alone. ``python -m benchmarks.accuracy --help`` runs it.
"""

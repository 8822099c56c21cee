"""A benchmark of open-set recognition: sets, openness, methods, seeds, by the paper's protocol.

``sets`` and ``cells`` define what is measured, and ``cells`` measures it and reads it again. ``methods`` are what it
is measured with (``tuned`` chooses the parameters of those that have no scheme of their own). ``tables``, ``figures``
and ``summary`` are made from the results file alone. ``summary`` names the seeds that may be tuned on and those that
are reported, and ``statistics`` gives intervals and p-values. ``python -m benchmarks.openset`` is the command.
"""

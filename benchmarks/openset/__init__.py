"""A benchmark of open-set recognition: sets, openness, methods, seeds, by the paper's protocol.

``sets`` and ``cells`` say what is measured, ``methods`` what it is measured with (a file each; ``tuned`` chooses the
parameters of those that have no scheme of their own), ``seeds`` which splits may be tuned on and which are reported;
``running`` does it, and ``results`` keeps what was found. ``tables``, ``figures`` and ``summary`` are drawn from that
file alone, ``statistics`` and ``comparing`` say what may be claimed. ``python -m benchmarks.openset`` is the command.
"""

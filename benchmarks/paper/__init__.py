"""The figures and tables of the paper, made again: for its own method, its prior chosen as it says, and for ours.

``tables`` measures what `benchmarks.openset` does not: tables 1 and 2, with the paper's known classes. ``figures``
are drawn from results files alone. The command line is ``python -m benchmarks.paper``.
"""

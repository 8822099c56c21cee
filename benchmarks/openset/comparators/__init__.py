"""Open-set classifiers that the method is compared with, as scikit-learn estimators.

``METHODS`` names them; ``select`` chooses a method's parameters on the paper's validation split and fits it.
Labels are integers from 0, -1 stands for unknown, and ``score_unknown`` is higher for an instance less like the
known classes.
"""

from benchmarks.openset.comparators.selection import METHODS, VARIANTS, micro_f, select, select_family

__all__ = ["METHODS", "VARIANTS", "micro_f", "select", "select_family"]

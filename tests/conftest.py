"""Read before the numerical libraries are: how many threads they have in tests, and in processes that tests start.

Test processes fill the cores. Threads of theirs would wait for each other, busily, for want of cores to run on.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

"""Keep numerical libraries to one thread each; import this before any of them.

A service searches for several clients side by side, one a core. Libraries that used every core for
each search would spend them waiting for each other. What the environment says already stays.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

"""Limits numerical libraries to one thread each; import this before any of them.

A service runs one search on each core. If a library used every core for each search, the threads
would wait for each other. Variables that the environment already sets are not changed.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

"""The optional compiled forward pass of a few queries.

It is written in C, in ``native/``, and pip builds it if there is a compiler. Without it, numpy
computes the same bits; see :func:`encoder.encoder.forward_row`. ``HUMMINGBIT_KERNEL=off`` switches
it off, as it does the kernel of searches (:mod:`index.engines.compiled.kernel`).
"""

from __future__ import annotations

import os
from typing import Any

try:
    from encoder import _layers
except ImportError:  # it was not built
    built: Any = None
else:
    built = _layers

VARIABLE = "HUMMINGBIT_KERNEL"
OFF = "off"

native: Any = None if os.environ.get(VARIABLE) == OFF else built
"""The compiled code, or None."""

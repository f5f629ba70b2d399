"""The optional compiled update of rows by Adam.

It is written in C, in ``native/``, and pip builds it if there is a compiler. Without it, torch
computes the same bits; see :mod:`training.optimizers.sparse_adam`. ``HUMMINGBIT_KERNEL=off``
switches it off, as it does the forward pass of encoders (:mod:`encoder.compiled.forward_pass`).
"""

from __future__ import annotations

import os
from typing import Any

from encoder.compiled.forward_pass import OFF, VARIABLE

try:
    from training import _adam_rows
except ImportError:  # it was not built
    built: Any = None
else:
    built = _adam_rows

native: Any = None if os.environ.get(VARIABLE) == OFF else built
"""The compiled code, or None."""

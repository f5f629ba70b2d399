"""Where the language models of this machine are, and how commands name them."""

from __future__ import annotations

import sys
from pathlib import Path

from hummingbit.encoder.recipes import STATIC
from hummingbit.index.names import SHIPPED_DISTRIBUTION

MODEL_VARIABLE = "HUMMINGBIT_MODEL"
"""The variable that names the language model to use where none is given."""
NO_MODEL = "none"
"""The name that stands for no language model."""
MODELS_FOLDER = Path(sys.prefix, "models")
"""The folder of the Python environment that may hold folders of language models."""
WITHOUT_MODEL = (
    f" (default: that of ${MODEL_VARIABLE}, the first folder in {MODELS_FOLDER}, or {STATIC}: what"
    f" {SHIPPED_DISTRIBUTION} knows, adapted to the texts; {NO_MODEL}: their words alone)"
)
"""What commands that choose a model say of the option."""

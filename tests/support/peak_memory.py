"""How much memory it takes to load an encoder: ``python -m tests.support.peak_memory FOLDER``.

It prints what was said of the encoder and, in bytes, how far the process grew over what it was once
everything was imported and a small encoder had been loaded from the folder SMALL.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from encoder.artifact import ArtifactError, load_encoder


def main() -> None:
    """Load, and print what came of it."""
    folder, small = map(Path, sys.argv[1:])
    load_encoder(small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        load_encoder(folder)
        said = ""
    except ArtifactError as error:
        said = str(error)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"said": said, "bytes": grown * 1024}))


if __name__ == "__main__":
    main()

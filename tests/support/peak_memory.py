"""The memory needed to load an encoder.

Run as ``python -m tests.support.peak_memory FOLDER SMALL``. It imports everything, loads the small
encoder in SMALL, and then the one in FOLDER. It prints the error of the second load, if any, and
the growth of the peak memory in bytes.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from hummingbit.encoder.artifact import ArtifactError, load_encoder


def main() -> None:
    """Load the encoder and print the outcome and the memory."""
    folder, small = map(Path, sys.argv[1:])
    load_encoder(small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        load_encoder(folder)
        message = ""
    except ArtifactError as error:
        message = str(error)
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"error": message, "bytes": growth * 1024}))


if __name__ == "__main__":
    main()

"""``python -m hummingbit`` is the ``hummingbit`` command."""

import sys

from hummingbit.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""Control characters in what a command prints."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    r"""Return `text` with escapes such as ``\x1b`` and ``\n`` in place of control characters.

    So an id or a text cannot end a line, move the cursor or colour the terminal.
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)

"""Writes the asynchronous client from the synchronous one; ``make clients`` runs it.

Every method is written once, in ``client.py``. The replacements that make the other client are in
:data:`REPLACEMENTS`, in order.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENTS = Path(__file__).parents[2] / "hummingbit" / "clients"
SYNCHRONOUS, ASYNCHRONOUS = CLIENTS / "client.py", CLIENTS / "async_client.py"
HEAD = '''"""The asynchronous client of a service.

Made from :mod:`hummingbit.clients.client` by ``make clients``; edit that instead.
"""'''

REPLACEMENTS = (
    (r"\bhttpx\.Client\b", "httpx.AsyncClient"),
    (r"\bclass Client\b", "class AsyncClient"),
    (r"class:`hummingbit\.Client`", "class:`hummingbit.AsyncClient`"),
    (r"    def (?!__init__)", "    async def "),
    (r"__(enter|exit)__", r"__a\1__"),
    (r"\bself\._call\(", "await self._call("),
    (
        r"\bself\.(change_aliases|explained_count|update_payloads|snapshot|job|close)\(",
        r"await self.\1(",
    ),
    (r"self\._http\.close\(", "await self._http.aclose("),
    (r"self\._http\.request\(", "await self._http.request("),
    (
        r"transport\.request_arguments\(call\)",
        "transport.request_arguments(call, asynchronous=True)",
    ),
    (r"\btime\.sleep\(", "await asyncio.sleep("),
    (r"\bimport time\n", "import asyncio\nimport time\n"),
    (r"with self\._http\.stream\(", "async with self._http.stream("),
    (r"response\.read\(\)", "await response.aread()"),
    (r"for chunk in response\.iter_bytes\(\)", "async for chunk in response.aiter_bytes()"),
    # It reads the whole file for its checksum.
    (
        r"calls\.upload_snapshot\(",
        "await asyncio.to_thread(calls.upload_snapshot, ",
    ),
)
# A method up to its docstring, and not across the next method.
_ARGUMENTS = r'(?:(?!\n    async def )(?!""").|\n(?!    async def ))*?'
_SIGNATURE = rf"    async def (\w+)\({_ARGUMENTS}:\n        "
DOCSTRING = re.compile(rf'({_SIGNATURE})"""(?:.|\n)*?"""\n')


def async_source() -> str:
    """Return the source of the asynchronous client."""
    text = SYNCHRONOUS.read_text()
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    text = DOCSTRING.sub(r'\1"""See :meth:`hummingbit.Client.\2`."""\n', text)
    text = re.sub(
        r'(class AsyncClient:\n    )"""(?:.|\n)*?"""\n',
        r'\1"""The methods of :class:`hummingbit.Client`, to be awaited."""\n',
        text,
    )
    return _format(re.sub(r'\A"""(?:.|\n)*?"""', HEAD, text))


def _format(text: str) -> str:
    for command in (["check", "--fix", "--quiet"], ["format", "--quiet"]):
        name = str(ASYNCHRONOUS)
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=False).stdout
    return text


def main() -> None:
    """Write the asynchronous client."""
    ASYNCHRONOUS.write_text(async_source())


if __name__ == "__main__":
    main()

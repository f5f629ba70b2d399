"""The code blocks of the documentation, found as Markdown finds them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")),
    *sorted(f"{p.relative_to(ROOT)}" for p in (ROOT / "experiments").glob("*/*.md")),
)
_FENCE = re.compile(r"^(`{3,}|~{3,})\s*(\w*)")


class Block(NamedTuple):
    """A block of code: its page, first line number, language if given, and text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str) -> Iterator[Block]:
    """Yield the fenced and the indented blocks of a page; lists indent their text as well."""
    lines = (ROOT / page).read_text().splitlines()
    place, in_list = 0, False
    while place < len(lines):
        line = lines[place]
        fence = _FENCE.match(line)
        if fence:
            end = next(i for i in range(place + 1, len(lines)) if lines[i].startswith(fence[1]))
            yield Block(page, place + 1, fence[2], "\n".join(lines[place + 1 : end]))
            place = end + 1
            continue
        if re.match(r"\s*([-*]|\d+\.)\s", line):
            in_list = True
        elif line and not line.startswith(" "):
            in_list = False
        if line.startswith("    ") and not in_list and (place == 0 or not lines[place - 1].strip()):
            end = place
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = "\n".join(line[4:] for line in lines[place:end]).rstrip()
            yield Block(page, place + 1, "", text)
            place = end
            continue
        place += 1


def commands_of(block: Block) -> Iterator[list[str]]:
    """Yield the words of each ``hummingbit`` command in a block.

    A backslash at the end continues a line; text after a pipe, a redirection or ``#`` is dropped.
    """
    for typed in block.text.replace("\\\n", " ").splitlines():
        line = typed.removeprefix("$ ")
        if not re.match(r"(\w+=\S+ )*hummingbit( |$)", line):
            continue
        words = shlex.split(line, comments=True)
        while "=" in words[0]:
            del words[0]
        ends = [i for i, word in enumerate(words) if word in {"|", ">", "&&", "&", "2>", "<"}]
        yield words[1 : min(ends, default=len(words))]

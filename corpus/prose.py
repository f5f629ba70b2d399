"""The prose of a docstring: its text without signatures, examples and markup."""

from __future__ import annotations

import inspect
import re

# Enough for the description and the parameters. Notes and algorithms usually follow them.
MAX_LENGTH = 2000

DROPPED_SECTIONS = frozenset({"example", "examples", "references"})
DROPPED_BLOCKS = frozenset({"code", "code-block", "deprecated", "doctest", "image", "include"})
DROPPED_BLOCKS |= {"index", "literalinclude", "math", "plot", "testcode", "testoutput", "toctree"}
DROPPED_BLOCKS |= {"versionadded", "versionchanged", "warning"}

_CALL = re.compile(r"(?:\w+\.)*(\w+)\s*\(")
_UNDERLINE = re.compile(r"[-=~^*]{3,}\s*$")
_DIRECTIVE = re.compile(r"\.\.\s+([\w-]+)::\s*(.*)")
_COMMENT = re.compile(r"\.\.\s+(\[|_|\|)|:\w+:\s*$")
_GOOGLE_EXAMPLE = re.compile(r"(Examples?|References?)\s*(\(.*\))?\s*::?\s*$", re.IGNORECASE)
_FORMULA_OR_TARGET = re.compile(r":math:`[^`]*`|:ref:`[^`<]*`|\s\[\d+\]_?")
_ROLE = re.compile(r":[\w:+.-]+:`~?([^`<]*?)\s*(<[^`>]*>)?`")
_MARKUP = re.compile(r"`+_*|[$|\\]+|(?<!\w)\*+|\*+(?!\w)|::(?=\s|$)")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def docstring_prose(docstring: str, name: str) -> str:
    """Return the prose of the docstring of `name`: a paragraph a line, at most `MAX_LENGTH` long.

    It leaves out the signature at the head, examples, references, doctests, formulas and the markup
    of reStructuredText. It keeps the text of roles and literals.
    """
    lines = inspect.cleandoc(docstring).splitlines()
    prose_lines = _drop_blocks(_drop_sections(_drop_signature(lines, name)))
    paragraphs = "\n".join(prose_lines).split("\n\n")
    prose = "\n".join(filter(None, map(_strip_markup, paragraphs)))
    if len(prose) <= MAX_LENGTH:
        return prose
    return prose[:MAX_LENGTH].rsplit(maxsplit=1)[0]


def name_words(name: str) -> str:
    """Return a Python name followed by the words in it: `eigvals_banded eigvals banded`."""
    words = " ".join(_WORD.findall(name))
    return name if words in ("", name) else f"{name} {words}"


def _drop_signature(lines: list[str], name: str) -> list[str]:
    """Drop the lines of a leading ``name(…)``, up to and with the line of its closing bracket.

    Several signatures may follow one another, as in NumPy's random functions and in PyTorch.
    """
    while lines and (called := _CALL.match(lines[0])) and called[1] == name:
        lines = lines[_signature_length(lines) :]
        while lines and not lines[0].strip():
            lines = lines[1:]
    return lines


def _signature_length(lines: list[str]) -> int:
    depth = 0
    for place, line in enumerate(lines):
        depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        if depth <= 0 or not line.strip():
            return place + 1
    return len(lines)


def _drop_sections(lines: list[str]) -> list[str]:
    """Drop the sections in :data:`DROPPED_SECTIONS`, and the titles of all others."""
    prose_lines: list[str] = []
    dropping = False
    for place, line in enumerate(lines):
        below = lines[place + 1] if place + 1 < len(lines) else ""
        if line.strip() and not line[0].isspace() and _UNDERLINE.match(below):
            dropping = line.strip().lower().rstrip(":") in DROPPED_SECTIONS
        elif not dropping and not _UNDERLINE.match(line):
            prose_lines.append(line)
    return prose_lines


def _drop_blocks(lines: list[str]) -> list[str]:
    """Drop doctests and their output, and directives without prose and the lines indented below."""
    prose_lines: list[str] = []
    block: int | None = None
    doctest = False
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if block is not None and (not text or indent > block):
            continue
        block = None
        doctest = bool(text) and (doctest or text.startswith(">>>"))
        if doctest:
            continue
        directive = _DIRECTIVE.match(text)
        if _GOOGLE_EXAMPLE.match(text) or (directive and directive[1] in DROPPED_BLOCKS):
            block = indent
        elif directive:
            prose_lines.append(directive[2])
        elif not _COMMENT.match(text):
            prose_lines.append(text)
    return prose_lines


def _strip_markup(paragraph: str) -> str:
    words = _ROLE.sub(r"\1", _FORMULA_OR_TARGET.sub("", paragraph))
    return " ".join(_MARKUP.sub("", words).split())

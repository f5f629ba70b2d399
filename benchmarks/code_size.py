"""Count the modules and the lines of code of each folder.

    python -m benchmarks.code_size

A line of code is a line that holds a token of a statement; blank lines, comments, docstrings and
imports are left out. The last row is what an installation holds.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

INSTALLED = "corpus encoder evaluation foundation hummingbit index service training".split()
OTHERS = ("experiments", "benchmarks", "tests")
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def code_lines(source: str) -> int:
    """Return the number of lines of `source` that are code."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in NO_CODE and token.string
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - left_out)


def main() -> None:
    """Print a row for each folder, and the sum of those that are installed."""
    listed = subprocess.run(
        ("git", "ls-files", "*.py"),  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    modules: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for name in listed.stdout.splitlines():
        folder = name.partition("/")[0]
        modules[folder] += 1
        lines[folder] += code_lines(Path(name).read_text(encoding="utf-8"))
    for folder in (*INSTALLED, *OTHERS):
        print(f"{folder:<14}{modules[folder]:>6} modules {lines[folder]:>8,} lines of code")
    installed = sum(modules[folder] for folder in INSTALLED)
    n_lines = sum(lines[folder] for folder in INSTALLED)
    print(f"{'installed':<14}{installed:>6} modules {n_lines:>8,} lines of code")


if __name__ == "__main__":
    main()

"""Descriptions of Debian packages, a corpus that reads like a catalogue of products.

apt keeps the English descriptions of all packages. Most images of Docker leave them out; this
fetches them into a folder of their own and writes the corpus (about 5 MB)::

    mkdir -p /tmp/lists/partial
    apt-get -o Dir::State::Lists=/tmp/lists -o Acquire::Languages=en update
    python -m experiments.questions.debian --lists /tmp/lists debian.jsonl

The questions are about the packages of Debian 12 (bookworm); other releases lack some of them.

Parts of a product, such as headers, data files and shared libraries, are left out by their names,
and so are packages that only lead to another. Of packages with the same description, the first by
name stays. Then :data:`SIZE` packages are drawn by the SHA-256 of their names, so that a package
which a point release adds or removes changes little else. The texts have licences of their own and
are not part of hummingbit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hummingbit.corpus.lines import ReadError

SIZE = 10_000
LISTS = Path("/var/lib/apt/lists")
# The lists of a release itself, without those of its updates and of security.
_DESCRIPTIONS = re.compile(r"_dists_[a-z]+_main_i18n_Translation-en(\.\w+)?$")
_CAT = "/usr/lib/apt/apt-helper"
_PART = re.compile(r"^lib|-(bin|common|data|dbg|dev|doc|docs|examples|headers|java|l10n|udeb)\b")
_REDIRECTION = re.compile(r"transitional|dummy|metapackage|meta-package|virtual package", re.I)


def read_descriptions(lists: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, summary and long description of every package in apt's lists.

    Paragraphs of a long description are lines, and so are the items of a list.

    Raises:
        ReadError: if `lists` has no English descriptions, or apt cannot read them.
    """
    files = sorted(lists.iterdir()) if lists.is_dir() else []
    found = [file for file in files if _DESCRIPTIONS.search(file.name)]
    if not found:
        raise ReadError(
            f"{lists}: no English descriptions of packages (*_Translation-en); "
            "fetch them with apt-get -o Acquire::Languages=en update"
        )
    for file in found:
        try:
            done = subprocess.run(  # noqa: S603 - apt's own program, and a file of its lists
                [_CAT, "cat-file", file], capture_output=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise ReadError(f"{file}: apt-helper cannot read it: {error}") from None
        for record in done.stdout.decode().split("\n\n"):
            if record.strip():
                yield _parse(record)


def _parse(record: str) -> tuple[str, str, str]:
    """Parse a record: fields, of which the description is last and goes on over indented lines."""
    fields, _, description = record.strip("\n").partition("\nDescription-en: ")
    name = fields.partition("\n")[0].removeprefix("Package: ")
    summary, *lines = description.split("\n")
    paragraphs = [""]
    for line in lines:
        text = line.strip()
        if text == "." or line.startswith("  "):
            paragraphs.append("")
        if text != ".":
            paragraphs[-1] += f" {text}"
    return name, summary.strip(), "\n".join(filter(None, map(str.strip, paragraphs)))


def draw_packages(lists: Path, size: int = SIZE) -> list[dict[str, str]]:
    """Draw `size` packages and return their ids and texts, in the order of their ids.

    The id is the name of the package. The text is the name and the summary in one line, and the
    long description below it.

    Raises:
        ReadError: if the descriptions cannot be read, or there are fewer packages.
    """
    texts: dict[str, str] = {}
    seen: set[str] = set()
    for name, summary, description in sorted(read_descriptions(lists)):
        is_product = not _PART.search(name) and not _REDIRECTION.search(summary)
        if is_product and description and description not in seen and name not in texts:
            seen.add(description)
            texts[name] = f"{name}: {summary}\n{description}"
    if len(texts) < size:
        raise ReadError(f"{lists}: {len(texts)} packages with descriptions, and {size} are needed")
    drawn = sorted(texts, key=lambda name: hashlib.sha256(name.encode()).digest())[:size]
    return [{"id": name, "text": texts[name]} for name in sorted(drawn)]


def main() -> None:
    """Write the corpus as JSON lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", type=Path, help="the file of JSON lines to write")
    parser.add_argument(
        "--lists", type=Path, default=LISTS, help="apt's lists (default: %(default)s)"
    )
    arguments = parser.parse_args()
    try:
        packages = draw_packages(arguments.lists)
    except ReadError as error:
        parser.error(str(error))
    lines = [json.dumps(package, ensure_ascii=False) for package in packages]
    arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {len(packages):,} packages to {arguments.output}")


if __name__ == "__main__":
    main()

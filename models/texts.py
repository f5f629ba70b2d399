"""General English texts for the encoder that ships, from packages of Debian.

    python models/texts.py FOLDER

downloads the packages with apt-get into FOLDER, reads them, and writes ``texts.jsonl`` there, a
JSON string a line: glosses of WordNet, descriptions of packages, entries of dictionaries, and
paragraphs of manuals. :data:`SOURCES` names the packages. Nothing is installed.
"""

from __future__ import annotations

import gzip
import html
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

DICTIONARIES = ("dict-gcide", "dict-foldoc", "dict-jargon", "dict-devil")
MANUALS = (
    "debian-reference-en",
    "gap-doc",
    "gimp-help-en",
    "git-doc",
    "gnome-user-docs",
    "libboost1.74-doc",
    "libreoffice-help-en-us",
    "manpages",
    "manpages-dev",
    "maxima-doc",
    "octave-doc",
    "openjdk-17-doc",
    "perl-doc",
    "postgresql-doc-15",
    "python3.11-doc",
    "sqlite3-doc",
)
SOURCES = ("wordnet-base", "fortunes", *DICTIONARIES, *MANUALS)
"""The packages of Debian 12 beside the descriptions of all packages."""

# Texts of a source beyond these many are sampled, so that none outweighs the others.
_MOST = 60_000
_LENGTH = 600
_BLOCKS = {"p", "li", "dd", "dt", "td", "h1", "h2", "h3", "h4", "h5", "title", "div", "blockquote"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "title", "dt"}
_SKIPPED = {"script", "style", "pre", "nav", "head", "table"}


class _Blocks(HTMLParser):
    """The blocks of a page of HTML or Mallard, and whether each is a heading."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[tuple[bool, str]] = []
        self._words: list[str] = []
        self._skipped: list[str] = []
        self._is_heading = False

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag in _SKIPPED:
            self._skipped.append(tag)
        elif tag in _BLOCKS:
            self._end()
            self._is_heading = tag in _HEADINGS

    def handle_endtag(self, tag: str) -> None:
        if self._skipped and tag == self._skipped[-1]:
            self._skipped.pop()
        elif tag in _BLOCKS:
            self._end()

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._words.append(data)

    def _end(self) -> None:
        text = " ".join("".join(self._words).split())
        self._words = []
        if text:
            self.blocks.append((self._is_heading, text))
        self._is_heading = False


def _with_headings(blocks: list[tuple[bool, str]]) -> Iterator[str]:
    """Yield each paragraph, the first after a heading with the heading as its title."""
    heading = ""
    for is_heading, text in blocks:
        if is_heading:
            heading = text.strip(" ¶#")
            continue
        yield f"{heading}\n{text}" if heading else text
        heading = ""


def read_page(raw: str) -> Iterator[str]:
    """Yield the paragraphs of a page of HTML or Mallard."""
    parser = _Blocks()
    parser.feed(raw)
    return _with_headings(parser.blocks)


def read_man(raw: str) -> Iterator[str]:
    """Yield the paragraphs of a manual page in roff."""
    lines = []
    for line in raw.splitlines():
        if line.startswith((".SH", ".SS", ".PP", ".P", ".TP", ".LP", ".IP", '.\\"', ".TH")):
            lines.append("")
        elif line.startswith((".B ", ".I ", ".BR", ".IR", ".RB", ".RI", ".BI", ".IB")):
            lines.append(line.split(" ", 1)[-1])
        elif not line.startswith((".", "'")):
            lines.append(line)
    text = "\n".join(lines).replace("\\-", "-").replace('"', "")
    text = re.sub(r"\\f.|\\[&|^%c]|\\\(..|\\s[-+]?\d", "", text)
    for part in re.split(r"\n\s*\n", text):
        yield " ".join(part.split())


def read_pod(raw: str) -> Iterator[str]:
    """Yield the paragraphs of Perl's documentation."""
    blocks = []
    for part in re.split(r"\n\s*\n", raw):
        if part.startswith(("=head", "=item")):
            blocks.append((True, " ".join(_pod_text(part).split()[1:])))
        elif part and not part.startswith(("=", " ", "\t")):
            blocks.append((False, " ".join(_pod_text(part).split())))
    return _with_headings(blocks)


def _pod_text(text: str) -> str:
    return re.sub(r"[A-Z]<+\s*([^<>]*?)\s*>+", r"\1", text)


_READERS: dict[str, Callable[[str], Iterator[str]]] = {
    ".html": read_page,
    ".htm": read_page,
    ".page": read_page,
    ".pod": read_pod,
}


def read_manual(folder: Path) -> Iterator[str]:
    """Yield the paragraphs of every page in English below `folder`."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or ("gnome" in folder.name and "/C/" not in str(path)):
            continue
        if path.suffix in _READERS:
            yield from _READERS[path.suffix](path.read_text(errors="replace"))
        elif re.search(r"/man/man\d/.*\.gz$", str(path)):
            yield from read_man(gzip.decompress(path.read_bytes()).decode(errors="replace"))


def read_wordnet(folder: Path) -> Iterator[str]:
    """Yield the glosses of the synsets with their words, and the examples."""
    for path in sorted((folder / "usr/share/wordnet").glob("data.*")):
        for line in path.read_text().splitlines():
            if line.startswith(" "):
                continue
            data, _, gloss = line.partition(" | ")
            parts = data.split()
            words = [parts[4 + 2 * i].replace("_", " ") for i in range(int(parts[3], 16))]
            words = [re.sub(r"\(\w+\)$", "", word) for word in words]
            definition, *examples = re.split(r'; "', gloss.strip())
            yield f"{', '.join(words)}\n{definition}"
            yield from (example.strip('" ;') for example in examples)


def read_dictionary(folder: Path) -> Iterator[str]:
    """Yield the entries of a dictionary in the format of dictd."""
    (index,) = folder.rglob("*.index")
    data = gzip.decompress(index.with_suffix(".dict.dz").read_bytes())
    places = set()
    for line in index.read_text(errors="replace").splitlines():
        word, offset, length = line.split("\t")[:3]
        if not word.startswith("00"):
            places.add((_base64(offset), _base64(length)))
    for offset, length in sorted(places):
        text = data[offset : offset + length].decode(errors="replace")
        head, _, rest = text.partition("\n")
        head = re.sub(r"[\\\"`*|{}]|\[.*?\]", "", head)
        rest = re.sub(r"\[[^\]]*\]|[{}]|--\w.*$", "", rest)
        rest = re.sub(r"\s*\n\s*", " ", rest).strip()
        yield f"{' '.join(head.split())}\n{rest}" if rest else head


_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _base64(number: str) -> int:
    value = 0
    for digit in number:
        value = value * 64 + _DIGITS.index(digit)
    return value


def read_fortunes(folder: Path) -> Iterator[str]:
    """Yield the sayings."""
    for path in sorted((folder / "usr/share/games/fortunes").iterdir()):
        if path.is_file() and not path.suffix:
            yield from path.read_text(errors="replace").split("\n%\n")


def read_descriptions(lists: Path) -> Iterator[str]:
    """Yield the descriptions of Debian's packages: summary and paragraphs."""
    for path in sorted(lists.glob("*Translation-en*")):
        raw = subprocess.run(["lz4", "-dc", path], check=True, capture_output=True).stdout
        for part in raw.decode().split("\n\n"):
            summary, paragraphs = "", [""]
            for line in part.splitlines():
                if line.startswith("Description-en: "):
                    summary = line.partition(": ")[2]
                elif line == " .":
                    paragraphs.append("")
                elif line.startswith(" "):
                    paragraphs[-1] += line
            yield f"{summary}\n{paragraphs[0].strip()}"
            yield from paragraphs[1:]


def clean(text: str) -> str:
    """Return a text in one or two lines of at most 600 characters; empty if it is no prose."""
    title, _, rest = html.unescape(text).partition("\n")
    text = "\n".join(filter(None, (" ".join(title.split()), " ".join(rest.split()))))
    if len(text) > _LENGTH:
        text = text[:_LENGTH].rsplit(" ", 1)[0]
    letters = sum(character.isalpha() or character == " " for character in text)
    return text if len(text.split()) >= 3 and letters > 0.8 * len(text) else ""


def download(folder: Path) -> None:
    """Download the packages and the descriptions of all packages, and unpack them."""
    lists, archives = folder / "apt/lists", folder / "debs"
    for path in (lists / "partial", folder / "apt/cache/archives/partial", archives):
        path.mkdir(parents=True, exist_ok=True)
    options = [f"Dir::State::lists={lists}", f"Dir::Cache={folder / 'apt/cache'}"]
    options += ["Acquire::Languages=en", "APT::Sandbox::User=root"]
    apt = ["apt-get", "-qq", *(part for option in options for part in ("-o", option))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", *SOURCES], check=True, cwd=archives)
    for package in sorted(archives.glob("*.deb")):
        unpacked = folder / "x" / package.name.partition("_")[0]
        subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)


def read(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the texts of each source, each text once."""
    seen: set[str] = set()
    sources: list[tuple[str, Iterator[str]]] = [
        ("wordnet", read_wordnet(folder / "x/wordnet-base")),
        ("descriptions", read_descriptions(folder / "apt/lists")),
        ("fortunes", read_fortunes(folder / "x/fortunes")),
        *((name, read_dictionary(folder / "x" / name)) for name in DICTIONARIES),
        *((name, read_manual(folder / "x" / name)) for name in MANUALS),
    ]
    for name, raw in sources:
        texts = [text for text in map(clean, raw) if text]
        texts = [text for text in dict.fromkeys(texts) if text.lower() not in seen]
        seen.update(text.lower() for text in texts)
        yield name, texts


def main(folder: Path) -> None:
    """Write ``texts.jsonl``."""
    if not (folder / "x").exists():
        download(folder)
    rng = random.Random(0)
    chosen: list[str] = []
    for name, texts in read(folder):
        is_whole = len(texts) <= _MOST or name in {"wordnet", "descriptions"}
        taken = texts if is_whole else rng.sample(texts, _MOST)
        print(f"{name}: {len(texts):,} texts, {len(taken):,} taken", flush=True)
        chosen += taken
    rng.shuffle(chosen)
    with (folder / "texts.jsonl").open("w") as file:
        file.writelines(json.dumps(text) + "\n" for text in chosen)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The documents that ``hummingbit quickstart`` learns from: all of a source, or a sample."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import combining, normalize

import numpy as np

from corpus.detection.cell_lists import separator_of
from corpus.detection.field_names import LABEL_NAMES, rank_of
from corpus.document import Document
from corpus.layout import Layout
from corpus.readers import BadLine, read_documents
from corpus.tables import FieldTypes
from encoder.analyzers import VISIBLE
from encoder.texts.scripts import is_spaceless

MAX_SAMPLE = 10_000
MAX_CHARACTERS = 4_000_000
"""The largest sample. More documents, or longer ones, would make training take minutes."""
LONG_DOCUMENTS = 2000
"""A sample of long documents has as many, whatever their lengths."""
HELD_OUT_SHARE = 0.1
MAX_HELD_OUT = 300
MANY_DOCUMENTS = 30_000
"""With more, a search by every ranking takes so long that fewer documents are held out."""
MIN_HELD_OUT = 60
MIN_LABELLED = 20
MAX_BAD_LINES = 3


@dataclass
class Corpus:
    """What one reading of a source found, and a sample of its documents, in their order."""

    source: Path
    layout: Layout
    count: int = 0
    """Documents with text."""
    sample: list[Document] = field(default_factory=list)
    held_out: list[Document] = field(default_factory=list)
    """Documents of the sample that are not trained on, for the comparison."""
    labels: Counter[str] = field(default_factory=Counter)
    repeats: int = 0
    """Documents with the text of an earlier one, but for case and spaces."""
    bad_lines: list[BadLine] = field(default_factory=list)
    """The first few."""
    n_bad_lines: int = 0
    n_without_text: int = 0
    """Documents whose text is empty."""
    field_types: FieldTypes = field(default_factory=FieldTypes)
    """What the fields of a table hold."""

    @property
    def training_documents(self) -> list[Document]:
        """The documents of the sample that are not held out."""
        held_out_ids = {document.id for document in self.held_out}
        return [document for document in self.sample if document.id not in held_out_ids]

    @property
    def is_sampled(self) -> bool:
        """Whether the source has more documents than the sample."""
        return self.count > len(self.sample)

    @property
    def has_labels(self) -> bool:
        """Whether the sample has enough labelled documents, and two labels, to learn from."""
        labels = Counter(label for one in self.sample for label in one.labels)
        return len(labels) > 1 and labels.total() >= MIN_LABELLED

    def lengths(self) -> list[int]:
        """Return how many terms each text of the sample has."""
        return [len(VISIBLE.terms(document.text or "")) for document in self.sample]

    def is_spaceless(self) -> bool:
        """Return whether most texts of the sample have no spaces between words."""
        return 2 * sum(is_spaceless(one.text or "") for one in self.sample) > len(self.sample)

    def separated_labels(self) -> dict[str, str]:
        """Return fields of the payload, named as labels, whose strings hold several values.

        The values are what separates these.
        """
        names = {name for one in self.sample for name in one.payload}
        cells = {
            name: [cell for one in self.sample if isinstance(cell := one.payload.get(name), str)]
            for name in sorted(names)
            if rank_of(name, LABEL_NAMES) is not None
        }
        found = {name: separator_of(column) for name, column in cells.items()}
        return {name: separator for name, separator in found.items() if separator is not None}

    def stored_documents(self) -> Iterator[Document]:
        """Read the source again, and yield every document with text that is not held out."""
        held_out_ids = {document.id for document in self.held_out}
        documents = read_documents(
            self.source, layout=self.layout, on_error="skip", field_types=self.field_types
        )
        for document in documents:
            if _has_text(document) and document.id not in held_out_ids:
                yield document

    def record_bad_line(self, bad: BadLine) -> None:
        """Count a bad line, and keep it if it is one of the first."""
        self.n_bad_lines += bad.n_lines
        if len(self.bad_lines) < MAX_BAD_LINES:
            self.bad_lines.append(bad)


def read_corpus(source: Path, layout: Layout, notice: Callable[[str], object]) -> Corpus:
    """Read a source once, leaving out bad lines; at most the sample stays in memory.

    Every document is equally likely to be in the sample (reservoir sampling). The same source gives
    the same sample.
    """
    corpus = Corpus(source, layout)
    rng = random.Random(0)  # noqa: S311 - no secret
    places: list[tuple[int, Document]] = []
    seen: set[int] = set()
    documents = read_documents(
        source,
        layout=layout,
        on_error="skip",
        report=corpus.record_bad_line,
        notice=notice,
        field_types=corpus.field_types,
    )
    for document in documents:
        if not _has_text(document):
            corpus.n_without_text += 1
            continue
        seen.add(hash(" ".join((document.text or "").lower().split())))
        corpus.labels.update(document.labels)
        if len(places) < MAX_SAMPLE:
            places.append((corpus.count, document))
        elif (place := rng.randrange(corpus.count + 1)) < MAX_SAMPLE:
            places[place] = (corpus.count, document)
        corpus.count += 1
    corpus.repeats = corpus.count - len(seen)
    places.sort(key=lambda one: one[0])
    corpus.sample = _within_characters([document for _, document in places])
    corpus.held_out = _held_out(corpus)
    return corpus


def name_of(source: Path) -> str:
    """Return a name made from that of a file; letters lose their accents."""
    stem = normalize("NFKD", source.resolve().name.partition(".")[0]).lower()
    stem = "".join(character for character in stem if not combining(character))
    return re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_") or "documents"


def _has_text(document: Document) -> bool:
    return bool(document.text and document.text.strip())


def _within_characters(sample: list[Document]) -> list[Document]:
    """Return the sample, or a part of it, every so many documents, if the texts are long."""
    total = sum(len(document.text or "") for document in sample)
    step = min(total / MAX_CHARACTERS, len(sample) / LONG_DOCUMENTS)
    if step <= 1:
        return sample
    places = np.unique(np.arange(0, len(sample), step).astype(int))
    return [sample[place] for place in places]


def _held_out(corpus: Corpus) -> list[Document]:
    most = MAX_HELD_OUT
    if corpus.count > MANY_DOCUMENTS:
        most = max(MIN_HELD_OUT, MAX_HELD_OUT * MANY_DOCUMENTS // corpus.count)
    count = min(most, int(len(corpus.sample) * HELD_OUT_SHARE))
    places = np.sort(np.random.default_rng(0).permutation(len(corpus.sample))[:count])
    return [corpus.sample[place] for place in places]

"""What is found in a source of unknown layout: its documents, and what can read them.

``hummingbit quickstart`` and the service's files begin with it (:mod:`hummingbit.corpus.survey`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from hummingbit.corpus.document import Document
from hummingbit.corpus.field_types import FieldTypes
from hummingbit.corpus.layout import LABEL_NAMES, Layout, rank_of
from hummingbit.corpus.readers import BadLine, read_documents
from hummingbit.corpus.tables import separator_of
from hummingbit.encoder.analyzers import VISIBLE, is_spaceless
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.languages import DEFAULT_LANGUAGE, find_language
from hummingbit.index.names import LONG, NONE, SHIPPED_DISTRIBUTION
from hummingbit.index.passages import size_of

MAX_SAMPLE = 2000
"""So many documents tell how long texts are, and in which language."""
MIN_LABELLED = 20
MAX_BAD_LINES = 3
LONG_SHARE = 0.1
"""If so many texts of the sample are long, they are split into passages."""
TRAILING_SIGNS = " .,;:!?…。！？"
MIN_KNOWN_SHARE = 0.6
"""Texts of which the encoder that ships knows a smaller share of the words have words alone."""
MIN_KNOWN_OF_OTHERS = 0.8
"""And a smaller share than this, if few words tell that they are in another language."""
MAX_READ = 1000
"""So many texts, and so many characters of each, tell which words are known."""


@dataclass
class Corpus:
    """What one reading of a source found, and a sample of its documents, in their order."""

    source: Path
    layout: Layout
    count: int = 0
    """Documents with text."""
    sample: list[Document] = field(default_factory=list)
    labels: Counter[str] = field(default_factory=Counter)
    n_labelled: int = 0
    """Documents with a label."""
    repeats: int = 0
    """Documents with the text of an earlier one, but for case, spaces and signs at its end."""
    bad_lines: list[BadLine] = field(default_factory=list)
    """The first few."""
    n_bad_lines: int = 0
    n_without_text: int = 0
    """Documents whose text is empty."""
    field_types: FieldTypes = field(default_factory=FieldTypes)
    """What the fields of a table hold."""

    @property
    def is_sampled(self) -> bool:
        """Whether the source has more documents than the sample."""
        return self.count > len(self.sample)

    @property
    def has_labels(self) -> bool:
        """Whether there are enough labels, not the same on all documents, to learn from."""
        return len(self.labels) > 1 and self.labels.total() >= MIN_LABELLED

    @cached_property
    def lengths(self) -> list[int]:
        """How many terms each text of the sample has."""
        return [len(VISIBLE.terms(document.text or "")) for document in self.sample]

    def is_spaceless(self) -> bool:
        """Return whether most texts of the sample have no spaces between words."""
        n_spaceless = sum(is_spaceless(document.text or "") for document in self.sample)
        return 2 * n_spaceless > len(self.sample)

    def separated_labels(self) -> dict[str, str]:
        """Return fields of the payload, named as labels, whose strings hold several values.

        The values are what separates these.
        """
        names = {name for document in self.sample for name in document.payload}
        cells = {
            name: [
                cell
                for document in self.sample
                if isinstance(cell := document.payload.get(name), str)
            ]
            for name in sorted(names)
            if rank_of(name, LABEL_NAMES) is not None
        }
        separators = {name: separator_of(column) for name, column in cells.items()}
        return {name: separator for name, separator in separators.items() if separator is not None}

    @cached_property
    def long_share(self) -> float:
        """The share of the sample's texts that are long enough to be split into passages."""
        n_long = sum(size_of(document.text or "") > LONG for document in self.sample)
        return n_long / max(len(self.sample), 1)

    def stored_documents(self) -> Iterator[Document]:
        """Read the source again, and yield every document with text."""
        documents = read_documents(
            self.source, layout=self.layout, on_error="skip", field_types=self.field_types
        )
        for document in documents:
            if _has_text(document):
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
    chosen: list[tuple[int, Document]] = []
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
        check_cancelled()
        if not _has_text(document):
            corpus.n_without_text += 1
            continue
        text = " ".join((document.text or "").lower().split())
        seen.add(hash(text.rstrip(TRAILING_SIGNS) or text))
        corpus.labels.update(document.labels)
        corpus.n_labelled += bool(document.labels)
        if len(chosen) < MAX_SAMPLE:
            chosen.append((corpus.count, document))
        elif (position := rng.randrange(corpus.count + 1)) < MAX_SAMPLE:
            chosen[position] = (corpus.count, document)
        corpus.count += 1
    corpus.repeats = corpus.count - len(seen)
    chosen.sort(key=lambda numbered: numbered[0])
    corpus.sample = [document for _, document in chosen]
    return corpus


def _has_text(document: Document) -> bool:
    return bool(document.text and document.text.strip())


class Reading(NamedTuple):
    """How texts can be read."""

    language: str
    is_sure: bool
    """Whether there are enough texts to tell their language."""
    has_codes: bool
    """Whether the encoder that ships reads them."""
    codes: str
    """Why, as a phrase."""


def how_to_read(texts: Sequence[str], shipped: Encoder | None) -> Reading:
    """Return how texts can be read; the encoder that ships is None if it is not installed."""
    language, is_sure = find_language(texts)
    fault = _why_not(shipped, texts, language, is_sure=is_sure)
    if shipped is None or fault is not None:
        codes = f"none, words alone: {SHIPPED_DISTRIBUTION} {fault}"
    else:
        codes = f"of what {SHIPPED_DISTRIBUTION} knows, {shipped.n_bits // 8} bytes a document"
    return Reading(language, is_sure, fault is None, codes)


def _why_not(
    shipped: Encoder | None, texts: Sequence[str], language: str, *, is_sure: bool
) -> str | None:
    """Return why the encoder that ships does not read texts; None if it does."""
    if shipped is None:
        return "is not installed"
    if is_sure and language != DEFAULT_LANGUAGE:
        return "knows English only"
    known, is_other = known_share(shipped, texts), language not in (DEFAULT_LANGUAGE, NONE)
    if known < (MIN_KNOWN_OF_OTHERS if is_other else MIN_KNOWN_SHARE):
        return f"knows {known:.0%} of their words"
    return None


def known_share(encoder: Encoder, texts: Sequence[str]) -> float:
    """Return which share of the words of texts an encoder knows as whole words."""
    features = encoder.features
    if not isinstance(features, TextFeatures):
        return 1.0
    known = frozenset(features.vocabulary)
    read = features.analyzer.terms
    words = [word for text in texts[:MAX_READ] for word in read(text[:MAX_READ])]
    return sum(word in known for word in words) / max(len(words), 1)

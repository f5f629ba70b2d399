"""The words of a collection's documents, as its encoder asks for those that it does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hummingbit.encoder.spelling import KnownWords
from hummingbit.index.highlights import highlight
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.passages import PASSAGE_BITS, CodeColumn
from hummingbit.index.records import StoredRow

CONTEXTS = 8
"""How many documents say what a word is about."""
CONTEXTS_KEPT = 256
"""The passages of so many words are kept, because the words of queries repeat."""
MOST_READ = 1_000_000
"""No further document is read once so many characters were."""


@dataclass(frozen=True)
class DocumentWords(KnownWords):
    """The words of `lexical`, whose documents `read_rows` reads."""

    lexical: LexicalIndex
    read_rows: Callable[[Sequence[int], bool, bool, bool], Mapping[int, StoredRow]]
    column: CodeColumn

    def has_word(self, word: str) -> bool:
        """Return whether a document has the word, or one with its stem."""
        return self.lexical.has_word(word)

    def has_prefix(self, word: str) -> bool:
        """Return whether a document has a word that begins with this one."""
        return self.lexical.has_prefix(word)

    def correct(self, word: str, others: Sequence[str]) -> str | None:
        """Return what a misspelt word beside the `others` stands for, or None."""
        return self.lexical.correct(word, others)

    def share(self, word: str) -> float:
        """Return the share of the documents that have the word, or one with its stem."""
        return self.lexical.share(word)

    def contexts(self, word: str) -> list[str]:
        """Return a passage of each of the best documents for a word by BM25.

        If no document has the word, they are those for the words that begin with it. A passage has
        the word in it and at most :data:`hummingbit.index.highlights.PASSAGE` characters.
        """
        kept = self.lexical.kept_contexts
        contexts = kept.get(word)
        if contexts is None:
            contexts = self._find_contexts(word)
            if len(kept) >= CONTEXTS_KEPT:
                kept.clear()
            kept[word] = contexts
        return contexts

    def _find_contexts(self, word: str) -> list[str]:
        if not self.has_word(word) and not self.has_prefix(word):
            return []
        query = self.lexical.weigh(word)
        weights = {term.term: term.idf for term in query.terms if term.idf}
        contexts: list[str] = []
        n_read = 0
        for row in self.lexical.matches(query).best(CONTEXTS).rows.tolist():
            text = self._text(row)
            n_read += len(text)
            contexts.append(highlight(text, weights, self.lexical.analyzer).passage)
            if n_read > MOST_READ:
                break
        return contexts

    def _text(self, row: int) -> str:
        """Return the text of a document or of a passage; nothing if it was removed since."""
        document = self.column.document_row(row)
        for _, _, text, code in self.read_rows([document], False, True, True).values():
            number = row - (document << PASSAGE_BITS)
            span = None if code is None else self.column.span(code, number)
            return (text or "")[slice(None) if span is None else slice(*span)]
        return ""

"""What holds for the questions of ``experiments.questions``, given the texts of their corpus."""

from __future__ import annotations

import re
from collections.abc import Mapping

import Stemmer
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from experiments.questions.families import HALVES, read_questions

_STEMMER = Stemmer.Stemmer("english")


def content_stems(text: str) -> set[str]:
    """Return the stems of the words of a text that are no stop words or single letters."""
    words = re.findall(r"\w{2,}", text.lower())
    return set(_STEMMER.stemWords([word for word in words if word not in ENGLISH_STOP_WORDS]))


def unanswered(name: str, texts: Mapping[str, str]) -> list[str]:
    """Return the queries without a relevant document among `texts`, which are by id."""
    questions = [question for half in HALVES for question in read_questions(name, half)]
    return [question.query for question in questions if not texts.keys() & set(question.relevant)]


def shared_stems(name: str, texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the stems that reworded questions share with a relevant document, by the query."""
    questions = [question for half in HALVES for question in read_questions(name, half)]
    shared = {
        question.query: content_stems(question.query)
        & set().union(*(content_stems(texts.get(id_, "")) for id_ in question.relevant))
        for question in questions
        if question.style == "reworded"
    }
    return {query: stems for query, stems in shared.items() if stems}

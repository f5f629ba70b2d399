"""The formula of BM25, in the dialect of Lucene since version 8, with exact lengths.

The score of a document d is the sum over the terms t of a query, with repetitions,

    score(d) = Σ_t idf(t) · tf / (tf + k1 · (1 - b + b · |d| / avg)),
    idf(t) = ln(1 + (N - n + ½) / (n + ½)),

where tf counts t in d, |d| is the number of terms of d, avg its mean over the N documents that have
a text, and n the number of those with t. A factor k1 + 1, which other dialects have, would not
change the order. Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond" (2009), equation 3.15; Kamphuis et al., "Which BM25 Do You Mean?" (2020), table 1.

The hybrid ranking changes four things.

*Openings.* The first words of a text, such as a heading, say what it is about. So the first
:data:`OPENING` terms of a document count twice, in tf, |d| and avg. This is BM25 of two weighted
fields, the text and its opening. Source: Robertson, Zaragoza and Taylor, "Simple BM25 Extension to
Multiple Weighted Fields" (2004), section 3.2.

*Weights of terms.* Words such as "how" and "were" can be as rare as keywords, but they are spread
over the documents at random, while a document about a keyword repeats it. So the weight of a term
is

    w(t) = idf(t) · (1 + :data:`BURSTINESS` · ridf(t)),  ridf(t) = ln(N / n) + ln(1 - exp(-cf / N)),

where cf counts t in all documents: ridf is by how much ln(N / n) exceeds what it would be if these
occurrences were distributed by Poisson's law; it is 0 where that is less. Source: Church and Gale,
"Inverse Document Frequency (IDF): A Measure of Deviations from Poisson" (1995).

*Titles.* The title of a document is the first line of its text; a text of one line has none.
:data:`TITLE_WEIGHT` times the title's own score is added, in which tf, |d|, avg, N and n are those
of the titles alone. So a short title with all words of a query counts much, and a word of many
titles, such as "report", little. This is the sum of the scores of two fields, as in Lucene's
queries over several fields.

*Summaries.* A document whose title and first sentence have all words of a query usually answers it.
The summary s of a document is its title and the first sentence that follows, at most
:data:`SUMMARY_TERMS` terms. With share = Σ_{t in s} w(t)² / Σ_t w(t)², it adds to the score

    :data:`SUMMARY_WEIGHT` · Σ_t w(t) · share² / (1 - b + b · |s| / avg),

where |s| = Σ_{t in s} (characters of t)², over the distinct terms of s, with the mean avg. The
square of the share is small unless the share is large, so a long query gains little from a summary
with a few of its words. A share below :data:`LEAST_SHARE`, such as that of a function word, counts
as 0. |s| stands in for the sum of the squares of weights, by which a cosine divides: words that
occur often are short (Zipf, "The Psycho-Biology of Language", 1935), and a write does not change
the lengths of words. A text of one sentence is its own summary. If all texts are such, summaries
only repeat them, and do not count.

In both rankings, the part of each term is rounded to a multiple of 1 / :data:`UNIT`. So scores are
sums of integers, which do not depend on the order of addition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

K1 = 1.2
B = 0.75
UNIT = 2**20
OPENING = 12
"""The number of terms at the beginning of a text that can count twice."""
BURSTINESS = 0.5
TITLE_WEIGHT = 0.2
SUMMARY_WEIGHT = 0.3
LEAST_SHARE = 0.1
"""The least share of a query with which a summary counts."""
SUMMARY_TERMS = 30
"""The most terms of a summary."""


def inverse_frequency(n_documents: int, frequency: int) -> float:
    """Return idf of a term that `frequency` of `n_documents` documents have."""
    return math.log(1 + (n_documents - frequency + 0.5) / (frequency + 0.5))


def residual_inverse_frequency(n_documents: int, frequency: int, occurrences: int) -> float:
    """Return ridf of a term that occurs so often, in `frequency` of `n_documents` documents."""
    expected_share = -math.expm1(-occurrences / n_documents)
    return max(0.0, math.log(n_documents / frequency * expected_share))


def saturation(
    counts: npt.NDArray[Any], lengths: npt.NDArray[Any], average_length: float
) -> npt.NDArray[np.float64]:
    """Return tf / (tf + k1 · (1 - b + b · |d| / avg)), elementwise; it lies between 0 and 1."""
    tf = counts.astype(np.float64)
    norms = K1 * (1 - B + B * (lengths / average_length))
    return np.asarray(tf / (tf + norms))


def part_of_term(idf: float, saturations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return what a term adds to scores, in units, as integers."""
    return np.rint(idf * UNIT * saturations)


def part_of_summary(
    highest: float,
    shares: npt.NDArray[np.float64],
    sizes: npt.NDArray[Any],
    average_size: float,
) -> npt.NDArray[np.float64]:
    """Return what summaries add to scores, in units, as integers.

    `highest` is the sum of the weights of a query's terms; `shares` are the shares of their squares
    that summaries of these `sizes` have.
    """
    norms = 1 - B + B * (sizes / average_size)
    return np.rint(SUMMARY_WEIGHT * UNIT * highest * (shares * shares) / norms)

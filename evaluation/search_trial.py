"""Whether the codes of a trained encoder may replace those in use: both search held-out documents.

    python -m hummingbit.evaluation.search_trial FOLDER

compares them in a process of its own. The folder has the documents that the encoder learned from
and those that were held out, both as JSON lines, and the encoder. Both are searched as users search
them, by the default ranking, in collections that exist for the comparison only.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from hummingbit.corpus.document import Document
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.artifact import load_encoder
from hummingbit.evaluation.known_items import (
    FOUND,
    RECIPROCAL_RANK,
    SAME_LABEL,
    chance_by_label,
    known_items,
    paraphrased,
    same_label,
    words_of_sentences,
)
from hummingbit.evaluation.labelling.trial import ALPHA, DETECT
from hummingbit.evaluation.significance import format_probability, holm, permutation_test
from hummingbit.foundation.files import replace_file
from hummingbit.foundation.slices import (
    STAGES_VARIABLE,
    begin_stage,
    report_done,
    write_stages,
)
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.ingestion import ingest
from hummingbit.index.names import BM25
from hummingbit.index.passages import Passages
from hummingbit.index.rankings import RANKINGS

LEARNED_FILE = "learned.jsonl"
HELD_OUT_FILE = "held-out.jsonl"
REQUEST_FILE = "trial-request.json"
TRIAL_FILE = "trial.json"
ENCODER_FOLDER = "encoder"
Values = Mapping[str, float]
"""A value for each query, by its id."""
MIN_LABELLED = 20
"""Fewer labelled queries say nothing about labels."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What one task shows: the means of a metric before and after, over the same queries.

    `p_value` is that of the two-sided paired permutation test, corrected for the number of tasks
    (Holm).
    """

    metric: str
    queries: int
    before: float
    after: float
    p_value: float

    @property
    def is_shown(self) -> bool:
        """Whether the queries suffice to tell which is better."""
        return self.before != self.after and self.p_value <= ALPHA

    @property
    def is_gain(self) -> bool:
        """Whether the trained codes are better: by a test, and by :data:`DETECT` at least."""
        return self.is_shown and self.after - self.before >= DETECT

    @property
    def is_loss(self) -> bool:
        """Whether the trained codes are worse: by a test, or by more than :data:`DETECT`."""
        return self.after < self.before and (self.is_shown or self.before - self.after >= DETECT)


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """A trial and its gate: what the codes were trained for must gain, and no task may lose.

    With labels that is to find documents of the same label. Words of documents stand for questions
    then, but not well enough to be a reason.
    """

    gains: Sequence[Gain]

    @property
    def passed(self) -> bool:
        """Whether the trained codes may replace those in use."""
        by_label = [gain for gain in self.gains if gain.metric == SAME_LABEL]
        is_better = all(gain.is_gain for gain in by_label or self.gains)
        return is_better and not any(gain.is_loss for gain in self.gains)

    @property
    def sentence(self) -> str:
        """What was found, as the end of a sentence."""
        return "; ".join(map(_clause, self.gains))


def _clause(gain: Gain) -> str:
    whose = {
        SAME_LABEL: "of the first ten hits share the document's label",
        FOUND: "of documents are in the first ten hits for some of their words",
    }[gain.metric]
    test = format_probability(gain.p_value) if gain.is_shown else "not significant"
    before, after = (f"{share:.0%}" for share in (gain.before, gain.after))
    if before == after:
        before, after = (f"{share:.1%}" for share in (gain.before, gain.after))
    return f"{after} {whose}, {before} before ({test})"


def compare_by(before: Mapping[str, Values], after: Mapping[str, Values]) -> SearchTrial:
    """Compare the values of each metric for the queries that both have."""
    pairs = {
        metric: np.array(
            [(value, after[metric][id_]) for id_, value in values.items() if id_ in after[metric]]
        )
        for metric, values in before.items()
    }
    p_values = holm([permutation_test(pair[:, 1], pair[:, 0]) for pair in pairs.values()])
    return SearchTrial(
        [
            Gain(metric, len(pair), float(pair[:, 0].mean()), float(pair[:, 1].mean()), p_value)
            for (metric, pair), p_value in zip(pairs.items(), p_values, strict=True)
        ]
    )


@dataclass(frozen=True)
class Queries:
    """The held-out documents, and what is searched for: words of each, and those with labels."""

    documents: Sequence[Document]
    words: Mapping[str, str]
    """A query by the id of the document that it is made of."""
    labelled: Sequence[Document]

    @classmethod
    def of(
        cls,
        held_out: Sequence[Document],
        learned: Sequence[Document],
        near: Callable[[str], Iterable[str]] | None = None,
    ) -> Queries:
        """Make queries of the held-out documents; `near` is of the encoder in use
        (:func:`.paraphrased`).
        """
        words = paraphrased(words_of_sentences(held_out), [*held_out, *learned], near)
        labelled = [document for document in held_out if document.labels]
        n_labels = len({document.labels for document in [*learned, *held_out]})
        if len(labelled) < MIN_LABELLED or n_labels < 2:
            labelled = []
        by_id = {document.id: text for document, text in zip(held_out, words, strict=True)}
        return cls(held_out, by_id, labelled)

    def measure(
        self, collection: CollectionBackend, rankings: Sequence[str]
    ) -> dict[str, dict[str, Values]]:
        """Return the values of each metric by ranking."""
        measured: dict[str, dict[str, Values]] = {name: {} for name in rankings}
        by_task = [known_items(collection, self.words, rankings)]
        if self.labelled:
            by_task.append(same_label(collection, self.labelled, rankings))
        for evaluations in by_task:
            for name, evaluation in evaluations.items():
                for metric, values in evaluation.per_query.items():
                    by_id = zip(evaluation.query_ids, values.tolist(), strict=True)
                    measured[name][metric] = dict(by_id)
        return measured


def run_trial(folder: Path) -> dict[str, Any]:
    """Compare the encoder in a folder with the one in use, and return the trial as JSON."""
    request = json.loads((folder / REQUEST_FILE).read_bytes())
    learned = list(read_documents(folder / LEARNED_FILE))
    held_out = list(read_documents(folder / HELD_OUT_FILE))
    queries = Queries.of(held_out, learned, _near_by(request["current"]))
    measured: list[tuple[str, dict[str, dict[str, Values]]]] = []
    for which, encoder in (("before", request["current"]), ("after", str(folder / ENCODER_FOLDER))):
        begin_stage(f"searching for the documents held out, as {which} training")
        report_done(len(measured), 2)
        with (
            tempfile.TemporaryDirectory(dir=folder) as scratch,
            DataFolder(Path(scratch) / "data", writable=True) as data,
        ):
            if encoder is not None:
                data.encoders.install(Path(encoder), "trial")
            collection = data.create_collection(
                "trial",
                encoder=None if encoder is None else "trial",
                n_bits=0 if encoder is None else None,
                passages=Passages.of(request["passages"]),
                language=request["language"],
            )
            ingest(collection, [*learned, *held_out])
            served = collection.ranking
            rankings = [BM25] if encoder is None else list(RANKINGS)
            measured.append((served, queries.measure(collection, rankings)))
    (before_by, before), (after_by, after) = measured
    tasks = [FOUND, *([SAME_LABEL] if queries.labelled else [])]
    trial = compare_by(
        {metric: before[before_by][metric] for metric in tasks},
        {metric: after[after_by][metric] for metric in tasks},
    )
    chance = chance_by_label(learned, queries.labelled) if queries.labelled else None
    return {
        "passed": trial.passed,
        "sentence": trial.sentence,
        "documents": len(learned) + len(held_out),
        "queries": len(held_out),
        "labelled_queries": len(queries.labelled),
        "gains": [asdict(gain) for gain in trial.gains],
        "before": {before_by: _means(before[before_by])},
        "after": {name: _means(values) for name, values in after.items()},
        "served": after_by,
        "chance": chance,
    }


def _near_by(folder: str | None) -> Callable[[str], Iterable[str]] | None:
    """Return what finds the words near to one in an encoder's table; None if it has no table."""
    encoder = None if folder is None else load_encoder(Path(folder))
    if encoder is None or not encoder.has_table_of_words:
        return None
    return lambda term: [neighbour.word for neighbour in encoder.neighbours(term, VISIBLE)]


def _means(by_metric: Mapping[str, Values]) -> dict[str, float]:
    return {
        metric: fmean(by_metric[metric].values())
        for metric in (SAME_LABEL, FOUND, RECIPROCAL_RANK)
        if metric in by_metric
    }


def main() -> None:
    """Run the trial of the folder that is named, and write its result there."""
    folder, stages = Path(sys.argv[1]), os.environ.get(STAGES_VARIABLE)
    with write_stages(Path(stages)) if stages else nullcontext():
        trial = run_trial(folder)
    replace_file(folder / TRIAL_FILE, json.dumps(trial))


if __name__ == "__main__":
    main()

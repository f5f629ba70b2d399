"""Whether a new encoder may take the place of the one in use: both ranked on held-out labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from encoder.encoder import Encoder
from evaluation.relevance import Labelled
from evaluation.result import EvaluationError
from evaluation.retrieval import evaluate_encoder
from evaluation.significance.resampling import permutation_test

TRIAL_METRICS = ("P@10", "mAP@100")
GATE_METRIC = "mAP@100"
FEWEST_LABELLED = 10


@dataclass(frozen=True, slots=True)
class Trial:
    """The figures of both encoders on the same queries, tie-averaged, and what the gate says.

    The gate passes if the new encoder's mAP@100 is at least `min_gain` above the present one's.
    `p_value` is that of the paired permutation test, two-sided.
    """

    queries: int
    documents: int
    current: Mapping[str, float]
    candidate: Mapping[str, float]
    min_gain: float
    p_value: float

    @property
    def gain(self) -> float:
        """What the new encoder adds to mAP@100."""
        return self.candidate[GATE_METRIC] - self.current[GATE_METRIC]

    @property
    def passed(self) -> bool:
        """Whether the gate passes."""
        return self.gain >= self.min_gain


def hold_out_labels(
    known: Mapping[str, Sequence[str]], seen: Sequence[str], share: float, seed: int
) -> list[str]:
    """Return the ids of labelled documents to judge by, at least one and not those of a lone class.

    Those whose labels the encoder in use was not shown, `seen`, are taken first: it would otherwise
    be asked what it has learned.

    Raises:
        EvaluationError: if there are fewer than ten labelled documents, or not two classes.
    """
    labelled = sorted(id_ for id_, labels in known.items() if labels)
    classes = {label for id_ in labelled for label in known[id_]}
    if len(labelled) < FEWEST_LABELLED or len(classes) < 2:
        found = f"{len(labelled)} documents are labelled, with {len(classes)} different labels"
        message = f"{found}; at least {FEWEST_LABELLED} documents and two labels are needed"
        raise EvaluationError(message)
    shown = set(seen)
    order = np.random.default_rng(seed).permutation(len(labelled)).tolist()
    order.sort(key=lambda at: labelled[at] in shown)
    wanted = max(1, round(share * len(labelled)))
    left = {label: sum(label in known[id_] for id_ in labelled) for label in classes}
    held: list[str] = []
    for id_ in (labelled[at] for at in order):
        if len(held) == wanted:
            break
        if all(left[label] > 1 for label in known[id_]):
            held.append(id_)
            for label in known[id_]:
                left[label] -= 1
    if not held:
        raise EvaluationError("no label is that of two documents, so none can be held out")
    return sorted(held)


def compare_encoders(
    current: Encoder,
    candidate: Encoder,
    database: Labelled,
    queries: Labelled,
    min_gain: float = 0.0,
) -> Trial:
    """Search the labelled documents of `database` for each of the `queries` with both encoders.

    Raises:
        InputError: if an encoder does not take such inputs.
    """
    found = [
        evaluate_encoder(encoder, database, queries, TRIAL_METRICS)
        for encoder in (current, candidate)
    ]
    per_query = [one.expected_per_query[GATE_METRIC] for one in found]
    return Trial(
        queries=len(queries),
        documents=len(database),
        current=found[0].expected,
        candidate=found[1].expected,
        min_gain=min_gain,
        p_value=permutation_test(per_query[1], per_query[0]),
    )

"""Whether a new encoder may replace the current one: both are evaluated on held-out labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hummingbit.encoder.encoder import Encoder
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.evaluation.relevance import Labelled
from hummingbit.evaluation.result import EvaluationError
from hummingbit.evaluation.significance import permutation_test, queries_to_detect
from hummingbit.foundation.errors import counted

TRIAL_METRICS = ("P@10", "mAP@100")
GATE_METRIC = "mAP@100"
MIN_LABELLED = 10
DETECT = 0.05
"""The loss in mAP@100 that the held-out documents must suffice to notice."""
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Trial:
    """The tie-averaged metrics of both encoders on the same queries, and the gate.

    The gate passes if the new encoder's mAP@100 is at least `min_gain` above the current one's, and
    the queries suffice to tell: the gain is significant, or a difference of :data:`DETECT` below
    `min_gain` would be noticed, which takes `needed` queries
    (:func:`hummingbit.evaluation.significance.queries_to_detect`). `p_value` is that of the
    two-sided paired permutation test. `seen` counts the queries with whose labels the current
    encoder was trained; if it is all of them, its values are of training data, and nothing can be
    told. With `accept_uncertain`, the gate passes without being able to tell.
    """

    queries: int
    documents: int
    current: Mapping[str, float]
    candidate: Mapping[str, float]
    min_gain: float
    p_value: float
    needed: int
    seen: int = 0
    accept_uncertain: bool = False

    @property
    def gain(self) -> float:
        """The difference in mAP@100, new minus current."""
        return self.candidate[GATE_METRIC] - self.current[GATE_METRIC]

    @property
    def passed(self) -> bool:
        """Whether the gate passes."""
        is_enough = self.gain >= self.min_gain
        return is_enough and (self.accept_uncertain or self.uncertainty is None)

    @property
    def uncertainty(self) -> str | None:
        """Why the gate cannot tell, or None if it can."""
        if self.seen and self.seen == self.queries:
            return (
                "cannot tell: values of training data, since the encoder in use was trained with"
                " the labels of all held-out documents; label others"
            )
        is_significant = self.gain > 0 and self.p_value <= ALPHA
        if is_significant or self.needed <= self.queries:
            return None
        queries = counted(self.queries, "held-out document")
        more = counted(self.needed - self.queries, "more document")
        return (
            f"cannot tell: {queries} would not show a difference of {DETECT:g} reliably; hold out"
            f" {more}, by labelling more or by a larger held_out"
        )


def hold_out_labels(
    known: Mapping[str, Sequence[str]], seen: Sequence[str], share: float, seed: int
) -> list[str]:
    """Return the ids of a `share` of the labelled documents, at least one, to evaluate with.

    `known` has the labels by document id. At least one document of each label is left for training.
    Documents in `seen`, with whose labels the current encoder was trained, are chosen only if there
    are no others, since it would do too well on them; of the others at most half are chosen.

    Raises:
        EvaluationError: if there are fewer than ten labelled documents or two classes, or no label
            occurs twice.
    """
    labelled = sorted(id_ for id_, labels in known.items() if labels)
    classes = {label for id_ in labelled for label in known[id_]}
    if len(labelled) < MIN_LABELLED or len(classes) < 2:
        labels = counted(len(classes), "different label")
        documents = counted(len(labelled), "labelled document")
        needed = f"at least {MIN_LABELLED} documents and two labels are needed"
        raise EvaluationError(f"found {documents} with {labels}; {needed}")
    seen_ids = set(seen)
    order = np.random.default_rng(seed).permutation(len(labelled)).tolist()
    n_held_out = max(1, round(share * len(labelled)))
    unseen = [position for position in order if labelled[position] not in seen_ids]
    if unseen and len(unseen) < len(order):
        order, n_held_out = unseen, min(n_held_out, -(-len(unseen) // 2))
    remaining = {label: sum(label in known[id_] for id_ in labelled) for label in classes}
    held_out: list[str] = []
    for id_ in (labelled[position] for position in order):
        if len(held_out) == n_held_out:
            break
        if all(remaining[label] > 1 for label in known[id_]):
            held_out.append(id_)
            for label in known[id_]:
                remaining[label] -= 1
    if not held_out:
        message = "every label occurs on one document only, so no document can be held out"
        raise EvaluationError(message)
    return sorted(held_out)


def compare_encoders(
    current: Encoder,
    candidate: Encoder,
    database: Labelled,
    queries: Labelled,
    min_gain: float = 0.0,
    *,
    seen: int = 0,
    accept_uncertain: bool = False,
) -> Trial:
    """Evaluate both encoders on the labelled documents of `database` and `queries`.

    Both may have read the texts of the queries without their labels. `seen` counts the queries with
    whose labels the current encoder was trained.

    Raises:
        InputError: if an encoder does not take such inputs.
    """
    evaluations = [
        evaluate_encoder(encoder, database, queries, TRIAL_METRICS, keep_learned=True)
        for encoder in (current, candidate)
    ]
    per_query = [evaluation.expected_per_query[GATE_METRIC] for evaluation in evaluations]
    return Trial(
        queries=len(queries),
        documents=len(database),
        current=evaluations[0].expected,
        candidate=evaluations[1].expected,
        min_gain=min_gain,
        p_value=permutation_test(per_query[1], per_query[0]),
        needed=queries_to_detect(per_query[1] - per_query[0], DETECT + max(0.0, -min_gain), ALPHA),
        seen=seen,
        accept_uncertain=accept_uncertain,
    )

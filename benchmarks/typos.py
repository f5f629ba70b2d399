"""What one typo a query costs in P@10, with unknown words corrected and without.

An encoder of ITQ is fitted to the train split; queries are documents of the second split. In each,
one word of four letters or more, drawn at random, has a letter left out, doubled, replaced or
exchanged with the next.
"""

from __future__ import annotations

import argparse

import numpy as np

from corpus.readers import read_documents
from encoder.codes import pack_bits
from encoder.encoder import Encoder, Layer
from evaluation.retrieval import evaluate_codes
from training.data import gather
from training.linear_codes import fit_itq
from training.text_features import fit_text_features


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="snippets:train")
    parser.add_argument("--queries", default="snippets:test")
    parser.add_argument("--bits", type=int, default=64, help="(default: %(default)s)")
    args = parser.parse_args()
    documents = gather(read_documents(args.documents)).labelled()
    queries = gather(read_documents(args.queries)).labelled()
    texts = [str(text) for text in queries.inputs]
    features = fit_text_features([str(text) for text in documents.inputs], 10_000)
    weight, thresholds = fit_itq(features.transform(documents.inputs), args.bits, 0)  # type: ignore[arg-type]
    bias = np.zeros(args.bits, dtype=np.float32)
    encoder = Encoder(features, [Layer(weight, bias, "identity")], thresholds, {})
    codes = encoder.encode(documents.inputs)
    rng = np.random.default_rng(0)
    typed = [with_typo(text, rng) for text in texts]
    for name, written, corrects in (
        ("as written", texts, False),
        ("as written, unknown words corrected", texts, True),
        ("a typo", typed, False),
        ("a typo, corrected", typed, True),
    ):
        weights = (
            encoder.query_weights(written) if corrects else encoder.logits(written) - thresholds
        )
        found = evaluate_codes(
            pack_bits(weights > 0), queries.labels, codes, documents.labels, ["P@10"]
        )
        print(f"{name:<36} tie-averaged P@10 {found.expected['P@10']:.4f}")


def with_typo(text: str, rng: np.random.Generator) -> str:
    """Return `text` with a slip in one of its words."""
    words = text.split()
    long = [place for place, word in enumerate(words) if len(word) >= 4 and word.isalpha()]
    if not long:
        return text
    place = int(rng.choice(long))
    word = words[place]
    at = int(rng.integers(len(word) - 1))
    slips = (
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + str(rng.choice(list("abcdefghijklmnopqrstuvwxyz"))) + word[at + 1 :],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    )
    words[place] = slips[int(rng.integers(len(slips)))]
    return " ".join(words)


if __name__ == "__main__":
    main()

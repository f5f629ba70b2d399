"""The loss in P@10 from one typo per query, with unknown words corrected and without.

An ITQ encoder is fitted to ``--documents``; the texts of ``--queries`` are the queries. In each
query, one random word of four letters or more gets a typo: a letter is left out, doubled, replaced
or swapped with the next one.
"""

from __future__ import annotations

import argparse

import numpy as np

from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.codes import pack_bits
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.training.data import gather
from hummingbit.training.linear_codes import fit_itq
from hummingbit.training.text_features import fit_text_features


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
    mistyped = [add_typo(text, rng) for text in texts]
    for name, query_texts, corrects in (
        ("as written", texts, False),
        ("as written, unknown words corrected", texts, True),
        ("a typo", mistyped, False),
        ("a typo, corrected", mistyped, True),
    ):
        weights = (
            encoder.query_weights(query_texts)
            if corrects
            else encoder.logits(query_texts) - thresholds
        )
        result = evaluate_codes(
            pack_bits(weights > 0), queries.labels, codes, documents.labels, ["P@10"]
        )
        print(f"{name:<36} tie-averaged P@10 {result.expected['P@10']:.4f}")


def add_typo(text: str, rng: np.random.Generator) -> str:
    """Return `text` with a typo in one of its words."""
    words = text.split()
    long_words = [i for i, word in enumerate(words) if len(word) >= 4 and word.isalpha()]
    if not long_words:
        return text
    position = int(rng.choice(long_words))
    word = words[position]
    at = int(rng.integers(len(word) - 1))
    typos = (
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + str(rng.choice(list("abcdefghijklmnopqrstuvwxyz"))) + word[at + 1 :],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    )
    words[position] = typos[int(rng.integers(len(typos)))]
    return " ".join(words)


if __name__ == "__main__":
    main()

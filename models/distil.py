"""Learns a table of vectors of words, word pieces and pairs of words from a sentence model.

    python models/distil.py TEXTS MODEL OUT [--device cuda] [--texts N] [--epochs N]

TEXTS is the file that ``models/texts.py`` writes, MODEL a folder with ``model.safetensors`` (or
``model.onnx``), ``config.json`` and ``tokenizer.json``. The sum of the rows of a text's terms
learns to stand where the model puts the text, and to find a text by a few of its words. The script
needs numpy, torch, tokenizers and safetensors (or onnxruntime), and nothing of hummingbit. OUT gets
``NAME.npz`` for each trial: the terms, their rows of length 1 in 8 bits, and their weights.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

DIMENSION = 256
WORDS, PAIRS = 62_000, 16_000
MAX_TOKENS = 128
_STOP = frozenset(
    "the a an of to and in is that for it as be on by with or are this which from at not if can was"
    " has have will may".split()
)
_WORD = re.compile(r"\b\w\w+\b")
_PART = re.compile(r"[^\W\d_]+|\d+")
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|\n")


def terms_of(text: str) -> list[str]:
    """Return the words of a text, as the analyzer ``visible`` splits ASCII."""
    return _WORD.findall(text.lower())


def choose_terms(texts: Sequence[str], tokens: Sequence[str]) -> list[str]:
    """Return the terms of the table: the model's tokens, frequent words, and pairs of words."""
    words: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        of_text = terms_of(text)
        words.update(set(of_text))
        pairs.update({pair for pair in pairwise(of_text) if not _STOP.intersection(pair)})
    known = [token for token in tokens if re.fullmatch(r"(##)?[a-z0-9]+", token)]
    have = set(known)
    frequent = [
        word for word, n in words.most_common() if n >= 4 and word.isalpha() and word.isascii()
    ]
    more = [word for word in frequent if word not in have and len(word) <= 24][:WORDS]
    have.update(more)
    n_texts = len(texts)
    likely = {
        pair: n * math.log(n * n_texts / (words[pair[0]] * words[pair[1]]))
        for pair, n in pairs.items()
        if n >= 12 and have.issuperset(pair) and not any(word.isdigit() for word in pair)
    }
    best = sorted(likely, key=lambda pair: -likely[pair])[:PAIRS]
    return [*known, *more, *(" ".join(pair) for pair in best)]


class Reader:
    """Turns texts into the columns of their terms."""

    def __init__(self, terms: Sequence[str], tokens: Sequence[str]) -> None:
        self.columns = {term: column for column, term in enumerate(terms)}
        self.tokens = self.columns.keys() & set(tokens)

    def read(self, text: str, *, by_pieces: bool = False) -> list[int]:
        """Return the columns of the terms; with `by_pieces`, only the model's tokens are words."""
        columns, words = [], terms_of(text)
        for word in words:
            column = self.columns.get(word)
            if column is None or (by_pieces and word not in self.tokens):
                columns += self.pieces(word, self.tokens if by_pieces else self.columns)
            else:
                columns.append(column)
        if not by_pieces:
            pairs = map(" ".join, pairwise(words))
            columns += [self.columns[pair] for pair in pairs if pair in self.columns]
        return columns

    def pieces(self, word: str, known: object) -> Iterator[int]:
        """Yield the columns of the longest known pieces of a word, from its beginning."""
        for part in _PART.findall(word):
            start = 0
            while start < len(part):
                mark = "##" if start else ""
                for end in range(len(part), start, -1):
                    piece = mark + part[start:end]
                    if piece in known:  # type: ignore[operator]
                        yield self.columns[piece]
                        break
                else:
                    break
                start = end


def query_of(text: str, rng: random.Random) -> str:
    """Return a sentence of a text, or a few words of it."""
    body = text.rpartition("\n")[2] if rng.random() < 0.7 else text
    sentences = [part for part in _SENTENCE.split(body) if len(part.split()) >= 3] or [text]
    sentence = rng.choice(sentences)
    if rng.random() < 0.4:
        return sentence
    words = [word.strip(".,;:()\"'") for word in sentence.split()]
    words = [word for word in words if word and word.lower() not in _STOP] or words
    n_words = min(len(words), rng.randint(2, 7))
    return " ".join(words[position] for position in sorted(rng.sample(range(len(words)), n_words)))


_reader: Reader


def _start(terms: Sequence[str], tokens: Sequence[str]) -> None:
    global _reader  # noqa: PLW0603 - of a process of the pool
    _reader = Reader(terms, tokens)


def _read_some(texts: Sequence[tuple[str, bool]]) -> list[list[int]]:
    return [_reader.read(text, by_pieces=by_pieces) for text, by_pieces in texts]


class Bags:
    """The columns of the terms of texts, with ln(1 + tf)."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        columns, weights, lengths = [], [], []
        for row in rows:
            counts = Counter(row)
            columns += counts.keys()
            weights += counts.values()
            lengths.append(len(counts))
        self.columns = torch.tensor(columns, dtype=torch.int32)
        self.weights = torch.log1p(torch.tensor(weights, dtype=torch.float32))
        self.starts = torch.tensor([0, *lengths]).cumsum(0)

    def to(self, device: str) -> Bags:
        """Move to a device."""
        self.columns, self.weights = self.columns.to(device), self.weights.to(device)
        self.starts = self.starts.to(device)
        return self

    def vectors(self, rows: Tensor, table: Tensor) -> Tensor:
        """Return the weighted sums of the rows of `table`, of length 1."""
        starts, lengths = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        ends = lengths.cumsum(0)
        positions = torch.arange(int(ends[-1]), device=rows.device)
        positions += torch.repeat_interleave(starts - ends + lengths, lengths)
        sums = functional.embedding_bag(
            self.columns[positions].long(),
            table,
            ends - lengths,
            mode="sum",
            per_sample_weights=self.weights[positions],
        )
        return functional.normalize(sums, dim=1)


def encode(texts: Sequence[str], model: Path, device: str) -> Tensor:
    """Return the vectors of the model, float16 of length 1: the mean of its tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    ids: list[list[int]] = []
    for start in range(0, len(texts), 50_000):
        some = tokenizer.encode_batch(list(texts[start : start + 50_000]))
        ids += [text.ids for text in some]
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    run = _network(model, device)
    result = torch.zeros(len(ids), 384, dtype=torch.float16)
    start, most = 0, 65_536 if device == "cuda" else 1024
    waiting = []
    while start < len(order):
        longest = len(ids[order[min(len(order) - 1, start + 15)]])
        rows = order[start : start + max(1, most // longest)]
        start += len(rows)
        longest = max(len(ids[row]) for row in rows)
        tokens = np.zeros((len(rows), longest), dtype=np.int64)
        mask = np.zeros_like(tokens)
        for position, row in enumerate(rows):
            tokens[position, : len(ids[row])] = ids[row]
            mask[position, : len(ids[row])] = 1
        waiting.append((rows, run(tokens, mask)))
        if len(waiting) > 8 or start >= len(order):
            for done, vectors in waiting:
                result[done] = vectors.cpu().half()
            waiting = []
    return result


def _network(model: Path, device: str):
    if (model / "model.onnx").is_file():
        import onnxruntime

        session = onnxruntime.InferenceSession(str(model / "model.onnx"))
        kinds = {
            input_.name: np.int32 if "32" in input_.type else np.int64
            for input_ in session.get_inputs()
        }

        def run(tokens, mask):
            feeds = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": tokens * 0}
            hidden = session.run(None, {k: feeds[k].astype(kind) for k, kind in kinds.items()})[0]
            return _pool(torch.from_numpy(hidden), torch.from_numpy(mask))

        return run
    from safetensors.torch import load_file

    weights = {
        name: tensor.to(device) for name, tensor in load_file(model / "model.safetensors").items()
    }
    words = "embeddings.word_embeddings"
    if f"{words}.rows" in weights:
        rows, scale = weights.pop(f"{words}.rows"), weights.pop(f"{words}.scale")
        weights[f"{words}.weight"] = rows * scale[:, None]
    kind = torch.float16 if device == "cuda" else torch.float32
    weights = {
        name: weight.to(kind) for name, weight in weights.items() if weight.is_floating_point()
    }
    config = json.loads((model / "config.json").read_text())

    @torch.inference_mode()
    def run(tokens, mask):
        ids, mask = torch.from_numpy(tokens).to(device), torch.from_numpy(mask).to(device)
        return _pool(_bert(weights, config, ids, mask.bool()), mask)

    return run


def _bert(weights: dict[str, Tensor], config: dict[str, int], ids: Tensor, mask: Tensor) -> Tensor:
    """Return the vectors of the tokens ``[N, L]`` by the network of BERT, ``[N, L, E]``."""

    def linear(x: Tensor, name: str) -> Tensor:
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def normalized(x: Tensor, name: str) -> Tensor:
        name = f"{name}.LayerNorm"
        size = (x.shape[-1],)
        return functional.layer_norm(
            x, size, weights[f"{name}.weight"], weights[f"{name}.bias"], config["layer_norm_eps"]
        )

    def heads(x: Tensor) -> Tensor:
        return x.unflatten(2, (config["num_attention_heads"], -1)).transpose(1, 2)

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = normalized(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        parts = [
            heads(linear(x, f"{name}.attention.self.{part}")) for part in ("query", "key", "value")
        ]
        mixed = functional.scaled_dot_product_attention(*parts, attn_mask=mask[:, None, None])
        mixed = linear(mixed.transpose(1, 2).flatten(2), f"{name}.attention.output.dense")
        x = normalized(x + mixed, f"{name}.attention.output")
        inner = functional.gelu(linear(x, f"{name}.intermediate.dense"))
        x = normalized(x + linear(inner, f"{name}.output.dense"), f"{name}.output")
    return x


def _pool(hidden: Tensor, mask: Tensor) -> Tensor:
    mean = (hidden.float() * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
    return functional.normalize(mean, dim=1)


def soft_targets(similarities: Tensor, temperature: float, own: float) -> Tensor:
    """Return rows of probabilities: `own` for the diagonal, the rest by the similarities."""
    targets = (similarities / temperature).softmax(dim=1) * (1 - own)
    targets.diagonal().add_(own)
    return targets


def fit(
    documents: Bags,
    queries: Bags,
    document_vectors: Tensor,
    query_vectors: Tensor,
    directions: Tensor,
    n_terms: int,
    *,
    epochs: int,
    batch_size: int,
    contrast: float,
    temperature: float,
    own: float,
    rate: float,
    start: Tensor | None = None,
) -> Tensor:
    """Return the table of terms, float32 ``(V, 256)``.

    The loss is 1 - cos of a text's vector and the model's, `contrast` times the cross entropy of
    the similarities of queries to documents and those that the model gives, of which `own` goes to
    the document that the query was taken from.
    """
    device = directions.device
    table = (
        torch.randn(n_terms, DIMENSION, device=device) * 0.02 if start is None else start.clone()
    )
    table.requires_grad_(True)
    optimizer = torch.optim.Adam([table], lr=rate)
    n_rows = len(document_vectors)
    n_steps = epochs * (n_rows // batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 100) * max(0.0, 1 - step / n_steps)
    )
    step, began = 0, time.time()
    for _ in range(epochs):
        order = torch.randperm(n_rows, device=device)
        for first in range(0, n_rows - batch_size + 1, batch_size):
            rows = order[first : first + batch_size]
            teacher_d, teacher_q = document_vectors[rows].float(), query_vectors[rows].float()
            short_d = functional.normalize(teacher_d @ directions, dim=1)
            short_q = functional.normalize(teacher_q @ directions, dim=1)
            found_d, found_q = documents.vectors(rows, table), queries.vectors(rows, table)
            regression = 2 - (found_d * short_d).sum(1).mean() - (found_q * short_q).sum(1).mean()
            loss = regression
            if contrast:
                with torch.no_grad():
                    targets = soft_targets(teacher_q @ teacher_d.T, temperature, own)
                    among = soft_targets(teacher_d @ teacher_d.T, temperature, 0.0)
                scores = found_q @ found_d.T / temperature
                loss = loss + contrast * (
                    functional.cross_entropy(scores, targets)
                    + 0.5 * functional.cross_entropy(scores.T, targets.T / targets.sum(0)[:, None])
                    + 0.5 * functional.cross_entropy(found_q @ short_d.T / temperature, targets)
                    + 0.5 * functional.cross_entropy(found_d @ found_d.T / temperature, among)
                )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % 200 == 0 or step == n_steps:
                print(
                    f"  step {step:,} of {n_steps:,}: loss {loss.item():.4f},"
                    f" 1 - cos {regression.item() / 2:.4f}, {time.time() - began:.0f} s",
                    flush=True,
                )
    return table.detach()


def found_share(documents: Tensor, queries: Tensor) -> float:
    """Return the mean reciprocal rank of the document of each query."""
    scores = queries @ documents.T
    own = scores.diagonal()[:, None]
    return float((1 / (1 + (scores > own).sum(1))).float().mean())


TRIALS = {
    "a": {"contrast": 0.3, "temperature": 0.05, "own": 0.5},
    "b": {"contrast": 1.0, "temperature": 0.05, "own": 0.3},
}


def main() -> None:
    """Read the texts, encode them, and learn a table by each of the trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--n-texts", type=int, default=None)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trials", nargs="+", default=list(TRIALS))
    args = parser.parse_args()
    began = time.time()
    torch.manual_seed(0)
    is_packed = args.texts.suffix == ".xz"
    with lzma.open(args.texts, "rt") if is_packed else args.texts.open() as lines:
        texts = [json.loads(line) for line in lines][: args.n_texts]
    rng = random.Random(0)
    queries = [query_of(text, rng) for text in texts]
    vocabulary = json.loads((args.model / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    terms = choose_terms(texts, tokens)
    print(f"{len(texts):,} texts, {len(terms):,} terms, {time.time() - began:.0f} s", flush=True)
    # One text in eight is read by the pieces of its rarer words, so that these learn, too.
    chunks = [
        [(text, rng.random() < 0.125) for text in some[start : start + 5000]]
        for some in (texts, queries)
        for start in range(0, len(some), 5000)
    ]
    with Pool(args.jobs, _start, (terms, tokens)) as pool:
        rows = [row for some in pool.imap(_read_some, chunks) for row in some]
    # A text without terms has no vector; it reads the first term.
    rows = [row or [0] for row in rows]
    document_bags = Bags(rows[: len(texts)]).to(args.device)
    query_bags = Bags(rows[len(texts) :]).to(args.device)
    print(f"read, {time.time() - began:.0f} s", flush=True)
    names = [term.removeprefix("##") for term in terms]
    vectors = encode([*texts, *queries, *names], args.model, args.device)
    print(f"encoded, {time.time() - began:.0f} s", flush=True)
    document_vectors = vectors[: len(texts)].to(args.device)
    query_vectors = vectors[len(texts) : 2 * len(texts)].to(args.device)
    some = document_vectors[:100_000].float()
    _, found = torch.linalg.eigh(some.T @ some)
    directions = found[:, -DIMENSION:].flip(1)
    # A term begins where the model puts it alone, and frequent ones count little.
    counts = torch.bincount(document_bags.columns, minlength=len(terms)).float()
    rarity = 1e-3 / (1e-3 + counts / len(texts))
    alone = vectors[2 * len(texts) :].to(args.device).float() @ directions
    start = functional.normalize(alone - alone.mean(0), dim=1) * rarity[:, None] * 0.3
    args.out.mkdir(parents=True, exist_ok=True)
    n_held = min(10_000, len(texts) // 10)
    held = torch.arange(len(texts) - n_held, len(texts), device=args.device)
    share = found_share(document_vectors[held].float(), query_vectors[held].float()[:2000])
    print(f"model, held out: {share:.4f}", flush=True)
    for name in args.trials:
        torch.manual_seed(0)
        table = fit(
            document_bags,
            query_bags,
            document_vectors[:-n_held],
            query_vectors[:-n_held],
            directions,
            len(terms),
            epochs=args.epochs,
            batch_size=args.batch_size,
            rate=args.rate,
            start=start,
            **TRIALS[name],
        )
        found_d, found_q = document_bags.vectors(held, table), query_bags.vectors(held, table)
        share = found_share(found_d, found_q[:2000])
        print(f"{name}, held out: {share:.4f}, {time.time() - began:.0f} s", flush=True)
        weights = table.norm(dim=1)
        rows_8 = (functional.normalize(table, dim=1) * 254).round().clamp(-127, 127).to(torch.int8)
        np.savez(
            args.out / f"{name}.npz",
            terms=np.array("\n".join(terms)),
            rows=rows_8.cpu().numpy(),
            weights=weights.cpu().numpy().astype(np.float32),
            directions=directions.cpu().numpy().astype(np.float16),
        )


if __name__ == "__main__":
    main()

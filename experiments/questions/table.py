"""What a search finds of each family's questions, by words alone and by words and codes.

    python -m experiments.questions.table --half choose

Beside the four families, the table has the demo's 120 questions and six corpora of judged queries.
Both were used to choose settings, in both halves; of `nfcorpus`, the half `choose` has the queries
for development. A collection is searched as a service searches it, with the encoder that ships or,
with ``--bits``, with encoders by the recipe of ``hummingbit quickstart``, one for each seed. Then
figures are means over the seeds.

"plain bm25" matches words as they are written (``expand: false``), "bm25" also words of similar
meaning. "in ten" is the share of questions with a right answer among the first ten, and "ahead" is
the mean difference of hybrid and plain bm25 with its paired bootstrap interval of 95 %. "lost" are
questions with a right answer first by bm25, or first by codes (asymmetric), that hybrid has in no
place of the first ten, of all questions with such a first answer.

With ``--model FOLDER``, a last column has the cosine of a sentence model's vectors, of texts cut to
128 tokens, without codes.

``--weights`` compares weights of codes beside words, and prints for each family what it has with
the weight that is best on average over the other families.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.parts import add_choices, add_data_root
from experiments.questions.families import FAMILIES, HALVES, load_family
from experiments.result_tables import print_table
from hummingbit.corpus.document import Document
from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.named_sets import JUDGED, load_dataset, load_qrels
from hummingbit.corpus.qrels import Qrels
from hummingbit.evaluation.significance import Interval, bootstrap_intervals
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import shipped_encoder
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.ingestion import ingest
from hummingbit.index.options import (
    Hybrid,
    SearchOptions,
)
from hummingbit.index.records import Query
from hummingbit.training.data import gather
from hummingbit.training.model_codes import read_documents
from hummingbit.training.model_folders import read_model
from hummingbit.training_methods import recipe_for_search, train_by

DEMO = "the 120"
CORPORA = tuple(name for name in JUDGED if name != "docstrings")
SETS = (*FAMILIES, DEMO, *CORPORA)
DEPTH = 100
MODEL_TOKENS = 128
PLAIN, WORDS, HYBRID, CODES = "plain bm25", "bm25", "hybrid", "asymmetric"
RANKINGS: Mapping[str, SearchOptions] = {
    PLAIN: SearchOptions(k=DEPTH, ranking="bm25", expand=False),
    WORDS: SearchOptions(k=DEPTH, ranking="bm25"),
    HYBRID: SearchOptions(k=DEPTH, ranking="hybrid"),
    CODES: SearchOptions(k=DEPTH, ranking="asymmetric"),
}
Floats = npt.NDArray[np.float64]


class Asked(NamedTuple):
    """Documents, questions, and the grades of the documents that answer each."""

    documents: list[Document]
    questions: list[Document]
    qrels: Qrels


class Found(NamedTuple):
    """What a ranking found of each question, ``float64[Q]`` each."""

    in_ten: Floats
    reciprocal: Floats
    """1 / the place of the first right answer; 0 if it is not among the first hundred."""
    ndcg: Floats

    def __add__(self, other: Found) -> Found:  # type: ignore[override]
        return Found(*(one + another for one, another in zip(self, other, strict=True)))

    def divided(self, number: int) -> Found:
        """Return the means of so many that were added."""
        return Found(*(values / number for values in self))


def load(name: str, half: str, root: Path | None) -> Asked:
    """Return the documents and the questions of a half that have an answer."""
    if name in FAMILIES:
        family = load_family(name, half, root)
        return Asked(family.documents, family.queries, family.qrels)
    splits: tuple[str, ...] = ("documents",)
    corpus, questions = name, "queries"
    if name == DEMO:
        splits, corpus = ("train", "test"), "docstrings"
    elif name == "nfcorpus" and half == "choose":
        questions = "queries-development"
    documents = [document for split in splits for document in load_dataset(corpus, split, root)]
    judged, ids = load_qrels(corpus, questions, root) or {}, {document.id for document in documents}
    qrels = {
        query: {id_: grade for id_, grade in grades.items() if grade > 0 and id_ in ids}
        for query, grades in judged.items()
    }
    asked = [query for query in load_dataset(corpus, questions, root) if qrels.get(query.id)]
    return Asked(documents, asked, qrels)


def collections(name: str, asked: Asked, args: argparse.Namespace) -> Iterator[CollectionBackend]:
    """Yield the collection of each seed, made where the work folder has none."""
    corpus = "docstrings" if name == DEMO else name
    encoders = [f"trained{args.bits}-{seed}" for seed in range(args.seeds)] if args.bits else []
    if args.encoders is not None:
        encoders = [args.encoders.name]
    for seed, encoder in enumerate(encoders or ["shipped"]):
        base = args.work_dir / f"{corpus}-{encoder}"
        if not base.exists():
            partial = base.with_name(f"{base.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            documents = [document for document in asked.documents if (document.text or "").strip()]
            if args.encoders is not None:
                shutil.copytree(args.encoders / corpus, partial / "encoders" / encoder)
            elif args.bits:
                data = gather(documents)
                recipe = recipe_for_search(data, args.bits, has_labels=False)
                train_by(data, replace(recipe, seed=seed), partial / "encoders" / encoder)
            else:
                shipped = shipped_encoder()
                if shipped is None:
                    raise ReadError("the encoder that ships needs: pip install hummingbit-models")
                shutil.copytree(shipped, partial / "encoders" / encoder)
            with DataFolder(partial, writable=True) as folder:
                ingest(folder.create_collection(corpus, encoder=encoder), documents)
            partial.rename(base)
        with DataFolder(base, writable=False) as folder:
            yield folder.collection(corpus)


def find(
    collection: CollectionBackend, asked: Asked, options: SearchOptions
) -> tuple[list[list[str]], Found]:
    """Return the hits of each question, and how good they are."""
    ranked = [
        [hit.id for hit in collection.find([query], options).hits[0]]
        for query in (Query(text=question.text, code=question.code) for question in asked.questions)
    ]
    return ranked, judge(asked, ranked)


def judge(asked: Asked, ranked: Sequence[list[str]]) -> Found:
    """Return how good the hits of each question are."""
    grades = [asked.qrels[question.id] for question in asked.questions]
    pairs = [*zip(ranked, grades, strict=True)]
    places = [next((at for at, id_ in enumerate(ids) if id_ in of), None) for ids, of in pairs]
    in_ten = [place is not None and place < 10 for place in places]
    reciprocal = [0.0 if place is None else 1 / (place + 1) for place in places]
    ndcg = [
        _gain(of.get(id_, 0) for id_ in ids[:10]) / _gain(sorted(of.values(), reverse=True)[:10])
        for ids, of in pairs
    ]
    return Found(*(np.array(values, dtype=np.float64) for values in (in_ten, reciprocal, ndcg)))


def find_by_model(name: str, asked: Asked, folder: Path, work_dir: Path) -> Found:
    """Return how good the nearest documents by a model's vectors are; these stay in the folder."""
    model = read_model(folder, max_tokens=MODEL_TOKENS)
    documents = [document for document in asked.documents if (document.text or "").strip()]
    texts = [document.text or "" for document in documents]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    corpus = "docstrings" if name == DEMO else name
    vectors, _ = read_documents(model, texts, digest, work_dir / f"{corpus}-{folder.name}.vectors")
    queries, _ = model.features.transform_queries([query.text or "" for query in asked.questions])
    nearest = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :DEPTH]
    return judge(asked, [[documents[row].id for row in rows] for rows in nearest.tolist()])


def _gain(grades: Iterable[int]) -> float:
    return sum(grade / float(np.log2(place + 2)) for place, grade in enumerate(grades))


def n_lost(
    asked: Asked, first: Sequence[list[str]], hybrid: Sequence[list[str]]
) -> tuple[int, int]:
    """Return how many right answers that are first are in no place of ten, and of how many."""
    right = [
        (ids[0], others)
        for question, ids, others in zip(asked.questions, first, hybrid, strict=True)
        if ids and ids[0] in asked.qrels[question.id]
    ]
    return sum(id_ not in others[:10] for id_, others in right), len(right)


def measure(name: str, args: argparse.Namespace) -> list[str]:
    """Return the row of one set of questions."""
    asked = load(name, args.half, args.data_root)
    sums: dict[str, Found] = {}
    lost = np.zeros((2, 2), dtype=np.int64)
    n_seeds = 0
    for collection in collections(name, asked, args):
        n_seeds += 1
        lists = {}
        for ranking, options in RANKINGS.items():
            lists[ranking], found = find(collection, asked, options)
            sums[ranking] = sums[ranking] + found if ranking in sums else found
        for at, ranking in enumerate((WORDS, CODES)):
            lost[at] += n_lost(asked, lists[ranking], lists[HYBRID])
    means = {ranking: found.divided(n_seeds) for ranking, found in sums.items()}
    shown = [_figures(means[ranking]) for ranking in (PLAIN, WORDS, HYBRID)]
    intervals = bootstrap_intervals(
        {
            "in_ten": means[HYBRID].in_ten - means[PLAIN].in_ten,
            "reciprocal": means[HYBRID].reciprocal - means[PLAIN].reciprocal,
        }
    )
    ahead = [_interval(interval) for interval in intervals.values()]
    of_first = [f"{n} of {m}" for n, m in lost.tolist()]
    if args.model is not None:
        of_first.append(_figures(find_by_model(name, asked, args.model, args.work_dir)))
    return [name, str(len(asked.questions)), *shown, *ahead, *of_first]


def _figures(found: Found) -> str:
    return " / ".join(f"{values.mean():.3f}" for values in found)


def _interval(interval: Interval) -> str:
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def compare_weights(args: argparse.Namespace) -> None:
    """Print the figures of each weight, and those of the weight that the other sets choose."""
    figures = np.zeros((len(args.sets), len(args.weights)))
    for row, name in enumerate(args.sets):
        asked = load(name, args.half, args.data_root)
        of_seeds = []
        for collection in collections(name, asked, args):
            of_weights = []
            for weight in args.weights:
                options = replace(RANKINGS[HYBRID], hybrid=Hybrid(codes=weight))
                found = find(collection, asked, options)[1]
                is_judged = name in CORPORA
                of_weights.append(
                    found.ndcg.mean()
                    if is_judged
                    else (found.in_ten.mean() + found.reciprocal.mean()) / 2
                )
            of_seeds.append(of_weights)
        figures[row] = np.mean(of_seeds, axis=0)
    chosen = [
        args.weights[int(np.delete(figures, row, axis=0).mean(axis=0).argmax())]
        for row in range(len(args.sets))
    ]
    rows = [
        [name, *(f"{value:.4f}" for value in values), f"{weight:g}"]
        for name, values, weight in zip(args.sets, figures.tolist(), chosen, strict=True)
    ]
    rows.append(["mean", *(f"{value:.4f}" for value in figures.mean(axis=0).tolist()), ""])
    print("\nThe mean of in ten and MRR, or nDCG@10 of judged queries, by the weight of codes:\n")
    print_table(["", *(f"{weight:g}" for weight in args.weights), "chosen by the others"], rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=HALVES, default="choose", help="(default: %(default)s)")
    add_choices(parser, "--sets", SETS, "the sets of questions")
    parser.add_argument(
        "--bits", type=int, default=0, metavar="B", help="train encoders of so many bits"
    )
    parser.add_argument(
        "--encoders",
        type=Path,
        metavar="DIR",
        help="a folder with an encoder for each corpus, such as docstrings",
    )
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="a sentence model")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="encoders of each set")
    parser.add_argument("--weights", type=float, nargs="+", metavar="W", help="compare these")
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=Path("results/questions"),
        metavar="DIR",
        help="where collections are kept (default: %(default)s)",
    )
    add_data_root(parser)
    args = parser.parse_args()
    args.work_dir.mkdir(parents=True, exist_ok=True)
    if args.weights:
        compare_weights(args)
        return
    rows = []
    for name in args.sets:
        rows.append(measure(name, args))
        print(" | ".join(rows[-1]), flush=True)
    print(f"\nHalf {args.half}; in ten / MRR / nDCG@10 of each ranking:\n")
    header = ["", "questions", PLAIN, WORDS, HYBRID, "ahead in ten", "ahead in MRR"]
    lost = ["lost of bm25's first", "lost of codes' first"]
    by_model = [] if args.model is None else [f"cosine of {args.model.name}"]
    print_table([*header, *lost, *by_model], rows)


if __name__ == "__main__":
    main()

"""``hummingbit demo``: train, index, evaluate and serve the docstrings of installed packages."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hummingbit.commands.options import add_model, add_option, add_serving, check_folder_above
from hummingbit.commands.printed_figures import print_lines
from hummingbit.commands.printing import timed_stage
from hummingbit.corpus.document import Document
from hummingbit.corpus.named_sets import load_qrels
from hummingbit.corpus.qrels import Qrels
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import (
    STATIC,
    WORDS_AND_CLASSES,
    ClassCodeRecipe,
    ModelRecipe,
    Recipe,
)
from hummingbit.evaluation.baselines import (
    SOFT_CLASS_SCORES,
    ClassifierReference,
    classifier_baseline,
    classifier_warnings,
    soft_class_scores,
    tfidf_cosine,
    tfidf_scores,
)
from hummingbit.evaluation.evaluate import evaluate_by_score
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.evaluation.relevance import relevance_by_qrels
from hummingbit.evaluation.result import Evaluation
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import SHIPPED_DISTRIBUTION
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import UnknownCollection
from hummingbit.index.ingestion import ingest
from hummingbit.index.rankings import ASYMMETRIC, BM25, HAMMING, HYBRID
from hummingbit.index.records import Query
from hummingbit.service.server import serve
from hummingbit.service.settings import Settings
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.pipeline import Trained
from hummingbit.training_methods import (
    WITHOUT_MODEL,
    check_torch,
    choose_model,
    model_recipe,
    train_by,
)

NAME = "docstrings"
ENCODER, MODEL_ENCODER, STATIC_ENCODER = "docstrings64", "docstrings-model", "docstrings-static"
RECIPE = ClassCodeRecipe(
    n_bits=64,
    label_fraction=0.1,
    query_classifier="both",
    # The demo has queries of its own.
    validation_share=0.0,
    # With these 41 labels, 16 bits for the class suffice, and 44 remain for words.
    **{**WORDS_AND_CLASSES, "content_share": 0.6875},
)
EXAMPLES = (
    "fast Fourier transform of a real signal",
    "read numbers from a text file",
    "which points are nearest neighbours",
)
HITS_SHOWN = 4
# Ranks beyond the hundredth do not matter to anybody, and finding them takes time.
KNOWN_ITEMS = ("Success@10", "MRR@100")
METHODS = {
    HAMMING: "codes, Hamming",
    ASYMMETRIC: "codes, asymmetric",
    BM25: "words, BM25",
    HYBRID: "codes and words, hybrid",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_model(parser, otherwise=WITHOUT_MODEL)
    add_serving(parser, "figures")
    add_option(
        parser,
        "--data-dir DIR",
        "the data folder (default: %(default)s)",
        type=Path,
        default=Path("demo-data"),
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Build the corpus, train, index, evaluate, and serve until interrupted."""
    model, line = choose_model(args.model)
    name = {None: ENCODER, STATIC: STATIC_ENCODER}.get(model, MODEL_ENCODER)
    encoder_folder = args.data_dir / "encoders" / name
    check_folder_above(encoder_folder, f"--data-dir {args.data_dir}")
    recipe = _recipe(model, args.model_name)
    check_torch(recipe)
    print(f"language model: {line}")
    with timed_stage("reading the docstrings of the packages installed here"):
        documents = list(read_documents(f"{NAME}:train"))
        queries = list(read_documents(f"{NAME}:test"))
        data, query_data = gather(documents), gather(queries)
    print(
        f"  {len(data):,} documents, {len(query_data):,} held out as queries,"
        f" {len(data.classes)} labels"
    )
    of_labels = f"{recipe.label_fraction:.0%} of the labels"
    learned = f"with {of_labels}" if model is None else f"of {model}"
    with timed_stage(f"training {recipe.n_bits}-bit codes {learned}"):
        trained = train_by(data, recipe, encoder_folder, overwrite=True)
    _print_kind(trained)
    with DataFolder(args.data_dir, writable=True) as folder:
        with timed_stage("indexing"):
            collection = create_collection(folder, encoder_folder.name)
            ingest(collection, documents)
        with timed_stage("evaluating"):
            topics = _find_topics(collection, queries, trained, data, query_data)
            ingest(collection, queries)
            items = find_known_items(collection)
            items["TF-IDF cosine"] = _known_items_by_tfidf([*documents, *queries])
        _print_figures(topics, items, trained.encoder, collection)
        _print_examples(collection)
    if args.no_serve:
        return
    _print_curl(args.host, args.port)
    serve(Settings(data_dir=args.data_dir, host=args.host, port=args.port))


def _recipe(model: str | None, model_name: str | None) -> ClassCodeRecipe | ModelRecipe | Recipe:
    """Return the recipe of codes of what `model` knows, or of words and classes if it is None."""
    if model is None:
        return RECIPE
    recipe = model_recipe(model, model_name)
    return replace(recipe, label_fraction=RECIPE.label_fraction, validation_share=0.0)


def _print_kind(trained: Trained) -> None:
    """Print what the codes are made of."""
    metadata = trained.encoder.metadata
    model = metadata.get("model")
    known = "the words of these documents" if model is None else f"what {model['name']} knows"
    if metadata["method"] == STATIC:
        known = f"what {SHIPPED_DISTRIBUTION} knows, adapted to these documents"
    print_lines(f"  codes of {known}", *(f"  {note}" for note in trained.notes))


def _find_topics(
    collection: CollectionBackend,
    queries: list[Document],
    trained: Trained,
    data: TrainingData,
    query_data: TrainingData,
) -> dict[str, Evaluation]:
    """Search with the documents held out; documents of the same label are relevant."""
    reference = ClassifierReference(trained.encoder, trained.classifier)
    training_rows = data.labelled(data.rows_of(trained.labelled_ids))
    database, labelled = data.labelled(), query_data.labelled()
    searched = evaluate_rankings(collection, queries, (HAMMING, ASYMMETRIC, HYBRID, BM25))
    soft = soft_class_scores(trained.encoder, database, labelled)
    return {
        **{METHODS[ranking]: evaluation for ranking, evaluation in searched.items()},
        "TF-IDF cosine": tfidf_cosine(database, labelled),
        "classifier baseline": classifier_baseline(reference, training_rows, database, labelled),
        **({} if soft is None else {SOFT_CLASS_SCORES: soft}),
    }


def create_collection(folder: DataFolder, encoder: str = ENCODER) -> CollectionBackend:
    """Create the demo's empty collection, in place of an earlier one."""
    # An earlier demo's collection may belong to an encoder that was replaced.
    with suppress(UnknownCollection):
        folder.drop_collection(NAME)
    collection = folder.create_collection(NAME, encoder=encoder)
    collection.set_ranking(HYBRID)
    return collection


def find_known_items(collection: CollectionBackend) -> dict[str, Evaluation]:
    """Search the collection with everyday questions whose answers are known, by each ranking."""
    questions, qrels = _questions()
    settings = RelevanceSettings(qrels=qrels)
    by_ranking = evaluate_rankings(collection, questions, METHODS, KNOWN_ITEMS, settings)
    return {METHODS[ranking]: evaluation for ranking, evaluation in by_ranking.items()}


def _known_items_by_tfidf(documents: list[Document]) -> Evaluation:
    questions, qrels = _questions()
    ids = [document.id for document in documents]
    relevance, _ = relevance_by_qrels(qrels, [question.id for question in questions], ids)
    scores = tfidf_scores(
        [document.text or "" for document in documents], [query.text or "" for query in questions]
    )
    return evaluate_by_score(scores, relevance, KNOWN_ITEMS)


def _questions() -> tuple[list[Document], Qrels]:
    return list(read_documents(f"{NAME}:queries")), load_qrels(NAME) or {}


def _print_figures(
    topics: dict[str, Evaluation],
    items: dict[str, Evaluation],
    encoder: Encoder,
    collection: CollectionBackend,
) -> None:
    """Print a line for each method: how it finds documents of a label, and answers to questions.

    Each value is a mean over the queries and its standard error. The last line is the ranking that
    searches use, with the weight of codes in it.
    """
    served = METHODS[collection.ranking]
    title = f"served: {collection.ranking}, {collection.hybrid_weight:g}"
    topics = {**topics, title: topics[served]}
    items = {**items, title: items[served]}
    questions = next(iter(items.values())).queries
    print(f"\n{'':<24}{'documents of the same label':<36}{questions} everyday questions")
    heads = ("P@100", "tie-averaged", "mAP@100", "in first ten", "MRR")
    print(f"{'':<24}" + "".join(f"{head:<14}" for head in heads))
    for method, evaluation in topics.items():
        values = [
            evaluation.per_query["P@100"],
            evaluation.expected_per_query["P@100"],
            evaluation.per_query["mAP@100"],
        ]
        known = items[method].per_query if method in items else {}
        values += [known[name] for name in KNOWN_ITEMS if name in known]
        means = [value.mean() for value in values]
        errors = [value.std() / len(value) ** 0.5 for value in values]
        for title, cells in ((method, means), ("  ± standard error", errors)):
            print(f"{title:<24}" + "".join(f"{cell:<14.3f}" for cell in cells).rstrip())
    weight = f"the weight of codes in it is {collection.hybrid_weight:g}"
    print(f"Searches rank by {collection.ranking}; {weight}.")
    for sentence in classifier_warnings(
        topics[METHODS[HAMMING]].expected, topics["classifier baseline"].expected, encoder
    ):
        print(sentence)


def _print_examples(collection: CollectionBackend) -> None:
    for example in EXAMPLES:
        results = collection.search([Query(text=example)], HITS_SHOWN, with_payload=True)
        print(f"\n{example!r} finds, of all {len(collection):,}:")
        for hit in results.hits[0]:
            summary = (hit.payload or {}).get("summary", "")
            print(f"  {hit.id:<45} {summary}")


def _print_curl(host: str, port: int) -> None:
    body = json.dumps({"text": EXAMPLES[0], "limit": 5, "with_payload": True})
    print("\nIn another terminal:\n")
    print(f"  curl -s http://{host}:{port}/v1/collections/{NAME}/search \\")
    print(f"    -H 'content-type: application/json' -d '{body}'\n", flush=True)

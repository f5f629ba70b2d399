"""``hummingbit demo``: the whole loop on the docstrings of the packages installed here."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from corpus.readers import read_documents
from evaluation.baselines import tfidf_cosine
from evaluation.classifier_baseline import ClassifierReference, classifier_baseline
from evaluation.evaluate import evaluate_collection
from hummingbit.commands.tables import print_figures
from index.backend import CollectionBackend
from index.data_folder import DataFolder
from index.errors import UnknownCollection
from index.ingest import ingest
from index.records import Query
from service.server import serve
from service.settings import Settings
from training.data import gather
from training.recipe import Recipe
from training.semi_supervised import train

NAME = "docstrings"
ENCODER = "docstrings32"
RECIPE = Recipe(n_bits=32, supervision=0.1)
EXAMPLE = "fast Fourier transform of a real signal"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--no-serve", action="store_true", help="stop after the figures")
    parser.add_argument("--data-dir", type=Path, default=Path("demo-data"), metavar="DIR")
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port (default: %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Build the corpus, train, index, evaluate, and serve until interrupted."""
    encoder_folder = args.data_dir / "encoders" / ENCODER
    with _step("reading the docstrings of the packages installed here"):
        documents = list(read_documents(f"{NAME}:train"))
        queries = list(read_documents(f"{NAME}:test"))
        data, asked = gather(documents), gather(queries)
    print(
        f"  {len(data):,} documents, {len(asked):,} held out as queries, {len(data.classes)} labels"
    )
    with _step(f"training {RECIPE.n_bits}-bit codes with {RECIPE.supervision:.0%} of the labels"):
        trained = train(data, RECIPE, encoder_folder, overwrite=True)
    with DataFolder(args.data_dir, writable=True) as folder:
        # One from an earlier demo may have been made with the encoder that was just replaced.
        with suppress(UnknownCollection):
            folder.drop_collection(NAME)
        collection = folder.create_collection(NAME, encoder=ENCODER)
        with _step("indexing"):
            ingest(collection, documents)
        with _step("evaluating"):
            shown = data.labelled(data.rows_of(trained.labelled_ids))
            found = {
                "SSB-VAE codes": evaluate_collection(collection, queries),
                "classifier baseline": classifier_baseline(
                    ClassifierReference(trained.encoder, trained.classifier),
                    shown,
                    data.labelled(),
                    asked.labelled(),
                ),
                "TF-IDF cosine": tfidf_cosine(data.labelled(), asked.labelled()),
            }
        print()
        print_figures(found)
        ingest(collection, queries)
        _print_example(collection)
    if args.no_serve:
        return 0
    _print_curl(args.host, args.port)
    serve(Settings(data_dir=args.data_dir, host=args.host, port=args.port))
    return 0


@contextmanager
def _step(title: str) -> Iterator[None]:
    print(f"{title} …", flush=True)
    began = time.perf_counter()
    yield
    print(f"  {time.perf_counter() - began:.1f} s")


def _print_example(collection: CollectionBackend) -> None:
    found = collection.search([Query(text=EXAMPLE)], 5, with_payload=True)
    print(f"\n{EXAMPLE!r} finds, of all {len(collection):,}:")
    for hit in found.hits[0]:
        summary = (hit.payload or {}).get("summary", "")
        print(f"  {hit.distance:>2}  {hit.id:<45} {summary}")


def _print_curl(host: str, port: int) -> None:
    body = json.dumps({"text": EXAMPLE, "limit": 5, "with_payload": True})
    print("\nIn another terminal:\n")
    print(f"  curl -s http://{host}:{port}/v1/collections/{NAME}/search \\")
    print(f"    -H 'content-type: application/json' -d '{body}'\n", flush=True)

"""``hummingbit quickstart FILE``: from a file of unknown layout to a search of its documents."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING
from unicodedata import combining, normalize

from hummingbit.commands.first_search import (
    add_serving,
    check_port,
    learning_arguments,
    print_answers,
    print_indexed,
    serve_and_learn,
)
from hummingbit.commands.options import (
    ROOM_FOR_AN_ENCODER,
    BitsOption,
    OptionError,
    add_layout,
    add_model,
    add_option,
    add_passages,
    check_writable,
    file_help,
    layout_of,
    read_judged_queries,
)
from hummingbit.deferred import deferred_imports
from hummingbit.encoder.recipes import DEFAULT_BITS, MODEL_BITS
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import available_cores, begin_stage, count_in_stage, end_stage
from hummingbit.index.names import AUTO, BM25, LONG, RANKING_SUMMARIES, SHIPPED_NAME
from hummingbit.installed_models import WITHOUT_MODEL

with deferred_imports():
    from hummingbit.corpus.document import CONTENT_FIELDS, Document
    from hummingbit.corpus.layout import Layout
    from hummingbit.corpus.survey import Survey, survey
    from hummingbit.example_queries import example_queries
    from hummingbit.index.backend import CollectionBackend
    from hummingbit.index.catalog import NAME, RULE, AddAlias
    from hummingbit.index.data_folder import DataFolder
    from hummingbit.index.first_reading import LONG_SHARE, Corpus, how_to_read, read_corpus
    from hummingbit.index.ingestion import ingest
    from hummingbit.index.passages import Passages

if TYPE_CHECKING:
    from hummingbit.corpus.qrels import Qrels
    from hummingbit.learning import Learning


def name_of(source: Path) -> str:
    """Return a name made from that of a file; letters lose their accents."""
    stem = normalize("NFKD", source.resolve().name.partition(".")[0]).lower()
    stem = "".join(character for character in stem if not combining(character))
    return re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_") or "documents"


MIN_DOCUMENTS = 50
EXAMPLES = 3
MANY_WORDS = 1_000_000
"""With more, several processes encode."""
MAX_CANDIDATES = 5
"""More fields that may be the label are not listed."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("source", type=Path, metavar="FILE", help=file_help())
    add_option(
        parser, "--name NAME", "name of the encoder and the collection (default: the file's)"
    )
    add_option(
        parser,
        "--bits N",
        "bits in a code that is learned, a multiple of 8 (default:"
        f" {DEFAULT_BITS}, of --model {MODEL_BITS})",
        action=BitsOption,
    )
    add_option(parser, "--data-dir DIR", "the folder to create (default: NAME-data)", type=Path)
    add_model(parser, otherwise=WITHOUT_MODEL)
    add_passages(parser, default="auto if a tenth of the texts are that long")
    add_option(parser, "--inspect", "only say what is recognized in FILE, then stop")
    add_option(
        parser, "--queries SOURCE", "queries of your own to choose the ranking by; needs --qrels"
    )
    add_option(parser, "--qrels FILE", "their right answers, in TREC's format or BEIR's TSV")
    add_serving(parser)
    add_layout(parser, are_found=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Survey the source, index it, print three answers and serve; learn beside that."""
    name = args.name or name_of(args.source)
    if not NAME.fullmatch(f"{name}-2"):
        raise OptionError(f"--name {name!r}: a name must be {RULE}, and leave room for a number")
    data_dir: Path = args.data_dir or Path(f"{name}-data")
    if not args.inspect:
        _check_folder(data_dir, args.source)
        check_port(args)
    judged = read_judged_queries(args)
    corpus, layout_survey = _read(args)
    _print_corpus(layout_survey, corpus)
    _check_judged(corpus, judged)
    if args.inspect:
        return
    with DataFolder(data_dir, writable=True) as folder:
        with _removing_unfinished(data_dir):
            began = time.perf_counter()
            collection = _index(folder, f"{name}-1", corpus, _passages_for(corpus, args.passages))
            folder.change_aliases([AddAlias(name, collection.name)])
            print_indexed(collection, time.perf_counter() - began)
            if judged is not None:
                _compare_judged(collection, *judged)
            texts = [document.text or "" for document in corpus.sample]
            print_answers(collection, example_queries(texts, EXAMPLES))
        print(
            f"\nTo search: hummingbit search {name} 'WORDS'{_place(args, data_dir)}\n", flush=True
        )
        serve_and_learn(args, folder, _learning(args, name, corpus))


def _place(args: argparse.Namespace, data_dir: Path) -> str:
    """Return the options by which a search finds the collection."""
    if args.no_serve:
        return f" --data-dir {shlex.quote(str(data_dir))}"
    return f" --url http://{args.host}:{args.port}"


def _learning(args: argparse.Namespace, name: str, corpus: Corpus) -> Learning | None:
    """Return what is to be learned from the documents; None if there are too few, and say so."""
    if args.no_train:
        return None
    differ = corpus.count - corpus.repeats
    if differ < MIN_DOCUMENTS:
        print(
            f"nothing is learned from {counted(differ, 'different document')};"
            f" that needs {MIN_DOCUMENTS} or more"
        )
        return None
    from hummingbit.learning import Learning  # noqa: PLC0415 - the first search needs it not

    settings = {} if args.bits is None else {"n_bits": args.bits}
    return Learning(f"{name}-1", name, f"{name}-2", settings, learning_arguments(args))


@contextmanager
def _removing_unfinished(data_dir: Path) -> Iterator[None]:
    """Remove a folder that did not exist before if the block fails, so it can be created again."""
    try:
        yield
    except BaseException:
        shutil.rmtree(data_dir, ignore_errors=True)
        raise


def _passages_for(corpus: Corpus, asked: Passages | bool | None) -> Passages | None:
    """Return how to split the texts: as `asked`, or if that is None, by their lengths."""
    if asked is not None:
        return Passages.of(asked)
    if corpus.long_share < LONG_SHARE:
        return None
    about = f"{corpus.long_share:.0%} of the texts have more than {LONG:,} words"
    print(f"{about}: they are searched by passages (--passages no turns this off)")
    return Passages.of(AUTO)


def _index(
    folder: DataFolder, name: str, corpus: Corpus, passages: Passages | None
) -> CollectionBackend:
    """Index the documents by their words and, if it knows these, the encoder that ships."""
    is_there = folder.encoders.install_shipped() is not None
    shipped = folder.encoders.load(SHIPPED_NAME) if is_there else None
    reading = how_to_read([document.text or "" for document in corpus.sample], shipped)
    _print_row("codes", reading.codes)
    collection = folder.create_collection(
        name,
        encoder=SHIPPED_NAME if reading.has_codes else None,
        n_bits=None if reading.has_codes else 0,
        passages=passages,
        # Found after the first documents, it would have their words read once more.
        language=reading.language if reading.is_sure else None,
    )
    collection.remember_field_types(corpus.field_types.decided)
    with count_in_stage("indexing", corpus.count) as advance:
        ingest(collection, corpus.stored_documents(), jobs=_jobs_for(corpus), progress=advance)
    return collection


def _jobs_for(corpus: Corpus) -> int:
    """Return how many processes encode: starting them takes longer than few documents."""
    return (
        1
        if sum(corpus.lengths) * corpus.count < MANY_WORDS * len(corpus.sample)
        else available_cores()
    )


def _check_folder(folder: Path, source: Path) -> None:
    """Raise OptionError unless a data folder with the documents can be created at `folder`."""
    if folder.exists():
        hint = "name another with --data-dir, or search it with hummingbit search"
        raise OptionError(f"{folder} already exists; {hint}")
    documents = source.stat().st_size if source.is_file() else 0
    room = ROOM_FOR_AN_ENCODER + documents
    check_writable(folder.absolute().parent, f"--data-dir {folder}", room)


def _read(args: argparse.Namespace) -> tuple[Corpus, Survey]:
    """Read the source with the layout that its survey suggests, leaving out bad lines."""
    begin_stage(f"reading {args.source}")
    layout_survey = survey(args.source, layout_of(args))
    corpus = read_corpus(
        args.source, layout_survey.layout, lambda message: print(message, file=sys.stderr)
    )
    end_stage()
    for line in corpus.bad_lines:
        print(f"skipped: {line}", file=sys.stderr)
    if more := corpus.n_bad_lines - sum(line.n_lines for line in corpus.bad_lines):
        print(f"skipped: {counted(more, 'more line')}", file=sys.stderr)
    _check_texts(corpus)
    return corpus, layout_survey


def _check_texts(corpus: Corpus) -> None:
    """Raise OptionError if there is no text, or none of the texts has a term."""
    has = f"{corpus.source}: has {counted(corpus.count, 'document')} with text"
    if not corpus.count:
        raise OptionError(has)
    if not any(corpus.lengths):
        raise OptionError(f"{has}, but no words; emoji and signs are no words")


def _print_corpus(layout_survey: Survey, corpus: Corpus) -> None:
    terms = corpus.lengths
    skipped = f"{counted(corpus.n_bad_lines, 'line')} skipped"
    print(f"{corpus.source}: {counted(corpus.count, 'document')}, {skipped}")
    if corpus.n_bad_lines > corpus.count:
        _print_row(
            "lines", "most are skipped, as said above; in a table, all need the header's delimiter"
        )
    if corpus.n_without_text:
        _print_row("empty", f"{counted(corpus.n_without_text, 'more document')}, left out")
    _print_row("text", _text_line(layout_survey.layout))
    _print_row("length", f"{median(terms):,.0f} terms in the median, {max(terms):,} at most")
    _print_row("label", _label_line(layout_survey, corpus))
    _print_lists(layout_survey, corpus)
    if layout_survey.other_texts:
        others = shlex.join(layout_survey.other_texts)
        texts = shlex.join(layout_survey.layout.text_fields or ["text"])
        _print_row("other", f"{others}: not searched; to join it: --text-field {texts} {others}")
    if unused := _unused_columns(layout_survey):
        _print_row("payload", _payload_line(layout_survey, unused))
    if layout_survey.texts_in_lists:
        paths = ", ".join(layout_survey.texts_in_lists)
        hint = "to search them, write a document for each object of the list"
        _print_row("other", f"{paths}: texts inside lists, not searched; {hint}")
    _print_row("id", _id_line(layout_survey))
    _print_row("writing", "no spaces between words" if corpus.is_spaceless() else "words")
    if layout_survey.layout.html:
        _print_row("markup", "HTML, of which the text is kept (--html)")
    have = "document has" if corpus.repeats == 1 else "documents have"
    _print_row("repeats", f"{corpus.repeats:,} {have} the text of another")


def _print_lists(layout_survey: Survey, corpus: Corpus) -> None:
    """Print a row for each field of several values that are no labels."""
    separated = {**layout_survey.separated_lists, **corpus.separated_labels()}
    for name, count in layout_survey.unused_lists.items():
        if name not in separated:
            # Beside another label, a payload with labels would hide it.
            kept = "left out" if name == "labels" else "kept in the payload"
            values = f"{count:,} different values, which hardly repeat"
            _print_row("list", f"{name}: {values}; no label, {kept}")
    for name, separator in separated.items():
        hint = (
            f"to learn from them, write | instead, and name it: --label-field {shlex.quote(name)}"
        )
        _print_row("list", f"{name}: {separator!r} separates values; {hint}")


def _payload_line(layout_survey: Survey, unused: Sequence[str]) -> str:
    some = shlex.join(unused[:MAX_CANDIDATES])
    more = f" and {counted(left, 'other')}" if (left := len(unused) - MAX_CANDIDATES) > 0 else ""
    line = f"{some}{more}: kept for filters, not searched"
    first = next((name for name in unused if name in layout_survey.words), None)
    if first is None:
        return line
    names = [*(layout_survey.layout.text_fields or ["text"]), first]
    return f"{line}; to join {first} to the text: --text-field {shlex.join(names)}"


def _unused_columns(layout_survey: Survey) -> list[str]:
    """Return the fields that are neither text, label nor id, and that no other row names."""
    layout = layout_survey.layout
    named = {*(layout.text_fields or ["text"]), layout.id_field, layout.label_field}
    named |= {"id", "label", "labels", "payload", *CONTENT_FIELDS}
    named |= {*layout_survey.other_texts, *layout_survey.unused_lists}
    heads = {name.partition(".")[0] for name in layout.text_fields}
    return [name for name in layout_survey.names if name and name not in named | heads]


def _print_row(title: str, value: str) -> None:
    print(f"  {title:<9}{value}")


def _id_line(layout_survey: Survey) -> str:
    field = layout_survey.layout.id_field
    if field is None and "id" in layout_survey.names:
        field = "id"
    if field is not None:
        return field or "the column without a name"
    if layout_survey.repeated_id is not None:
        return f"none, because values of {layout_survey.repeated_id} repeat; numbered by line"
    return "none; numbered by line"


def _text_line(layout: Layout) -> str:
    names = " + ".join(layout.text_fields) or "text"
    if layout.in_list is None:
        return names
    return f"{names}; each object in the list {layout.in_list!r} is a document"


def _label_line(layout_survey: Survey, corpus: Corpus) -> str:
    candidates = layout_survey.label_candidates
    if corpus.labels:
        field = layout_survey.layout.label_field or "label"
        rarest = min(corpus.labels.values())
        labels = counted(len(corpus.labels), "label")
        too_few = "" if corpus.has_labels else "; too few to learn from"
        of = "" if corpus.n_labelled == corpus.count else f" of {corpus.n_labelled:,} documents"
        return f"{field}: {labels}{of}, the rarest of {counted(rarest, 'document')}{too_few}"
    if candidates:
        some = candidates[:MAX_CANDIDATES]
        more = f" and {counted(left, 'other')}" if (left := len(candidates) - len(some)) else ""
        which = f"one of {', '.join(some)}{more}" if len(candidates) > 1 else candidates[0]
        return f"none; it may be {which}: name it with --label-field"
    return "none"


def _check_judged(corpus: Corpus, judged: tuple[list[Document], Qrels] | None) -> None:
    """Raise OptionError if the judgements, if there are any, are of none of the documents."""
    if judged is None or corpus.is_sampled:
        return
    ids = {document.id for document in corpus.sample}
    answers = [id_ for query in judged[0] for id_ in judged[1][query.id]]
    if ids.isdisjoint(answers):
        reason = f"judges no document of {corpus.source}: it names {answers[:1]}"
        raise OptionError(f"--qrels: {reason}, and the first document is {corpus.sample[0].id!r}")


def _compare_judged(collection: CollectionBackend, queries: list[Document], qrels: Qrels) -> None:
    """Set the weight of codes and the ranking that suit a person's own queries, by nDCG@10.

    The figures of each ranking are printed.
    """
    # Imported here, as few have judged queries.
    from hummingbit.commands.printed_figures import print_figures  # noqa: PLC0415
    from hummingbit.comparison import choose_ranking  # noqa: PLC0415
    from hummingbit.evaluation.fusion import JUDGED_METRIC, judged_curve, judged_weight, validated  # noqa: PLC0415
    from hummingbit.evaluation.metrics import JUDGED_METRICS  # noqa: PLC0415
    from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings  # noqa: PLC0415

    rankings = [BM25]
    if collection.n_bits:
        curve = judged_curve(collection, queries, qrels)
        weight = judged_weight(curve)
        collection.set_hybrid_weight(weight)
        rankings = list(RANKING_SUMMARIES)
    evaluations = evaluate_rankings(
        collection, queries, rankings, JUDGED_METRICS, RelevanceSettings(qrels=qrels)
    )
    judged = next(iter(evaluations.values())).queries
    print(f"\n{counted(judged, 'judged query', 'judged queries')}:")
    print_figures(evaluations)
    if not collection.n_bits:
        return
    print(
        f"The weight of codes in hybrid is {weight:g}, fitted to these queries; fitted to others of"
        f" them, nDCG@10 is {validated(curve):.3f}."
    )
    choice = choose_ranking(
        {name: evaluation.per_query[JUDGED_METRIC] for name, evaluation in evaluations.items()}
    )
    print("\n" + fill(f"For queries like the judged ones, {choice.advice()}", 80))
    collection.set_ranking(choice.ranking)

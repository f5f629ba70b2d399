"""``hummingbit quickstart FILE``: from a file of unknown layout to a search of its documents."""

from __future__ import annotations

import argparse
import math
import random
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from textwrap import fill, shorten
from unicodedata import combining, normalize

import numpy as np

from hummingbit.commands.options import (
    ROOM_FOR_AN_ENCODER,
    BitsOption,
    OptionError,
    add_layout,
    add_model,
    add_option,
    add_passages,
    add_serving,
    add_word_vectors,
    check_writable,
    file_help,
    layout_of,
    read_judged_queries,
    word_vectors_of,
)
from hummingbit.commands.printed_figures import print_figures, print_lines, print_vocabulary
from hummingbit.commands.printing import timed_stage, without_controls
from hummingbit.comparison import (
    CHANCE,
    CLASSIFIER,
    Choice,
    Figures,
    chance_by_label,
    choose_ranking,
    known_items,
    paraphrased,
    precision_by_label,
    verdict,
    words_of_sentences,
)
from hummingbit.corpus.document import Document
from hummingbit.corpus.layout import LABEL_NAMES, Layout, rank_of
from hummingbit.corpus.qrels import Qrels
from hummingbit.corpus.readers import BadLine, read_documents
from hummingbit.corpus.survey import Survey, survey
from hummingbit.corpus.tables import FieldTypes, separator_of
from hummingbit.encoder.analyzers import VISIBLE, is_spaceless
from hummingbit.encoder.recipes import (
    DEFAULT_BITS,
    MAX_KNOWN_TERMS,
    MODEL_BITS,
    STATIC,
    BaseRecipe,
)
from hummingbit.evaluation.baselines import (
    SOFT_CLASS_SCORES,
    ClassifierReference,
    classifier_baseline,
    soft_class_scores,
)
from hummingbit.evaluation.fusion import JUDGED_METRIC, judged_curve, judged_weight, validated
from hummingbit.evaluation.metrics import JUDGED_METRICS
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import available_cores, begin_stage, count_in_stage, end_stage
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import NAME, RULE
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.ingestion import ingest
from hummingbit.index.languages import AUTO as AUTO_LANGUAGE
from hummingbit.index.passages import AUTO, LONG, Passages, passage_documents, size_of
from hummingbit.index.rankings import RANKINGS
from hummingbit.index.records import Query
from hummingbit.service.server import bind_listener, serve
from hummingbit.service.settings import Settings
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.pipeline import Trained
from hummingbit.training.text_features import TermCounts
from hummingbit.training_methods import (
    NO_MODEL,
    WITHOUT_MODEL,
    WITHOUT_TORCH,
    check_word_vectors,
    choose_model,
    has_torch,
    in_language,
    recipe_for_search,
    train_by,
)

MAX_SAMPLE = 10_000
MAX_CHARACTERS = 4_000_000
"""The largest sample. More documents, or longer ones, would make training take minutes."""
LONG_DOCUMENTS = 2000
"""A sample of long documents has as many, whatever their lengths."""
HELD_OUT_SHARE = 0.1
MAX_HELD_OUT = 300
MANY_DOCUMENTS = 30_000
"""With more, a search by every ranking takes so long that fewer documents are held out."""
MIN_HELD_OUT = 60
MIN_LABELLED = 20
MAX_BAD_LINES = 3


@dataclass
class Corpus:
    """What one reading of a source found, and a sample of its documents, in their order."""

    source: Path
    layout: Layout
    count: int = 0
    """Documents with text."""
    sample: list[Document] = field(default_factory=list)
    held_out: list[Document] = field(default_factory=list)
    """Documents of the sample that are not trained on, for the comparison."""
    labels: Counter[str] = field(default_factory=Counter)
    words: TermCounts = field(default_factory=lambda: TermCounts(MAX_KNOWN_TERMS))
    """The words of all documents, which codes know beside those that they learn."""
    repeats: int = 0
    """Documents with the text of an earlier one, but for case, spaces and signs at its end."""
    bad_lines: list[BadLine] = field(default_factory=list)
    """The first few."""
    n_bad_lines: int = 0
    n_without_text: int = 0
    """Documents whose text is empty."""
    field_types: FieldTypes = field(default_factory=FieldTypes)
    """What the fields of a table hold."""

    @property
    def training_documents(self) -> list[Document]:
        """The documents of the sample that are not held out."""
        held_out_ids = {document.id for document in self.held_out}
        return [document for document in self.sample if document.id not in held_out_ids]

    @property
    def is_sampled(self) -> bool:
        """Whether the source has more documents than the sample."""
        return self.count > len(self.sample)

    @property
    def has_labels(self) -> bool:
        """Whether the sample has enough labels, not the same on all documents, to learn from."""
        labels = [frozenset(document.labels) for document in self.sample if document.labels]
        return len(set(labels)) > 1 and sum(map(len, labels)) >= MIN_LABELLED

    def lengths(self) -> list[int]:
        """Return how many terms each text of the sample has."""
        return [len(VISIBLE.terms(document.text or "")) for document in self.sample]

    def is_spaceless(self) -> bool:
        """Return whether most texts of the sample have no spaces between words."""
        n_spaceless = sum(is_spaceless(document.text or "") for document in self.sample)
        return 2 * n_spaceless > len(self.sample)

    def separated_labels(self) -> dict[str, str]:
        """Return fields of the payload, named as labels, whose strings hold several values.

        The values are what separates these.
        """
        names = {name for document in self.sample for name in document.payload}
        cells = {
            name: [
                cell
                for document in self.sample
                if isinstance(cell := document.payload.get(name), str)
            ]
            for name in sorted(names)
            if rank_of(name, LABEL_NAMES) is not None
        }
        separators = {name: separator_of(column) for name, column in cells.items()}
        return {name: separator for name, separator in separators.items() if separator is not None}

    def stored_documents(self) -> Iterator[Document]:
        """Read the source again, and yield every document with text that is not held out."""
        held_out_ids = {document.id for document in self.held_out}
        documents = read_documents(
            self.source, layout=self.layout, on_error="skip", field_types=self.field_types
        )
        for document in documents:
            if _has_text(document) and document.id not in held_out_ids:
                yield document

    def record_bad_line(self, bad: BadLine) -> None:
        """Count a bad line, and keep it if it is one of the first."""
        self.n_bad_lines += bad.n_lines
        if len(self.bad_lines) < MAX_BAD_LINES:
            self.bad_lines.append(bad)


def read_corpus(source: Path, layout: Layout, notice: Callable[[str], object]) -> Corpus:
    """Read a source once, leaving out bad lines; at most the sample stays in memory.

    Every document is equally likely to be in the sample (reservoir sampling). The same source gives
    the same sample.
    """
    corpus = Corpus(source, layout)
    rng = random.Random(0)  # noqa: S311 - no secret
    chosen: list[tuple[int, Document]] = []
    seen: set[int] = set()
    documents = read_documents(
        source,
        layout=layout,
        on_error="skip",
        report=corpus.record_bad_line,
        notice=notice,
        field_types=corpus.field_types,
    )
    for document in documents:
        if not _has_text(document):
            corpus.n_without_text += 1
            continue
        text = " ".join((document.text or "").lower().split())
        seen.add(hash(text.rstrip(TRAILING_SIGNS) or text))
        corpus.labels.update(document.labels)
        corpus.words.add(document.text or "")
        if len(chosen) < MAX_SAMPLE:
            chosen.append((corpus.count, document))
        elif (position := rng.randrange(corpus.count + 1)) < MAX_SAMPLE:
            chosen[position] = (corpus.count, document)
        corpus.count += 1
    corpus.repeats = corpus.count - len(seen)
    chosen.sort(key=lambda numbered: numbered[0])
    corpus.sample = _within_characters([document for _, document in chosen])
    corpus.held_out = _held_out(corpus)
    return corpus


def name_of(source: Path) -> str:
    """Return a name made from that of a file; letters lose their accents."""
    stem = normalize("NFKD", source.resolve().name.partition(".")[0]).lower()
    stem = "".join(character for character in stem if not combining(character))
    return re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_") or "documents"


def _has_text(document: Document) -> bool:
    return bool(document.text and document.text.strip())


def _within_characters(sample: list[Document]) -> list[Document]:
    """Return the sample, or a part of it, every so many documents, if the texts are long."""
    total = sum(len(document.text or "") for document in sample)
    step = min(total / MAX_CHARACTERS, len(sample) / LONG_DOCUMENTS)
    if step <= 1:
        return sample
    positions = np.unique(np.arange(0, len(sample), step).astype(int))
    return [sample[position] for position in positions]


def _held_out(corpus: Corpus) -> list[Document]:
    most = MAX_HELD_OUT
    if corpus.count > MANY_DOCUMENTS:
        most = max(MIN_HELD_OUT, MAX_HELD_OUT * MANY_DOCUMENTS // corpus.count)
    count = min(most, int(len(corpus.sample) * HELD_OUT_SHARE))
    positions = np.sort(np.random.default_rng(0).permutation(len(corpus.sample))[:count])
    return [corpus.sample[position] for position in positions]


MIN_DOCUMENTS = 50
MAX_PASSAGES_TO_LEARN = 10_000
LONG_SHARE = 0.1
"""If so many texts of the sample are long, they are split into passages."""
TRAILING_SIGNS = " .,;:!?…。！？"
_AROUND_WORDS = ".,;:!?…()[]\"'“”‘’„«»。！？、，"
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
        f"bits in a code, a multiple of 8 (default: {DEFAULT_BITS}, of --model {MODEL_BITS})",
        action=BitsOption,
    )
    add_option(parser, "--data-dir DIR", "the folder to create (default: NAME-data)", type=Path)
    add_word_vectors(parser)
    add_model(parser, otherwise=WITHOUT_MODEL)
    add_passages(parser, default="auto if a tenth of the texts are that long")
    add_option(parser, "--inspect", "only say what is recognized in FILE, then stop")
    add_option(
        parser, "--queries SOURCE", "queries of your own to choose the ranking by; needs --qrels"
    )
    add_option(parser, "--qrels FILE", "their right answers, in TREC's format or BEIR's TSV")
    add_serving(parser, "comparison")
    add_layout(parser, are_found=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Survey the source, train, compare, index and serve."""
    name = args.name or name_of(args.source)
    if not NAME.fullmatch(name):
        raise OptionError(f"--name {name!r}: a name must be {RULE}")
    data_dir: Path = args.data_dir or Path(f"{name}-data")
    if not args.inspect:
        _check_folder(data_dir, args.source)
    if not args.no_serve and not args.inspect:
        with bind_listener(args.host, args.port):
            pass  # it is in use by nobody else
    word_vectors = word_vectors_of(args)
    judged = read_judged_queries(args)
    corpus, layout_survey = _read(args)
    _print_corpus(layout_survey, corpus)
    if few := _too_few(corpus):
        _print_row("few", few)
    _check_judged(corpus, judged)
    if args.inspect:
        return
    _check_can_learn(corpus)
    passages = _passages_for(corpus, args.passages)
    training = corpus.training_documents
    if passages is not None:
        training = passage_documents(training, passages)
        training = training[:: math.ceil(len(training) / MAX_PASSAGES_TO_LEARN)]
    data = gather(training)
    recipe = _recipe(args, corpus, data)
    check_word_vectors(recipe.method, given=word_vectors is not None)
    with _removing_unfinished(data_dir):
        with timed_stage(f"training {recipe.n_bits}-bit codes ({recipe.method})"):
            out = data_dir / "encoders" / name
            trained = train_by(data, recipe, out, word_vectors=word_vectors, words=corpus.words)
        print_lines(*trained.notes)
        print_vocabulary(trained.encoder)
        with timed_stage("indexing"), DataFolder(data_dir, writable=True) as folder:
            _index(folder, name, corpus, passages)
    with DataFolder(data_dir, writable=True) as folder:
        collection = folder.collection(name)
        with timed_stage(f"comparing rankings by {len(corpus.held_out):,} held-out documents"):
            figures, choice = _compare(collection, corpus, data, trained)
        need = "To find a document by some of its words"
        if judged is not None:
            choice = _compare_judged(collection, *judged)
            need = "For queries like the judged ones"
        _print_figures(figures, len(corpus.held_out), choice, need)
        collection.set_ranking(choice.ranking)
        _print_example(collection, corpus, name, data_dir)
    if args.no_serve:
        return
    serve(Settings(data_dir=data_dir, host=args.host, port=args.port))


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
    n_long = sum(size_of(document.text or "") > LONG for document in corpus.sample)
    if n_long < LONG_SHARE * len(corpus.sample):
        return None
    share = n_long / len(corpus.sample)
    about = f"{share:.0%} of the texts have more than {LONG:,} words"
    print(f"{about}: they are searched by passages (--passages no turns this off)")
    return Passages.of(AUTO)


def _index(folder: DataFolder, name: str, corpus: Corpus, passages: Passages | None) -> None:
    collection = folder.create_collection(name, encoder=name, passages=passages)
    collection.remember_field_types(corpus.field_types.decided)
    with count_in_stage("encoding and storing", corpus.count) as advance:
        ingest(collection, corpus.stored_documents(), jobs=available_cores(), progress=advance)


def _recipe(args: argparse.Namespace, corpus: Corpus, data: TrainingData) -> BaseRecipe:
    """Return the recipe for the documents, and print which model and which language it has."""
    # Word vectors help to learn from words, which a language model does not.
    given = NO_MODEL if args.model is None and args.word_vectors else args.model
    model, line = choose_model(
        given, map(str, data.inputs), has_labels=corpus.has_labels, n_bits=args.bits
    )
    _print_row("model", line)
    recipe = recipe_for_search(
        data,
        args.bits or (DEFAULT_BITS if model in (None, STATIC) else MODEL_BITS),
        has_labels=corpus.has_labels,
        model=model,
        model_name=args.model_name,
    )
    recipe, language = in_language(recipe, data, AUTO_LANGUAGE)
    if language:
        print(language)
    if not has_torch():
        print(WITHOUT_TORCH, file=sys.stderr)
    return recipe


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
        raise OptionError(f"{has}; codes are learned from {MIN_DOCUMENTS} or more")
    if not any(corpus.lengths()):
        raise OptionError(f"{has}, but no words; emoji and signs are no words")


def _too_few(corpus: Corpus) -> str | None:
    """Return what to say if there are too few different texts to learn from."""
    differ = corpus.count - corpus.repeats
    if differ >= MIN_DOCUMENTS:
        return None
    documents = f"{counted(corpus.count, 'document')} with text"
    if corpus.repeats:
        documents += f", of which {differ:,} differ"
    return f"{documents}; codes are learned from {MIN_DOCUMENTS} or more"


def _check_can_learn(corpus: Corpus) -> None:
    """Raise OptionError if there are too few different texts to learn from."""
    if few := _too_few(corpus):
        words = f"hummingbit index build NAME {shlex.quote(str(corpus.source))} --no-encoder"
        raise OptionError(f"{corpus.source}: has {few}; to search them by words: {words}")


def _print_corpus(layout_survey: Survey, corpus: Corpus) -> None:
    terms = corpus.lengths()
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
    if corpus.is_sampled:
        size = f"{len(corpus.sample):,} documents are learned from and compared by; all are indexed"
        _print_row("sample", size)


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
    more = f" and {left:,} others" if (left := len(unused) - MAX_CANDIDATES) > 0 else ""
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
    named |= {"id", "label", "labels", *layout_survey.other_texts, *layout_survey.unused_lists}
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
        return f"{field}: {labels}, the rarest of {counted(rarest, 'document')}{too_few}"
    if candidates:
        some = candidates[:MAX_CANDIDATES]
        more = f" and {left:,} others" if (left := len(candidates) - len(some)) else ""
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


def _compare_judged(collection: CollectionBackend, queries: list[Document], qrels: Qrels) -> Choice:
    """Set the weight of codes that suits a person's own queries, and choose a ranking by nDCG@10.

    The figures of each ranking are printed.
    """
    curve = judged_curve(collection, queries, qrels)
    weight = judged_weight(curve)
    collection.set_hybrid_weight(weight)
    evaluations = evaluate_rankings(
        collection, queries, RANKINGS, JUDGED_METRICS, RelevanceSettings(qrels=qrels)
    )
    print(
        f"\n{counted(next(iter(evaluations.values())).queries, 'judged query', 'judged queries')}:"
    )
    print_figures(evaluations)
    print(
        f"The weight of codes in hybrid is {weight:g}, fitted to these queries; fitted to others of"
        f" them, nDCG@10 is {validated(curve):.3f}."
    )
    return choose_ranking(
        {name: evaluation.per_query[JUDGED_METRIC] for name, evaluation in evaluations.items()}
    )


def _compare(
    collection: CollectionBackend, corpus: Corpus, data: TrainingData, trained: Trained
) -> tuple[dict[str, Figures], Choice]:
    """Measure every ranking by labels, then add the held-out documents and measure known items."""
    queries_by_label = [
        document for document in corpus.held_out if corpus.has_labels and document.labels
    ]
    same_label = {
        ranking: precision_by_label(collection, queries_by_label, ranking) for ranking in RANKINGS
    }
    ingest(collection, corpus.held_out)
    documents = [*corpus.held_out, *corpus.training_documents]
    words = paraphrased(words_of_sentences(corpus.held_out), documents)
    queries = {document.id: text for document, text in zip(corpus.held_out, words, strict=True)}
    figures: dict[str, Figures] = {}
    evaluations = known_items(collection, queries, RANKINGS)
    for ranking, evaluation in evaluations.items():
        means = (evaluation.metrics["Success@10"], evaluation.metrics["MRR@10"])
        figures[ranking] = Figures(same_label[ranking], *means)
    # By the share of items found and not by their ranks. A query has words of its item, so words
    # put the item itself first; of the other documents that answer a person's question, such a
    # query says nothing.
    choice = choose_ranking(
        {name: evaluation.per_query["Success@10"] for name, evaluation in evaluations.items()},
        metric="the share found in the first ten",
    )
    if queries_by_label:
        baseline = classifier_baseline(
            ClassifierReference(trained.encoder, trained.classifier),
            data.labelled(data.rows_of(trained.labelled_ids)),
            data.known(),
            gather(queries_by_label).labelled(),
            ["P@10"],
        )
        figures[CLASSIFIER] = Figures(baseline.expected["P@10"])
        soft = soft_class_scores(
            trained.encoder, data.known(), gather(queries_by_label).labelled(), ["P@10"]
        )
        if soft is not None:
            figures[SOFT_CLASS_SCORES] = Figures(soft.expected["P@10"])
        figures[CHANCE] = Figures(chance_by_label(corpus.training_documents, queries_by_label))
    return figures, choice


def _print_figures(
    figures: Mapping[str, Figures], n_queries: int, choice: Choice, need: str
) -> None:
    print(f"\n{'':<22}{'same label':>12}{'the document itself':>25}")
    print(f"{'':<22}{'P@10':>12}{'in first ten':>15}{'MRR':>10}")
    for name, measured in figures.items():
        cells = zip(
            (12, 15, 10),
            (measured.same_label, measured.found, measured.reciprocal_rank),
            strict=True,
        )
        row = "".join(
            f"{'–' if value is None else f'{value:.3f}':>{width}}" for width, value in cells
        )
        print(f"{name:<22}{row}")
    print("Queries are words of the documents, every other one replaced by a related word.")
    print("\n" + fill(verdict(figures, choice, need, n_queries), 80))


def _print_example(
    collection: CollectionBackend, corpus: Corpus, name: str, data_dir: Path
) -> None:
    query = _long_words(corpus.held_out[0].text or "")
    print(f"\n{query!r} finds, of {len(collection):,} documents of {collection.n_bits // 8} bytes:")
    for hit in collection.search([Query(text=query)], 3, with_text=True).hits[0]:
        id_, text = map(without_controls, (hit.id, " ".join((hit.text or "").split())))
        print(f"  {id_:<20.20} {text:.56}")
    folder = shlex.quote(str(data_dir))
    print(f"\nTo search: hummingbit search {name} 'WORDS' --data-dir {folder}\n", flush=True)


def _long_words(text: str) -> str:
    """Return the four longest words of a text, in the order of the text.

    Addresses, numbers and lines of signs are no words, unless the text has nothing else. Words lose
    the signs around them.
    """
    stripped = (part.strip(_AROUND_WORDS) for part in text.split())
    parts = [*dict.fromkeys(part for part in stripped if part)] or text.split()
    words = [part for part in parts if part.isalpha()] or parts
    longest = sorted(words, key=len, reverse=True)[:4]
    return shorten(" ".join(word for word in words if word in longest), 60, placeholder="")

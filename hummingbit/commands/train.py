"""``hummingbit train [METHOD]``: train an encoder on documents."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hummingbit.commands.evaluate import find_qrels
from hummingbit.commands.options import (
    OptionError,
    add_model,
    add_option,
    add_out,
    add_reading,
    add_setting,
    check_out,
    naming,
    read,
    read_training_data,
    recipe_from,
    source_help,
)
from hummingbit.commands.printed_figures import print_trained
from hummingbit.commands.printing import without_controls
from hummingbit.deferred import deferred_imports
from hummingbit.encoder.recipes import (
    CLASS_CODES,
    DEFAULT_BITS,
    JUDGED,
    LINEAR_SUMMARIES,
    METHODS,
    METRIC,
    MODEL,
    MODEL_BITS,
    RECIPES,
    SSB_VAE,
    STATIC,
    AutoencoderRecipe,
    BaseRecipe,
    ClassCodeRecipe,
    JudgementRecipe,
    LinearRecipe,
    MetricRecipe,
    ModelRecipe,
    RecipeError,
    flag_of,
)
from hummingbit.foundation.errors import InputError, counted
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.names import AUTO

with deferred_imports():
    from hummingbit.corpus.document import Document
    from hummingbit.corpus.qrels import Qrels
    from hummingbit.evaluation.labelling.exchange import agreed_grades, read_records
    from hummingbit.training.data import TrainingData, gather
    from hummingbit.training.model_codes import train_model
    from hummingbit.training.teachers import read_teacher
    from hummingbit.training_methods import (
        WITHOUT_TORCH,
        can_learn_labels,
        check_torch,
        choose_model,
        default_method,
        has_torch,
        in_language,
        print_trial,
        recipe_for_search,
        resumable,
        train_by,
    )

if TYPE_CHECKING:
    from hummingbit.training.judgements import Taught

# The settings of a run without a named method. Some have another default with each method.
BY_METHOD = ("n_bits", "epochs", "hidden", "max_terms")
COMMON = ("label_fraction", "seed", "analyzer", *BY_METHOD)
# The length of most codes in the paper.
PAPER_BITS = 32
ANALYZER_DEFAULT = {"analyzer": "visible, by the stems of --language"}
R = TypeVar("R", bound=BaseRecipe)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the methods and their options, and the options of a run without a method."""
    # Not required here, because a method that follows requires them itself.
    _add_files(parser, required=False)
    _add_language(parser, default=AUTO)
    add_model(parser)
    _add_judgements(parser)
    add_option(
        parser,
        "--for-search",
        "without a METHOD, choose the one that quickstart chooses: of codes that find texts by"
        " their words, by what a language model knows and by their labels, if they have any",
    )
    for setting in fields(AutoencoderRecipe):
        if setting.name in COMMON:
            text = "that of the method" if setting.name in BY_METHOD else ""
            add_setting(parser, setting, default_text=ANALYZER_DEFAULT.get(setting.name, text))
    parser.set_defaults(run=partial(run_by_labels, parser))
    title = (
        "methods, each with its own settings (default: class-codes for documents with labels,"
        " ict for texts without, sne for vectors without)"
    )
    methods = parser.add_subparsers(title=title, dest="method", metavar="METHOD")
    for name, summary in METHODS.items():
        neural = _add_method(methods, name, summary)
        add_option(
            neural,
            "--device",
            "where to compute (default: %(default)s)",
            default="cpu",
            choices=("cpu", "cuda"),
        )
        if name == SSB_VAE:
            add_option(neural, "--amp", "compute in bfloat16 where safe")
        _add_settings(neural.add_argument_group("recipe"), RECIPES[name])
        neural.set_defaults(run=partial(run_by_recipe, RECIPES[name]))
    metric = _add_method(
        methods, METRIC, "codes whose distances follow how alike the documents are"
    )
    add_option(
        metric,
        "--similarity-file FILE",
        "the pairs (JSON lines of a, b, similarity); the tree of labels (lines of parent and"
        " child), where it is not that of their dotted names; or features by id (.npz, .parquet),"
        " where they are not the documents' vectors",
        type=Path,
    )
    add_option(
        metric,
        "--similarity-function MODULE:FUNCTION",
        "the function of --similarity function: it takes two lists of ids of equal length and"
        " returns the similarity of each pair, from 0 to 1",
    )
    _add_settings(metric.add_argument_group("recipe"), MetricRecipe)
    metric.set_defaults(run=run_metric)
    class_codes = _add_method(methods, CLASS_CODES, "codes of class, certainty and content")
    _add_settings(class_codes, ClassCodeRecipe)
    class_codes.set_defaults(run=partial(run_by_recipe, ClassCodeRecipe))
    model = _add_method(methods, MODEL, "codes of what a language model knows of the texts")
    # The option may also stand before the method.
    add_model(model, default=argparse.SUPPRESS)
    add_option(
        model,
        "--vectors FILE",
        "write the model's vectors of the documents to this file (.npz)",
        type=Path,
    )
    for declared in fields(ModelRecipe):
        if declared.name not in {"model", "model_name"}:
            add_setting(model, declared)
    model.set_defaults(run=run_model)
    judged = _add_method(
        methods, JUDGED, "an encoder that goes on learning, from queries and their right answers"
    )
    # The options may also stand before the method.
    _add_judgements(judged, default=argparse.SUPPRESS)
    add_option(
        judged,
        "--vectors FILE",
        "the vectors that train model --vectors wrote of these documents, so that the language"
        " model need not read them again",
    )
    _add_settings(judged, JudgementRecipe)
    judged.set_defaults(run=run_judged)
    for name, summary in LINEAR_SUMMARIES.items():
        linear = _add_method(methods, name, summary)
        _add_settings(linear, LinearRecipe)
        linear.set_defaults(run=partial(run_by_recipe, LinearRecipe))


def run_by_labels(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Train by a language model if one is given, or by the default method for the documents."""
    for option in ("data", "out"):
        if getattr(args, option) is None:
            parser.error(f"the following arguments are required: --{option}")
    if args.judgements is not None:
        run_judged(args)
        return
    check_out(args)
    data = _documents(args)
    if args.for_search:
        _train_for_search(args, data)
        return
    method = MODEL
    if args.model is None:
        n_bits = args.n_bits or DEFAULT_BITS
        method = default_method(data, n_bits, with_torch=has_torch())
        if method != default_method(data, n_bits):
            print(WITHOUT_TORCH, file=sys.stderr)
    print(f"{counted(len(data.classes), 'label')}: training by {method}", file=sys.stderr)
    kind = RECIPES[method]
    args.method = method
    recipe = _recipe(args, kind, data)
    for setting in fields(AutoencoderRecipe):
        if (
            setting.name in COMMON
            and getattr(args, setting.name) is not None
            and not hasattr(recipe, setting.name)
        ):
            print(f"{flag_of(setting)} has no effect on {method}", file=sys.stderr)
    with resumable():
        trained = train_by(data, recipe, args.out, overwrite=args.overwrite)
    print_trained(args.out, trained)


def _train_for_search(args: argparse.Namespace, data: TrainingData) -> None:
    """Train by the method that suits searches of the documents, with settings of its own."""
    has_labels = can_learn_labels(data)
    model, line = choose_model(
        args.model, map(str, data.inputs), has_labels=has_labels, n_bits=args.n_bits
    )
    print(f"model: {line}", file=sys.stderr)
    recipe = recipe_for_search(
        data,
        args.n_bits or (DEFAULT_BITS if model in (None, STATIC) else MODEL_BITS),
        has_labels=has_labels,
        model=model,
        model_name=args.model_name,
    )
    recipe, language = in_language(recipe, data, args.language)
    if language:
        print(language, file=sys.stderr)
    if not has_torch():
        print(WITHOUT_TORCH, file=sys.stderr)
    print(f"training by {recipe.method}", file=sys.stderr)
    # None are held out: where this is used, searches are compared on other documents.
    recipe = replace(recipe, validation_share=0.0)
    if args.label_fraction is not None and hasattr(recipe, "label_fraction"):
        recipe = replace(recipe, label_fraction=args.label_fraction)
    trained = train_by(data, recipe, args.out, overwrite=args.overwrite)
    print_trained(args.out, trained)


def _function(name: str) -> Callable[[list[str], list[str]], Any]:
    """Import the function that ``MODULE:FUNCTION`` names; modules may be in the current folder.

    Raises:
        RecipeError: if there is no such function.
    """
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise RecipeError(
            f"--similarity-function is {name!r}; it must be MODULE:FUNCTION: {error}"
        ) from None
    finally:
        sys.path.pop(0)
    if not callable(function):
        raise RecipeError(f"--similarity-function is {name!r}, which is not a function")
    return cast("Callable[[list[str], list[str]], Any]", function)


def run_metric(args: argparse.Namespace) -> None:
    """Train and print where the encoder is and how it did on the held-out documents."""
    recipe = recipe_from(args, MetricRecipe)
    check_torch(recipe)
    check_out(args)
    function = _function(args.similarity_function) if args.similarity_function else None
    data = _documents(args)
    recipe = _recipe(args, MetricRecipe, data)
    from hummingbit.training.metric_learning import train_metric  # noqa: PLC0415 - torch takes a second

    with resumable():
        trained = train_metric(
            data,
            recipe,
            args.out,
            similarity_file=args.similarity_file,
            similarity_function=function,
            overwrite=args.overwrite,
        )
    print_trained(args.out, trained)


def run_model(args: argparse.Namespace) -> None:
    """Train and print where the encoder is, and how it did on the held-out documents."""
    recipe = recipe_from(args, ModelRecipe)
    check_out(args)
    data = _documents(args)
    with resumable():
        trained = train_model(
            data,
            recipe,
            args.out,
            vectors_file=args.vectors,
            overwrite=args.overwrite,
            progress=print_trial,
        )
    print_trained(args.out, trained)


def run_judged(args: argparse.Namespace) -> None:
    """Train and print where the encoder is, and how the held-out queries did before and after."""
    recipe = recipe_from(args, JudgementRecipe)
    if not has_torch():
        raise ModuleNotFoundError(f"{JUDGED} needs torch", name="torch")
    if args.encoder is None:
        raise OptionError("--encoder is missing; name the folder of the encoder to start from")
    check_out(args)
    queries, qrels = _judged_queries(args)
    data = _documents(args)
    from hummingbit.training.judgements import train_judged  # noqa: PLC0415 - torch takes a second

    path = getattr(args, "vectors", None)
    taught = train_judged(
        args.encoder,
        data,
        gather(queries),
        qrels,
        recipe=recipe,
        out=args.out,
        vectors=None if path is None else read_teacher(path, data).vectors,
        overwrite=args.overwrite,
    )
    _print_taught(args.out, taught)


def _print_taught(out: Path, taught: Taught) -> None:
    encoder = taught.encoder
    print(f"{out}: {encoder.n_bits} bits, fingerprint {encoder.fingerprint}")
    for note in taught.notes:
        print(without_controls(note), file=sys.stderr)
    learned = counted(taught.queries - taught.held_out, "query", "queries")
    held_out = counted(taught.held_out, "query", "queries")
    print(f"learned from {learned}; nDCG@10 of {held_out} held out, before and after:")
    for ranking, before in taught.before.items():
        after = taught.after[ranking]
        print(f"  {ranking:<10}  {before:.3f}  {after:.3f}  ({after - before:+.3f})")
    if not taught.step:
        print("no step was significantly better than the start; the codes are those of the start")


def _judged_queries(args: argparse.Namespace) -> tuple[list[Document], Qrels]:
    """Return the queries and their judgements, from a file of ``label export`` or two files.

    Raises:
        OptionError: if one of two files is missing, or there are no judgements.
        InputError, ReadError: if a file is malformed.
    """
    path = args.judgements
    if path is not None and Path(path).suffix.lower() in {".jsonl", ".json"}:
        if args.queries is not None:
            raise OptionError(
                f"--queries: {path} has the texts of its queries; leave the option out"
            )
        with naming(path), Path(path).open(encoding="utf-8") as lines:
            _, judgements = read_records(lines, path)
        if not judgements:
            raise OptionError(f"--judgements {path}: has no judgement, a line with a query")
        qrels: Qrels = {}
        for (query, id_), grade in agreed_grades(judgements).items():
            qrels.setdefault(query, {})[id_] = grade
        return [Document(id=query, text=query) for query in qrels], qrels
    if args.queries is None:
        needs = "the texts of the queries; only JSON lines of label export have them in one file"
        raise OptionError(f"--queries is missing: {needs}")
    args.qrels = path
    judged = find_qrels(args)
    if judged is None:
        raise OptionError("--judgements is missing; name a file of qrels, or of label export")
    return list(read(args, args.queries)), judged


def run_by_recipe(kind: type[BaseRecipe], args: argparse.Namespace) -> None:
    """Train, print each trial, where the encoder is and how it did on the held-out documents."""
    recipe = recipe_from(args, kind)
    check_torch(recipe)
    check_out(args)
    data = _documents(args)
    if isinstance(recipe, AutoencoderRecipe) and recipe.paper:
        recipe = replace(recipe, n_bits=args.n_bits or PAPER_BITS)
    else:
        recipe = _recipe(args, kind, data)
    options = {name: getattr(args, name) for name in ("device", "amp") if hasattr(args, name)}
    with resumable():
        trained = train_by(data, recipe, args.out, overwrite=args.overwrite, **options)
    print_trained(args.out, trained)


def _recipe(args: argparse.Namespace, kind: type[R], data: TrainingData) -> R:
    """Return the recipe of the options, in the language of the texts unless they name an analyzer.

    Raises:
        OptionError: if they name both an analyzer and a language.
        InputError: if the language has no stemmer.
    """
    recipe = recipe_from(args, kind)
    if args.analyzer is not None:
        if args.language != AUTO:
            raise OptionError("--language: cannot be combined with --analyzer, which names one")
        return recipe
    recipe, language = in_language(recipe, data, args.language)
    if language:
        print(language, file=sys.stderr)
    return recipe


def _add_language(parser: argparse.ArgumentParser, default: str = argparse.SUPPRESS) -> None:
    add_option(
        parser,
        "--language NAME",
        "the language whose stems texts are read by, such as german; none for words as"
        " written (default: auto, which finds it and reads English as written)",
        default=default,
        type=_parse_language,
    )


def _parse_language(value: str) -> str:
    from hummingbit.index.languages import check_language  # noqa: PLC0415 - options are read before

    try:
        return value if value == AUTO else check_language(value)
    except InputError as error:
        raise argparse.ArgumentTypeError(error.reason) from None


def _documents(args: argparse.Namespace) -> TrainingData:
    begin_stage(f"reading {args.data}")
    return read_training_data(args, args.data)


def _add_method(methods: Any, name: str, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = methods.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
    )
    _add_files(parser, required=True)
    if name not in {MODEL, JUDGED}:
        _add_language(parser)
    return parser


def _add_judgements(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the options for an encoder to start from, and for judged queries."""
    add_option(
        parser,
        "--judgements FILE",
        "right answers to learn from: qrels (TREC's format or BEIR's TSV) of --queries, or"
        " JSON lines that label export wrote",
        default=default,
    )
    add_option(parser, "--queries SOURCE", f"the queries: {source_help()}", default=default)
    add_option(
        parser,
        "--encoder FOLDER",
        "the encoder that goes on learning from --judgements",
        type=Path,
        default=default,
    )


def _add_settings(group: Any, recipe: Any, chosen: Sequence[str] = ()) -> None:
    for setting in fields(recipe):
        trials = "chosen by trials" if setting.name in chosen else ""
        add_setting(group, setting, default_text=ANALYZER_DEFAULT.get(setting.name, trials))


def _add_files(parser: argparse.ArgumentParser, *, required: bool) -> None:
    add_option(parser, "--data SOURCE", f"the documents: {source_help()}", required=required)
    add_out(parser, required=required)
    add_reading(parser)

"""``hummingbit distill``: train a small encoder to imitate a teacher, with few labels or none."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path

from hummingbit.commands.options import (
    add_option,
    add_out,
    add_reading,
    add_setting,
    check_out,
    read_training_data,
    recipe_from,
    source_help,
)
from hummingbit.commands.printed_figures import print_trained
from hummingbit.commands.printing import without_controls
from hummingbit.deferred import deferred_imports
from hummingbit.encoder.recipes import (
    PERCEPTION_COHERENCE,
    ClassCodeRecipe,
    DistillationRecipe,
    default_objective,
    flag_of,
)
from hummingbit.foundation.slices import begin_stage

with deferred_imports():
    from hummingbit.training.class_codes import train_class_codes
    from hummingbit.training.data import TrainingData
    from hummingbit.training.pipeline import Trained, check_labels, split
    from hummingbit.training.teachers import (
        SENTENCE_TRANSFORMERS,
        Teacher,
        check_directions,
        check_vectors_place,
        read_teacher,
        save_vectors,
    )
    from hummingbit.training_methods import has_torch, print_trial, resumable

TEACHER_HELP = (
    "an encoder's folder; static, the encoder that ships; a file of vectors (.npz with ids and"
    " vectors, .parquet with id and vector, .npy with a row for each document); or the name or"
    " folder of a sentence-transformers model"
)
_OF_STUDENTS = {setting.name: setting for setting in fields(DistillationRecipe)}
_DEFAULTS = {"objective": "neighbours for texts, perception-coherence for vectors"}
_OF_CLASS_CODES = {setting.name: setting for setting in fields(ClassCodeRecipe)}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_option(parser, "--teacher T", TEACHER_HELP, required=True)
    add_option(parser, "--data SOURCE", source_help(), required=True)
    add_out(parser, "student")
    add_option(
        parser,
        "--save-vectors FILE",
        "save the teacher's vectors of the documents as an .npz, to use as the teacher later",
        type=Path,
    )
    add_reading(parser)
    settings = parser.add_argument_group("recipe")
    for name, setting in _OF_STUDENTS.items():
        # Without the flag the value is None, which tells what was given.
        if name == "label_fraction":
            continue
        default = _DEFAULTS.get(name, f"{setting.default}") if name != "n_bits" else ""
        if default and name in _OF_CLASS_CODES:
            with_labels_default = _OF_CLASS_CODES[name].default
            if with_labels_default != setting.default:
                default += f"; with --supervision {with_labels_default}"
        add_setting(settings, setting, default_text=default)
    with_labels = parser.add_argument_group(
        "with labels",
        "codes of class, certainty and content, as train class-codes; or, with --objective"
        " perception-coherence, a student that also classifies",
    )
    add_option(
        with_labels,
        "--supervision X",
        "share of the labelled documents whose labels are shown: 1 for all; 0, the default,"
        " to learn from the teacher alone",
        dest="label_fraction",
        default=0.0,
    )
    for name, setting in _OF_CLASS_CODES.items():
        if name not in _OF_STUDENTS and name != "label_fraction":
            add_setting(with_labels, setting, default_text=f"{setting.default}")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Train the student of a teacher, and print how far the two agree and where the encoder is."""
    recipe = _recipe(args)
    if not has_torch():
        raise ModuleNotFoundError("distill needs torch", name="torch")
    check_out(args)
    begin_stage(f"reading {args.data}")
    data = read_training_data(args, args.data)
    # A teacher may take minutes, so errors that would stop the run afterwards are found first.
    if isinstance(recipe, ClassCodeRecipe):
        check_labels(data, split(data, recipe), recipe.validation_share)
    else:
        recipe = _with_objective(args, recipe, data)
    if args.save_vectors:
        check_vectors_place(args.save_vectors)
    begin_stage(f"asking the teacher {args.teacher}")
    teacher = read_teacher(args.teacher, data)
    check_directions(teacher, data)
    if args.save_vectors:
        save_vectors(args.save_vectors, teacher, data)
    if isinstance(recipe, ClassCodeRecipe):
        trained = _train_with_labels(args, recipe, data, teacher)
    else:
        trained = _train_without_labels(args, recipe, data, teacher)
    print(f"teacher {teacher.name}: {teacher.kind}, {teacher.vectors.shape[1]} numbers a document")
    if coherence := trained.encoder.metadata["coherence"]:
        low, high = coherence["interval"]
        print(
            f"coherence level {coherence['level']:.3f} [{low:.3f}, {high:.3f}] on"
            f" {coherence['queries']:,} documents held out; of the teacher's nearest,"
            f" {coherence['nearest']:.0%} of ten and {coherence['neighbours']:.0%} of a hundred are"
            " among the 100 nearest codes"
        )
        lowest = ", ".join(
            f"{document['id']} {document['level']:.3f}" for document in coherence["lowest"][:3]
        )
        print(without_controls(f"the lowest levels: {lowest}; encoder.json has ten"))
    print_trained(args.out, trained)


def _recipe(args: argparse.Namespace) -> DistillationRecipe | ClassCodeRecipe:
    """Return the recipe of the method, and say which of the given settings it does not have."""
    # With labels and this objective, the student learns from both.
    has_labels = args.label_fraction != 0 and args.objective != PERCEPTION_COHERENCE
    known, others = _OF_STUDENTS, _OF_CLASS_CODES
    if has_labels:
        known, others = others, known
    for name in sorted(others.keys() - known.keys() - {"label_fraction"}):
        if getattr(args, name) is not None:
            _say_without_effect(name, f"{'with' if has_labels else 'without'} --supervision")
    if has_labels:
        return recipe_from(args, ClassCodeRecipe)
    return recipe_from(args, DistillationRecipe)


def _with_objective(
    args: argparse.Namespace, recipe: DistillationRecipe, data: TrainingData
) -> DistillationRecipe:
    """Return the recipe with an objective, and say which of the given settings that has not."""
    if args.objective is None:
        recipe = replace(recipe, objective=default_objective(is_text=data.is_text))
    for name in sorted({*recipe.without_effect()} - {"label_fraction"}):
        if getattr(args, name) is not None:
            _say_without_effect(name, f"with --objective {recipe.objective}")
    return recipe


def _say_without_effect(name: str, where: str) -> None:
    print(
        f"{flag_of((_OF_STUDENTS | _OF_CLASS_CODES)[name])} has no effect {where}", file=sys.stderr
    )


def _train_with_labels(
    args: argparse.Namespace,
    recipe: ClassCodeRecipe,
    data: TrainingData,
    teacher: Teacher,
) -> Trained:
    """Train class codes; a teacher that is a language model encodes words, too."""
    word_vectors = None
    if teacher.kind == SENTENCE_TRANSFORMERS:
        from hummingbit.training.word_vectors import encode_words  # noqa: PLC0415

        begin_stage(f"asking the teacher {args.teacher} for words")
        word_vectors = encode_words(args.teacher, data, recipe.analyzer)
    return train_class_codes(
        data,
        recipe,
        args.out,
        word_vectors=word_vectors,
        teacher=teacher,
        overwrite=args.overwrite,
        progress=print_trial,
    )


def _train_without_labels(
    args: argparse.Namespace, recipe: DistillationRecipe, data: TrainingData, teacher: Teacher
) -> Trained:
    from hummingbit.training.distillation import distill  # noqa: PLC0415 - torch takes a second

    with resumable():
        return distill(data, teacher, recipe, args.out, overwrite=args.overwrite)

"""``hummingbit distill``: train a small encoder to imitate a teacher, without labels."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path

from foundation.stages import begin_stage
from hummingbit.commands.options import (
    SOURCE_HELP,
    add_out,
    add_reading,
    add_setting,
    check_out,
)
from hummingbit.commands.printing import print_trained
from hummingbit.commands.training_source import read_training_data
from training.distillation.distillation_recipe import DistillationRecipe, default_objective

TEACHER_HELP = (
    "an encoder's folder; a file of vectors (.npz with ids and vectors, .parquet with id and"
    " vector, .npy with a row for each document); or the name or folder of a sentence-transformers"
    " model"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--teacher", required=True, metavar="T", help=TEACHER_HELP)
    parser.add_argument("--data", required=True, metavar="SOURCE", help=SOURCE_HELP)
    add_out(parser, "student")
    parser.add_argument(
        "--save-vectors",
        type=Path,
        metavar="FILE",
        help="save the teacher's vectors of the documents as an .npz, to use as the teacher later",
    )
    add_reading(parser)
    settings = parser.add_argument_group("recipe")
    for one in fields(DistillationRecipe):
        by_data = "neighbours for texts without labels shown, otherwise perception-coherence"
        add_setting(settings, one, default_text=by_data if one.name == "objective" else "")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train the student of a teacher, and print how far the two agree and where the encoder is."""
    settings = [one.name for one in fields(DistillationRecipe) if one.name != "method"]
    given = {name: getattr(args, name) for name in settings if getattr(args, name) is not None}
    recipe = DistillationRecipe(**given)
    check_out(args)
    begin_stage(f"reading {args.data}")
    data = read_training_data(args, args.data)
    if args.objective is None:
        recipe = replace(recipe, objective=default_objective(recipe, is_text=data.is_text))
    from training.distillation.distillation import distill  # noqa: PLC0415 - torch takes a second
    from training.distillation.teachers import check_vectors_place, read_teacher, save_vectors  # noqa: PLC0415

    # A teacher may take minutes, so errors that would stop the run afterwards are found first.
    if args.save_vectors:
        check_vectors_place(args.save_vectors)
    begin_stage(f"asking the teacher {args.teacher}")
    teacher = read_teacher(args.teacher, data)
    if args.save_vectors:
        save_vectors(args.save_vectors, teacher, data)
    try:
        trained = distill(data, teacher, recipe, args.out, overwrite=args.overwrite)
    except KeyboardInterrupt:
        print("\nto resume from the last checkpoint, run the command again", file=sys.stderr)
        raise
    print(f"teacher {teacher.name}: {teacher.kind}, {teacher.vectors.shape[1]} numbers a document")
    if found := trained.encoder.metadata["coherence"]:
        print(
            f"coherence level {found['level']:.3f} on {found['queries']:,} documents held out; "
            f"of the teacher's nearest, {found['nearest']:.0%} of ten and"
            f" {found['neighbours']:.0%} of a hundred are among the 100 nearest codes"
        )
    print_trained(args.out, trained)
    return 0

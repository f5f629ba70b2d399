"""``hummingbit train METHOD``: documents in, an encoder out."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from hummingbit.commands.options import SOURCE_HELP, add_reading, read
from training.data import gather
from training.recipe import Recipe, setting_help

FLAGS = {"n_bits": "--bits"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the methods and their options."""
    methods = parser.add_subparsers(dest="method", required=True, metavar="METHOD")
    summary = "the semi-supervised Bernoulli autoencoder"
    ssb_vae = methods.add_parser("ssb-vae", help=summary, description=f"Train {summary}.")
    ssb_vae.add_argument("--data", required=True, metavar="SOURCE", help=SOURCE_HELP)
    ssb_vae.add_argument(
        "--out", required=True, type=Path, metavar="FOLDER", help="the encoder's folder"
    )
    ssb_vae.add_argument("--overwrite", action="store_true", help="replace an encoder at --out")
    add_reading(ssb_vae)
    settings = ssb_vae.add_argument_group("recipe")
    for one in fields(Recipe):
        settings.add_argument(
            FLAGS.get(one.name, "--" + one.name.replace("_", "-")),
            dest=one.name,
            type=type(one.default),
            default=one.default,
            metavar="N" if isinstance(one.default, int) else "X",
            help=f"{setting_help(one.name)} (default: %(default)s)",
        )
    ssb_vae.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train and print where the encoder is and how it did on the held-out documents."""
    recipe = Recipe(**{one.name: getattr(args, one.name) for one in fields(Recipe)})
    data = gather(read(args, args.data))
    from training.semi_supervised import train_ssb_vae  # noqa: PLC0415 - torch takes a second

    trained = train_ssb_vae(data, recipe, args.out, overwrite=args.overwrite)
    figures = trained.validation
    print(f"{args.out}: {trained.encoder.n_bits} bits, fingerprint {trained.encoder.fingerprint}")
    print(f"trained with {len(trained.labelled_ids):,} labels; {figures['queries']:,} held out:")
    for title, found in (("codes", figures), ("class code", figures["class_code"])):
        shown = "  ".join(f"{name} {value:.3f}" for name, value in found["expected"].items())
        print(f"  {title:<11} {shown}  {found['distinct_codes']:,} distinct codes")
    return 0

"""``hummingbit coherence``: where an encoder does not rank documents as its teacher does."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hummingbit.commands.options import (
    OptionError,
    add_option,
    add_reading,
    read_training_data,
    source_help,
    write_text,
)
from hummingbit.commands.printing import add_json, print_result, without_controls
from hummingbit.deferred import deferred_imports
from hummingbit.foundation.slices import begin_stage

with deferred_imports():
    import numpy as np

    from hummingbit.encoder.artifact import load_encoder
    from hummingbit.encoder.encoder import Encoder
    from hummingbit.evaluation.coherence import document_levels, mean_by_class
    from hummingbit.evaluation.significance import Interval
    from hummingbit.index.catalog import EncoderFolder
    from hummingbit.training.data import TrainingData
    from hummingbit.training.teachers import check_directions, read_teacher

MAX_DOCUMENTS = 10_000
SHOWN = 10
_EXCERPT = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "encoder", metavar="ENCODER", help="an encoder's folder, or its name in --data-dir"
    )
    add_option(
        parser,
        "--teacher T",
        "as for distill: an encoder's folder, a file of vectors (.npz, .parquet, .npy), or a"
        " sentence-transformers model",
        required=True,
    )
    add_option(parser, "--data SOURCE", source_help(), required=True)
    add_option(
        parser,
        "--data-dir DIR",
        "the data folder of a named encoder (default: %(default)s)",
        type=Path,
        default=Path("data"),
    )
    add_option(
        parser,
        "--ranking",
        "how the encoder ranks (default: %(default)s)",
        choices=("hamming", "asymmetric"),
        default="hamming",
    )
    add_option(
        parser,
        "--documents N",
        "compare a sample of N documents where there are more (default: %(default)s);"
        " the time grows with its square",
        default=MAX_DOCUMENTS,
    )
    add_option(
        parser,
        "--limit N",
        "print the N worst documents and classes (default: %(default)s)",
        default=SHOWN,
    )
    add_option(parser, "--out FILE", "write all documents, worst first, as JSON lines", type=Path)
    add_reading(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the global level, and what has the lowest levels."""
    for option in ("documents", "limit"):
        if getattr(args, option) < (least := 3 if option == "documents" else 0):
            given = getattr(args, option)
            raise OptionError(f"--{option} {given}: must be at least {least}")
    if args.out is not None and args.out.exists():
        raise OptionError(f"--out {args.out}: already exists; name a file to create")
    encoder = _encoder(args)
    begin_stage(f"reading {args.data}")
    data = read_training_data(args, args.data)
    n_read = len(data)
    if n_read > args.documents:
        rows = np.random.default_rng(0).permutation(n_read)[: args.documents]
        data = data.select(np.sort(rows))
    begin_stage(f"asking the teacher {args.teacher}")
    teacher = read_teacher(args.teacher, data)
    check_directions(teacher, data)
    begin_stage(f"ranking {len(data):,} documents by both")
    levels = document_levels(encoder, data.inputs, teacher.vectors, args.ranking)
    documents = [
        {
            "id": data.ids[row],
            "level": float(levels.levels[row]),
            "interval": _bounds(levels.levels[row], levels.margins[row]),
            "teacher_nearest": data.ids[levels.teacher_nearest[row]],
            "rank": float(levels.nearest_rank[row]),
            "encoder_nearest": data.ids[levels.encoder_nearest[row]],
            "labels": [data.classes[column] for column in np.flatnonzero(data.tags[row])],
        }
        for row in levels.worst()
    ]
    classes = mean_by_class(levels, data.classes, data.tags)
    mean = levels.mean()
    if args.out is not None:
        written = (json.dumps(document, ensure_ascii=False) for document in documents)
        write_text(args.out, "".join(f"{line}\n" for line in written))
    n_learned = int(encoder.learned.contain(data.inputs).sum())
    warning = (
        f"values of training data: the encoder learned from {n_learned:,} of these"
        f" {len(data):,} documents; others will score lower"
    )
    result = {
        **({"warning": warning} if n_learned else {}),
        "level": mean.mean,
        "interval": [mean.low, mean.high],
        "documents": len(data),
        "ranking": args.ranking,
        "teacher": teacher.about(),
        "fingerprint": encoder.fingerprint,
        "classes": [
            {
                "label": name,
                "documents": n,
                "level": level.mean,
                "interval": [level.low, level.high],
            }
            for name, n, level in classes[: args.limit]
        ],
        "worst": documents[: args.limit],
    }
    lines = [
        *([warning] if n_learned else []),
        f"coherence level {_format(mean)} of {len(data):,} documents"
        + (f", a sample of {n_read:,}" if n_read > len(data) else "")
        + f", ranked by {args.ranking}; 1 is the teacher's order, .667 a random one",
        *_class_lines(classes[: args.limit]),
        *_document_lines(result["worst"], data, args.limit),
    ]
    if args.out is not None:
        lines.append(f"{args.out}: all {len(data):,} documents, the worst first")
    print_result(args, result, lines)


def _encoder(args: argparse.Namespace) -> Encoder:
    folder = Path(args.encoder)
    if folder.is_dir():
        return load_encoder(folder)
    return EncoderFolder(args.data_dir / "encoders").load(args.encoder)


def _bounds(level: float, margin: float) -> list[float]:
    return [float(max(level - margin, 0.0)), float(min(level + margin, 1.0))]


def _format(interval: Interval) -> str:
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _class_lines(classes: list[tuple[str, int, Interval]]) -> list[str]:
    if len(classes) < 2:
        return []
    width = max(len(name) for name, _, _ in classes)
    rows = [f"  {name:<{width}}  {_format(level)}  {n:,} documents" for name, n, level in classes]
    return ["", "classes with the lowest mean level:", *map(without_controls, rows)]


def _document_lines(worst: Any, data: TrainingData, limit: int) -> list[str]:
    if not limit:
        return []
    rows = {name: row for row, name in enumerate(data.ids)}
    lines = ["", "documents with the lowest level:"]
    for document in worst:
        low, high = document["interval"]
        level = _format(Interval(document["level"], low, high, 0.95))
        lines.append(f"  {level}  {_name(document['id'], data, rows)}")
        nearest = _name(document["teacher_nearest"], data, rows)
        lines.append(f"      the teacher's nearest, rank {document['rank']:,.0f} here: {nearest}")
        nearest = _name(document["encoder_nearest"], data, rows)
        lines.append(f"      the encoder's nearest: {nearest}")
    return [without_controls(line) for line in lines]


def _name(name: str, data: TrainingData, rows: dict[str, int]) -> str:
    """Return an id with the beginning of the document's text."""
    if not data.is_text:
        return name
    text = " ".join(str(data.inputs[rows[name]]).split())
    excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT].rstrip()} …"
    return f"{name}: {excerpt}"

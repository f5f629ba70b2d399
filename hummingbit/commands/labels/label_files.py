"""``hummingbit label import|export``: labels and judgements from and to files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from evaluation.labelling.exchange import JSONL, QRELS, write_qrels, write_queries, write_records
from foundation.errors import counted
from foundation.files import replace_file
from foundation.stages import begin_stage
from hummingbit.commands.json_output import print_result
from hummingbit.commands.labels.label_source import label_source
from hummingbit.commands.options import OptionError, naming

STANDARD = "-"


def run_export(args: argparse.Namespace) -> int:
    """Write every label and judgement, or the judgements as qrels or their queries."""
    with label_source(args) as source:
        begin_stage("reading labels and judgements")
        labels, judgements = source.records()
    lines: Iterable[str]
    if args.format == JSONL:
        lines = write_records([*labels, *judgements])
    else:
        lines = (write_qrels if args.format == QRELS else write_queries)(judgements)
    text = "".join(f"{line}\n" for line in lines)
    if args.file == STANDARD:
        sys.stdout.write(text)
    else:
        with naming(args.file):
            replace_file(Path(args.file), text)
    counts = counted(len(judgements), "judgement")
    if args.format == JSONL:
        counts = f"{counted(len(labels), 'label')} and {counts}"
    print(f"{args.collection}: {counts} exported", file=sys.stderr)
    return 0


def run_import(args: argparse.Namespace) -> int:
    """Import records; each replaces the person's earlier one."""
    is_standard = args.file == STANDARD
    with naming(args.file):
        content = sys.stdin.buffer.read() if is_standard else Path(args.file).read_bytes()
    name = "standard input" if is_standard else args.file
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(f"{name}: is not UTF-8 text ({error.reason})") from None
    with label_source(args, writable=True) as source:
        begin_stage(f"importing {name}")
        report = source.read(content, args.format, name, args.who)
    unknown = report["unknown"]
    skipped = f"; skipped {counted(unknown, 'record')} of unknown documents" if unknown else ""
    result = {"collection": args.collection, **report}
    changed = counted(report["changed"], "record")
    print_result(args, result, f"{args.collection}: {changed} changed{skipped}")
    return 0

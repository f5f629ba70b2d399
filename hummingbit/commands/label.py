"""``hummingbit label ACTION``: labels and judgements, what to label next, and retraining."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from hummingbit.commands.options import (
    Actions,
    BitsOption,
    OptionError,
    add_action,
    add_command,
    add_data_dir,
    add_file,
    add_label_field,
    add_option,
    add_service,
    check_folder_above,
    naming,
    open_input,
    open_output,
    open_workbench,
    service_at,
)
from hummingbit.commands.printing import (
    add_json,
    print_json,
    print_result,
    reindexed_line,
    without_controls,
)
from hummingbit.deferred import deferred_imports
from hummingbit.evaluation.labelling.names import (
    DEFAULT_METHOD,
    FORMATS,
    JSONL,
    MAX_SUGGESTED,
    QRELS,
    SUGGESTION_METHODS,
)
from hummingbit.foundation.errors import counted, install_command
from hummingbit.foundation.slices import begin_stage

with deferred_imports():
    from hummingbit.evaluation.labelling.exchange import (
        read_sheet,
        write_qrels,
        write_queries,
        write_records,
        write_sheet,
    )
    from hummingbit.foundation.files import replace_file

# ``hummingbit label pool|judged``: from questions to judged queries and the first report.


POOL_DEPTH = 50
"""Hits of each ranking that are pooled."""


def run_pool(args: argparse.Namespace) -> None:
    """Write a CSV with the answers of all rankings to each question, for a person to grade."""
    if args.n < 1:
        raise OptionError(f"-n is {args.n}; it must be at least 1")
    with naming(args.questions):
        lines = Path(args.questions).read_text(encoding="utf-8-sig").splitlines()
    questions = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not questions:
        raise OptionError(f"{args.questions}: has no question; write one on each line")
    if args.file.exists():
        raise OptionError(f"{args.file} already exists; its grades would be lost")
    with open_workbench(args, writable=False) as bench:
        begin_stage(f"pooling answers to {counted(len(questions), 'question')}")
        labels = bench.labels(args.collection)
        pools = [(question, labels.pool(question, args.n, POOL_DEPTH)) for question in questions]
    with naming(str(args.file)):
        replace_file(args.file, "\ufeff" + write_sheet(pools))
    answers = counted(sum(len(pool) for _, pool in pools), "answer")
    command = ["hummingbit", "label", "judged", args.collection, str(args.file), *_where(args)]
    print(f"{args.file}: {answers} to {counted(len(questions), 'question')}")
    print(
        "Fill in the column grade (0 not relevant, 1 related, 2 relevant, 3 exact answer), then:"
        f" {shlex.join(command)} --out DIR"
    )


def run_judged(args: argparse.Namespace) -> int:
    """Store the grades, write queries and qrels, and evaluate the collection with them."""
    from hummingbit.cli import main  # noqa: PLC0415 - the command line imports this module

    with naming(str(args.file)):
        judgements = read_sheet(args.file.read_text(encoding="utf-8-sig"), str(args.file))
    if not judgements:
        raise OptionError(f"{args.file}: no row has a grade")
    check_folder_above(args.out / "report", "--out")
    with open_workbench(args, writable=True) as bench:
        content = "\n".join(write_records(judgements)).encode()
        report = bench.labels(args.collection).read(content, JSONL, str(args.file))
    if report["unknown"]:
        unknown = counted(report["unknown"], "judgement")
        print(f"skipped {unknown} of unknown documents", file=sys.stderr)
    queries, qrels = args.out / "queries.jsonl", args.out / "qrels.txt"
    with naming(f"--out: {args.out}"):
        args.out.mkdir(parents=True, exist_ok=True)
        for path, lines in ((queries, write_queries(judgements)), (qrels, write_qrels(judgements))):
            replace_file(path, "".join(f"{line}\n" for line in lines))
    command = ["evaluate", "--collection", args.collection, "--queries", str(queries)]
    print(f"{counted(len(judgements), 'judgement')}: {queries}, {qrels}", flush=True)
    return main([*command, "--qrels", str(qrels), "--out", str(args.out / "report"), *_where(args)])


def _where(args: argparse.Namespace) -> list[str]:
    """Return the options that name the service or the data folder of another command."""
    if args.url is not None:
        return ["--url", args.url]
    return [] if args.data_dir == Path() else ["--data-dir", str(args.data_dir)]


# ``hummingbit label import|export``: labels and judgements from and to files.


def run_export(args: argparse.Namespace) -> None:
    """Write every label and judgement, or the judgements as qrels or their queries."""
    with open_workbench(args, writable=False) as bench:
        begin_stage("reading labels and judgements")
        annotations = bench.labels(args.collection)
        labels, judgements = [*annotations.labels()], [*annotations.judgements()]
    lines: Iterable[str]
    if args.format == JSONL:
        lines = write_records([*labels, *judgements])
    else:
        lines = (write_qrels if args.format == QRELS else write_queries)(judgements)
    with open_output(args.file) as stream:
        stream.writelines(f"{line}\n".encode() for line in lines)
    counts = counted(len(judgements), "judgement")
    if args.format == JSONL:
        counts = f"{counted(len(labels), 'label')} and {counts}"
    print(f"{args.collection}: {counts} exported", file=sys.stderr)


def run_import(args: argparse.Namespace) -> None:
    """Import records; each replaces the person's earlier one."""
    with open_input(args.file) as (stream, name):
        content = stream.read()
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(f"{name}: is not UTF-8 text ({error.reason})") from None
    with open_workbench(args, writable=True) as bench:
        begin_stage(f"importing {name}")
        report = bench.labels(args.collection).read(content, args.format, name, args.who)
    unknown = report["unknown"]
    skipped = f"; skipped {counted(unknown, 'record')} of unknown documents" if unknown else ""
    result = {"collection": args.collection, **report}
    changed = counted(report["changed"], "record")
    print_result(args, result, f"{args.collection}: {changed} changed{skipped}")


# ``hummingbit label ACTION``: labels and judgements, what to label next, and retraining.


SHOWN_CHARACTERS = 100
SECONDS_BETWEEN_LOOKS = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _configure_labels(actions)
    _configure_files(actions)
    retrain = add_command(
        actions, "retrain", run_retrain, "train an encoder on the labels, as a job"
    )
    retrain.add_argument("collection", metavar="COLLECTION", help="a collection or an alias")
    add_option(retrain, "--into NAME", "the name of the new collection")
    add_option(retrain, "--alias NAME", "the alias to move to it (default: COLLECTION)")
    add_option(retrain, "--auto", "go live without confirmation if the gate passes")
    add_label_field(retrain)
    add_option(retrain, "--held-out X", "the share of the labels to hold out (default: 0.2)")
    add_option(retrain, "--min-gain X", "the gain in mAP@100 that the gate asks for")
    add_option(
        retrain,
        "--accept-uncertain",
        "pass although the held-out labels are too few to tell, or known to the encoder",
        default=None,
    )
    add_option(retrain, "--epochs N", "passes over the documents")
    add_option(retrain, "--bits N", "bits in a code", dest="n_bits", action=BitsOption)
    add_option(retrain, "--seed N", "of the choice of labels and of training (default: 0)")
    confirm = add_command(
        actions, "confirm", run_confirm, "go live with the encoder of a retraining"
    )
    back = add_command(
        actions, "take-back", run_take_back, "move the alias back to the old collection"
    )
    for action in (confirm, back):
        action.add_argument("job", metavar="JOB", help="the id of the retraining")
    for action in (retrain, confirm, back):
        add_service(action)
        add_json(action)
    train = add_command(
        actions, "train", run_train, "train for the retraining jobs of a service without torch"
    )
    add_data_dir(train)
    add_option(train, "--once", "exit when no job is waiting")


def _configure_labels(actions: Actions) -> None:
    suggest = add_action(actions, "suggest", run_suggest, "print the documents to label next")
    add_option(
        suggest, "-n --limit N", "how many documents (default: %(default)s)", dest="n", default=10
    )
    add_option(
        suggest,
        "--method",
        "how to choose them (default: %(default)s)",
        default=DEFAULT_METHOD,
        choices=SUGGESTION_METHODS,
    )
    add_json(suggest, "whole documents as JSON lines")
    set_ = add_action(actions, "set", run_set, "label a document")
    set_.add_argument("id", metavar="ID", help="the document")
    set_.add_argument(
        "labels", nargs="*", metavar="LABEL", help="its labels; give none if no class fits"
    )
    add_option(
        set_,
        "--grade N",
        "how well the labels fit; 0: not at all (default: %(default)s)",
        default=1,
    )
    add_option(set_, "--remove", "remove your label instead")
    stats = add_action(actions, "stats", run_stats, "count labels and measure agreement")
    for action in (suggest, stats):
        add_label_field(action)
    for action in (set_, stats):
        add_json(action)
    for action in (suggest, set_):
        add_option(action, "--who NAME", "the person (default: anonymous, or the key's name)")


def _configure_files(actions: Actions) -> None:
    into = add_action(actions, "import", run_import, "read labels and judgements from a file")
    export = add_action(actions, "export", run_export, "write labels and judgements to a file")
    in_or_out = "labels and judgements as JSON lines, or judgements as TREC's qrels"
    exported = in_or_out.replace(", or", ",") + ", or the judged queries"
    for action, forms, forms_help, other in (
        (into, (JSONL, QRELS), in_or_out, "input"),
        (export, FORMATS, exported, "output"),
    ):
        add_file(action, f"(default: standard {other})")
        add_option(
            action, "--format", f"{forms_help} (default: %(default)s)", choices=forms, default=JSONL
        )
    pool = add_action(actions, "pool", run_pool, "write answers to your questions, to be graded")
    pool.add_argument("questions", metavar="QUESTIONS", help="a file with a question on each line")
    pool.add_argument("file", type=Path, metavar="FILE", help="the CSV to write")
    add_option(pool, "-n N", "answers to a question (default: %(default)s)", default=15)
    judged = add_action(actions, "judged", run_judged, "read the grades, and evaluate with them")
    judged.add_argument("file", type=Path, metavar="FILE", help="the CSV of label pool, graded")
    add_option(
        judged,
        "--out DIR",
        "the folder for queries.jsonl, qrels.txt and the report (default: %(default)s)",
        type=Path,
        default=Path("judged"),
    )
    add_json(into)
    add_option(into, "--who NAME", "the person of lines that name none")


def run_suggest(args: argparse.Namespace) -> None:
    """Print a document a line: its id, its guessed labels, and the beginning of its text."""
    if not 1 <= args.n <= MAX_SUGGESTED:
        raise OptionError(f"-n is {args.n}; it must be from 1 to {MAX_SUGGESTED:,}")
    with open_workbench(args, writable=False) as bench:
        suggestions = bench.labels(args.collection).suggest(
            args.n, args.method, label_field=args.label_field, who=args.who
        )
    for document in suggestions["documents"]:
        if args.json:
            print(json.dumps(document, ensure_ascii=False))
            continue
        guesses = " ".join(
            f"{guess['label']} {guess['probability']:.2f}" for guess in document["guesses"]
        )
        text = " ".join((document["text"] or document["code"]).split())
        columns = [document["id"], guesses or "-", text[:SHOWN_CHARACTERS]]
        print("\t".join(map(without_controls, columns)))
    if not suggestions["documents"]:
        print(f"{args.collection}: there is no document left to label", file=sys.stderr)


def run_set(args: argparse.Namespace) -> None:
    """Set or remove a person's labels of a document."""
    if args.remove and args.labels:
        raise OptionError("--remove: cannot be combined with LABEL; it removes all your labels")
    labels = None if args.remove else args.labels
    with open_workbench(args, writable=True) as bench:
        changed = bench.labels(args.collection).set(args.id, labels, grade=args.grade, who=args.who)
    line = f"{args.id}: {'changed' if changed else 'unchanged'}"
    print_result(args, {"id": args.id, "changed": changed}, line)


def run_stats(args: argparse.Namespace) -> None:
    """Print counts, agreement, and the expected gain of further labels."""
    with open_workbench(args, writable=False) as bench:
        begin_stage("counting labels and measuring agreement")
        stats = bench.labels(args.collection).stats(args.label_field)
    if args.json:
        print_json(stats)
        return
    print(f"{stats['labelled']:,} of {counted(stats['documents'], 'document')} labelled")
    for label in stats["labels"]:
        print(f"  {label['label']}\t{label['documents']:,}")
    queries = counted(stats["queries"], "query", "queries")
    print(f"{counted(stats['judgements'], 'judgement')} of {queries}")
    for person in stats["people"]:
        labels = counted(person["labels"], "label")
        print(f"  {person['who']}\t{labels}\t{counted(person['judgements'], 'judgement')}")
    for pair in stats["agreement"]:
        kappa = "no value" if pair["kappa"] is None else f"{pair['kappa']:.2f}"
        who = " and ".join(pair["who"])
        items = counted(pair["items"], pair["on"].removesuffix("s"))
        shared = f"{items}, {pair['observed']:.0%} alike"
        print(f"agreement of {who}: {shared}, kappa {kappa}")
    gain = stats["expected_gain"]
    if gain is not None:
        count = gain["labels_to_one_percent"]
        print(f"a classifier of the labels is right on {gain['accuracy']:.1%}", end="")
        print("" if count is None else f"; {counted(count, 'more label')} would add about a point")


def run_retrain(args: argparse.Namespace) -> int:
    """Wait for a retraining, and print whether the gate passed."""
    names = (
        *("into", "alias", "label_field", "held_out", "min_gain", "accept_uncertain"),
        *("epochs", "n_bits", "seed"),
    )
    options = {name: getattr(args, name) for name in names}
    from hummingbit.remote import wait_for  # noqa: PLC0415 - only a service needs it

    with service_at(args) as client:
        job = client.retrain(args.collection, auto=args.auto, **options)
        result = wait_for(client, job)
    if args.json:
        print_json({"job": job["id"], **result})
        return 1 if result["state"] == "refused" else 0
    trial = result["trial"]
    if trial.get("uncertainty"):  # earlier services give none
        print(trial["uncertainty"])
    for name, value in trial["candidate"].items():
        print(f"{name}\t{trial['current'][name]:.3f} -> {value:.3f}")
    held_out = counted(trial["queries"], "held-out document")
    print(f"{held_out}, p = {trial['p_value']:.2g}")
    for warning in trial.get("warnings", []):  # earlier services give none
        print(f"note: {warning}")
    if result["state"] == "refused" and trial["gain"] >= trial["min_gain"]:
        print("the gate refuses; to go on all the same: --accept-uncertain")
        return 1
    if result["state"] == "refused":
        print(f"the gate refuses: mAP@100 gains {trial['gain']:+.3f}, not {trial['min_gain']:+.3f}")
        return 1
    if result["state"] == "live":
        print(f"{result['into']} is live; to take it back: hummingbit label take-back {job['id']}")
    else:
        print(f"the gate passes; to go live: hummingbit label confirm {job['id']}")
    return 0


def run_confirm(args: argparse.Namespace) -> None:
    """Wait until the new encoder is live."""
    from hummingbit.remote import wait_for  # noqa: PLC0415 - only a service needs it

    with service_at(args) as client:
        result = wait_for(client, client.confirm(args.job))
    print_result(args, result, reindexed_line(result))


def run_take_back(args: argparse.Namespace) -> None:
    """Move the alias back to the old collection."""
    with service_at(args) as client:
        alias = client.take_back(args.job)
    print_result(args, alias, f"{alias['alias']}\t{alias['collection']}")


def run_train(args: argparse.Namespace) -> None:
    """Train for the retraining jobs of a service on the same data folder."""
    # Imported here, because only this action needs it and it takes long.
    from hummingbit.service.jobs.training_process import (  # noqa: PLC0415
        TRAINING_FILE,
        can_train,
        hold_lock,
        needs_training,
        run_training,
    )

    if not can_train():
        requirements = f"torch ({install_command('train')}) and a system other than Windows"
        raise OptionError(f"training needs {requirements}")
    jobs: Path = args.data_dir / "jobs"
    while True:
        for request in sorted(jobs.glob(f"*/{TRAINING_FILE}")):
            folder = request.parent
            with hold_lock(folder) as lock:
                if lock is not None and needs_training(folder):
                    print(f"training for job {folder.name}", flush=True)
                    run_training(folder, lock)
        if args.once:
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)

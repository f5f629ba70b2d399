"""``hummingbit job list|show|cancel``: the background jobs of a service."""

from __future__ import annotations

import argparse
from typing import get_args

from hummingbit.clients.responses import Job, JobState
from hummingbit.commands.options import add_service, service_at
from hummingbit.commands.printing import add_json, print_json, print_result


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the latest jobs, newest first")
    listing.add_argument("--state", choices=get_args(JobState), help="only those in this state")
    listing.add_argument(
        "--limit", type=int, metavar="N", help="the largest number of jobs to list"
    )
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="print a job as JSON")
    show.set_defaults(run=run_show)
    cancel = actions.add_parser("cancel", help="cancel a queued or running job")
    cancel.set_defaults(run=run_cancel)
    for action in (show, cancel):
        action.add_argument("job", metavar="JOB", help="its id")
    for action in (listing, show, cancel):
        add_service(action)
        add_json(action)


def run_list(args: argparse.Namespace) -> int:
    """Print a job a line."""
    with service_at(args) as client:
        jobs = client.jobs(limit=args.limit, state=args.state)
    print_result(args, {"jobs": jobs}, map(_line, jobs))
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Print a job as the service describes it."""
    with service_at(args) as client:
        print_json(client.job(args.job))
    return 0


def run_cancel(args: argparse.Namespace) -> int:
    """Cancel a job; a running one stops after its current step."""
    with service_at(args) as client:
        job = client.cancel_job(args.job)
    print_result(args, job, _line(job))
    return 0


def _line(job: Job) -> str:
    progress = job["progress"]
    total = "?" if progress["total"] is None else f"{progress['total']:,}"
    done = f"{progress['done']:,} of {total}"
    parts = [job["id"], job["kind"], job["collection"], job["state"], done, job["created"]]
    if job["error"] is not None:
        parts.append(job["error"]["detail"])
    return "\t".join(parts)

"""``hummingbit config show|check``: the settings of the service, and whether they are valid."""

from __future__ import annotations

import argparse

from hummingbit.commands.printing import add_json, print_result
from hummingbit.commands.serve import add_settings, read_settings
from hummingbit.service.settings import settings_to_json, settings_to_toml


def configure(parser: argparse.ArgumentParser) -> None:
    """Add ``show`` and ``check``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="print the settings in effect and the source of each")
    show.set_defaults(run=run_show)
    check = actions.add_parser("check", help="check that the service can start with these settings")
    check.set_defaults(run=run_check)
    for action in (show, check):
        add_settings(action)
        add_json(action)


def run_show(args: argparse.Namespace) -> int:
    """Print the settings as a configuration file, without secrets."""
    configuration = read_settings(args)
    print_result(args, settings_to_json(configuration), settings_to_toml(configuration))
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Check the settings, the keys and the address."""
    configuration = read_settings(args)
    from hummingbit.service.server import check_address  # noqa: PLC0415 - keeps --help quick

    check_address(configuration.settings)
    n_set = sum(origin != "default" for origin in configuration.origins.values())
    n_default = len(configuration.origins) - n_set
    line = f"the settings are valid: {n_set} set, {n_default} by default"
    print_result(args, {"in_order": True, "given": n_set, "default": n_default}, line)
    return 0

"""Runs hummingbit without what Windows lacks.

``python -m tests.support.faults.without_posix ARGUMENTS`` hides modules, functions and constants of
POSIX, and uvloop, and then runs ``hummingbit ARGUMENTS``. After an argument :data:`THEN` follows
another command, which runs in the same process if those before it succeeded.
"""

from __future__ import annotations

import os
import signal
import sys

THEN = "then"
MODULES = ("fcntl", "grp", "pwd", "resource", "syslog", "termios", "uvloop")
OF_OS = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "fork", "geteuid"),
    *("getuid", "killpg", "mkfifo", "nice", "pread", "pwrite", "sched_getaffinity"),
    *("setpriority", "setsid"),
)


def main() -> int:
    """Run the command line that this program was given."""
    sys.modules.update(dict.fromkeys(MODULES))  # type: ignore[arg-type]  # None: cannot be found
    for name in OF_OS:
        delattr(os, name)
    del signal.SIGHUP, signal.SIGKILL
    from hummingbit.cli import main as hummingbit  # noqa: PLC0415 - only what is left may be used

    commands: list[list[str]] = [[]]
    for argument in sys.argv[1:]:
        if argument == THEN:
            commands.append([])
        else:
            commands[-1].append(argument)
    return next((status for status in map(hummingbit, commands) if status), 0)


if __name__ == "__main__":
    sys.exit(main())

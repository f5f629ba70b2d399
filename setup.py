"""Builds the extension modules; a wheel that has none serves every system.

They are left out where they cannot be compiled, and by ``HUMMINGBIT_KERNEL=off``, with which an
installation does not use them either.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext


class BuildExtensions(build_ext):
    """Tags the wheel ``py3-none-any`` if nothing was compiled."""

    def run(self) -> None:
        """Compile, and see what came of it."""
        if os.environ.get("HUMMINGBIT_KERNEL") == "off":
            self.extensions = []
        super().run()
        built = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        if not any(path.exists() for path in built):
            self.distribution.ext_modules = []
            self.get_finalized_command("bdist_wheel").root_is_pure = True


setup(cmdclass={"build_ext": BuildExtensions})

"""The package as setuptools builds it, and what Beam ships to remote workers (`--setup_file=./setup.py`).

All metadata stands in pyproject.toml.
"""

import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class FreshBuild(build_py):
    """Builds into an empty folder: setuptools would pack modules that an earlier build left in `build/lib`."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": FreshBuild})

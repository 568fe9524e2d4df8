"""The package as setuptools builds it, and what Beam ships to remote workers (`--setup_file=./setup.py`).

All metadata stands in pyproject.toml.
"""

from setuptools import setup

setup()

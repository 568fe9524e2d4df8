"""`headrace doctor`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from headrace.pipeline.verbs.options import told


@click.command()
@click.option(
    "--root", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="`pipeline.root`."
)
@told
def doctor(root: Path) -> None:
    """Say what is wrong with this environment, and how to mend it."""
    from headrace.pipeline.doctor import main as examine

    sys.exit(examine(root))

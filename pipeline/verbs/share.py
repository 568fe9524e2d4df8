"""`headrace share`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.pipeline.verbs.options import short, told

if TYPE_CHECKING:
    from headrace.pipeline.share.upload import BucketUpload
    from headrace.pipeline.share.vertex import VertexUpload


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN [RUN ...]")
@click.option("--name", help="The page's title; the pipeline's name if left out.")
@click.option("--description", default="", help="What the page is about, in plain text, under the title.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write; shared/<name> if left out.",
)
@click.option("--logs/--no-logs", default=True, help="Whether TensorBoard's logs and profiles are copied beside.")
@click.option("--to", metavar="URL", help="Copy the folder to a bucket too: gs://bucket/path or s3://bucket/path.")
@click.option(
    "--vertex",
    metavar="PROJECT/LOCATION/TENSORBOARD",
    help="Upload the logs to a Vertex AI TensorBoard too, by its project, region and id.",
)
@told
def share(  # noqa: PLR0913, PLR0917
    runs: tuple[Path, ...],
    name: str | None,
    description: str,
    output: Path | None,
    logs: bool,
    to: str | None,
    vertex: str | None,
) -> None:
    """Write a page of one or several trainings, to show to others. Prints its path.

    RUN is a run's folder (<root>/<pipeline>/runs/<id>). A pipeline's folder, or a config, stands for the latest run
    that came to a training. The first run given gets the first colour. Of several, those that came to no training are
    left out, and named.

    The page is a folder with an index.html: it opens from disk, and from any static host or bucket, and asks no server
    for anything. Passwords and what looks like a key or a token are left out of it.
    """
    from headrace.pipeline.share import write_share
    from headrace.pipeline.share.find import find_all

    destinations = _destinations(to, vertex)
    folders, left_out = find_all(runs)
    for error in left_out:
        click.echo(f"left out: {error}", err=True)
    title = name or ", ".join(dict.fromkeys(folder.record.pipeline for folder in folders))
    words = [error.short for error in left_out]
    target = output or _folder(title)
    page = write_share(folders, target, name=title, description=description, logs=logs, left_out=words)
    click.echo(short(page.absolute()))
    for destination in destinations:
        click.echo(destination.send(page.parent, folders, title, description))


def _destinations(to: str | None, vertex: str | None) -> list[BucketUpload | VertexUpload]:
    """Where the page goes too; RunError before anything is written where that is no such place."""
    from headrace.pipeline.share.upload import BucketUpload
    from headrace.pipeline.share.vertex import VertexUpload

    found: list[BucketUpload | VertexUpload] = []
    if to is not None:
        found.append(BucketUpload.of(to))
    if vertex is not None:
        found.append(VertexUpload.of(vertex))
    return found


def _folder(title: str) -> Path:
    """The title as a name that every file system takes. RunError where a page of another title has it."""
    from headrace.configs.errors import RunError
    from headrace.pipeline.share import name_of

    folder = Path("shared", re.sub(r"[^\w.]+", "-", title.lower()).strip("-._")[:60] or "page")
    if name_of(folder) not in {None, title}:
        raise RunError(f'{folder} holds the page "{name_of(folder)}"; give another folder with -o')
    return folder

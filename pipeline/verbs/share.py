"""`headrace share`: a page about one or more trainings, to show to others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.pipeline.verbs.options import reports_errors, short

if TYPE_CHECKING:
    from headrace.pipeline.share.upload import BucketUpload, VertexUpload


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN [RUN ...]")
@click.option("--name", help="The title of the page. The default is the name of the pipeline.")
@click.option("--description", default="", help="Plain text to show under the title.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="The folder to write. The default is shared/<name>.",
)
@click.option(
    "--logs/--no-logs", default=True, help="Whether to copy TensorBoard's logs and profiles next to the page."
)
@click.option("--to", metavar="URL", help="Copy the folder to a bucket too: gs://bucket/path or s3://bucket/path.")
@click.option(
    "--vertex",
    metavar="PROJECT/LOCATION/TENSORBOARD",
    help="Upload the logs to a Vertex AI TensorBoard too, given by project, region and id.",
)
@reports_errors
def share(
    runs: tuple[Path, ...],
    name: str | None,
    description: str,
    output: Path | None,
    logs: bool,
    to: str | None,
    vertex: str | None,
) -> None:
    """Write a page about one or more trainings, to show to others.

    The path of the page is printed. RUN is a run's folder (<root>/<pipeline>/runs/<id>). A pipeline's folder or a
    config stands for its latest run that trained a model. The first run gets the first color. Runs that trained no
    model are left out and listed.

    The page is a folder with an index.html. It opens from disk and from any static host or bucket, and needs no server.
    Passwords and anything that looks like a key or a token are removed from it.
    """
    from headrace.pipeline.api import share_runs

    destinations = _destinations(to, vertex)
    shared = share_runs(runs, output, name=name, description=description, logs=logs)
    click.echo(short(shared.page))
    for destination in destinations:
        click.echo(destination.send(shared.page.parent, shared.runs, shared.title, description))


def _destinations(to: str | None, vertex: str | None) -> list[BucketUpload | VertexUpload]:
    """The uploads of the page. Raises RunError for an invalid one before anything is written."""
    from headrace.pipeline.share.upload import BucketUpload, VertexUpload

    found: list[BucketUpload | VertexUpload] = []
    if to is not None:
        found.append(BucketUpload.of(to))
    if vertex is not None:
        found.append(VertexUpload.of(vertex))
    return found

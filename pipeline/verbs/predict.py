"""`headrace predict`: predict new data with an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.common.environment import prepare
from headrace.common.figures import plural
from headrace.pipeline.verbs.options import GivenConfig, config_verb, short

if TYPE_CHECKING:
    from headrace.configs.schema.predict import Probabilities


@config_verb()
@click.option(
    "--input",
    "-i",
    "given",
    metavar="PATH",
    help="The data: a path, pattern or URL. Its ending names its kind, unless CONFIG reads files of that kind. The"
    " default is the data of CONFIG.",
)
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write: .parquet, .csv, .jsonl or .tfrecord, or one of the last three with .gz.",
)
@click.option(
    "--model",
    metavar="VERSION|PATH",
    help="The pushed version or the folder of the model. The default is the version in service, else the newest"
    " blessed model.",
)
@click.option(
    "--columns",
    metavar="A,B",
    help="The columns of the input to write in front of the predictions. The default is all; an empty value, none.",
)
@click.option("--prefix", default="", metavar="TEXT", help="Text in front of the names of the predictions' columns.")
@click.option(
    "--probabilities",
    type=click.Choice(["auto", "all", "best", "none"]),
    default="auto",
    help="Of classes or words: all (a column each), best (one column with the highest) or none. The default, auto, is"
    " all up to 10,000, and best of more.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Examples in a call of the model, at most 2048 by default.",
)
def predict(
    config: GivenConfig,
    given: str | None,
    output: Path,
    model: str | None,
    columns: str | None,
    prefix: str,
    probabilities: Probabilities,
    batch_size: int | None,
) -> None:
    """Predict new data with a model of CONFIG.

    CONFIG may also be the folder of a pushed version. The output has the columns of the input, then `prediction`, then
    the probability of each class.
    """
    prepare()
    from headrace.pipeline.predict.scoring import Form, open_scoring

    keys = None if columns is None else [name for name in columns.split(",") if name]
    form = Form(columns=keys, prefix=prefix, probabilities=probabilities, batch_size=batch_size)
    scoring = open_scoring(config.path, given, model=model, form=form, **config.options)
    done = scoring.to_file(output)
    click.echo(f"{short(output.absolute())}: {plural(done.rows, 'prediction')} by {scoring.model.name}")

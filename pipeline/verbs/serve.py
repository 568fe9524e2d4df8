"""`headrace serve`: answer requests with an exported model, for trying it out."""

from __future__ import annotations

import threading

import click

from headrace.common.environment import prepare, quiet
from headrace.pipeline.verbs.options import GivenConfig, config_verb


@config_verb()
@click.option(
    "--model",
    metavar="VERSION|PATH",
    help="The pushed version or the folder of the model. The default is the newest version, and a newer one as soon"
    " as it is pushed; without any, the newest blessed model.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address to serve on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8501,
    show_default=True,
    metavar="PORT",
    help="The port to serve on; 0 takes any free one.",
)
def serve(config: GivenConfig, model: str | None, host: str, port: int) -> None:
    """Answer requests over HTTP with a model of CONFIG.

    CONFIG may also be the folder of a pushed version. The requests and answers are those of TensorFlow Serving's REST
    API; rows of data columns are accepted too, and get class names and probabilities. It serves until Ctrl-C.
    """
    prepare()
    from headrace.common.errors import RunError
    from headrace.pipeline.predict.models import is_model, model_folder

    if is_model(config.path):
        if model is not None or config.profile is not None or config.overrides:
            raise RunError(f"{config} is a model and not a config, so it takes no model, profile or settings")
        loaded = None
    else:
        loaded = config.load().config
    click.echo("loading TensorFlow and the model", err=True)
    with quiet():  # TensorFlow reports that there is no GPU
        from headrace.pipeline.serve.server import App, follow, served_folder, serving

        found = served_folder(model_folder(config.path) or config.path) if loaded is None else follow(loaded, model)
        app = App(found, loaded.pipeline.name if loaded else "model")
    with serving(app, host, port) as address:
        click.echo(f"{address}  {found().name}; Ctrl-C ends it")
        threading.Event().wait()

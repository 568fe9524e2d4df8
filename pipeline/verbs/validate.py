"""`headrace validate`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.verbs.options import load, told


@click.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--profile", metavar="NAME", help="Lay CONFIG's NAME overlay (<config>.NAME.yaml) over it.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=VALUE", help="Override one value.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the config, for editors, and nothing else.")
@told
def validate(config: Path | None, profile: str | None, overrides: tuple[str, ...], schema: bool) -> None:
    """Check CONFIG, and then the data against it; tell every mistake with its file and line."""
    if schema:
        import json

        from headrace.configs.json_schema import json_schema

        click.echo(json.dumps(json_schema(), indent=2))
        return
    if config is None:
        raise click.UsageError("name a config, such as configs/taxi.yaml, or ask for --schema")
    loaded = load(config, profile, overrides, data=True)
    from headrace.pipeline.validate import check_machine

    for lacking in check_machine(loaded):
        click.echo(f"note: `headrace run` would stop on this machine: {lacking}", err=True)
    count = len(loaded.config.features)
    click.echo(f"{config}: the config is sound and fits the data ({count} features, label {loaded.config.label.key})")

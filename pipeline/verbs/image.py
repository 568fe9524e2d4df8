"""`headrace image`: build and push the image that the pods of a pipeline run in."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.pipeline.verbs.options import reports_errors

NAME = "headrace"


@click.command()
@click.option("--name", default=NAME, show_default=True, metavar="REPOSITORY",
              help="The repository, such as registry.example/team/headrace.")  # fmt: skip
@click.option("--tag", metavar="TAG", help="The tag. The default is a digest of the content.")
@click.option("--gpu", is_flag=True, help="Include the CUDA libraries.")
@click.option("--code", metavar="FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="The folder of your own modules, which configs name by dotted paths.")  # fmt: skip
@click.option("--requirements", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="A requirements file of pip with the packages that your modules import.")  # fmt: skip
@click.option("--ca", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="PEM certificates to trust during the build, such as those of a TLS-inspecting proxy.")  # fmt: skip
@click.option(
    "--ca-in-image",
    is_flag=True,
    help="Keep the certificates of --ca in the image, so that its programs trust them too.",
)
@click.option("--push", is_flag=True, help="Push the image to its registry, unless it is there already.")
@click.option(
    "--builder",
    type=click.Choice(["docker", "podman", "buildah"]),
    help="The tool to build with. The default is the first that works.",
)
@click.option(
    "--base", metavar="IMAGE", help="The base image, Python 3.11 on Debian 13. The default is from Docker's registry."
)
@click.option("--dry-run", is_flag=True, help="Print the tag and the size, and build nothing.")
@reports_errors
def image(  # noqa: PLR0913, PLR0917 - one for each option
    name: str, tag: str | None, gpu: bool, code: Path | None, requirements: Path | None, ca: Path | None,
    ca_in_image: bool, push: bool, builder: str | None, base: str | None, dry_run: bool,
) -> None:  # fmt: skip
    """Build the container image for the pods of a pipeline."""
    import tempfile

    from headrace.pipeline.image.builders import find_builder
    from headrace.pipeline.image.context import content_tag, stage, trust

    if ca_in_image and ca is None:
        raise click.UsageError("--ca-in-image needs --ca FILE")
    if push and "/" not in name:
        raise click.UsageError(f"--push needs --name with a registry, such as registry.example/{name}")
    _check(name, tag)
    variant = "gpu" if gpu else "cpu"
    with tempfile.TemporaryDirectory(prefix="headrace-image-") as folder:
        context = Path(folder)
        stage(context, code, requirements)
        if ca is not None and ca_in_image:
            trust(context, ca)
        content = content_tag(context, variant if base is None else f"{variant} {base}")
        if ca is not None:
            trust(context, ca)  # after the tag is computed, as it does not change the image
        reference = f"{name}:{tag or content}"
        if dry_run:
            _print_size(context, variant, reference)
            return
        arguments = {"VARIANT": variant, "CONTENT": content, "VERSION": _version(), **({"BASE": base} if base else {})}
        arguments |= {"CA": "with"} if ca_in_image else {}
        tool = find_builder(builder, lambda line: click.echo(line, err=True), ca)
        digest = tool.pushed(reference) if push and tag is None else None
        if digest:
            click.echo(f"{reference} is in its registry already", err=True)
        else:
            tool.build(context, reference, arguments)
            digest = tool.push(reference) if push else None
    click.echo(f"kubeflow.image: {name}@{digest}" if digest else f"kubeflow.image: {reference}")


def _check(name: str, tag: str | None) -> None:
    """Reject early what the build tool would reject late, and less clearly."""
    from headrace.configs.rules.kubernetes import HOST, REPOSITORY, TAG

    if ":" in name.rpartition("/")[2]:
        raise click.UsageError(f"--name {name}: pass what follows the colon as --tag")
    host, slash, path = name.partition("/")
    if not REPOSITORY.fullmatch(path if slash and HOST.fullmatch(host) else name):
        raise click.UsageError(
            f"--name {name}: a repository has lowercase letters and digits, with single . _ - between them, "
            "such as registry.example/team/headrace"
        )
    if tag is not None and not TAG.fullmatch(tag):
        raise click.UsageError(f"--tag {tag}: at most 128 letters, digits and . _ -, starting with neither . nor -")


def _print_size(context: Path, variant: str, reference: str) -> None:
    from headrace.pipeline.image.size import layers

    found, unknown = layers(context, variant)
    click.echo(reference)
    for layer in found:
        largest = sorted(layer.parts.items(), key=lambda part: -part[1])[:5]
        parts = ", ".join(f"{part} {size / 1e6:,.0f}" for part, size in largest)
        click.echo(f"{layer.size / 1e6:8,.0f} MB  {layer.name}: {parts}")
    click.echo(f"{sum(layer.size for layer in found) / 1e6:8,.0f} MB  in total")
    if unknown:
        click.echo(f"not counted because they are not installed here: {', '.join(unknown)}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:
        return "unknown"

"""The model whose weights a training begins with: the latest blessed one."""

import json
from pathlib import Path

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from headrace.components.baseline import EXISTS, columns_of
from headrace.components.intact import flaw_of
from headrace.components.registry import MadeFor, Registry
from headrace.trainer.weights.origin import Origin, piece_of_work


@component
def WarmStart(  # noqa: N802, PLR0913, PLR0917
    transform_graph: InputArtifact[standard_artifacts.TransformGraph],
    schema: InputArtifact[standard_artifacts.Schema],
    base: OutputArtifact[standard_artifacts.Model],
    training: Parameter[str],
    label: Parameter[str],
    registry: Parameter[str],
    push_record: Parameter[str],
) -> None:
    """Point `base` at the model to begin with; an empty folder where there is none.

    training: the Trainer's `custom_config` as JSON; label: LabelConfig as JSON; registry: path of `blessed.json`;
    push_record: path of `pushed.json`.
    """
    data = MadeFor(label=label, columns=columns_of(schema.uri))
    work = piece_of_work(json.loads(training), transform_graph.uri)
    found = choose(Registry.read(Path(registry)), work, data, Path(push_record))
    if found is None:
        Path(base.uri).mkdir(parents=True, exist_ok=True)
    else:
        base.uri = found
    base.set_int_custom_property(EXISTS, int(found is not None))


def choose(registry: Registry, work: str, data: MadeFor, push_record: Path | None = None) -> str | None:
    """The URI of the latest blessed model that is there still and made for such data.

    If the very same piece of work has made it, what that began with: so an unchanged run finds the base of the first
    time, and its Trainer need not run again.
    """
    for entry in reversed(registry.models):
        if flaw := flaw_of(entry.uri, entry, data, push_record):
            print(flaw.reason)
            continue
        origin = Origin.read(Path(entry.uri) / "Format-Serving")
        if origin is None or origin.work != work:
            return entry.uri
        return origin.base if origin.base and Path(origin.base).is_dir() else None
    return None

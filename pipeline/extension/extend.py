"""Calls the user's function of `pipeline.extend`, and weaves in what it returns.

components = extended("mine.components.extend", components)

The function gets the named components. It returns further ones, or the components with some of them replaced and with
further ones in `extra`. A replacement takes the id of the component that it replaces: whatever read that one's outputs
reads the replacement's, and settings such as `kubeflow.components.SchemaGen` apply to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tfx.dsl.components.base.base_node import BaseNode

from headrace.common.errors import ConfigError, Problem, TrainingError
from headrace.common.names import join_names
from headrace.configs.schema.components import Components
from headrace.pipeline.extension import check
from headrace.trainer.hooks import resolve

SETTING = "pipeline.extend"


def extended(path: str | None, components: Components) -> Components:
    """The components with those of the user's function. path: the function's dotted path, or None for none.

    Raises ConfigError if the function fails, or returns what cannot run.
    """
    if path is None:
        return components
    ids = {name: node.id for name, node in components.named().items() if node is not None}
    returned = _call(path, components)
    base, further = (returned, returned.extra) if isinstance(returned, Components) else (components, returned)
    new = replace(base, extra=_listed(path, further))
    _refuse(path, [*check.renamed(components, ids), *check.returned(components, new)])
    replaced = _replaced(components, new)
    _refuse(path, [*check.replacements(replaced, new), *check.unapproved(replaced)])
    for old, other in replaced.values():
        _put_in_place(old, other, new)
    _push_after_blessing(replaced, new)
    _record_training_last(new)
    theirs = [*new.extra, *(other for _, other in replaced.values())]
    _refuse(path, check.pipeline(new, theirs))
    _materialize(new, theirs)
    return new


def _call(path: str, components: Components) -> Any:
    try:
        return resolve(path, SETTING)(components)
    except TrainingError as error:
        what = str(error).removeprefix(f"{SETTING}: ")
        raise ConfigError(Problem(SETTING, f"{what}{_absent(components, error.__cause__)}")) from error


def _absent(components: Components, error: BaseException | None) -> str:
    """A hint for a function that uses a component that this config does not have."""
    absent = [name for name, node in components.named().items() if node is None]
    if not (isinstance(error, AttributeError) and error.obj is None and absent):
        return ""
    return f"; this config has no {join_names(absent, 10)}, so test for None first"


def _listed(path: str, returned: Any) -> tuple[Any, ...]:
    if isinstance(returned, list | tuple):
        return tuple(returned)
    found = f"{type(returned).__name__} {returned.id}" if isinstance(returned, BaseNode) else f"{returned!r:.60}"
    what = f"{path} returns {found}; it must return a list of components, or dataclasses.replace(components, ...)"
    raise ConfigError(Problem(SETTING, what))


def _refuse(path: str, problems: Iterable[str]) -> None:
    if found := [Problem(SETTING, f"{path}: {what}") for what in problems]:
        raise ConfigError(*found)


def _replaced(ours: Components, new: Components) -> dict[str, tuple[BaseNode, BaseNode]]:
    """Name to our own component and the one that replaces it."""
    theirs = new.named()
    pairs = {name: (old, theirs[name]) for name, old in ours.named().items() if old is not theirs[name]}
    return {name: (old, other) for name, (old, other) in pairs.items() if old is not None and other is not None}


def _put_in_place(old: BaseNode, new: BaseNode, components: Components) -> None:
    """Let everything that read or waited for the old component read or wait for the new one, under the same id."""
    new.with_id(old.id)
    for node in components:
        for key, channel in node.inputs.items():
            if getattr(channel, "producer_component", None) is old:
                node.inputs[key] = new.outputs[channel.output_key]
    for node in [*old.downstream_nodes]:
        old.remove_downstream_node(node)
        node.add_upstream_node(new)
    for node in [*old.upstream_nodes]:
        old.remove_upstream_node(node)
        new.add_upstream_node(node)


def _push_after_blessing(replaced: Mapping[str, tuple[BaseNode, BaseNode]], components: Components) -> None:
    """A model is listed as blessed before it is pushed: a killed run then leaves none in service that is unknown."""
    if "pusher" in replaced:
        _, pusher = replaced["pusher"]
        pusher.add_upstream_node(components.record_blessing)


def _record_training_last(components: Components) -> None:
    """If a further component fails, there is still a reason to train: what was trained on is recorded after it."""
    if (last := components.record_training) is not None:
        for node in components.extra:
            if last not in check.needed(node, components):
                last.add_upstream_node(node)


def _materialize(components: Components, theirs: Iterable[BaseNode]) -> None:
    """Let our Transform write TFRecords if a component of the user's reads them. Raises ConfigError if it must not."""
    transform = components.transform
    materialize = transform.exec_properties.get("materialize")
    readers = [node.id for node in theirs if any(_is_transformed(one, transform) for one in node.inputs.values())]
    if readers and materialize == "never":
        what = f"{readers[0]} of {SETTING} reads TFRecords of transformed examples; set it to `auto` or `always`"
        raise ConfigError(Problem("transform.materialize", what))
    if readers and materialize == "auto":
        transform.exec_properties["materialize"] = "always"


def _is_transformed(channel: Any, transform: BaseNode) -> bool:
    produced = getattr(channel, "producer_component", None) is transform
    return produced and channel.output_key == "transformed_examples"

"""What may be returned by the function of `pipeline.extend`. Every check yields messages for the user.

A component runs here and on Kubeflow as its executor, with the properties and artifacts of compile time. What TFX does
around an executor on its own runners (drivers, resolvers, conditions, values that are known only when a pipeline runs)
is refused rather than ignored.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tfx.dsl.components.base.base_component import BaseComponent
from tfx.dsl.components.base.base_driver import BaseDriver
from tfx.dsl.components.base.base_node import BaseNode
from tfx.dsl.components.base.executor_spec import ExecutorClassSpec
from tfx.dsl.context_managers import dsl_context_registry
from tfx.dsl.experimental.conditionals import conditional
from tfx.types import standard_artifacts
from tfx.types.channel import OutputChannel

from headrace.common.credentials import CREDENTIAL_PATTERNS
from headrace.common.names import join_names
from headrace.components.stored_models.blessed_record import MANUAL
from headrace.components.trigger.decision import GO
from headrace.configs.schema.components import DECLARATIONS, Components
from headrace.pipeline.code.modules import find

ID = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
STATE = ("destination", "push_record", "registry", "store", "trained")
"""Names of properties by which our own components name the pipeline's state."""
UNSUPPORTED = {
    "tfx.dsl.components.common.resolver.Resolver": "is a Resolver, which looks up earlier runs in ML Metadata; the"
    " latest blessed model is an output of components.baseline",
    "tfx.dsl.components.common.importer.Importer": "is an Importer; write a component that outputs the artifact",
    "tfx.components.infra_validator.component.InfraValidator": "is an InfraValidator, which starts containers of its"
    " own; send requests to the model in a component of yours",
}
"""Classes of TFX by their paths, as importing InfraValidator imports the client of Kubernetes."""


def renamed(ours: Components, ids: Mapping[str, str]) -> Iterator[str]:
    """Our components with another id than before the call. ids: by the names of the components."""
    for name, node in ours.named().items():
        if node is not None and node.id != ids[name]:
            yield f"gives {name} another id, by which nothing would find it; leave it {ids[name]}"


def returned(ours: Components, new: Components) -> Iterator[str]:
    """What is returned, before anything is replaced."""
    for name, old in ours.named().items():
        other = getattr(new, name)
        if other is old:
            continue
        if old is None:
            yield f"replaces {name}, which this config does not have; return the component in a list, or as `extra`"
        elif other is None:
            yield f"sets {name} to None; a component can be replaced, not removed"
        elif instead := DECLARATIONS[name].instead:
            yield f"replaces {name}, which cannot be replaced; {instead}"
        elif not isinstance(other, BaseNode):
            yield f"replaces {name} with {other!r:.60}, which is not a component"
    for other in new.extra:
        if not isinstance(other, BaseNode):
            yield f"returns {other!r:.60}, which is not a component"


def replacements(replaced: Mapping[str, tuple[BaseNode, BaseNode]], new: Components) -> Iterator[str]:
    """What the consumers of a replaced component need of its replacement."""
    for name, (old, other) in replaced.items():
        if any(_producer(channel) is old for channel in other.inputs.values()) or old in other.upstream_nodes:
            yield (
                f"{name} is replaced by a component that needs {name} itself; add it as a further component"
                " instead, and let others wait for it"
            )
        for node in new:
            for channel in node.inputs.values():
                if _producer(channel) is old and (why := _lacks(other, channel.output_key, channel)):
                    yield f"{node.id} reads {channel.output_key} of {name}, and {why}"


def unapproved(replaced: Mapping[str, tuple[BaseNode, BaseNode]]) -> Iterator[str]:
    """A Pusher of the user's where models are pushed only after a person's approval, of which it knows nothing."""
    if "pusher" in replaced and replaced["pusher"][0].exec_properties["approval"] == MANUAL:
        yield (
            "replaces pusher, and a Pusher of yours pushes without the approval that `deploy.approval: manual` asks"
            " for; leave ours in place, which waits for `headrace promote`, or set `deploy.approval: automatic`"
        )


def pipeline(components: Components, theirs: Sequence[BaseNode]) -> Iterator[str]:
    """Everything about the woven pipeline that would keep it from running, here or on Kubeflow.

    theirs: the components of the user's.
    """
    ids = [node.id for node in components]
    for id_ in dict.fromkeys(ids):
        if ids.count(id_) > 1:
            yield f'there are {ids.count(id_)} components with the id {id_}; give one another with `.with_id("...")`'
    for node in theirs:
        yield from (f"{node.id} {what}" for what in _component(node))
    for node in components:
        yield from (f"{node.id} {what}" for what in _upstream(node, components))
    graph = {node.id: {other.id for other in _direct(node)} for node in components}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"the components need each other in a circle: {' → '.join(reversed(error.args[1]))}"


def needed(node: BaseNode, components: Components) -> set[BaseNode]:
    """The component, and all components of the pipeline that must end before it."""
    known, found, waiting = {*components}, set[BaseNode](), [node]
    while waiting:
        current = waiting.pop()
        if current in known and current not in found:
            found.add(current)
            waiting += _direct(current)
    return found


def _direct(node: BaseNode) -> list[BaseNode]:
    producers = [_producer(channel) for channel in node.inputs.values()]
    return [*(one for one in producers if one is not None), *node.upstream_nodes]


def _producer(channel: Any) -> BaseNode | None:
    return channel.producer_component if isinstance(channel, OutputChannel) else None


def _lacks(node: BaseNode, key: str, read: Any) -> str:
    """Why a component has no output for a consumer; "" if it has one."""
    if key not in node.outputs:
        has = join_names(sorted(node.outputs), 10) if node.outputs else "none"
        return f"its replacement has no such output; it has {has}"
    found = node.outputs[key].type
    return "" if issubclass(found, read.type) else f"that of its replacement is {found.__name__}, not {read.type_name}"


def _component(node: BaseNode) -> Iterator[str]:
    """What TFX would do with a component, and we do not."""
    if not ID.fullmatch(node.id):
        yield "is no name for folders and tasks; use at most 63 letters, digits, `_`, `.` and `-`, with a letter first"
    for base in type(node).__mro__:
        if what := UNSUPPORTED.get(f"{base.__module__}.{base.__name__}"):
            yield what
            return
    if not isinstance(node, BaseComponent):
        yield f"is a {type(node).__name__}, which has no executor; only components can be added"
        return
    if node.driver_class is not BaseDriver:
        yield f"has a driver ({node.driver_class.__name__}), which would not run; read data with `data.source`"
    if not isinstance(node.executor_spec, ExecutorClassSpec):
        yield f"has no executor class but a {type(node.executor_spec).__name__}; start the container in an executor"
        return
    registry = dsl_context_registry.get()
    if node in registry.all_nodes and conditional.get_predicates(node, registry):
        yield "is in a Cond, which would have no effect; decide in its executor"
    yield from _ignored(node)
    yield from _importable(node)
    yield from _properties(node)
    yield from _outputs(node)


def _ignored(node: BaseComponent) -> Iterator[str]:
    if getattr(node.executor_spec, "beam_pipeline_args", None):
        yield "has Beam arguments of its own; set `beam.options`, which every component gets"
    if node.node_execution_options is not None or node.platform_config is not None:
        yield f"has options for TFX's own runners; set `kubeflow.components.{node.id}`"


def _importable(node: BaseComponent) -> Iterator[str]:
    """Classes that a process other than this one cannot import."""
    types = [channel.type for channel in node.outputs.values()]
    for what, class_ in [("executor", node.executor_spec.executor_class), *(("output type", one) for one in types)]:
        module, name = class_.__module__, class_.__qualname__
        if module == "__main__" or getattr(sys.modules.get(module), name, None) is not class_:
            yield f"has the {what} {module}.{name}, which cannot be imported; define it at the top of a module"
        elif find(module) is None:
            where = "in the current directory, in PYTHONPATH or among the installed packages"
            yield f"has the {what} {module}.{name}, but there is no module {module} {where}; move it there"


def _properties(node: BaseComponent) -> Iterator[str]:
    for name, value in node.exec_properties.items():
        if name in STATE:
            yield f"has a parameter `{name}`, a name that Headrace uses itself; rename the parameter"
        if name == "module_file" and value is not None:
            yield f"has `module_file`, a file that pods do not have; put {value} into a module and name its function"
        if isinstance(value, str) and any(shape.search(value) for shape in CREDENTIAL_PATTERNS.values()):
            yield f"has a credential in its parameter `{name}`; pass the name of an environment variable that holds it"
        if not _is_json(value):
            yield f"has a parameter `{name}` whose value is known only at run time, or is not JSON: {value!r:.60}"
        elif name == "custom_config" and value is not None and not _is_json_object(value):
            yield "has a `custom_config` that is not a JSON object"


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def _is_json_object(value: Any) -> bool:
    try:
        return isinstance(json.loads(value), dict | None)
    except (TypeError, ValueError):
        return False


def _outputs(node: BaseComponent) -> Iterator[str]:
    for key, channel in node.outputs.items():
        if key == GO:
            yield f"has an output `{GO}`, a name that Headrace uses itself; rename the output"
        if issubclass(channel.type, standard_artifacts.Bytes):
            yield f"has an output `{key}` of bytes, which Kubeflow cannot pass on; write a file into an artifact"


def _upstream(node: BaseNode, components: Components) -> Iterator[str]:
    """What a component needs and the pipeline does not have."""
    known = {*components}
    for key, channel in node.inputs.items():
        producer = _producer(channel)
        if producer is None:
            yield f"has an input `{key}` that is a {type(channel).__name__}; it must be one output of one component"
        elif producer not in known:
            yield f"reads {channel.output_key} of {producer.id}, which is not in the pipeline; return {producer.id} too"
    for other in sorted(node.upstream_nodes - known, key=lambda one: str(one.id)):
        yield f"waits for {other.id}, which is not in the pipeline; return {other.id} too"

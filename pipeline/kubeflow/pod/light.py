"""Components that a pod runs without TensorFlow and TFX: those that take milliseconds (pipeline/local/light.py).

    if is_light(invocation):
        outputs = run_light(invocation, properties, inputs, uris)     # inputs: of `new_light`

Their outputs are texts and references to models, so Kubeflow sees the same as of their TFX components. ImportSchemaGen
is none of them: its output is an artifact, and Kubeflow reuses it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from headrace.pipeline.kubeflow.pod.invocation import ARTIFACT, VALUE, Invocation
from headrace.pipeline.local.light import LIGHT, LightArtifact, execute_light, new_output
from headrace.pipeline.local.mlmd import metadata_store_pb2 as mlmd
from headrace.pipeline.local.wire import StoredArtifact

_STANDARD = "tfx.types.standard_artifacts"
_OF_SPLITS = {"span": mlmd.INT, "split_names": mlmd.STRING}
TYPES: Mapping[str, Mapping[str, mlmd.PropertyType]] = {
    f"{_STANDARD}:ExampleStatistics": _OF_SPLITS,
    f"{_STANDARD}:InfraBlessing": {},
    f"{_STANDARD}:Model": {},
    f"{_STANDARD}:ModelBlessing": {},
    f"{_STANDARD}:PushedModel": {},
    f"{_STANDARD}:Schema": {},
    f"{_STANDARD}:String": {},
    f"{_STANDARD}:TransformGraph": {},
    "headrace.components.bulk_predictor.artifact:Predictions": {},
}
"""The types of what these components get and make, as `module:name`, with their typed properties."""

Artifacts = dict[str, list[LightArtifact]]


def is_light(invocation: Invocation) -> bool:
    """Whether it is one of these components as this version knows it: not one of the user's in its place, nor one with
    artifacts of the user's types, nor one that another version compiled with other parameters.
    """
    module, _, name = invocation.kind.rpartition(".")
    if invocation.kind not in LIGHT or invocation.executor != f"{module}:{name}_Executor":
        return False
    ports = [*invocation.inputs.values(), *invocation.outputs.values()]
    if any(port.type not in TYPES for port in ports) or any(one.how == ARTIFACT for one in invocation.outputs.values()):
        return False
    given = {**invocation.inputs, **invocation.outputs, **invocation.exec_properties}
    try:
        inspect.signature(LIGHT[invocation.kind]).bind(**given)
    except TypeError:
        return False
    return True


def new_light(type_: str) -> LightArtifact:
    """An empty artifact of one of TYPES."""
    return LightArtifact(StoredArtifact(mlmd.Artifact(), _type(type_)))


def run_light(
    invocation: Invocation, properties: Mapping[str, Any], inputs: Artifacts, uris: Mapping[str, str]
) -> Artifacts:
    """What `headrace.pipeline.execute` does for the component. Raises what its function raises.

    uris: the path of each output.
    """
    ports = invocation.outputs
    outputs = {key: new_output(_type(ports[key].type), uri, ports[key].how == VALUE) for key, uri in uris.items()}
    execute_light(invocation.kind, properties, {key: artifact for key, (artifact,) in inputs.items()}, outputs)
    return {key: [artifact] for key, artifact in outputs.items()}


def _type(name: str) -> mlmd.ArtifactType:
    return mlmd.ArtifactType(name=name.partition(":")[2], properties=TYPES[name])

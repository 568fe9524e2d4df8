"""Pods whose components get variables from Secrets, as what is compiled asks for.

with secret_pods(text, {"registry": {"authorization": "Basic ..."}}):
    Cluster(folder, root).run(text)
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest
import yaml
from forks import Forked

from headrace.pipeline.kubeflow.document import TaskSpec
from headrace.pipeline.kubeflow.verify import cluster
from headrace.pipeline.kubeflow.verify.launcher import Pod

OF_THE_STORE = {"mlpipeline-minio-artifact": {"accesskey": "of no", "secretkey": "use"}}
"""Kubeflow's own, for the store, which is a folder here."""


class SecretPod(Pod):
    """A pod with the `secretKeyRef`s that Kubeflow's driver makes of `secretAsEnv`. executors: by label, what the
    second document says of each; secrets: name to key to value.
    """

    executors: ClassVar[Mapping[str, Any]]
    secrets: ClassVar[Mapping[str, Mapping[str, str]]]

    def _environment(self, spec: TaskSpec) -> dict[str, str]:
        given = {
            variable["envVar"]: self.secrets[one["secretNameParameter"]["runtimeValue"]["constant"]][
                variable["secretKey"]
            ]
            for one in self.executors.get(spec.executor, {}).get("secretAsEnv", ())
            for variable in one["keyToEnv"]
        }
        return {**super()._environment(spec), **given}


@contextlib.contextmanager
def secret_pods(text: str, secrets: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Let the pods of clusters be such, as a compiled pipeline asks, and start with their imports done."""
    _, second = yaml.safe_load_all(text)
    SecretPod.executors = second["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    SecretPod.secrets = {**OF_THE_STORE, **secrets}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "Pod", SecretPod)
        patch.setattr(subprocess, "Popen", Forked)
        yield

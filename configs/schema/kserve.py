"""`deploy.kserve:` the InferenceService that serves the pushed models."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.schema.section import Duration, Name, Section

ServiceName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
"""What KServe takes for the name of an InferenceService."""
NamespaceName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class KServeConfig(Section):
    """The InferenceService of KServe that runs on Kubeflow, and `promote` and `rollback` with `--kubeflow`, point to
    each version that they push (see docs/kubeflow_cluster.md). Runs on this machine leave it as it is.
    """

    name: ServiceName
    """Name of the InferenceService. It must exist: apply `kubernetes/components/kserve` once. Only its `storageUri`,
    `canaryTrafficPercent` and the annotations `headrace/...` are changed."""
    namespace: NamespaceName | None = None
    """Its namespace. null: that of the runs."""
    canary_percent: Annotated[int, Field(ge=1, le=99)] | None = None
    """Percentage of the requests that a new version gets until it has been observed. Only in KServe's serverless
    (Knative) mode: a RawDeployment (Standard) does not split the traffic. null: it gets all of them as soon as it is
    ready."""
    ready: Duration = "10m"
    """How long a new version may take until it is ready. It is rolled back if it takes longer."""
    observe: Duration = "10m"
    """How long a new version is watched once it is ready. It is rolled back if a container of one of its pods restarts,
    or if it is no longer ready."""
    context: Name | None = None
    """The context of the kubeconfig that `promote` and `rollback` use with `--kubeflow`. null: its current context."""

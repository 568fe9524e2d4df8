"""TensorFlow Serving: `deploy.canary.server`, where a candidate is tried, and `deploy.serving`, where models serve."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.model_registry import ModelName, ServerUrl
from headrace.configs.schema.section import Name, Section

GrpcAddress = Annotated[str, Field(pattern=r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$")]


class ServingAddress(Section):
    """How a TensorFlow Serving is reached, and what the model is called there. At least one of `rest` and `grpc`."""

    rest: ServerUrl | None = None
    """URL of its REST API, without `/v1`, such as http://host:8501. null: REST is not used."""
    grpc: GrpcAddress | None = None
    """Host and port of its gRPC API, such as host:8500. null: gRPC is not used."""
    grpc_tls: bool = False
    """Whether gRPC is encrypted, and the server's certificate verified. For REST, write https."""
    ca_file: Name | None = None
    """PEM file with the certificates of the authority that signed the server's, on Kubeflow in the component's pod.
    null: the public authorities."""
    model: ModelName = "{name}"
    """Name of the model in the server, as in its `--model_name` or its config file. `{name}` stands for the pipeline's
    name."""


class CanaryServer(ServingAddress):
    """A staging TensorFlow Serving that the Canary tries each candidate on."""

    folder: Name
    """Folder that the server watches (its `--model_base_path`), as this machine or the Canary's pod reaches it: a path,
    or a folder in an object store, such as s3://bucket/staging. The candidate is a version in it while the Canary asks
    the server. Not that of `deploy.push`."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 120
    """Seconds that the server may take to answer at all, and then to load the candidate."""
    on_unreachable: Literal["stop", "warn"] = "stop"
    """What to do if the server does not answer, or does not see the candidate in its folder. stop: the run fails, and
    nothing is blessed or pushed. warn: the other checks of the Canary decide, and the terminal and the report say
    that the server did not take part; the next run asks it again, for which Kubeflow runs the Canary in every run."""
    latency_p50_ms: Annotated[float, Field(gt=0)] | None = None
    """Milliseconds that half of the requests with one example may take, with the network, in every signature; see
    `latency_p99_ms`. null: no limit."""
    latency_p99_ms: Annotated[float, Field(gt=0)] | None = None
    """Milliseconds that 99% of the requests with one example may take, with the network, in every signature but
    `generate`. A model that exceeds this or `latency_p50_ms` in each of three measurements fails. null: no limit."""
    max_difference: Annotated[float, Field(gt=0)] | None = None
    """Largest difference allowed between a number of the server's and that of TensorFlow's Python here, relative to the
    largest number of an output; a server with a GPU rounds differently. null: 0.0001, or 0.02 if the model computes in
    16 bits."""


class ServingConfig(ServingAddress):
    """The TensorFlow Serving that serves the pushed models."""

    timeout_seconds: Annotated[float, Field(gt=0)] = 120
    """Seconds that the server may take to load the version in service, once it was pushed."""
    on_failure: Literal["report", "roll_back"] = "report"
    """What to do if the server reports that it cannot load the version that a command pushed. report: the command
    fails, and the version stays the newest. roll_back: the command fails, but first puts an earlier blessed model back
    into service, as `headrace rollback` does; not on Kubeflow, and not if the server does not answer or takes long."""
    config_file: Name | None = None
    """The server's `--model_config_file`, in which the entry of this model is kept up to date, and others are left
    alone. null: none is written."""
    base_path: Annotated[str, Field(pattern=r"^(/|[a-z][a-z0-9+.-]*://)")] | None = None
    """`deploy.push` as the server reaches it, for `config_file`, such as /models/taxi. `{name}` stands for the
    pipeline's name. null: the absolute path on this machine."""
    labels: bool = False
    """Whether `config_file` names specific versions with the labels `stable` and `canary`: canary is the newest version
    in service, stable the one with another model before it that was not rolled back, or the same if there is none; the
    labels move once the server has loaded the version, so it needs an address. false: the server loads the newest
    version."""

"""`kubeflow.server:` where the API of Kubeflow Pipelines is, and how to enter."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.section import Name, Section

Endpoint = Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+(/[^?#@\s]*)?$")]
Seconds = Annotated[int, Field(gt=0, le=3600)]


class ServerAuth(Section):
    """What is shown to the server. The secret itself never stands in the config, and is never printed."""

    kind: Literal["none", "in_cluster", "bearer", "cookie"] = "none"
    """none: nothing. in_cluster: the token that Kubernetes puts into a pod for Kubeflow Pipelines. bearer: a token.
    cookie: the session cookie of a Dex or OAuth2 proxy, `name=value`, as the browser sends it after the login."""
    file: Name | None = None
    """The file that holds the token or the cookie; read anew for every request. For `in_cluster` null is
    `/var/run/secrets/kubeflow/pipelines/token`."""
    env: Name | None = None
    """The environment variable that holds the token or the cookie."""


class ServerConfig(Section):
    """Where the API of Kubeflow Pipelines is, for `headrace submit` and the verbs that follow a run."""

    endpoint: Endpoint | None = None
    """URL of the API server, or of Kubeflow's gateway with the path before `/apis`, such as
    `https://kubeflow.example/pipeline`; in a pod `http://ml-pipeline.kubeflow:8888`."""
    interface: Endpoint | None = None
    """URL of Kubeflow's web interface, which the link after `submit` leads to; null: the endpoint's, which has it where
    `ml-pipeline-ui` or Kubeflow's gateway is named there, as `ml-pipeline` itself serves only the API."""
    pipeline_store: Literal["database", "kubernetes"] = "database"
    """Where the server keeps pipelines: its healthz says so as `pipeline_store`. With kubernetes, `headrace compile
    --manifest` writes them as objects of Kubernetes."""
    experiment: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """The experiment that runs belong to; null: one of the pipeline's name."""
    auth: ServerAuth = ServerAuth()
    """What is shown to the server."""
    verify_tls: bool = True
    """Whether the server's certificate must be valid."""
    ca_file: Name | None = None
    """PEM file with the certificates of the authority that the server's own is checked by; null: the public ones."""
    timeout_seconds: Seconds = 60
    """How long one answer may take."""
    time_zone: Name = "UTC"
    """What the server counts the hours of schedules in: CRON_SCHEDULE_TIMEZONE of its scheduled-workflow controller."""
    service_account: Name | None = None
    """The Kubernetes account of the runs' pods; null: the server's default."""

"""The server as one pipeline sees it: its connection, namespace, experiment, versions and runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kfp_server_api as api

from headrace.common.errors import RunError, ServerError
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.document import flat_graph, without_cache
from headrace.pipeline.kubeflow.results_store import home_uri
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.connection import Connection, connect, list_all, name_filter
from headrace.pipeline.kubeflow.server.errors import may_exist
from headrace.pipeline.kubeflow.server.kubeconfig import mark_lost
from headrace.pipeline.kubeflow.server.versions import (
    PipelineVersion,
    ensure_version,
    find_pipeline,
    put_newest,
    tasks_of_version,
)

STOCK_BUCKET = "minio://mlpipeline/"
REACHABLE = ("private-artifacts/{}/", "private/{}/", "artifacts/", "shared/")
"""Folders of that bucket which the keys of a namespace reach on a stock multi-user server since 2.15
(`manifests/kustomize/base/installs/multi-user/pipelines-profile-controller/sync.py`)."""


@dataclass(frozen=True)
class Session:
    """namespace: None on a single-user server; folder: that of the config, as for `compile_pipeline`."""

    config: PipelineConfig
    server: Connection
    namespace: str | None
    folder: Path | None = None

    @classmethod
    def of(cls, config: PipelineConfig, folder: Path | None = None) -> Session:
        """Connect to the server that the config names."""
        server = connect(config.kubeflow.server)
        return cls(config, server, server.namespace(config.kubeflow.namespace), folder)

    @property
    def pipeline(self) -> str:
        return self.config.full_name

    @property
    def experiment(self) -> str:
        return self.config.kubeflow.server.experiment or self.pipeline

    def home(self, root: str | None = None) -> str:
        """The URI of the pipeline's folder, which holds the outputs of its runs. root: None for that of the config."""
        return home_uri(self.config, root)

    def experiment_id(self) -> str | None:
        """None if the experiment does not exist yet."""
        return find_experiment(self.server, self.experiment, self.namespace)

    def ensure_experiment(self) -> str:
        """The id of the experiment, which is created if it does not exist."""
        found = self.experiment_id()
        if found is not None:
            return found
        body = api.V2beta1Experiment(display_name=self.experiment, namespace=self.namespace)
        experiments = self.server.experiments
        try:
            made = self.server.change("create the experiment", experiments.experiment_service_create_experiment, body)
        except ServerError as error:
            found = self.experiment_id() if may_exist(error) else None
            if found is None:
                raise
            return found
        return str(made.experiment_id)

    def pipeline_id(self) -> str | None:
        """None if no version of the pipeline was uploaded yet."""
        return find_pipeline(self.server, self.pipeline, self.namespace)

    def upload(self, *, cache: bool = True, newest: bool = False, compiled: str | None = None) -> PipelineVersion:
        """The version with the config's content, uploaded if it does not exist.

        Args:
            cache: Whether Kubeflow may reuse results of earlier runs.
            newest: Make it the newest version on the server.
            compiled: The compiled pipeline; None compiles it now.
        """
        if compiled is None:
            from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline

            compiled = compile_pipeline(self.config, folder=self.folder)
            compiled = compiled if cache else without_cache(compiled)
        version = ensure_version(self.server, self.pipeline, compiled, self.namespace)
        return put_newest(self.server, version, compiled) if newest else version

    def find(self, name: str | None) -> Any:
        """A run as the server has it; see `run`."""
        pipeline_id = self.pipeline_id() if name is None else None
        return runs.find_run(self.server, self.experiment_id(), pipeline_id, name)

    def run(self, name: str | None, notify: Callable[[str], None] = lambda _: None) -> Any:
        """A run by its name or id; None for the newest of this pipeline. Raises RunError if there is none.

        If it was cancelled a moment ago, waits for the cluster's report, unless the user's kubeconfig shows that its
        workflow is gone. notify: called before the wait.
        """
        (run,) = self.settled([self.find(name)], notify)
        return run

    def settled(self, found: Sequence[Any], notify: Callable[[str], None]) -> list[Any]:
        """The runs with `gone` and `unreported`, from which `runs.is_lost` knows that they are lost."""
        self.mark_lost(found)
        return runs.await_reports(self.server, found, notify)

    def runs(self, limit: int) -> list[Any]:
        """The pipeline's runs, the newest first."""
        experiment_id = self.experiment_id()
        if experiment_id is None:
            raise RunError(f"{self.server.endpoint}: there is no experiment {self.experiment}; nothing was submitted")
        pipeline_id = self.pipeline_id()
        if pipeline_id is None:
            return []
        return list(itertools.islice(runs.of_pipeline(self.server, experiment_id, pipeline_id), limit))

    def ended_since(self, since: float) -> list[Any]:
        """The pipeline's runs that ended at `since` (Unix seconds) or later, by the time of their end."""
        experiment_id, pipeline_id = self.experiment_id(), self.pipeline_id()
        if experiment_id is None or pipeline_id is None:
            return []
        return runs.ended_since(self.server, experiment_id, pipeline_id, since)

    def mark_lost(self, found: Sequence[Any]) -> None:
        """Mark the runs whose workflow is gone from the cluster, as far as the user's kubeconfig shows it."""
        mark_lost(self.server, self.config.kubeflow.namespace, found)

    def root_note(self, root: str | None = None) -> str | None:
        """What to say before runs are created whose artifacts the namespace's keys would not reach on a stock server.

        root: the pipeline root of the runs; None for that of the config.
        """
        root = (root or self.config.kubeflow.pipeline_root).rstrip("/")
        folder = f"{root}/".removeprefix(STOCK_BUCKET)
        if self.namespace is None or not f"{root}/".startswith(STOCK_BUCKET):
            return None
        if any(folder.startswith(each.format(self.namespace)) for each in REACHABLE):
            return None
        return (
            f"note: on a stock multi-user Kubeflow the keys of the namespace {self.namespace} do not reach {root}\n"
            f"  use kubeflow.pipeline_root: {STOCK_BUCKET}{REACHABLE[0].format(self.namespace)}v2/artifacts"
        )

    def tasks(self, run: Any) -> dict[str, Any]:
        """The tasks of a run's graph, in the form of `document.flat_graph`."""
        chosen = run.pipeline_version_reference
        if chosen is None:
            return flat_graph(run.pipeline_spec)
        return tasks_of_version(self.server, chosen.pipeline_id, chosen.pipeline_version_id)

    def link(self, run: Any) -> str:
        """The URL of the run's page in Kubeflow's interface."""
        base = (self.config.kubeflow.server.interface or self.server.endpoint).rstrip("/")
        return f"{base}/#/runs/details/{run.run_id}"


def find_experiment(server: Connection, name: str, namespace: str | None) -> str | None:
    """The id of the experiment with that name, or None."""
    chosen = {} if namespace is None else {"namespace": namespace}
    method = server.experiments.experiment_service_list_experiments
    found = list_all(server, "find the experiment", method, "experiments", **chosen, filter=name_filter(name))
    return found[0].experiment_id if found else None

"""The server as one pipeline sees it: its connection, namespace and experiment."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.connection import Connection, connect
from headrace.pipeline.kubeflow.server.versions import find_pipeline, graph, tasks_of


@dataclass(frozen=True)
class Session:
    """`namespace`: None on a server of one user."""

    config: PipelineConfig
    server: Connection
    namespace: str | None

    @classmethod
    def of(cls, config: PipelineConfig) -> Session:
        """Connect to the server that the config names."""
        server = connect(config.kubeflow.server)
        return cls(config, server, server.namespace(config.kubeflow.namespace))

    @property
    def pipeline(self) -> str:
        return self.config.pipeline.name

    @property
    def experiment(self) -> str:
        return self.config.kubeflow.server.experiment or self.pipeline

    def experiment_id(self) -> str | None:
        """None if there is no such experiment yet."""
        return runs.find_experiment(self.server, self.experiment, self.namespace)

    def pipeline_id(self) -> str | None:
        """None if nothing of the pipeline was uploaded yet."""
        return find_pipeline(self.server, self.pipeline, self.namespace)

    def run(self, name: str | None) -> Any:
        """A run by its name or id; None: the newest of this pipeline. Raises RunError if there is none."""
        pipeline_id = self.pipeline_id() if name is None else None
        return runs.find_run(self.server, self.experiment_id(), pipeline_id, name)

    def runs(self, limit: int) -> list[Any]:
        """The pipeline's runs, the newest first."""
        experiment_id = self.experiment_id()
        if experiment_id is None:
            raise RunError(f"{self.server.endpoint}: there is no experiment {self.experiment}; nothing was submitted")
        pipeline_id = self.pipeline_id()
        if pipeline_id is None:
            return []
        return list(itertools.islice(runs.of_pipeline(self.server, experiment_id, pipeline_id), limit))

    def tasks(self, run: Any) -> dict[str, Any]:
        """The tasks of a run's graph."""
        chosen = run.pipeline_version_reference
        if chosen is None:
            return graph(run.pipeline_spec)
        return tasks_of(self.server, chosen.pipeline_id, chosen.pipeline_version_id)

    def link(self, run: Any) -> str:
        """The run's page in Kubeflow's interface."""
        base = (self.config.kubeflow.server.interface or self.server.endpoint).rstrip("/")
        return f"{base}/#/runs/details/{run.run_id}"

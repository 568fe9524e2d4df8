"""The Beam pipelines of one component: how the config wants them made, and what of them was executed."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from types import TracebackType
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import RunnerResult
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor

from headrace.configs.beam import BeamConfig
from headrace.configs.errors import RunError

RUNNERS = {
    "auto": "FnApiRunner",  # not DirectRunner, which would first try to download another runner
    "direct": "FnApiRunner",
    "flink": "FlinkRunner",
    "spark": "SparkRunner",
    "dataflow": "DataflowRunner",
    "portable": "PortableRunner",
}
"""Beam's name of each `beam.runner`."""


class BeamPipelines:
    """Makes Beam pipelines as `beam:` says, and counts what they execute.

    pipelines = BeamPipelines(config.beam, scratch)
    with pipelines() as pipeline:
        ...
    pipelines.summary                   # "direct, 1 pipeline, 14 transforms"
    """

    def __init__(self, settings: BeamConfig, scratch: Path) -> None:
        """`scratch`: an existing folder for temporary files."""
        self.settings, self.scratch = settings, scratch
        self._executed: list[int] = []

    @property
    def always(self) -> bool:
        """Whether Beam is to run every piece of work, however small, as it would on a cluster."""
        return self.settings.runner != "auto"

    def __call__(self) -> beam.Pipeline:
        """A new pipeline. Raises RunError for options that Beam refuses."""
        try:
            return _Counted(self._executed, beam_options(self.settings, self.scratch))
        except ValueError as error:
            raise RunError(f"Beam refuses `beam.options`: {error}") from error

    @property
    def summary(self) -> str:
        """The runner, and how many pipelines and transforms Beam executed to their end."""
        if not self._executed:
            return f"{self.settings.runner}, no pipeline: the work was small enough to do without"
        pipelines, transforms = len(self._executed), sum(self._executed)
        return f"{self.settings.runner}, {_counted(pipelines, 'pipeline')}, {_counted(transforms, 'transform')}"


def beam_options(settings: BeamConfig, scratch: Path) -> PipelineOptions:
    """Beam's options for a config. Raises RunError if Beam cannot read one of the values."""
    ours: dict[str, Any] = {"runner": RUNNERS[settings.runner], "temp_location": str(scratch)}
    if not settings.is_remote:
        ours |= {"direct_running_mode": settings.running_mode, "direct_num_workers": settings.workers}
    elif settings.workers > 1:
        ours["num_workers" if settings.runner == "dataflow" else "parallelism"] = settings.workers
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.options.items()}
    options = PipelineOptions.from_dictionary(ours | given)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):  # where argparse says what is wrong, after the names of all options
            options.get_all_options()
    except SystemExit as error:
        raise RunError(f"Beam refuses `beam.options`: {said.getvalue().rpartition('error: ')[2].strip()}") from error
    return options


def always_beam(executor: BaseBeamExecutor) -> bool:
    """Whether an executor has to give even its smallest work to Beam."""
    return getattr(executor._make_beam_pipeline_fn, "always", False)


class _Counted(beam.Pipeline):
    """A pipeline that counts what was executed of it, once it has ended well."""

    def __init__(self, executed: list[int], options: PipelineOptions) -> None:
        super().__init__(options=options)
        self._executed = executed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is None:
            self._executed.append(_reported(self.result) or _applied(self))


def _reported(result: Any) -> int:
    """The transforms that reported to the in-process runner that they were executed; 0 from another runner."""
    infos = result.monitoring_infos() if isinstance(result, RunnerResult) else ()
    return len({info.labels["PTRANSFORM"] for info in infos if "PTRANSFORM" in info.labels})


def _applied(pipeline: beam.Pipeline) -> int:
    """The transforms, without those that consist of others, of the graph that a runner was given."""
    leaves = _Leaves()
    pipeline.visit(leaves)
    return leaves.number


class _Leaves(beam.pipeline.PipelineVisitor):
    """Counts the transforms that consist of no others."""

    def __init__(self) -> None:
        self.number = 0

    def visit_transform(self, transform_node: Any) -> None:
        self.number += bool(transform_node.full_label)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

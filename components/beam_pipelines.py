"""The Beam pipelines of a component: their options from `beam:`, and a count of what was executed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import apache_beam as beam
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.fn_runner import RunnerResult
from tfx.dsl.components.base.base_beam_component import BaseBeamComponent
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import channel

from headrace.common.errors import RunError
from headrace.common.figures import plural
from headrace.configs.schema.beam import BeamConfig

RUNNERS = {
    "auto": "FnApiRunner",  # not DirectRunner, which would first try to download another runner
    "direct": "FnApiRunner",
    "flink": "FlinkRunner",
    "spark": "SparkRunner",
    "dataflow": "DataflowRunner",
    "portable": "PortableRunner",
}
"""Beam's name for each `beam.runner`."""
SMALL = 4 << 20
"""Bytes of gzipped examples up to which Transform does without Beam: its statistics take a third of a
second, and starting Beam would add half as much."""
NEVER_MS = 1 << 31
"""Longer than any bundle. Beam's threads send what they have written every second, even in the middle of an element,
and the in-process runner decodes each piece by itself, so a bundle of more than a second could fail."""

_VIEWS = "_views"


class BeamPipelines:
    """Makes Beam pipelines with the options in `beam:`, and counts what they execute.

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
        """Whether Beam must run even the smallest work, as it would on a cluster."""
        return self.settings.runner != "auto"

    def __call__(self) -> beam.Pipeline:
        """A new pipeline. Raises RunError for options that Beam rejects."""
        worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = NEVER_MS
        try:
            return _CountingPipeline(self._executed, beam_options(self.settings, self.scratch))
        except ValueError as error:
            raise RunError(f"Beam rejects `beam.options`: {error}") from error

    @property
    def summary(self) -> str:
        """The runner, and how many pipelines and transforms Beam executed successfully."""
        if not self._executed:
            return f"{self.settings.runner}, no pipeline: it ran without Beam"
        pipelines, transforms = len(self._executed), sum(self._executed)
        return f"{self.settings.runner}, {plural(pipelines, 'pipeline')}, {plural(transforms, 'transform')}"


def beam_options(settings: BeamConfig, scratch: Path) -> PipelineOptions:
    """Beam's options for a config. Raises RunError if Beam cannot parse one of the values."""
    ours: dict[str, Any] = {"runner": RUNNERS[settings.runner], "temp_location": str(scratch)}
    if not settings.is_remote:
        ours |= {"direct_running_mode": settings.running_mode, "direct_num_workers": settings.workers}
    elif settings.workers > 1:
        ours["num_workers" if settings.runner == "dataflow" else "parallelism"] = settings.workers
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.options.items()}
    options = _Options.from_dictionary(ours | given)
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):  # argparse prints the error there, after the names of all options
            options.get_all_options()
    except SystemExit as error:
        raise RunError(f"Beam rejects `beam.options`: {stderr.getvalue().rpartition('error: ')[2].strip()}") from error
    return options


class BeamComponent(BaseBeamComponent):
    """A component on Beam whose arguments are the inputs and parameters of its SPEC_CLASS."""

    def __init__(self, **given: Any) -> None:
        outputs = {name: channel.Channel(type=one.type) for name, one in self.SPEC_CLASS.OUTPUTS.items()}
        super().__init__(spec=self.SPEC_CLASS(**given, **outputs))


def always_beam(executor: BaseBeamExecutor) -> bool:
    """Whether an executor must run even its smallest work in Beam."""
    return getattr(executor._make_beam_pipeline_fn, "always", False)


def workers_here(executor: BaseBeamExecutor) -> int:
    """The number of threads to work with in this process; 0 if the work belongs into Beam, or into processes."""
    settings = getattr(executor._make_beam_pipeline_fn, "settings", BeamConfig())
    return 0 if always_beam(executor) or settings.running_mode == "multi_processing" else settings.workers


def is_small(executor: BaseBeamExecutor, files: Sequence[str]) -> bool:
    """Whether an executor works through these files without Beam: they are small, and the config leaves the choice."""
    return not always_beam(executor) and sum(tf.io.gfile.stat(file).length for file in files) <= SMALL


class _Options(PipelineOptions):
    """Options that make each view once: Beam asks for one several times per transform, and would build and run a parser
    each time, a quarter of the CPU time of a small pipeline. All views share their values with these options.
    """

    def view_as(self, cls: type[Any]) -> Any:
        views = self.__dict__.setdefault(_VIEWS, {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != _VIEWS}


class _CountingPipeline(beam.Pipeline):
    """A pipeline that adds the number of its executed transforms to a list once it has succeeded."""

    def __init__(self, executed: list[int], options: PipelineOptions) -> None:
        super().__init__(options=options)
        self._executed = executed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is None:
            self._executed.append(_reported_transforms(self.result) or _applied_transforms(self))


def _reported_transforms(result: Any) -> int:
    """The number of transforms that the in-process runner reports as executed; 0 from other runners."""
    infos = result.monitoring_infos() if isinstance(result, RunnerResult) else ()
    return len({info.labels["PTRANSFORM"] for info in infos if "PTRANSFORM" in info.labels})


def _applied_transforms(pipeline: beam.Pipeline) -> int:
    """The number of primitive transforms in the graph that the runner was given."""
    counter = _PrimitiveCounter()
    pipeline.visit(counter)
    return counter.number


class _PrimitiveCounter(beam.pipeline.PipelineVisitor):
    """Counts the transforms that are not composed of others."""

    def __init__(self) -> None:
        self.number = 0

    def visit_transform(self, transform_node: Any) -> None:
        self.number += bool(transform_node.full_label)

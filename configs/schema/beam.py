"""`beam:` the Beam runner, and its options."""

from __future__ import annotations

from typing import Literal

from headrace.configs.schema.section import Name, PositiveInt, Section

Runner = Literal["auto", "direct", "flink", "spark", "dataflow", "portable"]
OptionValue = bool | int | float | str | tuple[str, ...]


class BeamConfig(Section):
    """How the Beam components (ExampleGen, StatisticsGen, Transform, Evaluator) run; docs/beam.md has an example for
    each runner.
    """

    runner: Runner = "auto"
    """auto: on this machine, in process; work that is too small for a Beam pipeline runs without one. direct: also on
    this machine, but all work runs in the Beam pipelines that a cluster would execute. flink, spark, dataflow,
    portable: on the cluster given by `options`."""
    workers: PositiveInt = 1
    """auto, direct: number of threads or processes on this machine (with `auto`, ExampleGen forks processes if a span
    of local CSV, JSON Lines, Parquet or text files has 16 MB or more). flink: parallelism of a job. dataflow: initial
    number of workers. Not used by spark and portable, which decide themselves."""
    direct_running_mode: Literal["in_memory", "multi_threading", "multi_processing"] | None = None
    """auto, direct: how Beam's workers run. null: multi_threading with more than one worker, else in_memory.
    multi_processing starts each worker as a separate process, which takes 12 to 16 seconds per pipeline."""
    options: dict[Name, OptionValue] = {}
    """Options of Beam and its runners by name, without dashes: `job_endpoint: jobs:8099`. A flag takes true.
    Credentials are rejected."""

    @property
    def is_remote(self) -> bool:
        """Whether Beam's workers may run on other machines."""
        return self.runner not in ("auto", "direct")

    @property
    def running_mode(self) -> str:
        """How the workers of an in-process runner run."""
        return self.direct_running_mode or ("multi_threading" if self.workers > 1 else "in_memory")

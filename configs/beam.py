"""`beam:` what runs the Beam components, and with which options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.section import Name, Section

Runner = Literal["auto", "direct", "flink", "spark", "dataflow", "portable"]
OptionValue = bool | int | float | str | tuple[str, ...]


class BeamConfig(Section):
    """How the Beam components (ExampleGen, StatisticsGen, Transform, Evaluator) run; docs/beam.md has an example of
    each runner.
    """

    runner: Runner = "auto"
    """auto: on this machine, in process; work too small to repay the start of a Beam pipeline is done without one.
    direct: on this machine too, every piece of work in the Beam pipeline that a cluster would execute. flink, spark,
    dataflow, portable: on a cluster, which `options` names."""
    workers: Annotated[int, Field(gt=0)] = 1
    """auto, direct: threads, or processes, of this machine (with `auto`, ExampleGen forks processes where a span of
    local CSV, JSON Lines, Parquet or text files has 16 MB or more). flink: the parallelism of a job. dataflow: workers
    to start with. spark and portable decide for themselves."""
    direct_running_mode: Literal["in_memory", "multi_threading", "multi_processing"] | None = None
    """auto, direct: where Beam's workers are. null: multi_threading with several workers, else in_memory.
    multi_processing starts each worker as a process of its own, which takes 12 to 16 seconds a pipeline."""
    options: dict[Name, OptionValue] = {}
    """Options of Beam and its runners by name, without the dashes: `job_endpoint: jobs:8099`. A flag takes true. Never
    a credential."""

    @property
    def is_remote(self) -> bool:
        """Whether Beam's workers may be on other machines."""
        return self.runner not in ("auto", "direct")

    @property
    def running_mode(self) -> str:
        """Where the workers of an in-process runner are."""
        return self.direct_running_mode or ("multi_threading" if self.workers > 1 else "in_memory")

"""Compile, run what was compiled as Kubeflow would, run locally, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.components.pushed import IN_SERVICE, IN_SERVICE_CONTENTS
from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError
from headrace.pipeline.kubeflow.argument import unpack
from headrace.pipeline.kubeflow.compile import compile_pipeline
from headrace.pipeline.kubeflow.invocation import ARTIFACT, VALUE
from headrace.pipeline.kubeflow.properties import CUSTOM, KUBEFLOWS
from headrace.pipeline.kubeflow.tasks import tasks
from headrace.pipeline.kubeflow.verify import compare
from headrace.pipeline.kubeflow.verify.cluster import Cluster
from headrace.pipeline.kubeflow.verify.compare import Line
from headrace.pipeline.kubeflow.verify.driver import TaskRun
from headrace.pipeline.local.record import ArtifactRecord, RunRecord, Status
from headrace.pipeline.local.runner import run as run_locally
from headrace.pipeline.terminal import Display

UNTOLD = frozenset(
    {
        "headrace_contents",
        "headrace_signature",
        "current_model_id",
        "baseline_model_id",
        "pushed_version",
        IN_SERVICE,
        IN_SERVICE_CONTENTS,
    }
)
"""Properties that each run has its own of."""


@dataclass(frozen=True)
class Verdict:
    """The comparison of every output, in the order of the components."""

    lines: tuple[Line, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs that must not."""
        return all(line.same for line in self.lines)


def verify(config: PipelineConfig, folder: Path, display: Display, told: Callable[[str], None] = print) -> Verdict:
    """Compare both runs of a pipeline, made in an empty folder. Raises RunError if one of them fails."""
    config = _in_one_pod(config, told)
    here = config.model_copy(
        update={
            "pipeline": config.pipeline.model_copy(update={"root": str(folder / "local")}),
            "deploy": _pushed_to(config, str(folder / "serving")),
        }
    )
    there = as_compiled(config)
    text = compile_pipeline(there)  # first, as it may be refused
    record, _ = run_locally(here, "verify", display)
    if record.status is not Status.DONE:
        raise RunError(f"the local run failed: {record.error}\n  log: {folder / 'local'}")
    cluster = Cluster(folder / "cluster", there.kubeflow.pipeline_root, told)
    run = cluster.run(text)
    return Verdict(tuple(compared(there, record, run.tasks, lambda uri: cluster.path(uri, there.kubeflow.volume))))


def as_compiled(config: PipelineConfig) -> PipelineConfig:
    """The config with an image, though none is needed here, and with what it pushes kept in the pipeline's folder."""
    settings = config.kubeflow.model_copy(update={"image": config.kubeflow.image or "verify"})
    return config.model_copy(update={"kubeflow": settings, "deploy": _pushed_to(config, "serving")})


def _in_one_pod(config: PipelineConfig, told: Callable[[str], None]) -> PipelineConfig:
    """The config without the pods of a distributed training, which there are none of here."""
    if config.kubeflow.workers is None:
        return config
    told("kubeflow.workers: the training runs in one process here, with `strategy: auto`; the JobSet is not verified")
    kubeflow = config.kubeflow.model_copy(update={"workers": None})
    reading = config.train.input.model_copy(update={"own_shards": False})
    train = config.train.model_copy(update={"strategy": "auto", "input": reading})
    return config.model_copy(update={"kubeflow": kubeflow, "train": train})


def _pushed_to(config: PipelineConfig, directory: str) -> object:
    return config.deploy.model_copy(update={"push": None if config.deploy.push is None else directory})


def compared(
    config: PipelineConfig, record: RunRecord, ended: Mapping[str, TaskRun], path: Callable[[str], Path]
) -> Iterator[Line]:
    """Every output of a local run beside the same of a run as compiled, whose files lie where `path` says."""
    ran = {node.id: node for node in record.nodes if node.status in (Status.DONE, Status.CACHED)}
    for task in tasks(config):
        id_, made = task.invocation.id, ended.get(task.name)
        if made is None or id_ not in ran:
            yield compare.skipped(id_, here=id_ not in ran, there=made is None)
            continue
        for key, local in ran[id_].outputs.items():
            how = task.invocation.outputs[key].how
            if how == VALUE and task.invocation.id != "RecordBlessing":
                yield compare.texts(
                    id_, key, Path(local.uri).read_text(encoding="utf-8"), unpack(str(made.parameters[key]))
                )
            elif how == ARTIFACT:
                artifact = made.artifacts[key]
                yield compare.folders(id_, key, local.type, Path(local.uri), path(str(artifact["uri"])))
                line = compare.properties(id_, key, _told(local), _metadata(artifact["metadata"]))
                yield from [line] if line else []


def _told(local: ArtifactRecord) -> dict[str, object]:
    return {name: value for name, value in local.properties.items() if name not in UNTOLD}


def _metadata(metadata: dict[str, object]) -> dict[str, object]:
    own = {name.removeprefix(CUSTOM): value for name, value in metadata.items() if name not in KUBEFLOWS | UNTOLD}
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in own.items()
    }

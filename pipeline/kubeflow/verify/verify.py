"""Compile the pipeline, run it locally and as Kubeflow would run what was compiled, and compare the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import IN_SERVICE, IN_SERVICE_CONTENTS
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
from headrace.pipeline.kubeflow.pod.exchange import CUSTOM, KUBEFLOW_NAMES
from headrace.pipeline.kubeflow.pod.invocation import ARTIFACT, VALUE, unpack
from headrace.pipeline.kubeflow.verify import compare
from headrace.pipeline.kubeflow.verify.cluster import Cluster
from headrace.pipeline.kubeflow.verify.compare import OutputComparison
from headrace.pipeline.kubeflow.verify.driver import TaskRun
from headrace.pipeline.local.runner import run as run_locally
from headrace.pipeline.results.record import ArtifactRecord, RunRecord, Status
from headrace.pipeline.terminal import Display

PER_RUN = frozenset(
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
"""Properties that differ from run to run."""
RECORDS = frozenset({"RecordBlessing", "PublishPredictions"})
"""Components whose texts name times, versions and paths."""


@dataclass(frozen=True)
class RunComparison:
    """The comparison of every output, in the order of the components."""

    lines: tuple[OutputComparison, ...]

    @property
    def same(self) -> bool:
        """Whether all outputs are as equal as they should be."""
        return all(line.same for line in self.lines)


def verify(
    config: PipelineConfig, folder: Path, display: Display, report: Callable[[str], None] = print
) -> RunComparison:
    """Run the pipeline both ways in an empty folder, and compare. Raises RunError if one of the runs fails."""
    if config.only_predicts:
        raise RunError("`predict.only`: there is no model in an empty folder; verify the whole pipeline, without it")
    config = _in_one_pod(config, report)
    here = config.model_copy(
        update={
            "pipeline": config.pipeline.model_copy(update={"root": str(folder / "local")}),
            "deploy": _pushed_to(config, str(folder / "serving")),
            "predict": _predicted_to(config, f"{folder}/"),
        }
    )
    there = as_compiled(config)
    text = compile_pipeline(there)  # first, because it may be rejected
    record, _ = run_locally(here, "verify", display)
    if record.status is not Status.DONE:
        raise RunError(f"the local run failed: {record.error}\n  log: {folder / 'local'}")
    cluster = Cluster(folder / "cluster", there.kubeflow.pipeline_root, report)
    run = cluster.run(text)
    return RunComparison(
        tuple(compared(there, record, run.tasks, lambda uri: cluster.path(uri, there.kubeflow.volume)))
    )


def as_compiled(config: PipelineConfig) -> PipelineConfig:
    """The config with an image, required but not used here, and with pushed models and predictions in the pipeline's
    folder.
    """
    settings = config.kubeflow.model_copy(update={"image": config.kubeflow.image or "verify"})
    changed = {"kubeflow": settings, "deploy": _pushed_to(config, "serving"), "predict": _predicted_to(config, "")}
    return config.model_copy(update=changed)


def _in_one_pod(config: PipelineConfig, report: Callable[[str], None]) -> PipelineConfig:
    """The config without distributed training, which has no pods here."""
    if config.kubeflow.workers is None:
        return config
    report("kubeflow.workers: the training runs in one process here, with `strategy: auto`; the JobSet is not verified")
    kubeflow = config.kubeflow.model_copy(update={"workers": None})
    reading = config.train.input.model_copy(update={"own_shards": False})
    train = config.train.model_copy(update={"strategy": "auto", "input": reading})
    return config.model_copy(update={"kubeflow": kubeflow, "train": train})


def _pushed_to(config: PipelineConfig, directory: str) -> object:
    """The settings of deployment with another folder. Pushes need no approval, as both runs are to push a model, and no
    registry or server is to learn of them.
    """
    push = None if config.deploy.push is None else directory
    canary = config.deploy.canary and config.deploy.canary.model_copy(update={"server": None})
    outside = {"registry": None, "kserve": None, "serving": None, "canary": canary}
    return config.deploy.model_copy(update={"push": push, "approval": "automatic", **outside})


def _predicted_to(config: PipelineConfig, folder: str) -> object:
    """The settings of predictions with another folder for the file. folder: "" or ends with a slash."""
    name = config.predict and config.predict.output.rpartition("/")[2]
    return config.predict and config.predict.model_copy(update={"output": f"{folder}predictions/{name}"})


def compared(
    config: PipelineConfig, record: RunRecord, ended: Mapping[str, TaskRun], path: Callable[[str], Path]
) -> Iterator[OutputComparison]:
    """Compare every output of a local run with that of a run as compiled. path: the path of a URI of the latter."""
    ran = {node.id: node for node in record.nodes if node.status in (Status.DONE, Status.CACHED)}
    for task in component_tasks(config):
        id_, made = task.invocation.id, ended.get(task.name)
        if made is None or id_ not in ran:
            yield compare.skipped(id_, here=id_ not in ran, there=made is None)
            continue
        for key, local in ran[id_].outputs.items():
            how = task.invocation.outputs[key].how
            if how == VALUE and task.invocation.id not in RECORDS:
                yield compare.texts(
                    id_, key, Path(local.uri).read_text(encoding="utf-8"), unpack(str(made.parameters[key]))
                )
            elif how == ARTIFACT:
                artifact = made.artifacts[key]
                yield compare.folders(id_, key, local.type, Path(local.uri), path(str(artifact["uri"])))
                line = compare.properties(id_, key, _properties(local), _metadata(artifact["metadata"]))
                yield from [line] if line else []


def _properties(local: ArtifactRecord) -> dict[str, object]:
    return {name: value for name, value in local.properties.items() if name not in PER_RUN}


def _metadata(metadata: dict[str, object]) -> dict[str, object]:
    own = {name.removeprefix(CUSTOM): value for name, value in metadata.items() if name not in KUBEFLOW_NAMES | PER_RUN}
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in own.items()
    }

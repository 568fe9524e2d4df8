"""The DAG: one TFX `Pipeline` from a config, the same object for every runner."""

from __future__ import annotations

from tfx.dsl.components.base.base_node import BaseNode
from tfx.orchestration.pipeline import Pipeline

from headrace.configs.config import PipelineConfig
from headrace.pipeline.dag import data as from_data
from headrace.pipeline.dag import deployment, training
from headrace.pipeline.extension.components import Components
from headrace.pipeline.extension.extend import extended
from headrace.pipeline.folders import Folders


def create_pipeline(config: PipelineConfig, folders: Folders | None = None) -> Pipeline:
    """Build the whole pipeline. Raises DataError if a curated schema cannot be read, and ConfigError if the function of
    `pipeline.extend` fails or returns what cannot run.

    folders: the pipeline's folders; None for those that the config names, on this machine.
    """
    folders = folders or Folders.of(config)
    components = extended(config.pipeline.extend, _components(config, folders))
    return Pipeline(config.pipeline.name, str(folders.artifacts), components=[*components], enable_cache=True)


def _components(config: PipelineConfig, folders: Folders) -> Components:
    """Our own components, in the order of the data."""
    data = from_data.data(config, folders)
    drift = from_data.drift(config, folders, data)
    transform = from_data.transform(config, folders, data, drift or data.data_gate)
    transformed = training.transformed(transform, data.schema_gen)
    tuner = training.tuner(config, folders, transformed)
    warm_start = training.warm_start(config, folders, transformed)
    trainer = training.trainer(config, folders, transformed, tuner, warm_start)
    verdict = training.profile_verdict(config, trainer)
    gate = training.profile_gate(config, verdict)
    baseline = deployment.baseline(config, folders, data, trainer)
    evaluation = deployment.evaluator(config, data, trainer, baseline)
    recorded = deployment.record_blessing(config, folders, data, trainer, evaluation)
    pusher = deployment.pusher(config, folders, evaluation, recorded)
    _run_after(gate, recorded, pusher)  # not for a model whose training waited too long for input
    record_training = deployment.record_training(config, folders, data, evaluation)
    for node in (baseline, evaluation, recorded, pusher, verdict, gate):
        _run_after(node, record_training)
    return Components(
        **vars(data),
        drift=drift,
        transform=transform,
        tuner=tuner,
        warm_start=warm_start,
        trainer=trainer,
        profile_verdict=verdict,
        profile_gate=gate,
        baseline=baseline,
        evaluator=evaluation,
        record_blessing=recorded,
        pusher=pusher,
        record_training=record_training,
    )


def _run_after(first: BaseNode | None, *nodes: BaseNode | None) -> None:
    """Let components run only after another one, as far as they exist."""
    for node in nodes:
        if first is not None and node is not None:
            node.add_upstream_node(first)

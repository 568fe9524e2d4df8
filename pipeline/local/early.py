"""Whether a run is over before it begins: seen without TensorFlow, in a fraction of a second."""

from __future__ import annotations

from headrace.components.example_gen.find import find_spans
from headrace.components.trigger.decision import NO, TrainingRecord, decide
from headrace.configs.config import PipelineConfig
from headrace.configs.errors import HeadraceError
from headrace.pipeline.folders import Folders
from headrace.pipeline.work import work_digest


def nothing_new(config: PipelineConfig, folders: Folders) -> str | None:
    """Why there is nothing to train for; None where there is, or may be. What is wrong with the data the run tells."""
    if config.retrain == "always" or not folders.trained.exists():
        return None
    try:
        found, trained = find_spans(config.data), TrainingRecord.read(folders.trained)
        decision = decide(found, trained, work_digest(config), config.retrain, config.drift_limits)
    except HeadraceError:
        return None
    return decision.why if decision.go == NO else None

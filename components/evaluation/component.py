"""Evaluator: judges a model on held-out data by metrics, slices, thresholds and the comparison with the baseline."""

from __future__ import annotations

import json
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.types import channel, component_spec, standard_artifacts, standard_component_specs

from headrace.components.evaluation import tfma
from headrace.configs.schema.evaluate import AUTO, EvaluateConfig
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.served_model import ModelCall

Artifacts = dict[str, list[types.Artifact]]


class Executor(base_beam_executor.BaseBeamExecutor):
    """Replaces TFX's executor: the same inputs and outputs, with sums over whole batches."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:  # noqa: N802
        """Evaluate the one split named in `example_splits`, and bless the model or not."""
        from headrace.components.evaluation.evaluate import evaluate  # TFMA's imports take more than a second

        evaluate(self, input_dict, output_dict, exec_properties)


class EvaluatorSpec(standard_component_specs.EvaluatorSpec):
    """TFX's, and what its EvalConfig has no place for."""

    PARAMETERS = {
        **standard_component_specs.EvaluatorSpec.PARAMETERS,
        "better_than_constant": component_spec.ExecutionParameter(type=int),
        "confident": component_spec.ExecutionParameter(type=str),
        "slice_thresholds": component_spec.ExecutionParameter(type=str),
        "rows": component_spec.ExecutionParameter(type=int),
        "importance": component_spec.ExecutionParameter(type=int),
    }


class Evaluator(base_beam_component.BaseBeamComponent):
    """TFX's Evaluator with the executor above, and with what `EvaluateConfig` asks for beyond TFMA."""

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)


def evaluator(
    *,
    examples: types.BaseChannel,
    model: types.BaseChannel,
    baseline: types.BaseChannel,
    label: LabelConfig,
    evaluate: EvaluateConfig,
    split: str,
    call: ModelCall | None = None,
    rows: int = 0,
) -> Evaluator:
    """The component that judges `model` on the examples of `split`.

    call: the signatures; None for those of ours; rows: how many of the worst-predicted examples the evaluation has.
    """
    spec = EvaluatorSpec(
        examples=examples,
        model=model,
        baseline_model=baseline,
        example_splits=json.dumps([split]),
        eval_config=tfma.eval_config(label, evaluate, call),
        better_than_constant=int(evaluate.better_than_constant),
        confident=json.dumps([name for name, threshold in evaluate.thresholds.items() if threshold.confident]),
        slice_thresholds=json.dumps(
            [
                (name, evaluate.slicings[slicing], each.model_dump())
                for name, threshold in evaluate.thresholds.items()
                for slicing, each in threshold.slices.items()
            ]
        ),
        rows=rows,
        importance={"auto": AUTO, "none": 0}.get(str(evaluate.importance), evaluate.importance),
        evaluation=channel.Channel(type=standard_artifacts.ModelEvaluation),
        blessing=channel.Channel(type=standard_artifacts.ModelBlessing),
    )
    return Evaluator(spec)

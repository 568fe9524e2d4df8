"""The components of the pipeline: one field for each, in the order in which they are built.

The field is the registry line of a component. The function of `pipeline.extend` gets the same object:

def extend(components):
    examples = components.example_gen.outputs["examples"]
    return [ExampleCount(examples=examples)]                                   # a further component
    return dataclasses.replace(components, example_validator=Validator(...))   # another one in place of ours

Imports TFX for its types only: the config's rules need the ids.
"""

# ruff: noqa: RUF009 - each call makes a dataclass field, as `field` does

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfx.dsl.components.base.base_node import BaseNode

DATA, TRAINING, DEPLOYMENT, PREDICTIONS = (
    f"headrace.pipeline.dag.{module}" for module in ("data", "training", "deployment", "predictions")
)
_DECLARATION = "declaration"


@dataclass(frozen=True)
class Declaration:
    """What is known of a component before it is built."""

    id: str
    """Its id in TFX, in the terminal, and under `kubeflow.components`."""
    make: str
    """Dotted path of the function that builds it from the config, the components before it, and the pipeline's folders.
    It returns None if the config does not ask for the component."""
    before: tuple[str, ...] = ()
    """Names of later components that wait for it, besides those that read its outputs: those that a gate guards."""
    instead: str = ""
    """If `pipeline.extend` must not replace it, as others depend on more than its outputs: what to do instead."""
    predicts: bool = False
    """Whether it is part of a pipeline that only predicts."""


def _component(id_: str, make: str, *, before: tuple[str, ...] = (), instead: str = "", predicts: bool = False) -> Any:
    return field(default=None, metadata={_DECLARATION: Declaration(id_, make, before, instead, predicts)})


@dataclass(frozen=True, kw_only=True)
class Components:
    """All components. One that the config does not ask for is None; while they are built, so is each later one."""

    spans: BaseNode = _component(
        "Spans", f"{DATA}.spans", instead="set `data.source`, and `schedule.retrain` for when to train"
    )
    example_gen: BaseNode = _component(
        "ExampleGen",
        f"{DATA}.example_gen",
        instead="set `data.source`; its kind `arrays` takes a function of yours",
    )
    statistics_gen: BaseNode = _component("StatisticsGen", f"{DATA}.statistics_gen")
    schema_gen: BaseNode = _component("SchemaGen", f"{DATA}.schema_gen")
    example_validator: BaseNode = _component("ExampleValidator", f"{DATA}.example_validator")
    serving_log: BaseNode | None = _component("ServingLog", f"{DATA}.serving_log", instead="set `gates.skew.source`")
    serving_statistics: BaseNode | None = _component(
        "ServingStatistics", f"{DATA}.serving_statistics", instead="set `gates.skew.source`"
    )
    data_verdict: BaseNode | None = _component("DataVerdict", f"{DATA}.data_verdict", instead="set `gates`")
    data_gate: BaseNode = _component("DataGate", f"{DATA}.data_gate")
    drift: BaseNode | None = _component("Drift", f"{DATA}.drift", instead="set `schedule.drift`")
    transform: BaseNode = _component(
        "Transform", f"{DATA}.transform", instead="set `features.function` to your preprocessing_fn"
    )
    tuner: BaseNode | None = _component("Tuner", f"{TRAINING}.tuner", instead="set `tune`")
    warm_start: BaseNode | None = _component("WarmStart", f"{TRAINING}.warm_start", instead="set `train.warm_start`")
    trainer: BaseNode = _component(
        "Trainer",
        f"{TRAINING}.trainer",
        instead="set `model.kind` to a function that builds your model, or `model.run_fn` to your run_fn",
    )
    profile_verdict: BaseNode | None = _component("ProfileVerdict", f"{TRAINING}.profile_verdict")
    profile_gate: BaseNode | None = _component(
        "ProfileGate", f"{TRAINING}.profile_gate", before=("record_blessing", "pusher", "record_training")
    )
    baseline: BaseNode = _component("Baseline", f"{DEPLOYMENT}.baseline", instead="set `evaluate.thresholds`")
    evaluator: BaseNode = _component(
        "Evaluator",
        f"{DEPLOYMENT}.evaluator",
        instead="set `evaluate`, or add a further component and let the pusher wait for it",
    )
    canary: BaseNode | None = _component("Canary", f"{DEPLOYMENT}.canary")
    lite: BaseNode | None = _component(
        "Lite", f"{DEPLOYMENT}.lite", instead="set `deploy.lite`, or add a further component that converts the model"
    )
    record_blessing: BaseNode = _component(
        "RecordBlessing",
        f"{DEPLOYMENT}.record_blessing",
        instead="let it wait for a further component that fails if the model must not be used",
    )
    pusher: BaseNode | None = _component("Pusher", f"{DEPLOYMENT}.pusher")
    model_in_service: BaseNode | None = _component(
        "ModelInService", f"{PREDICTIONS}.model_in_service", instead="set `predict.only`", predicts=True
    )
    predict_spans: BaseNode | None = _component(
        "PredictSpans", f"{PREDICTIONS}.predict_spans", instead="set `predict.source`", predicts=True
    )
    bulk_predictor: BaseNode | None = _component("BulkPredictor", f"{PREDICTIONS}.bulk_predictor", predicts=True)
    publish_predictions: BaseNode | None = _component(
        "PublishPredictions", f"{PREDICTIONS}.publish_predictions", instead="set `predict.output`", predicts=True
    )
    record_training: BaseNode | None = _component(
        "RecordTraining", f"{DEPLOYMENT}.record_training", instead="set `schedule.retrain`"
    )
    extra: tuple[BaseNode, ...] = ()
    """The further components."""

    def named(self) -> dict[str, BaseNode | None]:
        """All except `extra`, by their names here."""
        return {name: getattr(self, name) for name in DECLARATIONS}

    def __iter__(self) -> Iterator[BaseNode]:
        """Those that exist."""
        yield from (node for node in self.named().values() if node is not None)
        yield from self.extra


DECLARATIONS: dict[str, Declaration] = {
    one.name: one.metadata[_DECLARATION] for one in fields(Components) if _DECLARATION in one.metadata
}
"""By the names of the components, in the order in which they are built."""


def check_declarations(declarations: Mapping[str, Declaration]) -> None:
    """Raise ValueError if a gate guards a component that does not exist, or that is built before the gate.

    Nothing would wait for such a gate, so a run that it stops would push its model anyway.
    """
    names = [*declarations]
    for place, (name, declared) in enumerate(declarations.items()):
        for guarded in declared.before:
            if guarded in names[place + 1 :]:
                continue
            what = f'Components.{name}: `before` names "{guarded}", which is not a component declared after it'
            near = get_close_matches(guarded, names[place + 1 :], n=1)
            raise ValueError(f'{what}; did you mean "{near[0]}"?' if near else what)


check_declarations(DECLARATIONS)
IDS = tuple(declared.id for declared in DECLARATIONS.values())

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

    module: str
    """The module with the function that builds it, which has the component's name here. It gets the config, the
    components before it, and the pipeline's folders. It returns None if the config does not ask for the component."""
    before: tuple[str, ...] = ()
    """Names of later components that wait for it, besides those that read its outputs: those that a gate guards."""
    instead: str = ""
    """If `pipeline.extend` must not replace it, as others depend on more than its outputs: what to do instead."""
    predicts: bool = False
    """Whether it is part of a pipeline that only predicts."""


def _component(module: str, *, before: tuple[str, ...] = (), instead: str = "", predicts: bool = False) -> Any:
    return field(default=None, metadata={_DECLARATION: Declaration(module, before, instead, predicts)})


@dataclass(frozen=True, kw_only=True)
class Components:
    """All components. One that the config does not ask for is None; while they are built, so is each later one.

    The id of a component, in TFX, in the terminal, and under `kubeflow.components`, is its name in CamelCase.
    """

    spans: BaseNode = _component(DATA, instead="set `data.source`, and `schedule.retrain` for when to train")
    example_gen: BaseNode = _component(DATA, instead="set `data.source`; its kind `arrays` takes a function of yours")
    statistics_gen: BaseNode = _component(DATA)
    schema_gen: BaseNode = _component(DATA)
    example_validator: BaseNode = _component(DATA)
    serving_log: BaseNode | None = _component(DATA, instead="set `gates.skew.source`")
    serving_statistics: BaseNode | None = _component(DATA, instead="set `gates.skew.source`")
    data_verdict: BaseNode | None = _component(DATA, instead="set `gates`")
    data_gate: BaseNode = _component(DATA)
    drift: BaseNode | None = _component(DATA, instead="set `schedule.drift`")
    transform: BaseNode = _component(DATA, instead="set `features.function` to your preprocessing_fn")
    tuner: BaseNode | None = _component(TRAINING, instead="set `tune`")
    warm_start: BaseNode | None = _component(TRAINING, instead="set `train.warm_start`")
    trainer: BaseNode = _component(
        TRAINING, instead="set `model.kind` to a function that builds your model, or `model.run_fn` to your run_fn"
    )
    profile_verdict: BaseNode | None = _component(TRAINING)
    profile_gate: BaseNode | None = _component(TRAINING, before=("record_blessing", "pusher", "record_training"))
    baseline: BaseNode = _component(DEPLOYMENT, instead="set `evaluate.thresholds`")
    evaluator: BaseNode = _component(
        DEPLOYMENT, instead="set `evaluate`, or add a further component and let the pusher wait for it"
    )
    canary: BaseNode | None = _component(DEPLOYMENT)
    lite: BaseNode | None = _component(
        DEPLOYMENT, instead="set `deploy.lite`, or add a further component that converts the model"
    )
    record_blessing: BaseNode = _component(
        DEPLOYMENT, instead="let it wait for a further component that fails if the model must not be used"
    )
    pusher: BaseNode | None = _component(DEPLOYMENT)
    model_in_service: BaseNode | None = _component(PREDICTIONS, instead="set `predict`", predicts=True)
    predict_spans: BaseNode | None = _component(PREDICTIONS, instead="set `predict.source`", predicts=True)
    bulk_predictor: BaseNode | None = _component(PREDICTIONS, predicts=True)
    publish_predictions: BaseNode | None = _component(PREDICTIONS, instead="set `predict.output`", predicts=True)
    record_training: BaseNode | None = _component(DEPLOYMENT, instead="set `schedule.retrain`")
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
IDS = tuple(name.title().replace("_", "") for name in DECLARATIONS)

"""The rules of `deploy:`."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.configs.rules.rule import Rule, Violation
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import AnyModelConfig, RunFnModel, TextModel


def lite_models_are_ours(deploy: DeployConfig, training: RunFnModel) -> Iterator[Violation]:
    if deploy.lite is not None:
        what = f"{training.run_fn} exports the model, and may leave out the signature `serving_transformed`"
        way = "convert the model in your run_fn, for example with TFX's TFLiteRewriter, and remove this"
        yield ("deploy", "lite"), f"{what}, which is converted; {way}"


def lite_models_have_no_gru(deploy: DeployConfig, model: AnyModelConfig) -> Iterator[Violation]:
    """The converter wants the shape of a GRU's states, which TensorFlow's exported loop does not have."""
    if deploy.lite is not None and isinstance(model, TextModel) and model.encoder != "pooling":
        what = f"`model.encoder: {model.encoder}` has a GRU, which cannot be converted; use `pooling`, or another model"
        yield ("deploy", "lite"), f"{what}, or remove this"


def agreement_is_of_classes(deploy: DeployConfig, label: LabelConfig) -> Iterator[Violation]:
    if deploy.lite is not None and deploy.lite.min_agreement is not None and label.kind == "regression":
        what = "is the fraction of equal classes, and a regression has none; use `max_difference`"
        yield ("deploy", "lite", "min_agreement"), what


RULES: tuple[Rule, ...] = (lite_models_are_ours, lite_models_have_no_gru, agreement_is_of_classes)

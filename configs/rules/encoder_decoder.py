"""The rules of `label.kind: text` and `model.kind: encoder_decoder`, and the settings that they do not support."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.common.names import did_you_mean_or_list, join_or
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.encoder_decoder_model import EncoderDecoderModel
from headrace.configs.schema.features import Feature, TextFeature
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import ModelConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.train import TrainConfig

STRATEGIES = ("auto", "cpu", "one_gpu")


def texts_are_written_by_their_model(model: ModelConfig, label: LabelConfig) -> Iterator[Violation]:
    """The export of a text label calls the decoder step by step, so another model will not do."""
    writes = isinstance(model, EncoderDecoderModel)
    if label.kind == "text" and not writes:
        yield ("model", "kind"), f"`label.kind: text` requires `kind: encoder_decoder`; found {model.kind}"
    elif writes and label.kind != "text":
        what = f"`kind: encoder_decoder` writes a text, and this label is {label.kind}; set `label.kind: text`"
        yield ("model", "kind"), f"{what}, or use `kind: text`, which reads one"


def encoder_has_a_source(model: ModelConfig, features: dict[str, Feature]) -> Iterator[Violation]:
    if not isinstance(model, EncoderDecoderModel):
        return
    texts = [name for name, feature in features.items() if isinstance(feature, TextFeature)]
    if not texts:
        what = "`kind: encoder_decoder` requires a feature with `column: text`, the source"
        yield ("model", "kind"), f"{what}; add one, or use another kind"
    elif model.text is not None and model.text not in texts:
        known = did_you_mean_or_list(model.text, texts, "available")
        yield ("model", "text"), f'"{model.text}" is not a feature with `column: text`{known}'
    elif model.text is None and len(texts) > 1:
        yield ("model", "kind"), f"there are multiple texts to write from; set `text:` to {join_or(texts)}"


def decoder_has_no_dense_layers(model: ModelConfig) -> Iterator[Violation]:
    if isinstance(model, EncoderDecoderModel):
        for name in ("hidden", "activation"):
            if getattr(model, name) != EncoderDecoderModel.model_fields[name].default:
                what = f"`kind: encoder_decoder` has no `{name}` layers; remove it, and set `units`"
                yield ("model", name), what


def decoder_trains_plainly(model: ModelConfig, train: TrainConfig) -> Iterator[Violation]:
    """What is not supported: no setting is to be ignored, or to fail hours later."""
    if not isinstance(model, EncoderDecoderModel):
        return
    what = "`model.kind: encoder_decoder`"
    if train.strategy not in STRATEGIES:
        where: KeyPath = ("train", "strategy")
        yield where, f"{what} trains on one device, not with `{train.strategy}`; use {join_or(STRATEGIES)}"
    if train.precision != "float32":
        way = "because its rounding can change which word is the most probable; use float32"
        yield ("train", "precision"), f"{what} does not support {train.precision}, {way}"
    if train.jit == "on":
        way = "XLA compiles fixed shapes, and a batch is as long as its longest text; use `auto` or `off`"
        yield ("train", "jit"), f"{what}: {way}"
    if train.warm_start:
        way = "the rows of the label's vocabulary may be other words after new data; remove it"
        yield ("train", "warm_start"), f"{what} starts with new weights: {way}"


def written_texts_are_not_converted(deploy: DeployConfig, model: ModelConfig) -> Iterator[Violation]:
    if deploy.lite is not None and isinstance(model, EncoderDecoderModel):
        what = "`model.kind: encoder_decoder` writes a text in a loop, which cannot be converted; remove this"
        yield ("deploy", "lite"), what

"""`model:` what is trained. One class per kind; `kind:` selects it.

To add a kind, write its class and its builder, which the class names, and add a line to the registry.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, JsonValue, model_validator

from headrace.common import entry_points
from headrace.configs.schema.features.base import Embedding
from headrace.configs.schema.kinds import Kind, OpenUnion
from headrace.configs.schema.section import DottedPath, KeyPath, Name, PositiveInt, Section, defaults_of

Fraction = Annotated[float, Field(ge=0, lt=1)]
DEFAULT_KIND = "table"
"""The kind of a model that does not name one."""
CUSTOM_KIND = "the dotted path of your own builder"
"""How the schema, the reference and messages describe the kind of a custom model, which has no fixed name."""


class ModelBase(Kind):
    """The dense layers and embeddings of every model. `implementation` names a builder, as trainer/models describes."""

    if TYPE_CHECKING:
        kind: str

    takes: ClassVar[frozenset[str]] = frozenset()
    """What it takes beyond numbers, categories and one label: `images`, `next_word` labels, or several labels as
    `tasks`."""
    only_deep: ClassVar[bool] = False
    """Whether it has no input other than the deep part."""
    has_deep_part: ClassVar[bool] = True
    """Whether it has dense layers over the embeddings of the features with `deep: true`."""
    has_wide_part: ClassVar[bool] = False
    """Whether it has a weight for each category of the features with `wide: true`."""
    one_device: ClassVar[bool] = False
    """Whether it trains on a single device, so that `train.strategy: auto` uses no more."""
    has_trees: ClassVar[bool] = False
    """Whether it consists of decision trees, which split the examples by every feature."""

    hidden: tuple[PositiveInt, ...] = (128, 64)
    """Units of the dense layers of the deep part, first to last."""
    activation: str = "relu"
    """Keras name of the activation of these layers."""
    dropout: Fraction = 0.0
    """Fraction of units dropped after each dense layer during training."""
    embedding: Embedding = "auto"
    """Width of the embeddings of features that do not set their own: an integer, `auto` (number of categories to the
    power 0.25, rounded up), or `one_hot`."""

    def libraries(self) -> list[str]:
        """The distributions besides TensorFlow, Keras and NumPy whose versions affect the trained weights."""
        return ["lightgbm"] if self.has_trees else []


class DnnModel(ModelBase):
    """Dense layers over numbers and embeddings of categories."""

    implementation: ClassVar[str] = "headrace.trainer.models.dnn.build"
    takes: ClassVar[frozenset[str]] = frozenset({"tasks"})
    only_deep: ClassVar[bool] = True

    kind: Literal["dnn"]
    """`dnn`."""


class WideAndDeepModel(ModelBase):
    """Dense layers over numbers and embeddings, alongside a linear model over the numbers and the categorical features
    (Cheng et al. 2016, arXiv:1606.07792).
    """

    implementation: ClassVar[str] = "headrace.trainer.models.wide_and_deep.build"
    takes: ClassVar[frozenset[str]] = frozenset({"tasks"})
    has_wide_part: ClassVar[bool] = True

    kind: Literal["wide_and_deep"] = "wide_and_deep"
    """`wide_and_deep`."""


class LinearModel(ModelBase):
    """A weight for each number and for each category: logistic or linear regression, for small tables, and to see what
    a larger model gains. `hidden`, `activation`, `dropout` and `embedding` do not apply.
    """

    implementation: ClassVar[str] = "headrace.trainer.models.linear.build"
    takes: ClassVar[frozenset[str]] = frozenset({"tasks"})
    has_wide_part: ClassVar[bool] = True
    has_deep_part: ClassVar[bool] = False

    kind: Literal["linear"]
    """`linear`."""


class DcnModel(ModelBase):
    """A cross network, which multiplies features with each other, combined with dense layers (DCN-V2: Wang et al. 2021,
    arXiv:2008.13535). Its inputs are those of the deep part: numbers and embeddings.

    Cross layer l computes x0 * (W x + b) + x, where x is the output of layer l - 1 and x0 the input of the network, so
    l layers contain products of up to l + 1 features.
    """

    implementation: ClassVar[str] = "headrace.trainer.models.dcn.build"
    takes: ClassVar[frozenset[str]] = frozenset({"tasks"})
    only_deep: ClassVar[bool] = True

    kind: Literal["dcn"]
    """`dcn`."""
    structure: Literal["parallel", "stacked"] = "parallel"
    """parallel: cross network and dense layers both get the features, and their outputs are concatenated; stacked: the
    dense layers get the output of the cross network."""
    cross_layers: PositiveInt = 2
    """Number of cross layers."""
    rank: PositiveInt | None = None
    """Inner dimension of W as a product of two matrices, which has fewer weights and takes less time if the features
    are wide (the paper uses a quarter of their width and less). null: W is a full matrix."""


class TabmModel(ModelBase):
    """An ensemble of dense networks for tables (TabM: Gorishniy et al. 2025, arXiv:2410.24210). The members share their
    weights except for a few vectors each, and learn independently; their mean predicts. A step costs up to `members`
    times that of `dnn`.
    """

    implementation: ClassVar[str] = "headrace.trainer.models.tabm.build"
    takes: ClassVar[frozenset[str]] = frozenset({"tasks"})
    only_deep: ClassVar[bool] = True

    kind: Literal["tabm"]
    """`tabm`."""
    members: Annotated[int, Field(ge=2)] = 16
    """Number of members."""
    frequencies: Annotated[int, Field(ge=0)] = 0
    """Number of sines and cosines of each number, at learned frequencies, from which the number is also embedded
    (Gorishniy et al. 2022, arXiv:2203.05556), for steep functions of a number; 16 is usual. 0: the number itself."""
    number_embedding: PositiveInt = 8
    """Width of the embedding of each number, with `frequencies`."""


class AugmentConfig(Section):
    """Random changes of the images during training, different each time an image is used; none in evaluation and
    serving. Areas that a change leaves empty are black.
    """

    crop: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Show a random part instead of the whole image, enlarged to its size: from this share of height and width up to
    all of them, the same of both, anywhere in the image. 0.7 is usual for photographs. null: the whole image."""
    flip: Literal["horizontal", "vertical", "both"] | None = None
    """Mirror half of the images: left and right, top and bottom, or both independently."""
    translate: Fraction = 0.0
    """Shift by up to this fraction of height and width."""
    rotate: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Rotate by up to this many degrees in either direction."""
    zoom: Fraction = 0.0
    """Enlarge or shrink by up to this fraction."""
    contrast: Fraction = 0.0
    """Scale the pixels about their mean by a factor from 1 minus to 1 plus this value."""
    brightness: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Add a value of up to plus or minus this to all pixels, which lie between 0 and 1."""


class BackboneConfig(Section):
    """A pretrained network that turns images into vectors, instead of new convolutions (transfer learning)."""

    saved_model: Name
    """A SavedModel in TensorFlow Hub's format (TF2): its folder, local or `s3://`, `gs://`; or a handle, such as
    `https://tfhub.dev/google/imagenet/mobilenet_v2_100_224/feature_vector/5`, which is looked up in the folder
    TFHUB_CACHE_DIR and downloaded into it if it is not there. It takes float32 [batch, height, width, channels] and
    returns [batch, n]; `height`, `width` and `channels` of the feature must match its input."""
    fine_tune: bool = False
    """Whether its weights are trained too, which calls for a low `train.learning_rate`. false: they are frozen."""
    pixels: Annotated[tuple[float, ...], Field(min_length=2, max_length=2)] = (0.0, 1.0)
    """The values for black and white that it expects; 0 and 1 by TensorFlow Hub's convention."""


class ImageModel(ModelBase):
    """A small convolutional network over each `image` feature, or a pretrained network. Its output is concatenated with
    the other features (the inputs of the deep part in other models) and goes through the dense layers.
    """

    implementation: ClassVar[str] = "headrace.trainer.models.image.build"
    takes: ClassVar[frozenset[str]] = frozenset({"images", "tasks"})

    kind: Literal["image"]
    """`image`."""
    filters: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (32, 64)
    """Filters of the convolutions, first to last. Each is followed by batch normalization, the activation, and max
    pooling that halves height and width while they are 2 or more."""
    kernel: Annotated[int, Field(ge=1, le=15)] = 3
    """Height and width of the filters, in pixels."""
    pooling: Literal["average", "max", "none"] = "average"
    """How the output of the last convolution becomes a vector: the average or maximum of each filter, or none:
    flattened, for small images in which positions matter."""
    augment: AugmentConfig = defaults_of(AugmentConfig)
    """Random changes of the images during training."""
    backbone: BackboneConfig | None = None
    """A pretrained network. null: new convolutions according to `filters`, `kernel` and `pooling`."""

    @model_validator(mode="after")
    def _backbone_or_convolutions(self) -> ImageModel:
        given = [name for name in ("filters", "kernel", "pooling") if name in self.model_fields_set]
        if self.backbone is not None and any(getattr(self, name) != _DEFAULTS[name] for name in given):
            raise ValueError(f"a `backbone` replaces the convolutions; remove `{'`, `'.join(given)}`")
        return self

    def saved_models(self) -> dict[KeyPath, str]:
        return {} if self.backbone is None else {("backbone", "saved_model"): self.backbone.saved_model}


_DEFAULTS = {name: ImageModel.model_fields[name].default for name in ("filters", "kernel", "pooling")}


class TextModel(ModelBase):
    """An encoder over the words of a text, combined with the other features of the deep part, and dense layers. It
    supports every kind of label; with `label.kind: next_word` it also generates text.
    """

    implementation: ClassVar[str] = "headrace.trainer.models.text.build"
    takes: ClassVar[frozenset[str]] = frozenset({"next_word", "tasks"})

    kind: Literal["text"]
    """`text`."""
    text: Name | None = None
    """The feature with `column: text` that it encodes. null: the only one, or the one of a next_word label. Other texts
    are treated as other features are, by their pooled embeddings."""
    word_embedding: PositiveInt = 64
    """Width of the word vectors."""
    encoder: Literal["pooling", "recurrent", "attention"] = "recurrent"
    """pooling: the mean of the word vectors, in any order; recurrent: a GRU (Cho et al. 2014, arXiv:1406.1078) over
    them; attention: such a GRU, plus scaled dot-product attention of its last state over all of its states."""
    units: PositiveInt = 128
    """Width of the GRU's state."""


class CustomModel(ModelBase):
    """A model that your own function builds (see docs/extending.md). It is up to the function to use the other
    settings.
    """

    implementation: ClassVar[str] = "headrace.trainer.models.custom.build"
    takes: ClassVar[frozenset[str]] = frozenset({"images", "next_word"})

    kind: DottedPath
    """The function, such as `mine.models.build`."""
    options: dict[str, JsonValue] = {}
    """Passed to the function unchanged."""

    def functions(self) -> dict[KeyPath, str]:
        return {("kind",): self.kind}


class RunFnModel(Kind):
    """The `run_fn` of an existing TFX pipeline, unchanged: it builds, trains and exports the model. `train:` and
    `tune:` do not apply (see docs/tfx_functions.md).
    """

    kind: Literal["run_fn"] = "run_fn"
    """`run_fn`; it may be omitted."""
    run_fn: DottedPath
    """The function, such as `models.keras_model.model.run_fn`. It gets TFX's `fn_args`, and writes a SavedModel to
    `fn_args.serving_model_dir`."""
    train_steps: PositiveInt
    """`fn_args.train_steps`: TFX's `TrainArgs.num_steps`."""
    eval_steps: PositiveInt
    """`fn_args.eval_steps`: TFX's `EvalArgs.num_steps`."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of Python's, NumPy's and TensorFlow's random numbers, set before the function is called."""
    custom_config: dict[str, JsonValue] = {}
    """Passed as `fn_args.custom_config`."""
    signature_name: Name = "serving_default"
    """The signature that the Evaluator calls, as in TFMA's `ModelSpec`. Its input is either serialized examples or the
    outputs of `preprocessing_function_name` by name."""
    preprocessing_function_name: Name = "transform_features"
    """The signature from serialized examples to the features and the label, as in TFMA's `ModelSpec`."""
    prediction_key: Name | None = None
    """The output with the predictions, if the signature has several and none of them is called `predictions`."""

    def functions(self) -> dict[KeyPath, str]:
        return {("run_fn",): self.run_fn}


def _tag(model: object) -> str | None:
    """The class of a model: its kind, or CUSTOM_KIND for a dotted path."""
    if isinstance(model, dict) and "run_fn" in model and "kind" not in model:
        return "run_fn"
    kind = model.get("kind", DEFAULT_KIND) if isinstance(model, dict) else getattr(model, "kind", None)
    if not isinstance(kind, str):
        return None
    return CUSTOM_KIND if "." in kind else kind


MODELS = OpenUnion(
    entry_points.MODELS,
    base=ModelBase,
    tag="kind",
    choose=_tag,
    open_tag=CUSTOM_KIND,
    built_in=(
        "headrace.configs.schema.table_model.TableModel",
        "headrace.configs.schema.models.DnnModel",
        "headrace.configs.schema.models.WideAndDeepModel",
        "headrace.configs.schema.models.LinearModel",
        "headrace.configs.schema.models.DcnModel",
        "headrace.configs.schema.models.TabmModel",
        "headrace.configs.schema.trees_model.TreesModel",
        "headrace.configs.schema.models.ImageModel",
        "headrace.configs.schema.models.TextModel",
        "headrace.configs.schema.encoder_decoder_model.EncoderDecoderModel",
        "headrace.configs.schema.auto_model.AutoModel",
        "headrace.configs.schema.models.CustomModel",
    ),
)
"""The registry of kinds, in the order of docs/config.md."""
ModelConfig = Annotated[ModelBase, MODELS]
"""A model that Headrace trains."""
AnyModelConfig = Annotated[
    ModelBase | RunFnModel,
    replace(MODELS, built_in=(*MODELS.built_in, "headrace.configs.schema.models.RunFnModel")),
    Field(json_schema_extra={"discriminator": {"propertyName": "kind"}}),
]

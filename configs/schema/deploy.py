"""Where a model is pushed, and what it has to pass before."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.kserve import KServeConfig
from headrace.configs.schema.model_registry import ModelRegistries
from headrace.configs.schema.section import Name, PositiveInt, Section, defaults_of
from headrace.configs.schema.serving import CanaryServer, ServingConfig


class ReplayConfig(Section):
    """The comparison of the features that the model was trained on with those that the exported model computes."""

    examples: PositiveInt = 1000
    """Number of examples of the evaluated split that are compared; fewer if they are more than 256 MiB."""
    on_difference: Literal["refuse", "warn"] = "refuse"
    """What to do if a feature differs. refuse: the model fails its canary. warn: it passes, and the terminal and the
    report say which features differ; for features that are meant to be random."""


class CanaryConfig(Section):
    """The examination of an exported model by TensorFlow's C++ runtime, before it is pushed."""

    examples: PositiveInt = 100
    """Number of examples of the evaluated split that each signature is asked with: all at once, for the comparison with
    TensorFlow's Python, and then one by one, for the latency."""
    latency_p50_ms: Annotated[float, Field(gt=0)] | None = None
    """Milliseconds that half of the requests with one example may take, in every signature; see `latency_p99_ms`. null:
    no limit."""
    latency_p99_ms: Annotated[float, Field(gt=0)] | None = None
    """Milliseconds that 99% of the requests with one example may take, in every signature but `generate`, which takes
    as long as its `length` says. A model that exceeds this or `latency_p50_ms` in each of three measurements fails. It
    is measured on the machine of the run, beside the Evaluator. null: no limit."""
    memory_mb: Annotated[float, Field(gt=0)] | None = None
    """Megabytes (10^6 bytes) that the process may hold after the real requests, with TensorFlow's own library, which
    takes about 450. null: no limit."""
    replay: ReplayConfig | None = defaults_of(ReplayConfig)
    """Sends raw examples through the exported model's preprocessing, and compares the features with those that
    Transform wrote of the same examples, as it did of those that were trained on (see docs/canary.md). null: none."""
    server: CanaryServer | None = None
    """A staging TensorFlow Serving that each candidate is tried on, over REST and gRPC (see docs/canary.md). null:
    none."""


LitePrecision = Literal["float32", "float16", "int8"]


class LiteConfig(Section):
    """The conversion of the model for LiteRT (TensorFlow Lite), which runs on phones and other devices."""

    precision: LitePrecision = "float32"
    """float32: the weights as they are; float16: weights in half the space; int8: weights in a quarter of it, and most
    operations in whole numbers, whose ranges come from the representative examples."""
    representative: PositiveInt = 200
    """int8 only: number of examples of the train split from which the ranges are taken. They are fed at once."""
    examples: PositiveInt = 1000
    """Number of examples of the evaluated split on which the file is compared with the SavedModel."""
    max_difference: Annotated[float, Field(gt=0)] | None = 0.1
    """Largest difference allowed between a prediction of the file and that of the SavedModel, relative to the largest
    prediction of the SavedModel; for probabilities, about the difference itself. A model that exceeds it is neither
    blessed nor pushed. null: no limit."""
    min_agreement: Annotated[float, Field(gt=0, le=1)] | None = None
    """Least fraction of the examples for which both must predict the same class; not for a regression. A model below it
    is neither blessed nor pushed. null: no limit."""


class DeployConfig(Section):
    """Where a blessed model is pushed, and what it has to pass before."""

    push: Name | None = "serving/{name}"
    """Directory that a model server watches: each push creates a new version in it, with an increasing number. A model
    that is byte for byte the newest version is not pushed again. `{name}` stands for the pipeline's name. Runs on this
    machine may push to an object store, such as s3://bucket/models/{name} (see docs/models.md). null: never push."""
    keep: Annotated[int, Field(ge=2)] | None = None
    """Number of pushed versions to keep, at least 2: the newest, which model servers load, and the previous one, which
    they serve until then. Each push removes older ones. null: keep all."""
    approval: Literal["automatic", "manual"] = "automatic"
    """automatic: a run pushes the model that it blesses. manual: it pushes nothing, and the model waits until a person
    pushes it with `headrace promote` (see docs/models.md); until then, candidates are compared with the model in
    service. Without effect if `push` is null. On Kubeflow only with a relative `push`."""
    canary: CanaryConfig | None = defaults_of(CanaryConfig)
    """The examination of the exported model in a fresh process, as a model server would load and ask it. A model that
    fails it is not blessed and not pushed (see docs/canary.md). Without effect if `push` is null. null: none."""
    registry: ModelRegistries | None = None
    """The model registries that pushed versions are registered in, by runs, promotions and rollbacks (see
    docs/models.md). One that cannot be reached is reported, does not fail the run, and is tried again by the next.
    Without effect if `push` is null. null: none."""
    lite: LiteConfig | None = None
    """Converts each model to a `.tflite` file, compares it with the SavedModel, and puts it beside the pushed version
    (see docs/lite.md). Without effect if `push` is null. null: no such file."""
    kserve: KServeConfig | None = None
    """The InferenceService of KServe that serves the pushed models. null: none is changed."""
    serving: ServingConfig | None = None
    """The TensorFlow Serving that serves the pushed models: whether it has loaded them, and its config file (see
    docs/models.md). Without effect if `push` is null. null: none."""

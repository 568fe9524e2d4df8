"""The rules of `features: {function: ...}` and `model: {run_fn: ...}`: what no longer applies is refused, not ignored.

The rules of feature columns and of our models need neither of these two, which have names of their own in the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.common.names import did_you_mean
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.features import Feature, PreprocessingFunction
from headrace.configs.schema.gates import GatesConfig
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import AnyModelConfig, RunFnModel
from headrace.configs.schema.schedule import ScheduleConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.train import TrainConfig
from headrace.configs.schema.transform import TransformConfig
from headrace.configs.schema.tune import TuneConfig


def under_own_names(sections: Mapping[str, object]) -> dict[str, object]:
    """The sections with a function for `features` under the name `preprocessing`, and one for `model` under `training`.

    So a rule with a parameter `features` or `model` applies to feature columns or to our own models alone.
    """
    named = dict(sections)
    if isinstance(named.get("features"), PreprocessingFunction):
        named["preprocessing"] = named.pop("features")
    if isinstance(named.get("model"), RunFnModel):
        named["training"] = named.pop("model")
    return named


def our_models_need_feature_columns(preprocessing: PreprocessingFunction, model: AnyModelConfig) -> Iterator[Violation]:
    """A function's outputs do not say which of them are categories, nor how many there are."""
    what = f"`kind: {model.kind}` is built from feature columns, which say what is a number and what a category"
    yield (
        ("features", "function"),
        f"{what}; set `model.run_fn` to the run_fn that {preprocessing.function} is for, or list feature columns",
    )


def float64_is_of_feature_columns(preprocessing: PreprocessingFunction, data: DataConfig) -> Iterator[Violation]:
    for column in data.float64_columns:
        what = f"feature columns compute from float64, and {preprocessing.function} gets what tf.Example holds, float32"
        yield ("data", "types", column), f"{what}; declare float, or string to parse the numbers in the function"


def run_fn_reads_no_float64(
    training: RunFnModel, features: dict[str, Feature], data: DataConfig
) -> Iterator[Violation]:
    for column in data.float64_columns if features else ():
        what = f"our own models are exported with inputs of float64, and that of {training.run_fn} may not have them"
        yield ("data", "types", column), f"{what}; declare float"


def run_fn_trains(training: RunFnModel, train: TrainConfig) -> Iterator[Violation]:
    for name in sorted(train.model_fields_set):
        what = f"this has no effect, because {training.run_fn} does the training; remove it"
        yield ("train", name), f"{what}, and set steps in model.train_steps and model.eval_steps"


def run_fn_is_not_tuned(training: RunFnModel, tune: TuneConfig | None) -> Iterator[Violation]:
    if tune is not None:
        what = f"the search changes settings of our own models, and {training.run_fn} reads none of them; remove it"
        yield ("tune",), f"{what}, or pass values to your function in model.custom_config"


def run_fn_has_one_worker(training: RunFnModel, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if kubeflow.workers is not None:
        what = f"the workers train our own models, and {training.run_fn} runs in the pod of the Trainer; remove it"
        yield ("kubeflow", "workers"), what


def run_fn_predicts_no_word(training: RunFnModel, label: LabelConfig) -> Iterator[Violation]:
    own = {"next_word": "text", "text": "encoder_decoder"}.get(label.kind)
    if own is not None:
        what = f"the classes of a {label.kind} label are the words of our own model, not of {training.run_fn}"
        yield ("label", "kind"), f"{what}; use `multiclass`, or `model: {{kind: {own}}}`"


def run_fn_reads_records(training: RunFnModel, transform: TransformConfig) -> Iterator[Violation]:
    if transform.materialize == "never":
        what = f"{training.run_fn} reads TFRecords of transformed examples; set it to `auto` or `always`"
        yield ("transform", "materialize"), what


def functions_columns_are_not_the_label(
    preprocessing: PreprocessingFunction, label: LabelConfig
) -> Iterator[Violation]:
    for number, name in enumerate(preprocessing.keys or ()):
        if name == label.key:
            where: KeyPath = ("features", "keys", number)
            yield where, "this is the label, which the function receives anyway; remove it here"


def drift_is_of_known_columns(
    preprocessing: PreprocessingFunction, schedule: ScheduleConfig | None, label: LabelConfig
) -> Iterator[Violation]:
    if schedule is None:
        return
    read = {*(preprocessing.keys or ()), label.key}
    where: KeyPath = ("schedule", "retrain")
    if schedule.retrain == "drift" and preprocessing.keys is None:
        yield where, "which columns the function reads is not known; list them in features.keys"
        return
    for column in schedule.drift.columns if preprocessing.keys is not None else ():
        if column not in read:
            what = f'"{column}" is not in features.keys{did_you_mean(column, read)}'
            yield ("schedule", "drift", "columns", column), what


def used_columns_are_known(preprocessing: PreprocessingFunction, data: DataConfig) -> Iterator[Violation]:
    if data.columns == "used" and preprocessing.keys is None and "columns" in data.model_fields_set:
        what = "which columns the function reads is not known; list them in features.keys, or set data.columns: all"
        yield ("data", "columns"), what


def requests_have_known_columns(preprocessing: PreprocessingFunction, gates: GatesConfig) -> Iterator[Violation]:
    """Requests lack what only training needs, such as weights, which must not count as a column without values."""
    if gates.skew is not None and preprocessing.keys is None:
        yield ("gates", "skew"), "which columns the function reads is not known; list them in features.keys"

"""The rules of `model:` and `evaluate:`: what fits the features and the label."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.common.names import did_you_mean, did_you_mean_or_list, join_or
from headrace.configs.rules.keras_names import ACTIVATIONS
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.auto_model import AutoModel
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.evaluate import EvaluateConfig, SliceThreshold, Threshold
from headrace.configs.schema.features import Feature, ImageFeature, TextFeature
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.metrics import (
    AT_TARGET,
    DECISION_METRICS,
    METRICS,
    ONE_VS_REST,
    ONE_VS_REST_CLASSES,
    SIGNED,
    TOP_K,
    base_of,
    is_fraction,
    key_in_metrics,
    metrics_of_kinds,
    own_name,
    split_level,
    split_task,
    task_metric,
    top_k,
    with_example,
)
from headrace.configs.schema.models import ImageModel, ModelConfig, TextModel
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.train import TrainConfig
from headrace.configs.schema.tune import TuneConfig

Features = dict[str, Feature]
PIN = "put the kind that a search chose into the config"
ONE_PROCESS_ONLY = f"`kind: auto` does not search with `train.strategy: multi_worker`; {PIN}, or train on one machine"


def activation_is_known(model: ModelConfig) -> Iterator[Violation]:
    if model.activation not in ACTIVATIONS:
        known = did_you_mean_or_list(model.activation, ACTIVATIONS, "available")
        yield ("model", "activation"), f'Keras has no activation "{model.activation}"{known}'


def deep_part_has_features(model: ModelConfig, features: Features) -> Iterator[Violation]:
    """A `dnn` or `dcn` has only the deep part; without a feature it has no input."""
    if model.only_deep and not any(getattr(feature, "deep", True) for feature in features.values()):
        what = f"`kind: {model.kind}` has no input, because every feature has `deep: false`; set `deep: true` for some"
        yield ("model", "kind"), f"{what}, or use `kind: wide_and_deep`"


def images_are_used(model: ModelConfig, features: Features) -> Iterator[Violation]:
    """A model that silently ignored an image would be a mistake."""
    images = [name for name, feature in features.items() if isinstance(feature, ImageFeature)]
    if isinstance(model, ImageModel):
        if not images:
            what = "`kind: image` requires a feature with `column: image`; add one, or use another kind"
            yield ("model", "kind"), what
    elif "images" not in model.takes:
        for name in images:
            what = f"`kind: {model.kind}` does not use images; use `model: {{kind: image}}`, or a builder of your own"
            yield ("features", name, "column"), what


def text_model_has_a_text(model: ModelConfig, features: Features, label: LabelConfig) -> Iterator[Violation]:
    texts = [name for name, feature in features.items() if isinstance(feature, TextFeature)]
    if label.kind == "next_word" and "next_word" not in model.takes:
        yield ("model", "kind"), f"`label.kind: next_word` requires `kind: text`; found {model.kind}"
    if not isinstance(model, TextModel):
        return
    if not texts:
        yield ("model", "kind"), "`kind: text` requires a feature with `column: text`; add one, or use another kind"
    elif model.text is not None and model.text not in texts:
        known = did_you_mean_or_list(model.text, texts, "available")
        yield ("model", "text"), f'"{model.text}" is not a feature with `column: text`{known}'
    elif model.text is None and label.text is None and len(texts) > 1:
        yield ("model", "kind"), f"there are multiple texts to read; set `text:` to {join_or(texts)}"
    elif label.text is not None and model.text not in {None, label.text}:
        yield ("model", "text"), f'the label follows "{label.text}" (label.text); use that, or remove the setting'


def auto_searches_alone(model: ModelConfig, train: TrainConfig, tune: TuneConfig | None) -> Iterator[Violation]:
    """What means a single training of a known kind does not go together with a search."""
    if not isinstance(model, AutoModel):
        return
    where: KeyPath = ("model", "kind")
    if train.strategy == "multi_worker":
        yield where, ONE_PROCESS_ONLY
    if train.warm_start:
        what = "`kind: auto` compares new weights, and those of one kind do not fit another"
        yield where, f"{what}; {PIN} to use `train.warm_start`"
    if train.profile is not None:
        what = "`kind: auto` may train the profiled steps during the search, without a profile"
        yield where, f"{what}; {PIN}, or remove `train.profile`"
    if tune is not None:
        yield where, f"`tune` would search within each trial; {PIN}, then tune it"


def evaluated_split_exists(data: DataConfig, evaluate: EvaluateConfig) -> Iterator[Violation]:
    if evaluate.split is not None and evaluate.split not in data.splits:
        known = did_you_mean_or_list(evaluate.split, data.splits, "data.splits has")
        yield ("evaluate", "split"), f'there is no split "{evaluate.split}"{known}'


def metrics_fit_the_label(label: LabelConfig, evaluate: EvaluateConfig) -> Iterator[Violation]:
    for number, name in enumerate(evaluate.metrics):
        where: KeyPath = ("evaluate", "metrics", number)
        if not _is_metric(name, label):
            yield where, _unsuitable_metric(name, label)
        elif name in evaluate.metrics[:number]:
            yield where, f'"{name}" is listed twice; remove one'


def thresholds_have_metrics(label: LabelConfig, evaluate: EvaluateConfig) -> Iterator[Violation]:
    for name in evaluate.thresholds:
        where: KeyPath = ("evaluate", "thresholds", name)
        listed = evaluate.of_task(split_task(name)[0]).metrics
        if not _is_metric(name, label):
            yield where, _unsuitable_metric(name, label)
        elif listed and own_name(name) not in listed:
            yield where, f'"{name}" is not in evaluate.metrics; add it there, or remove the threshold'


def one_vs_rest_has_few_classes(label: LabelConfig, evaluate: EvaluateConfig) -> Iterator[Violation]:
    for task, part in label.parts.items():
        if part.kind != "multiclass" or part.num_classes <= ONE_VS_REST_CLASSES:
            continue
        many = f"at most {ONE_VS_REST_CLASSES:,} classes, and this label has {part.num_classes:,}"
        what = f"it takes each class against all others, so it can be measured for {many}; use `macro_f1` instead"
        names = {task_metric(task, metric) for metric in ONE_VS_REST}
        yield from (
            (("evaluate", "metrics", place), what) for place, name in enumerate(evaluate.metrics) if name in names
        )
        yield from ((("evaluate", "thresholds", name), what) for name in evaluate.thresholds if name in names)


def _is_metric(name: str, label: LabelConfig) -> bool:
    """Whether it can be measured for the label: with a level if it needs one, or may have one."""
    task, own = split_task(name)
    part, (base, level) = label.parts.get(task), split_level(own)
    if part is None or task_metric(task, own) != name:
        return False
    kind = part.kind
    if level is None:
        key = key_in_metrics(kind, own)
        return key in METRICS[kind] and own not in AT_TARGET and (key != TOP_K or not _top_k_is_off(own, part))
    return base in METRICS[kind] and (base in AT_TARGET or base in DECISION_METRICS.get(kind, ()))


def _unsuitable_metric(name: str, label: LabelConfig) -> str:
    return _unsuitable_for(name, label) if label.tasks is None else _no_metric_of_a_task(name, label)


def _top_k_is_off(own: str, label: LabelConfig) -> bool:
    """Whether the K of a name such as `top_3_accuracy` is none, or says nothing about the label."""
    k = top_k(own)
    return k is None or not 1 < k < label.num_classes


def _unsuitable_top_k(name: str, classes: int) -> str:
    if classes <= 2:
        return f"{TOP_K} needs a label of at least 3 classes, and this one has {classes}; use `accuracy`"
    found = name.removeprefix("top_").removesuffix("_accuracy")
    what = f'the K of "{name}" is "{found}", but must be an integer from 2 to {classes - 1:,}'
    return f"{what}, because the label has {classes:,} classes{'; K = 1 is `accuracy`' if found == '1' else ''}"


def _unsuitable_for(name: str, label: LabelConfig) -> str:
    kind, (base, mark, level) = label.kind, name.partition("@")
    looks_so = base.startswith("top_") and base.endswith("_accuracy")
    if looks_so and TOP_K in METRICS[kind] and _top_k_is_off(base, label):
        return _unsuitable_top_k(base, label.num_classes)
    if mark and key_in_metrics(kind, base) == TOP_K:
        return f"{base} depends on no decision threshold; write `{base}`"
    if base in METRICS[kind] and base in AT_TARGET:
        found = f'"{level}" is not one' if mark else "there is none"
        return f"{base} needs a {AT_TARGET[base]} above 0 and below 1, as `{with_example(base)}`; {found}"
    if base in METRICS[kind] and mark and base not in DECISION_METRICS.get(kind, ()):
        return f"{base} depends on no decision threshold; write `{base}`"
    if base in METRICS[kind] and mark:
        what = f'the decision threshold of "{name}" is not a number above 0 and below 1 in its shortest form'
        return f"{what}; write it as `{base}@0.3`"
    name = base
    others = [other for other, names in METRICS.items() if key_in_metrics(other, name) in names]
    what = f'"{name}" is for {join_or(others)} labels, but this label is {kind}' if others else f'no metric "{name}"'
    return f"{what}; for {kind}: {join_or(METRICS[kind])}{did_you_mean(name, METRICS[kind])}"


def _no_metric_of_a_task(name: str, label: LabelConfig) -> str:
    names = metrics_of_kinds(label.kinds)
    level = name.removeprefix(base_of(name))
    having = [f"{one}{level}" for one, own in names.items() if f"{own}{level}" == name]
    if having:
        return f'"{name}" is a metric of {"one task" if len(having) == 1 else "several tasks"}; write {join_or(having)}'
    task, metric = split_task(name)
    if task in label.kinds and key_in_metrics(label.kinds[task], base_of(name)) in METRICS[label.kinds[task]]:
        return f"{task}: {_unsuitable_for(metric, label.parts[task])}"
    if task in label.kinds and any(key_in_metrics(kind, base_of(name)) in METRICS[kind] for kind in METRICS):
        own = METRICS[label.kinds[task]]
        return f'"{metric}" is not for {label.kinds[task]} labels, as {task} is one; for it: {join_or(own)}'
    return f'no metric "{name}"{did_you_mean(name, names)}; a task\'s name comes first, as in {next(iter(names))}'


def thresholds_can_be_met(evaluate: EvaluateConfig) -> Iterator[Violation]:
    for name, threshold in evaluate.thresholds.items():
        where: KeyPath = ("evaluate", "thresholds", name)
        yield from _range(name, threshold, where)
        for slicing, each in threshold.slices.items():
            of_slices: KeyPath = (*where, "slices", slicing)
            yield from _range(name, each, of_slices)
            if is_fraction(name) and each.max_gap is not None and each.max_gap >= 1:
                what = f"found {each.max_gap:g}, but no two values of {name} are further apart than 1"
                yield (*of_slices, "max_gap"), f"{what}{_of_percent(each.max_gap)}"


def _range(name: str, threshold: Threshold | SliceThreshold, where: KeyPath) -> Iterator[Violation]:
    """Bounds that the metric cannot reach."""
    own = base_of(name)
    low, range_ = (-1, "at most 1") if own in SIGNED else (0, "between 0 and 1")
    if (is_fraction(name) or own in SIGNED) and threshold.min is not None and threshold.min > 1:
        what = f"found {threshold.min:g}, but {name} is {range_}"
        yield (*where, "min"), f"{what}{_of_percent(threshold.min)}"
    if own != "r_squared" and threshold.max is not None and threshold.max < low:
        yield (*where, "max"), f"found {threshold.max:g}, but {name} is never below {low}, so no model could pass"


def _of_percent(value: float) -> str:
    return f"; did you mean {value / 100:g}?" if 1 < value <= 100 else ""


def thresholds_have_slices(evaluate: EvaluateConfig) -> Iterator[Violation]:
    for name, threshold in evaluate.thresholds.items():
        for slicing in threshold.slices:
            if slicing not in evaluate.slicings:
                known = did_you_mean_or_list(slicing, evaluate.slicings, "evaluate.slices has")
                what = f'there are no slices by "{slicing}"{known}'
                yield ("evaluate", "thresholds", name, "slices", slicing), what

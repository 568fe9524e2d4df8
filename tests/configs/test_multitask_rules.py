"""`label.kind: multitask`: what is accepted, what is refused and where, and what its parts are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from broken_rules.sections import complete
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import says
from pydantic import ValidationError

from headrace.common.errors import ConfigError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.metrics import METRICS
from headrace.configs.schema.tune import reported_metrics

TASKS = "tasks: {price: {kind: regression}, sold: {kind: binary}}"
LABEL = f"label: {{kind: multitask, {TASKS}}}"
NAMES = ["price", "sold", "grade", "a_b", "Größe", "1st", "", "x y"]
KINDS = st.sampled_from(["binary", "multiclass", "multilabel", "regression"])
CLASSES = st.none() | st.integers(2, 4) | st.lists(st.sampled_from(["a", "b", "c", 1, 2]), min_size=2, max_size=3)
SETTINGS = st.fixed_dictionaries(
    {"kind": KINDS},
    optional={
        "classes": CLASSES,
        "separator": st.none() | st.sampled_from(["|", "a"]),
        "missing": st.sampled_from(["refuse", "none", "mask"]),
        "loss_weight": st.sampled_from([0.1, 3]),
        "key": st.sampled_from(["price", "other", "third"]),
    },
)


def loaded(folder: Path, text: str) -> PipelineConfig:
    file = folder / "c.yaml"
    file.write_text(complete(text), encoding="utf-8")
    return load(file)


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    return [str(problem).removeprefix(f"{folder}/c.yaml:") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("label: {kind: multitask}", "1: label: two or more `tasks`"),
        (
            "label: {kind: multitask, tasks: {price: {kind: regression}}}",
            "1: label: found only price, ",
        ),
        (f"label: {{key: price, kind: multitask, {TASKS}}}", "1: label: `key` is not used"),
        (f"label: {{key: price, kind: binary, {TASKS}}}", "1: label: `tasks` is not used"),
        (f"label: {{kind: multitask, classes: 3, {TASKS}}}", "1: label: `classes` is not used"),
        (f"label: {{kind: multitask, missing: drop, {TASKS}}}", "1: label: set `missing: mask` in a task"),
        (f"label: {{kind: multitask, weight: sold, {TASKS}}}", "1: label: `weight` is the label itself, 'sold'"),
        ("label: {kind: binary}", "1: label.key: missing; required"),
        (
            "label: {kind: multitask, tasks: {price: {kind: regression}, said: {kind: next_word}}}",
            "1: label.tasks.said.kind: allowed: binary, multiclass, multilabel or regression",
        ),
        (
            "label: {kind: multitask, tasks: {price: {kind: regression}, sold: {kind: binary, loss_weight: 0}}}",
            "1: label.tasks.sold.loss_weight: above 0",
        ),
        (
            f"{LABEL}\nfeatures: {{sold: {{column: numeric}}}}",
            '2: features.sold: reads the label "sold"',
        ),
        (f"{LABEL}\nmodel: {{kind: trees}}", "2: model.kind: this one is multitask"),
        (
            f"{LABEL}\nmodel: {{kind: encoder_decoder}}\nfeatures: {{said: {{column: text}}}}",
            "2: model.kind: this label is multitask",
        ),
        (
            f"{LABEL}\ntrain: {{class_weight: balanced}}",
            "2: train.class_weight: has several sets of classes",
        ),
        (
            f"{LABEL}\nevaluate: {{thresholds: {{auc: {{min: 0.6}}}}}}",
            "2: evaluate.thresholds.auc: write sold/auc",
        ),
        (
            f"{LABEL}\nevaluate: {{metrics: [price/auc]}}",
            '2: evaluate.metrics[0]: "auc" is not for regression',
        ),
        (
            f"{LABEL}\nevaluate: {{metrics: [solt/auc]}}",
            '2: evaluate.metrics[0]: did you mean "sold/auc"',
        ),
        (
            f"{LABEL}\nevaluate: {{metrics: [sold/auc], thresholds: {{sold/f1: {{min: 0.1}}}}}}",
            '2: evaluate.thresholds.sold/f1: "sold/f1" is not in evaluate.metrics',
        ),
        (
            f"{LABEL}\nevaluate: {{thresholds: {{sold/auc: {{min: 80}}}}}}",
            "2: evaluate.thresholds.sold/auc.min: did you mean 0.8?",
        ),
    ],
)
def test_a_mistake_is_reported_at_its_line_and_alone(tmp_path: Path, text: str, reported: str) -> None:
    (found,) = mistakes(tmp_path, text)
    line, setting, key_words = reported.split(": ", 2)
    assert says(found, f"{line}: {setting}: …{key_words}")


def test_metrics_of_a_task_may_have_thresholds_if_none_of_its_metrics_is_named(tmp_path: Path) -> None:
    text = f"{LABEL}\nevaluate: {{metrics: [sold/auc], thresholds: {{price/r_squared: {{min: 0}}}}}}"
    evaluate = loaded(tmp_path, text).evaluate
    assert evaluate.of_task("sold").metrics == ("auc",)
    assert evaluate.of_task("price").metrics == ()
    assert [*evaluate.of_task("price").thresholds] == ["r_squared"]
    assert evaluate.of_task("") is evaluate


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), SETTINGS, max_size=4))
def test_tasks_are_accepted_if_each_could_be_the_only_label_of_a_column_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, tasks: dict[str, dict[str, Any]]
) -> None:
    text = (
        f"data: {{source: {{kind: jsonl, path: a.jsonl}}}}\nlabel: {json.dumps({'kind': 'multitask', 'tasks': tasks})}"
    )
    folder = tmp_path_factory.mktemp("tasks")
    columns = [one.get("key", name) for name, one in tasks.items()]
    good = (
        len(tasks) > 1
        and len({*columns}) == len(columns)
        and all(name.isascii() and name.isidentifier() for name in tasks)
        and all(stands_alone(one) for one in tasks.values())
    )
    if not good:
        assert mistakes(folder, text)
        return
    found = loaded(folder, text).label
    assert LabelConfig.model_validate_json(found.model_dump_json()) == found
    assert [*found.columns] == columns
    assert found.num_classes == sum(part.num_classes for part in found.parts.values())
    assert [part.optional for part in found.parts.values()] == [one.get("missing") == "mask" for one in tasks.values()]
    assert {name.partition("/")[0] for name in reported_metrics(found.kinds)} == {*tasks, "loss"}
    assert all(kind in METRICS for kind in found.kinds.values())


def stands_alone(task: dict[str, Any]) -> bool:
    """Whether the settings are valid for a label without tasks."""
    single = {name: value for name, value in task.items() if name not in {"key", "loss_weight"}}
    missing = {"mask": "drop"}.get(single.pop("missing", "refuse"), task.get("missing", "refuse"))
    try:
        LabelConfig.model_validate_json(json.dumps({"key": "y", "missing": missing, **single}))
    except ValidationError:
        return False
    return True


def test_how_rows_are_chosen_and_weighed_does_not_make_another_label() -> None:
    def label(**sold: Any) -> LabelConfig:
        tasks = {"price": {"kind": "regression"}, "sold": {"kind": "binary", **sold}}
        return LabelConfig.model_validate_json(json.dumps({"kind": "multitask", "tasks": tasks}))

    assert label(missing="mask", loss_weight=3).identity == label().identity
    assert label(classes=["no", "yes"]).identity != label().identity
    assert label(loss_weight=3).unweighted == label()


def test_a_single_label_is_written_as_before_there_were_tasks() -> None:
    label = LabelConfig(key="tip", kind="binary")
    assert [*json.loads(label.model_dump_json())] == [
        *("key", "kind", "classes", "separator", "missing", "weight", "text", "words")
    ]
    assert label.parts == {"": label}

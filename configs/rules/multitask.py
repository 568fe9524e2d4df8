"""The rules of `label.kind: multitask`, and what does not support several labels."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from headrace.configs.rules.features import TENSOR_NAME
from headrace.configs.rules.rule import Violation, named
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import ModelConfig, RunFnModel


def tasks_are_named(label: LabelConfig) -> Iterator[Violation]:
    """Outputs and columns of predictions begin with the name of their task."""
    names = [*(label.tasks or ())]
    for name in names:
        where = label.setting(name)
        if not (TENSOR_NAME.fullmatch(name) and name[0].isalpha()):
            what = f'found "{name}"; use letters, digits and _, starting with a letter'
            is_column = label.parts[name].key == name
            what = f'{what}, and name the column with `key: "{name}"`' if is_column else what
            yield where, named(what, "name", is_column)
        longer = [other for other in names if other.startswith(f"{name}_probability")]
        if longer:
            what = f"the probabilities of the classes of {name} are named so; choose another name, with `key:`"
            yield label.setting(longer[0]), what


def tasks_are_labels(label: LabelConfig) -> Iterator[Violation]:
    """Each task is a label as it could be the only one, of a column of its own."""
    taken: dict[str, str] = {}
    for name in label.tasks or ():
        part = label.parts[name]
        if part.key in taken:
            what = f'"{part.key}" is the label of {taken[part.key]} already; name another column, or remove one of them'
            yield label.setting(name), named(what, "twice", part.key)
        taken.setdefault(part.key, name)
        settings = {one: value for one, value in part if one != "weight" and value is not None}
        try:
            LabelConfig.model_validate(settings)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                yield label.setting(name), str(each.get("ctx", {}).get("error", each["msg"]))


def model_has_several_heads(model: ModelConfig, label: LabelConfig) -> Iterator[Violation]:
    """Other kinds have rules of their own for the label."""
    if label.tasks is not None and "tasks" not in model.takes and model.kind not in ("trees", "encoder_decoder"):
        what = f"`kind: {model.kind}` predicts one label, and `label.tasks` has {len(label.tasks)}"
        yield ("model", "kind"), f"{what}; use `kind: wide_and_deep` or `tabm`"


def run_fn_has_one_label(training: RunFnModel, label: LabelConfig) -> Iterator[Violation]:
    """A function for the features needs a run_fn too, so this applies to it as well."""
    if label.tasks is not None:
        what = f"the model of {training.run_fn} is called for one label; use one of our own models"
        yield ("label", "kind"), f"{what}, or set the kind of that label"


def tasks_are_not_converted(deploy: DeployConfig, label: LabelConfig) -> Iterator[Violation]:
    if deploy.lite is not None and label.tasks is not None:
        yield ("deploy", "lite"), "files for LiteRT are compared for one label, and this model has several; remove this"

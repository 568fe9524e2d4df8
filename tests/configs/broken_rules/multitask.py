"""Configs that break the rules of `label.kind: multitask`."""

from __future__ import annotations

from broken_rules.sections import FUNCTIONS, Broken

PRICE = "label: {kind: multitask, tasks: {price: {kind: regression}"
LABEL = f"{PRICE}, sold: {{kind: binary}}}}}}"
BROKEN: Broken = {
    "tasks_are_named": [
        (f'{PRICE}, "was sold": {{kind: binary}}}}}}', '1: label.tasks.was sold: with `key: "was sold"`'),
        (f"{PRICE}, _sold: {{kind: binary, key: s}}}}}}", "1: label.tasks._sold: starting with a letter"),
        (
            f"{PRICE}, price_probability_1: {{kind: binary}}}}}}",
            "1: label.tasks.price_probability_1: choose another name",
        ),
    ],
    "tasks_are_labels": [
        (f"{PRICE}, cheap: {{kind: binary, key: price}}}}}}", "1: label.tasks.cheap: the label of price already"),
        (f"{PRICE}, grade: {{kind: multiclass}}}}}}", "1: label.tasks.grade: requires `classes`"),
        (f"{PRICE}, sold: {{kind: binary, classes: 3}}}}}}", "1: label.tasks.sold: has two classes; found 3"),
        (f'{PRICE}, sold: {{kind: binary, separator: "|"}}}}}}', "1: label.tasks.sold: `kind: multilabel`"),
        (f"{PRICE}, sold: {{kind: binary, missing: none}}}}}}", "1: label.tasks.sold: is for multilabel"),
    ],
    "model_has_several_heads": [
        (f"model: {{kind: mine.build}}\n{LABEL}", "1: model.kind: use `kind: wide_and_deep` or `tabm`"),
    ],
    "run_fn_has_one_label": [(f"{FUNCTIONS}\n{LABEL}", "3: label.kind: the model of mine.run_fn is called for one")],
    "tasks_are_not_converted": [(f"deploy: {{lite: {{}}}}\n{LABEL}", "1: deploy.lite: remove this")],
}

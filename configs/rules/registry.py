"""All rules across sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.configs.rules import (
    beam,
    data,
    declared_types,
    deploy,
    encoder_decoder,
    features,
    gates,
    kubeflow,
    kubernetes,
    model,
    multitask,
    notify,
    predict,
    schedule,
    serving,
    tfx_functions,
    training,
    trees,
    tune,
)
from headrace.configs.rules.rule import Rule, Violation, apply_rules, rules_of

RULES = rules_of(
    data,
    features,
    declared_types,
    gates,
    model,
    tfx_functions,
    deploy,
    training,
    trees,
    encoder_decoder,
    multitask,
    tune,
    predict,
    beam,
    kubeflow,
    kubernetes,
    schedule,
    notify,
    serving,
)


def check(sections: Mapping[str, object], further: Sequence[Rule] = ()) -> list[Violation]:
    """The violations of all rules in the given sections, and of further ones.

    A rule that needs another section is skipped.
    """
    return apply_rules((*RULES, *further), tfx_functions.under_own_names(sections))

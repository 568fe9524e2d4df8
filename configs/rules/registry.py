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
from headrace.configs.rules.rule import Rule, Violation, apply_rules

RULES: tuple[Rule, ...] = (
    *data.RULES,
    *features.RULES,
    *declared_types.RULES,
    *gates.RULES,
    *model.RULES,
    *tfx_functions.RULES,
    *deploy.RULES,
    *training.RULES,
    *trees.RULES,
    *encoder_decoder.RULES,
    *multitask.RULES,
    *tune.RULES,
    *predict.RULES,
    *beam.RULES,
    *kubeflow.RULES,
    *kubernetes.RULES,
    *schedule.RULES,
    *notify.RULES,
    *serving.RULES,
)


def check(sections: Mapping[str, object], further: Sequence[Rule] = ()) -> list[Violation]:
    """The violations of all rules in the given sections, and of further ones.

    A rule that needs another section is skipped.
    """
    return apply_rules((*RULES, *further), tfx_functions.under_own_names(sections))

"""Configs that break the rules of `tune:`."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
    "objective_is_reported": [
        (
            "tune: {objective: acu, parameters: {model.dropout: {min: 0, max: 0.5}}}",
            '1: tune.objective: did you mean "auc"?',
        )
    ],
    "hyperband_has_rounds": [
        (
            "tune: {algorithm: hyperband, epochs: 2, parameters: {model.dropout: {min: 0, max: 0.5}}}",
            "1: tune.epochs: hyperband has no rounds with 2 epochs",
        ),
        (
            "tune: {algorithm: hyperband, parameters: {model.dropout: {min: 0, max: 0.5}}}\ntrain: {epochs: 1}",
            "1: tune.algorithm: hyperband has no rounds with 1 epoch",
        ),
    ],
    "trials_run_on_one_machine": [
        (
            "train: {strategy: multi_worker}\ntune: {parameters: {model.dropout: {min: 0, max: 0.5}}}",
            "1: train.strategy: search on one machine (`mirrored`, `one_gpu`, `cpu`, without `kubeflow.workers`)",
        )
    ],
    "parameters_are_settings": [
        (
            "tune: {parameters: {model.droput: {min: 0, max: 0.5}}}",
            '1: tune.parameters.model.droput: did you mean "model.dropout"?',
        )
    ],
}

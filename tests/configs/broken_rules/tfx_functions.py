"""Configs that break the rules of a TFX pipeline's own functions."""

from __future__ import annotations

from broken_rules.sections import FUNCTIONS, RUN_FN, SOURCE, Broken, features

BROKEN: Broken = {
    "our_models_need_feature_columns": [
        (
            "features: {function: mine.preprocessing_fn}",
            "1: features.function: set `model.run_fn`",
        )
    ],
    "float64_is_of_feature_columns": [
        (
            f"data: {{{SOURCE}, types: {{at: float64}}}}\nfeatures: {{function: mine.preprocessing_fn}}\n{RUN_FN}",
            "1: data.types.at: mine.preprocessing_fn gets what tf.Example holds, float32; declare float, or string",
        )
    ],
    "run_fn_reads_no_float64": [
        (
            f"data: {{{SOURCE}, types: {{at: float64}}}}\n{RUN_FN}\n" + features(at="numeric"),
            "1: data.types.at: that of mine.run_fn may not have them; declare float",
        )
    ],
    "run_fn_trains": [(f"train: {{epochs: 3}}\n{RUN_FN}", "1: train.epochs: has no effect")],
    "run_fn_is_not_tuned": [
        (
            f"tune: {{parameters: {{train.learning_rate: {{min: 0.1, max: 0.2}}}}}}\n{RUN_FN}",
            "1: tune: mine.run_fn",
        )
    ],
    "run_fn_has_one_worker": [
        (
            f"kubeflow: {{workers: {{count: 2}}}}\n{RUN_FN}",
            "1: kubeflow.workers: mine.run_fn",
        )
    ],
    "run_fn_predicts_no_word": [
        (
            f"label: {{key: tip, kind: next_word, text: words}}\n{features(words='text')}\n{RUN_FN}",
            "1: label.kind: mine.run_fn",
        )
    ],
    "run_fn_reads_records": [
        (
            f"transform: {{materialize: never}}\n{RUN_FN}",
            "1: transform.materialize: mine.run_fn",
        )
    ],
    "functions_columns_are_not_the_label": [
        (
            f"features: {{function: mine.preprocessing_fn, keys: [fare, tip]}}\n{RUN_FN}",
            "1: features.keys[1]: the label",
        )
    ],
    "drift_is_of_known_columns": [
        (
            f"schedule: {{every: 1d, retrain: drift}}\n{FUNCTIONS}",
            "1: schedule.retrain: features.keys",
        ),
        (
            "schedule: {every: 1d, drift: {columns: {fares: 0.1}}}\n"
            f"features: {{function: mine.preprocessing_fn, keys: [fare]}}\n{RUN_FN}",
            '1: schedule.drift.columns.fares: did you mean "fare"?',
        ),
    ],
    "used_columns_are_known": [(f"data: {{{SOURCE}, columns: used}}\n{FUNCTIONS}", "1: data.columns: features.keys")],
    "requests_have_known_columns": [
        (f"gates: {{skew: {{source: {{kind: jsonl, path: log.jsonl}}}}}}\n{FUNCTIONS}", "1: gates.skew: features.keys")
    ],
}

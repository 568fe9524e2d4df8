"""Configs that break the rules of `model:` and `evaluate:`."""

from __future__ import annotations

from broken_rules.sections import Broken, features

FOUR = "label: {key: tip, kind: multiclass, classes: 4}\n"
BROKEN: Broken = {
    "auto_searches_alone": [
        (
            "model: {kind: auto}\ntrain: {strategy: multi_worker}",
            "1: model.kind: put the kind that a search chose into the config, or train on one machine",
        ),
        ("model: {kind: auto}\ntrain: {warm_start: true}", "1: model.kind: those of one kind do not fit another"),
        ("model: {kind: auto}\ntrain: {profile: {}}", "1: model.kind: or remove `train.profile`"),
        (
            "model: {kind: auto}\ntune: {parameters: {model.dropout: {min: 0, max: 0.5}}}",
            "1: model.kind: `tune` would search within each trial",
        ),
    ],
    "evaluated_split_exists": [
        ("evaluate: {split: tset}", '1: evaluate.split: did you mean "test"?'),
        ("evaluate: {split: x}", '1: evaluate.split: no split "x"; data.splits has: train, eval, test'),
    ],
    "metrics_fit_the_label": [
        (
            "evaluate: {metrics: [auk]}",
            '1: evaluate.metrics[0]: did you mean "auc"?',
        ),
        ("evaluate: {metrics: [acc]}", '1: evaluate.metrics[0]: did you mean "binary_accuracy"?'),
        ("evaluate: {metrics: [macro]}\n" + FOUR, "1: evaluate.metrics[0]: weighted_auc"),
        (
            "evaluate: {metrics: [auc, accuracy]}",
            '1: evaluate.metrics[1]: did you mean "binary_accuracy"?',
        ),
        ("evaluate: {metrics: [auc, auc]}", "1: evaluate.metrics[1]: twice; remove one"),
        ("evaluate: {metrics: [precision@0.3, precision@0.3]}", "1: evaluate.metrics[1]: twice; remove one"),
        ("evaluate: {metrics: [precision@0.30]}", "1: evaluate.metrics[0]: shortest form; write it as `precision@0.3`"),
        ("evaluate: {metrics: [recall@30]}", "1: evaluate.metrics[0]: not a number above 0 and below 1"),
        ("evaluate: {metrics: [auc@0.3]}", "1: evaluate.metrics[0]: depends on no decision threshold; write `auc`"),
        ("evaluate: {metrics: [precison@0.3]}", '1: evaluate.metrics[0]: did you mean "precision"?'),
        ("evaluate: {metrics: [macro_f1@0.3]}", "1: evaluate.metrics[0]: this label is binary"),
        (
            "evaluate: {metrics: [precision_at_recall]}",
            "1: evaluate.metrics[0]: as `precision_at_recall@0.9`; there is none",
        ),
        (
            "evaluate: {metrics: [recall_at_precision@90]}",
            '1: evaluate.metrics[0]: as `recall_at_precision@0.9`; "90" is not one',
        ),
        (f"{FOUR}evaluate: {{metrics: [top_1_accuracy]}}", "2: evaluate.metrics[0]: classes; K = 1 is `accuracy`"),
        (
            f"{FOUR}evaluate: {{metrics: [top_0_accuracy]}}",
            '2: evaluate.metrics[0]: "0", but must be an integer',
        ),
        (f"{FOUR}evaluate: {{metrics: [accuracy, top_4_accuracy]}}", "2: evaluate.metrics[1]: the label has 4 classes"),
        (
            f"{FOUR}evaluate: {{metrics: [top_K_accuracy]}}",
            "2: evaluate.metrics[0]: must be an integer from 2 to 3",
        ),
        (f"{FOUR}evaluate: {{metrics: [top_02_accuracy]}}", '2: evaluate.metrics[0]: "02", but must be an integer'),
        (f"{FOUR}evaluate: {{metrics: [top_2_accuracy@0.3]}}", "2: evaluate.metrics[0]: write `top_2_accuracy`"),
        (
            "evaluate: {metrics: [top_3_accuracy]}",
            "1: evaluate.metrics[0]: is for multiclass labels",
        ),
        (
            "label: {key: tip, kind: multiclass, classes: 2}\nevaluate: {metrics: [top_2_accuracy]}",
            "2: evaluate.metrics[0]: at least 3 classes, and this one has 2; use `accuracy`",
        ),
    ],
    "thresholds_have_metrics": [
        (
            f"{FOUR}evaluate: {{thresholds: {{top_9_accuracy: {{min: 0.5}}}}}}",
            "2: evaluate.thresholds.top_9_accuracy: the label has 4 classes",
        ),
        (
            f"{FOUR}evaluate: {{metrics: [top_2_accuracy], thresholds: {{top_3_accuracy: {{min: 0.5}}}}}}",
            "2: evaluate.thresholds.top_3_accuracy: not in evaluate.metrics",
        ),
        (
            "evaluate: {metrics: [auc], thresholds: {recall: {min: 0.5}}}",
            "1: evaluate.thresholds.recall: or remove the threshold",
        ),
        (
            "evaluate: {thresholds: {squared_correlation: {min: 0.5}}}",
            "1: evaluate.thresholds.squared_correlation: this label is binary",
        ),
        (
            "evaluate: {metrics: [precision@0.3], thresholds: {precision@0.4: {min: 0.5}}}",
            "1: evaluate.thresholds.precision@0.4: not in evaluate.metrics",
        ),
    ],
    "one_vs_rest_has_few_classes": [
        (
            "label: {key: big_tipper, kind: multiclass, classes: 1001}\nevaluate: {metrics: [accuracy, macro_auc]}",
            "2: evaluate.metrics[1]: at most 1,000 classes, and this label has 1,001",
        ),
        (
            "label: {key: tip, kind: multiclass, classes: 1001}\nevaluate: {thresholds: {weighted_auc: {min: 0.6}}}",
            "2: evaluate.thresholds.weighted_auc: use `macro_f1` instead",
        ),
    ],
    "thresholds_can_be_met": [
        (
            "evaluate: {thresholds: {auc: {min: 85}}}",
            "1: evaluate.thresholds.auc.min: did you mean 0.85?",
        ),
        (
            "evaluate: {thresholds: {recall@0.2: {min: 85}}}",
            "1: evaluate.thresholds.recall@0.2.min: did you mean 0.85?",
        ),
        (
            f"{FOUR}evaluate: {{thresholds: {{top_3_accuracy: {{min: 85}}}}}}",
            "2: evaluate.thresholds.top_3_accuracy.min: did you mean 0.85?",
        ),
        (
            "evaluate: {thresholds: {binary_crossentropy: {max: -1}}}",
            "1: evaluate.thresholds.binary_crossentropy.max: found -1",
        ),
    ],
    "thresholds_have_slices": [
        (
            "evaluate: {slices: [hour], thresholds: {auc: {slices: {huor: {min: 0.5}}}}}",
            '1: evaluate.thresholds.auc.slices.huor: did you mean "hour"?',
        ),
        (
            "evaluate: {slices: [hour, [hour, area]], thresholds: {auc: {slices: {x: {min: 0.5}}}}}",
            '1: evaluate.thresholds.auc.slices.x: no slices by "x"; evaluate.slices has: "hour", "hour, area"',
        ),
    ],
    "activation_is_known": [("model: {activation: reul}", '1: model.activation: did you mean "relu"?')],
    "deep_part_has_features": [
        (
            "model: {kind: dnn}\n" + features(area="hashed, hash_buckets: 9, deep: false"),
            "1: model.kind: `deep: false`; set `deep: true`",
        )
    ],
    "images_are_used": [
        (
            features(photo="image, height: 8, width: 8"),
            "2: features.photo.column: images; use `model: {kind: image}`, or a builder of your own",
        ),
        (
            "model: {kind: image}",
            "1: model.kind: a feature with `column: image`; add one, or use another kind",
        ),
    ],
    "text_model_has_a_text": [
        (
            "model: {kind: text}",
            "1: model.kind: a feature with `column: text`; add one, or use another kind",
        ),
        (
            "model: {kind: text, text: sad}\n" + features(said="text"),
            '1: model.text: did you mean "said"?',
        ),
        (
            "model: {kind: text}\n" + features(said="text", title="text"),
            "1: model.kind: said or title",
        ),
        (
            "label: {key: tip, kind: next_word, text: said}\n" + features(said="text"),
            "1: model.kind: `kind: text`; found table",
        ),
    ],
}

"""Configs that break the rules of `model.kind: trees`."""

from __future__ import annotations

from broken_rules.sections import Broken, features

TREES = "model: {kind: trees}"
TAGS = features(tags='hashed, hash_buckets: 9, multivalued: true, separator: "|"')
BROKEN: Broken = {
    "trees_have_a_label": [
        (
            f"{TREES}\nlabel: {{key: tip, kind: multilabel, separator: '|', classes: [a, b]}}",
            "1: model.kind: this one is multilabel; use `kind: wide_and_deep`",
        ),
    ],
    "trees_have_single_values": [
        (f"{TREES}\n{features(words='text')}", "3: features.words.column: not the words of a text"),
        (
            f"{TREES}\n{features(words='text_embedding, saved_model: /models/swivel')}",
            "3: features.words.column: not the words of a text",
        ),
        (
            f"{TREES}\n{TAGS}",
            "3: features.tags.multivalued: one category per example",
        ),
    ],
    "trees_have_no_layers": [
        ("model: {kind: trees, hidden: [8]}", "1: model.hidden: `hidden` does nothing; remove it"),
        ("model: {kind: trees, embedding: one_hot}", "1: model.embedding: `embedding` does nothing; remove it"),
    ],
    "trees_have_no_steps": [
        (f"{TREES}\ntrain: {{epochs: 5}}", "2: train.epochs: set `model.iterations` instead"),
        (f"{TREES}\ntrain: {{learning_rate: 0.1}}", "2: train.learning_rate: set `model.learning_rate` instead"),
        (f"{TREES}\ntrain: {{optimizer: sgd}}", "2: train.optimizer: remove it"),
        (f"{TREES}\ntrain: {{batch_size: 32}}", "2: train.batch_size: remove it"),
        (f"{TREES}\ntrain: {{precision: mixed_bfloat16}}", "2: train.precision: remove it"),
        (f"{TREES}\ntrain: {{warm_start: true}}", "2: train.warm_start: remove it"),
        (f"{TREES}\ntrain: {{input: {{shuffle: 0}}}}", "2: train.input.shuffle: remove it"),
        (f"{TREES}\ntrain: {{strategy: mirrored}}", "2: train.strategy: use `auto` or `cpu`"),
        (f"{TREES}\ntrain: {{checkpoint: {{every_steps: 10}}}}", "2: train.checkpoint.every_steps: every minute"),
    ],
    "trees_are_not_tuned": [
        (
            f"{TREES}\ntune: {{parameters: {{model.learning_rate: {{min: 0.01, max: 0.5}}}}}}",
            "2: tune: `model.kind: trees` has none; remove `tune`",
        ),
    ],
}

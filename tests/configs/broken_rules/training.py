"""Configs that break the rules of `train:`."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
    "optimizer_is_known": [
        ("train: {optimizer: adm}", '1: train.optimizer: did you mean "adam"?'),
        (
            "train: {optimizer: {kind: sdg}}",
            '1: train.optimizer.kind: did you mean "sgd"?',
        ),
        (
            "train: {optimizer: mine..Slow}",
            "1: train.optimizer: such as my_package.my_module.MyOptimizer",
        ),
    ],
    "optimizer_takes_its_arguments": [
        (
            "train: {optimizer: {kind: sgd, momentumm: 0.5}}",
            '1: train.optimizer.momentumm: did you mean "momentum"?',
        ),
        (
            "train: {optimizer: {kind: adam, beta_1: high}}",
            '1: train.optimizer.beta_1: found "high"; allowed',
        ),
        (
            "train: {optimizer: {kind: muon, ns_steps: 2.5}}",
            "1: train.optimizer.ns_steps: found 2.5; allowed",
        ),
        (
            "train: {optimizer: {kind: mine.Slow, clipnorm: 1}}",
            "1: train.optimizer.clipnorm: this is set by train.clip.norm; move it there",
        ),
    ],
    "averages_count_optimizer_steps": [
        (
            "train: {gradient_accumulation: 2, optimizer: {kind: adam, use_ema: true}}",
            "1: train.optimizer.use_ema: with train.gradient_accumulation; remove one of them",
        )
    ],
    "rows_can_be_updated": [
        ("train: {embedding_updates: rows, optimizer: lion}", "1: train.embedding_updates: lion has no update by rows"),
        (
            "train: {embedding_updates: rows, optimizer: {kind: adam, amsgrad: true}}",
            "1: train.embedding_updates: `amsgrad`",
        ),
        (
            "train: {embedding_updates: rows, gradient_accumulation: 2}",
            "1: train.embedding_updates: remove gradient_accumulation",
        ),
        ("train: {embedding_updates: rows, jit: on}", "1: train.embedding_updates: XLA"),
        ("train: {embedding_updates: rows, strategy: mirrored}", "1: train.embedding_updates: `strategy: one_gpu`"),
    ],
    "schedule_has_an_end": [
        (
            "train: {input: {cache: none}, learning_rate: {schedule: cosine, initial: 0.1}}",
            "1: train.learning_rate: decay_steps, or train.steps_per_epoch",
        )
    ],
    "coordinated_reads_are_unsharded": [
        (
            "train: {input: {service: {address: 'grpc://a:1', coordinated: true}}}",
            "1: train.input.service.coordinated: `sharding: off`",
        )
    ],
    "unsharded_reads_are_endless": [
        (
            "train: {input: {service: {address: 'grpc://a:1', sharding: off}}}",
            "1: train.input.service.sharding: `train.steps_per_epoch`; or use `dynamic`",
        ),
        (
            "train: {steps_per_epoch: 64, input: {snapshot: a, service: {address: 'grpc://a:1', sharding: off}}}",
            "1: train.input.service.sharding: train.input.snapshot stores one pass; remove one of them",
        ),
        (
            "train: {steps_per_epoch: 64, input: {cache: disk, service: {address: 'grpc://a:1', sharding: off}}}",
            "1: train.input.service.sharding: `cache: disk`",
        ),
    ],
    "strategy_fits_the_settings": [
        (
            "train: {strategy: mirrored, jit: true}",
            "1: train.jit: not for `strategy: mirrored`; use `auto`, or `strategy: one_gpu`",
        )
    ],
    "class_weights_are_of_classes": [
        ("train: {class_weight: {0: 1, 2: 5}}", '1: train.class_weight.2: "2" is not a class of the label'),
        (
            "label: {key: tip, kind: multiclass, classes: [low, high]}\ntrain: {class_weight: {hgh: 2}}",
            '2: train.class_weight.hgh: did you mean "high"?',
        ),
        ("train: {class_weight: {0: 0, 1: 0}}", "1: train.class_weight: set at least one above 0"),
        (
            "label: {key: tip, kind: regression}\ntrain: {class_weight: balanced}",
            "2: train.class_weight: a regression label has no classes to weigh",
        ),
    ],
    "weights_are_measured_over_all_files": [
        (
            "train: {strategy: multi_worker, steps_per_epoch: 9, input: {own_shards: true}}\n"
            "label: {key: tip, kind: binary, weight: w}",
            "2: label.weight: train.input.own_shards",
        ),
        (
            "train: {strategy: multi_worker, steps_per_epoch: 9, input: {own_shards: true}, class_weight: balanced}",
            "1: train.class_weight: set a number for each class",
        ),
    ],
    "own_shards_require_workers": [
        (
            "train: {strategy: multi_worker, input: {own_shards: true}}",
            "1: train.input.own_shards: set `train.steps_per_epoch`",
        ),
        (
            "train: {input: {own_shards: true}, steps_per_epoch: 9}",
            "1: train.input.own_shards: share files, not `auto`; remove it",
        ),
    ],
    "executions_divide_an_epoch": [
        (
            "train: {steps_per_execution: 7, steps_per_epoch: 64}",
            "1: train.steps_per_execution: train.steps_per_epoch",
        )
    ],
}

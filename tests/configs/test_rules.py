"""The rules across sections, each with a config that breaks it alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load
from headrace.configs.rules import registry

SECTIONS = {
    "pipeline": "pipeline: {name: taxi}",
    "data": "data: {source: {kind: csv, path: a.csv}}",
    "label": "label: {key: tip, kind: binary}",
    "features": "features: {fare: {column: numeric}}",
}
SOURCE = "source: {kind: csv, path: a.csv}"
RUN_FN = "model: {run_fn: mine.run_fn, train_steps: 9, eval_steps: 2}"
FUNCTIONS = f"features: {{function: mine.preprocessing_fn}}\n{RUN_FN}"


def config(folder: Path, text: str) -> Path:
    file = folder / "c.yaml"
    rest = [
        section for name, section in SECTIONS.items() if not any(line.startswith(name) for line in text.split("\n"))
    ]
    file.write_text("\n".join([text, *rest]) + "\n")
    return file


def features(**kinds: str) -> str:
    return "features:\n" + "\n".join(f"  {name}: {{column: {settings}}}" for name, settings in kinds.items())


BROKEN = {
    "folders_are_not_uris": [
        (
            "deploy: {push: 's3://models/{name}'}",
            "1: deploy.push: s3://models/{name} is a URI",
        ),
        (
            "pipeline: {name: taxi, root: gs://runs}",
            "1: pipeline.root: a folder, which on Kubeflow",
        ),
    ],
    "splits_include_train_and_eval": [
        (
            f"data: {{{SOURCE}, splits: {{train: 8, evl: 1}}}}",
            '1: data.splits: did you mean "evl"?',
        )
    ],
    "split_names_are_valid": [
        (
            f"data: {{{SOURCE}, splits: {{train: 8, eval: 1, a/b: 1}}}}",
            '1: data.splits.a/b: "a/b" becomes part of a folder',
        )
    ],
    "evaluated_split_exists": [
        ("evaluate: {split: tset}", '1: evaluate.split: did you mean "test"?'),
        ("evaluate: {split: x}", '1: evaluate.split: no split "x"; data.splits has: train, eval, test'),
    ],
    "types_fit_delimited_text": [
        (
            f"data: {{{SOURCE}, types: {{tags: int list}}}}",
            "1: data.types.tags: CSV, where a field holds one text",
        ),
        (
            f"data: {{{SOURCE}, types: {{picture: bytes}}}}",
            "1: data.types.picture: CSV, where a field holds one text",
        ),
    ],
    "bad_records_can_be_skipped": [
        (
            f"data: {{source: {source}, on_bad_record: skip}}",
            f"1: data.on_bad_record: {kind}",
        )
        for kind, source in {
            "sql": "{kind: sql, url: 'sqlite:////a.db', table: t}",
            "bigquery": "{kind: bigquery, project: p, table: d.t}",
        }.items()
    ],
    "metrics_fit_the_label": [
        (
            "evaluate: {metrics: [auk]}",
            '1: evaluate.metrics[0]: did you mean "auc"?',
        ),
        (
            "evaluate: {metrics: [auc, accuracy]}",
            '1: evaluate.metrics[1]: did you mean "binary_accuracy"?',
        ),
        ("evaluate: {metrics: [auc, auc]}", "1: evaluate.metrics[1]: twice; remove one"),
    ],
    "thresholds_have_metrics": [
        (
            "evaluate: {metrics: [auc], thresholds: {recall: {min: 0.5}}}",
            "1: evaluate.thresholds.recall: or remove the threshold",
        ),
        (
            "evaluate: {thresholds: {squared_correlation: {min: 0.5}}}",
            "1: evaluate.thresholds.squared_correlation: this label is binary",
        ),
    ],
    "thresholds_can_be_met": [
        (
            "evaluate: {thresholds: {auc: {min: 85}}}",
            "1: evaluate.thresholds.auc.min: did you mean 0.85?",
        ),
        (
            "evaluate: {thresholds: {binary_crossentropy: {max: -1}}}",
            "1: evaluate.thresholds.binary_crossentropy.max: found -1",
        ),
    ],
    "names_are_tensor_names": [
        (
            'features:\n  "Trip Miles": {column: numeric}',
            '2: features.Trip Miles: trip_miles, with `key: "Trip Miles"` for the column',
        ),
        (
            "features:\n  2nd: {column: numeric, key: second}",
            "2: features.2nd: letters, digits and _",
        ),
    ],
    "names_differ_from_label": [
        (
            features(tip="numeric, key: fare"),
            '2: features.tip: "tip" is the',
        )
    ],
    "features_do_not_read_label": [
        (
            features(tip="numeric"),
            "2: features.tip: the answer; remove the feature",
        ),
        (
            features(a="numeric, key: tip"),
            "2: features.a.key: the answer; remove the feature",
        ),
        (
            features(a="'crossed', keys: [b, tip], hash_buckets: 9"),
            "2: features.a.keys[1]: the answer; remove it from keys",
        ),
    ],
    "crosses_are_of_categories": [
        (
            features(fare="numeric", a="crossed, keys: [b, fare], hash_buckets: 9"),
            "3: features.a.keys[1]: fare_bucket: {column: bucketized, key: fare, buckets: 10}",
        ),
        (
            "model: {kind: image}\n"
            + features(photo="image, height: 8, width: 8", a="crossed, keys: [b, photo], hash_buckets: 9"),
            "4: features.a.keys[1]: a cross takes categories; remove it from keys",
        ),
        (
            features(a="crossed, keys: [a, b], hash_buckets: 9"),
            '2: features.a.keys[0]: "a" crosses itself; give the cross a name that is',
        ),
        (
            features(a="crossed, keys: [c, d], hash_buckets: 9", b="crossed, keys: [a, e], hash_buckets: 9"),
            '3: features.b.keys[0]: "a" is a cross',
        ),
        (
            features(a="custom, function: my.f, keys: [c]", b="crossed, keys: [a, e], hash_buckets: 9"),
            "3: features.b.keys[0]: a cross takes categories; set its num_categories",
        ),
    ],
    "crosses_have_different_keys": [
        (
            features(a="crossed, keys: [b, c, b], hash_buckets: 9"),
            "2: features.a.keys[2]: twice; remove one",
        )
    ],
    "crossed_columns_are_not_float": [
        (
            f"data: {{{SOURCE}, types: {{lat: float}}}}\n" + features(a="crossed, keys: [lat, b], hash_buckets: 9"),
            "3: features.a.keys[0]: lat_bucket: {column: bucketized, key: lat, buckets: 10}",
        )
    ],
    "declared_types_fit_features": [
        (
            f"data: {{{SOURCE}, types: {{fare: string}}}}\n" + features(fare="numeric"),
            "3: features.fare.column: numeric takes int or float",
        ),
        (
            f"data: {{{SOURCE}, types: {{lat: float}}}}\n" + features(a="hashed, key: lat, hash_buckets: 9"),
            "3: features.a.column: hashed takes int or string",
        ),
    ],
    "declared_type_fits_label": [
        (
            f"data: {{{SOURCE}, types: {{tip: string}}}}",
            "1: data.types.tip: its column is declared string; declare int, or list its values in label.classes",
        ),
        (
            f"data: {{{SOURCE}, types: {{tip: string}}}}\nlabel: {{key: tip, kind: regression}}",
            "1: data.types.tip: is a number; found string; declare int or float",
        ),
    ],
    "next_word_follows_a_text": [
        (
            "label: {key: tip, kind: next_word, text: fare}\nmodel: {kind: text}\n"
            + features(fare="numeric", story="text"),
            "1: label.text: feature with `column: text`",
        ),
        (
            "label: {key: tip, kind: next_word, text: sayd}\nmodel: {kind: text}\n" + features(said="text"),
            '1: label.text: did you mean "said"?',
        ),
        (
            "label: {key: tip, kind: next_word, text: said}\nmodel: {kind: text}\n"
            + features(said="text, hash_buckets: 9"),
            '1: label.text: "said" hashes its words',
        ),
        (
            "label: {key: tip, kind: next_word, text: said}\nmodel: {kind: text}\n"
            + features(said="text, max_tokens: 9"),
            "4: features.said.max_tokens: of a longer text",
        ),
    ],
    "crossed_features_have_one_value": [
        (
            features(
                tags='hashed, hash_buckets: 9, multivalued: true, separator: ","',
                pair="crossed, keys: [tags, b], hash_buckets: 9",
            ),
            "3: features.pair.keys[0]: a cross takes one of each key; cross a feature",
        ),
    ],
    "compiled_features_have_one_shape": [
        (
            features(tags='hashed, hash_buckets: 9, multivalued: true, separator: ","') + "\ntrain: {jit: on}",
            "3: train.jit: XLA cannot compile",
        ),
        (
            features(long="text, max_tokens: 9", short="text, max_tokens: 9, padded: true") + "\ntrain: {jit: true}",
            "4: train.jit: use `auto`, or set features.long.padded, with max_tokens",
        ),
    ],
    "delimited_text_is_separated": [
        (
            features(tags="vocabulary, multivalued: true"),
            '2: features.tags.multivalued: `separator: "|"`, or remove',
        ),
        (
            features(tags="identity, num_buckets: 9, multivalued: true"),
            '2: features.tags.multivalued: use a vocabulary or hashed feature with `separator: "|"`, or remove',
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
            "1: model.kind: `kind: text`; found wide_and_deep",
        ),
    ],
    "placeholders_are_valid": [
        (
            "data: {source: {kind: csv, path: 'a-{DAY}.csv'}}",
            "1: data.source.path: are {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}",
        ),
        (
            "data:\n  source:\n    kind: csv\n    path: ['a/{SPAN}.csv', 'b/{SPAN}-{MM}.csv']",
            "4: data.source.path[1]: has both {SPAN} and a date",
        ),
        ("data: {source: {kind: csv, path: '{YYYY}-{MM}.csv'}}", "1: data.source.path: the date lacks {DD}"),
        (
            "data: {source: {kind: csv, path: 'v{VERSION}.csv'}}",
            "1: data.source.path: {VERSION} is the version of a span",
        ),
    ],
    "paths_have_the_same_placeholders": [
        (
            "data: {source: {kind: csv, path: ['a/{SPAN}.csv', b.csv]}}",
            "1: data.source.path[1]: the first path has {SPAN}",
        )
    ],
    "window_requires_spans": [
        (
            f"data: {{{SOURCE}, window: 7}}",
            "1: data.window: {SPAN}, or {YYYY}, {MM} and {DD}",
        ),
        (
            "data: {source: {kind: sql, url: 'sqlite:///a', table: a}, window: all}",
            "1: data.window: spans, and this source is sql; remove",
        ),
        (
            f"data: {{{SOURCE}, spans: 3}}",
            "1: data.spans: {SPAN}, or {YYYY}, {MM} and {DD}",
        ),
    ],
    "selected_spans_are_valid": [
        (
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}, spans: '2026-02-30'}",
            "1: data.spans: 2026-02-30 is",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, spans: '2026-02-03'}",
            "1: data.spans: 2026-02-03 is a date",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, spans: [3, 1]}",
            "1: data.spans: the range starts with 3, after its end, 1",
        ),
    ],
    "run_date_requires_dated_spans": [
        (
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}, run_date: '2026-02-30'}",
            "1: data.run_date: 2026-02-30 is",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, run_date: '2026-02-03'}",
            "1: data.run_date: its spans by {SPAN}, so",
        ),
    ],
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
            "1: train.strategy: search on one machine (`mirrored`, `one_gpu`, `cpu`)",
        )
    ],
    "parameters_are_settings": [
        (
            "tune: {parameters: {model.droput: {min: 0, max: 0.5}}}",
            '1: tune.parameters.model.droput: did you mean "model.dropout"?',
        )
    ],
    "options_are_known": [
        (
            "beam: {options: {experimants: [a]}}",
            '1: beam.options.experimants: did you mean "experiments"?',
        ),
        (
            "beam: {options: {--experiments: [a]}}",
            "1: beam.options.--experiments: without dashes: experiments",
        ),
        (
            "beam: {runner: portable, options: {job_endpoint: a, environment_type: LOOPBACK, environmnt_config: a}}",
            '1: beam.options.environmnt_config: did you mean "environment_config"?',
        ),
    ],
    "options_have_values_that_fit": [
        (
            "beam: {runner: flink, options: {flink_master: '[local]', job_server_timeout: soon}}",
            '1: beam.options.job_server_timeout: found "soon"; allowed',
        ),
        ("beam: {options: {no_auth: 1}}", "1: beam.options.no_auth: found 1; allowed: true or false"),
    ],
    "options_are_not_set_elsewhere": [
        (
            "beam: {options: {direct_num_workers: 2}}",
            "1: beam.options.direct_num_workers: this is set by beam.workers; move it there",
        ),
        (
            "beam: {options: {temp_location: /tmp}}",
            "1: beam.options.temp_location: in the run's own folder; remove it",
        ),
    ],
    "options_are_for_the_runner": [
        (
            "beam: {options: {job_endpoint: 'jobs:8099'}}",
            "1: beam.options.job_endpoint: the runner is auto; change the runner, or remove the option",
        ),
    ],
    "options_hold_no_credential": [
        (
            "beam: {options: {s3_secret_access_key: abc}}",
            "1: beam.options.s3_secret_access_key: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        (
            "beam: {options: {s3_endpoint_url: 'http://me:hunter2@store'}}",
            "1: beam.options.s3_endpoint_url: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
    ],
    "runner_knows_where_to_go": [
        (
            "beam: {runner: flink}",
            "1: beam.options: or job_endpoint: HOST:8099",
        ),
        (
            "beam: {runner: dataflow, options: {project: p, temp_location: 'gs://b/t'}}",
            "1: beam.options: region: such as europe-west1",
        ),
        (
            "beam: {runner: dataflow, options: {project: p, region: r, temp_location: /tmp}}",
            '1: beam.options.temp_location: found "/tmp"; allowed: a folder of Cloud Storage, such as gs://bucket/tmp',
        ),
        (
            "beam: {runner: spark, options: {spark_master_url: local, spark_submit_uber_jar: true}}",
            "1: beam.options: spark_rest_url: http://HOST:6066",
        ),
    ],
    "workers_have_the_code": [
        (
            "beam: {runner: flink, options: {flink_master: 'flink:8081'}}",
            "1: beam.options: EXTERNAL (environment_config: HOST:PORT of a pool of workers)",
        ),
        (
            "beam: {runner: portable, options: {job_endpoint: 'jobs:8099', environment_type: EXTERNALLY}}",
            '1: beam.options.environment_type: did you mean "EXTERNAL"?',
        ),
        (
            "beam: {runner: portable, options: {job_endpoint: 'jobs:8099', environment_type: process}}",
            '1: beam.options.environment_type: environment_config: {"command": "..."} as JSON, the',
        ),
    ],
    "workers_are_the_runners": [
        (
            "beam: {runner: spark, workers: 2, options: {spark_master_url: local}}",
            "1: beam.workers: `runner: spark`",
        ),
        (
            "beam: {direct_running_mode: in_memory, workers: 2}",
            "1: beam.direct_running_mode: beam.workers is 2; use multi_threading or multi_processing",
        ),
        (
            "beam: {runner: spark, direct_running_mode: in_memory, options: {spark_master_url: local}}",
            "1: beam.direct_running_mode: only auto and direct run workers on this machine",
        ),
    ],
    "components_are_known": [
        (
            "kubeflow: {components: {Trainor: {cpu: 1}}}",
            '1: kubeflow.components.Trainor: did you mean "Trainer"?',
        )
    ],
    "reference_has_a_volume": [
        (
            "kubeflow: {storage: reference}",
            "1: kubeflow.storage: kubeflow.volume: {claim: NAME}",
        ),
        (
            "kubeflow: {volume: {claim: a}}",
            "1: kubeflow.volume: kubeflow.defaults.volumes",
        ),
    ],
    "env_contains_no_secret": [
        (
            "kubeflow: {defaults: {env: {DB_PASSWORD: x}}}",
            "1: kubeflow.defaults.env.DB_PASSWORD: DB_PASSWORD looks like a credential; put it into a Secret",
        )
    ],
    "secrets_have_a_use": [
        (
            "kubeflow: {components: {Trainer: {secrets: [{name: a}]}}}",
            "1: kubeflow.components.Trainer.secrets[0]: `env: {VARIABLE: key}`, or `path:` for files",
        )
    ],
    "mounts_do_not_hide_kubeflow": [
        (
            "kubeflow: {defaults: {volumes: [{claim: a, path: /minio}]}}",
            "1: kubeflow.defaults.volumes[0].path: Kubeflow mounts a folder",
        ),
        *(
            (
                f"kubeflow: {{storage: reference, volume: {{claim: a, path: {path}}}}}",
                f"1: kubeflow.volume.path: {path}",
            )
            for path in ("/minio", "//minio", "/minio/.", "/x/../minio/")
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, path: //}]}}",
            "1: kubeflow.defaults.secrets[0].path: container; choose a folder in it",
        ),
        (
            "kubeflow: {defaults: {volumes: [{claim: kfp-launcher, path: /x}]}}",
            "1: kubeflow.defaults.volumes[0].claim: choose another name",
        ),
        (
            "kubeflow: {storage: reference, volume: {claim: headrace-shared-memory}}",
            "1: kubeflow.volume.claim: headrace-shared-memory",
        ),
    ],
    "sub_paths_are_inside": [
        (
            f"kubeflow: {{defaults: {{volumes: [{{claim: a, path: /x, sub_path: {path}}}]}}}}",
            f"1: kubeflow.defaults.volumes[0].sub_path: {path}",
        )
        for path in ("../y", "a/../../y", "/y")
    ],
    "tolerations_are_complete": [
        (
            "kubeflow: {defaults: {tolerations: [{key: a, operator: Exists, value: b}]}}",
            "1: kubeflow.defaults.tolerations[0]: `operator: Exists` takes no value; remove it, or use `Equal`",
        ),
        (
            "kubeflow: {defaults: {tolerations: [{value: b}]}}",
            "1: kubeflow.defaults.tolerations[0]: it, or use `Exists`",
        ),
        (
            "kubeflow: {defaults: {tolerations: [{key: a, seconds: 5}]}}",
            "1: kubeflow.defaults.tolerations[0]: `effect: NoExecute`",
        ),
    ],
    "root_is_explicit": [
        (
            "kubeflow: {defaults: {security: {user: 0}}}",
            "1: kubeflow.defaults.security.user: Kubernetes would refuse to start user 0",
        )
    ],
    "times_are_in_range": [
        (
            "kubeflow: {defaults: {timeout: 9999999999d}}",
            "1: kubeflow.defaults.timeout: 9999999999d is",
        ),
        (
            "kubeflow: {components: {Trainer: {retries: {count: 2, at_most: 366d}}}}",
            "1: kubeflow.components.Trainer.retries.at_most: than the",
        ),
        (
            "kubeflow: {defaults: {retries: {count: 2, wait: 2h, at_most: 1h}}}",
            "1: kubeflow.defaults.retries.wait: a wait of 2h",
        ),
    ],
    "workers_train_together": [
        (
            "kubeflow: {workers: {count: 2}}",
            "1: kubeflow.workers: `train.strategy: multi_worker`",
        )
    ],
    "names_are_valid": [
        (
            "kubeflow: {defaults: {volumes: [{claim: My_Claim, path: /x}]}}",
            "1: kubeflow.defaults.volumes[0].claim: lower-case letters, digits and",
        ),
        (
            "kubeflow: {defaults: {image_pull_secrets: [a_b]}}",
            "1: kubeflow.defaults.image_pull_secrets[0]: lower-case letters, digits, dashes and dots",
        ),
    ],
    "images_are_valid": [
        (
            "kubeflow: {image: 'https://registry.example/headrace:1'}",
            '1: kubeflow.image: "https://registry.example/headrace:1" is',
        ),
        (
            "kubeflow: {components: {Trainer: {image: bad image name}}}",
            "1: kubeflow.components.Trainer.image: such as registry.example/team/headrace:1",
        ),
        (
            "kubeflow: {image: 'reader:hunter2@registry.example/headrace'}",
            "1: kubeflow.image: such as registry.example/team/headrace:1",
        ),
    ],
    "labels_are_valid": [
        (
            'kubeflow: {defaults: {labels: {"a b": c}}}',
            "1: kubeflow.defaults.labels.a b: letters, digits, -, _ and",
        ),
        (
            'kubeflow: {components: {Trainer: {node_selector: {a.example/b: "x y"}}}}',
            "1: kubeflow.components.Trainer.node_selector.a.example/b: letters, digits, -, _ and",
        ),
        (
            'kubeflow: {defaults: {labels: {pipelines.kubeflow.org/v2_component: "false"}}}',
            "1: kubeflow.defaults.labels.pipelines.kubeflow.org/v2_component: pipelines.kubeflow.org/v2_component is",
        ),
        (
            "kubeflow: {defaults: {labels: {pipeline/runid: a}}}",
            "1: kubeflow.defaults.labels.pipeline/runid: choose another name",
        ),
    ],
    "node_names_are_valid": [
        (
            "kubeflow: {defaults: {accelerator: {type: gpu}}}",
            "1: kubeflow.defaults.accelerator.type: such as nvidia.com/gpu or google.com/tpu",
        ),
        (
            'kubeflow: {defaults: {tolerations: [{key: "a b", value: c}]}}',
            "1: kubeflow.defaults.tolerations[0].key: letters, digits, -, _ and",
        ),
        (
            'kubeflow: {defaults: {tolerations: [{key: a, value: "c d"}]}}',
            "1: kubeflow.defaults.tolerations[0].value: letters, digits, -, _ and",
        ),
    ],
    "variables_are_valid": [
        (
            'kubeflow: {defaults: {env: {"a b": c}}}',
            "1: kubeflow.defaults.env.a b: letters, digits, -, _ and",
        ),
    ],
    "secret_keys_are_valid": [
        (
            "kubeflow: {object_store: {secret: a, secret_key: wJ4lrXUtnFEMI0K7MDENG2bPxRfiCY1XAMPLEKEY}}",
            "1: kubeflow.object_store.secret_key: this looks like the secret itself; put it into a Secret, and",
        ),
        (
            "kubeflow: {object_store: {access_key: a b}}",
            "1: kubeflow.object_store.access_key: letters, digits, -, _ and",
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, env: {A: correct horse battery}}]}}",
            "1: kubeflow.defaults.secrets[0].env.A: this looks like the secret itself; put it into a Secret, and",
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, env: {A: b/c}}]}}",
            "1: kubeflow.defaults.secrets[0].env.A: letters, digits, -, _ and",
        ),
    ],
    "variables_are_set_once": [
        (
            "kubeflow: {defaults: {env: {FOO: x}, secrets: [{name: a, env: {FOO: b}}]}}",
            "1: kubeflow.defaults.secrets[0].env.FOO: under `env` or `secrets`",
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, env: {FOO: b}}, {name: c, env: {FOO: b}}]}}",
            "1: kubeflow.defaults.secrets[1].env.FOO: under `env` or `secrets`",
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, env: {FOO: b}}]}, components: {Trainer: {env: {FOO: x}}}}",
            "1: kubeflow.components.Trainer.env.FOO: under `env` or `secrets`",
        ),
    ],
    "mounts_do_not_overlap": [
        (
            "kubeflow: {defaults: {volumes: [{claim: a, path: /x}, {claim: b, path: /x/}]}}",
            "1: kubeflow.defaults.volumes[1].path: choose another folder",
        ),
        (
            "kubeflow: {defaults: {volumes: [{claim: a, path: /x}]}, components: {Trainer: {secrets: [{name: b, path: "
            "/x}]}}}",
            "1: kubeflow.components.Trainer.secrets[0].path: choose another folder",
        ),
        (
            "kubeflow: {defaults: {shared_memory: 1G, volumes: [{claim: a, path: /dev/shm}]}}",
            "1: kubeflow.defaults.volumes[0].path: choose another folder",
        ),
    ],
    "volumes_have_unique_names": [
        (
            "kubeflow: {defaults: {volumes: [{claim: data, path: /x}], secrets: [{name: data, path: /y}]}}",
            "1: kubeflow.defaults.secrets[0].name: a PersistentVolumeClaim data is mounted too, and",
        ),
        (
            "kubeflow: {storage: reference, volume: {claim: data}, components: {Trainer: {secrets: [{name: data,"
            " path: /y}]}}}",
            "1: kubeflow.components.Trainer.secrets[0].name: a PersistentVolumeClaim data is mounted too, and",
        ),
    ],
    "limits_cover_requests": [
        (
            "kubeflow: {defaults: {memory: 4G, memory_limit: 4000Mi}, components: {Trainer: {memory: 4Gi}}}",
            "1: kubeflow.components.Trainer.memory: is more than memory_limit",
        ),
        (
            "kubeflow: {defaults: {cpu: 2, cpu_limit: 0.5}}",
            "1: kubeflow.defaults.cpu_limit: is more than cpu_limit",
        ),
    ],
    "secret_has_one_source": [
        (
            "kubeflow: {server: {auth: {kind: bearer}}}",
            "1: kubeflow.server.auth.kind: either `file:` or `env:`",
        )
    ],
    "authority_requires_tls": [
        (
            'kubeflow: {server: {endpoint: "http://x", ca_file: ca.pem}}',
            "1: kubeflow.server.ca_file: the endpoint is http://, which has no certificate; use https://",
        )
    ],
    "cron_or_every": [
        (
            "schedule: {paused: true}",
            '1: schedule: either `cron: "30 4 * * *"` or `every: 6h`',
        )
    ],
    "time_zones_are_known": [
        (
            "schedule: {every: 6h, time_zone: Mars/Base}",
            "1: schedule.time_zone: such as Europe/Berlin",
        )
    ],
    "cron_can_be_scheduled": [
        (
            "schedule: {cron: 0 0 31 2 *}",
            "1: schedule.cron: February has no day 31",
        ),
        (
            "schedule: {cron: '0 0 31 4,6 */2'}",
            "1: schedule.cron: April and June have no day 31",
        ),
        (
            "schedule: {cron: 0 4 * *}",
            "1: schedule.cron: five: minute, hour, day of the month, month, weekday",
        ),
    ],
    "window_is_a_parameter": [
        (
            "schedule: {every: 6h, window: 3}",
            "1: schedule.window: to kubeflow.parameters, so that runs can",
        )
    ],
    "scheduled_day_is_available": [
        (
            "schedule: {every: 6h, as_of: scheduled}",
            "1: schedule.as_of: {YYYY}, {MM} and {DD}",
        ),
        (
            "schedule: {every: 6h, as_of: scheduled, pinned: false}\n"
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}}",
            "1: schedule.as_of: remove `pinned: false`",
        ),
    ],
    "drift_is_of_features": [
        (
            "schedule: {every: 6h, drift: {columns: {fares: 0.1}}}",
            '1: schedule.drift.columns.fares: did you mean "fare"?',
        )
    ],
    "drift_has_a_limit": [
        (
            "schedule: {every: 6h, retrain: drift, drift: {categorical: null, numeric: null}}",
            "1: schedule.drift: `categorical`, `numeric` or `columns`",
        )
    ],
    "our_models_need_feature_columns": [
        (
            "features: {function: mine.preprocessing_fn}",
            "1: features.function: set `model.run_fn`",
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
}
CASES = [(rule, text, reported) for rule, cases in BROKEN.items() for text, reported in cases]


@pytest.mark.parametrize(("rule", "text", "reported"), CASES)
def test_a_broken_rule_is_reported_at_its_line_and_alone(tmp_path: Path, rule: str, text: str, reported: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config(tmp_path, text))
    line, setting, key_word = reported.split(": ", 2)
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{tmp_path}/c.yaml:{line}: {setting}: "), rule
    assert key_word in problem.what, rule


def test_every_rule_has_a_config_that_breaks_it() -> None:
    assert sorted(rule.__name__ for rule in registry.RULES) == sorted(BROKEN)


@pytest.mark.parametrize(
    "text",
    [
        "train: {epochs: 1, optimizer: Adam}",
        "evaluate: {split: train, thresholds: {recall: {min: 0.5}}}",
        "evaluate: {metrics: [mean_squared_error]}\nlabel: {key: tip, kind: regression}",
        "model: {kind: my.builder, options: {a: 1}}",
        "model: {kind: my.builder}\n" + features(photo="image, height: 8, width: 8"),
        "model: {kind: image, augment: {flip: both, rotate: 10}, backbone: {saved_model: net, pixels: [-1, 1]}}\n"
        + features(photo="image, height: 8, width: 8", size="numeric"),
        "model: {kind: dnn}\n" + features(a="crossed, keys: [b, c], hash_buckets: 9", fare="numeric"),
        features(lat="bucketized, buckets: 9", a="crossed, keys: [lat, b], hash_buckets: 9"),
        f"data: {{{SOURCE}, types: {{lat: float}}}}\n"
        + features(lat="bucketized, buckets: 9", a="crossed, keys: [lat, b], hash_buckets: 9"),
        f"data: {{{SOURCE}, types: {{tip: string}}}}\nlabel: {{key: tip, kind: binary, classes: ['no', 'yes']}}",
        f"data: {{{SOURCE}, types: {{tip: float}}}}\nlabel: {{key: tip, kind: regression}}",
        "data: {source: {kind: csv, path: '{YYYY}/{MM}/{DD}/*.csv'}, window: 30, spans: ['2026-01-01', '2026-01-01']}",
        "data: {source: {kind: csv, path: ['{SPAN:2}/v{VERSION}.csv', '{VERSION}-{SPAN}.csv']}, window: all, spans: 2}",
    ],
)
def test_a_config_that_keeps_the_rules_loads(tmp_path: Path, text: str) -> None:
    assert load(config(tmp_path, text)).pipeline.name == "taxi"


def test_rules_apply_between_the_sections_that_are_sound(tmp_path: Path) -> None:
    text = "train: {epochs: x}\nevaluate: {split: tset}"
    with pytest.raises(ConfigError) as caught:
        load(config(tmp_path, text))
    assert [problem.what.partition(":")[0] for problem in caught.value.problems] == ["train.epochs", "evaluate.split"]

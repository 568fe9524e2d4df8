"""The rules across sections, each with a config that breaks it alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.configs import rules
from headrace.configs.errors import ConfigError
from headrace.configs.loader import load

SECTIONS = {
    "pipeline": "pipeline: {name: taxi}",
    "data": "data: {source: {kind: csv, path: a.csv}}",
    "label": "label: {key: tip, kind: binary}",
    "features": "features: {fare: {column: numeric}}",
}
SOURCE = "source: {kind: csv, path: a.csv}"
BINARY = "auc, auc_precision_recall, binary_accuracy, binary_crossentropy, calibration, precision or recall"


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
    "folders_are_no_uris": [
        (
            "deploy: {push: 's3://models/{name}'}",
            "1: deploy.push: s3://models/{name} is a URI; name a folder, which on Kubeflow lies below the pipeline's "
            "root there",
        ),
        (
            "pipeline: {name: taxi, root: gs://runs}",
            "1: pipeline.root: gs://runs is a URI; name a folder, which on Kubeflow lies below the pipeline's root "
            "there",
        ),
    ],
    "splits_to_train_and_stop_by": [
        (
            f"data: {{{SOURCE}, splits: {{train: 8, evl: 1}}}}",
            '1: data.splits: a split `eval` is missing: training stops by it; found train or evl; did you mean "evl"?',
        )
    ],
    "split_names_are_plain": [
        (
            f"data: {{{SOURCE}, splits: {{train: 8, eval: 1, a/b: 1}}}}",
            '1: data.splits.a/b: "a/b" becomes part of a folder\'s name: only letters, digits and _',
        )
    ],
    "evaluated_split_exists": [
        ("evaluate: {split: tset}", '1: evaluate.split: no split "tset"; did you mean "test"?'),
        ("evaluate: {split: x}", '1: evaluate.split: no split "x"; data.splits has: train, eval, test'),
    ],
    "types_fit_delimited_text": [
        (
            f"data: {{{SOURCE}, types: {{tags: int list}}}}",
            "1: data.types.tags: `int list` is not for CSV, where a field holds one text: use int, float or string",
        ),
        (
            f"data: {{{SOURCE}, types: {{picture: bytes}}}}",
            "1: data.types.picture: `bytes` is not for CSV, where a field holds one text: use int, float or string",
        ),
    ],
    "bad_records_can_be_skipped": [
        (
            f"data: {{source: {source}, on_bad_record: skip}}",
            f"1: data.on_bad_record: `skip` is not for {kind}, where a value that is not of its column's type stops the"
            " run: use `stop`, and leave such rows out by a query",
        )
        for kind, source in {
            "sql": "{kind: sql, url: 'sqlite:////a.db', table: t}",
            "bigquery": "{kind: bigquery, project: p, table: d.t}",
        }.items()
    ],
    "metrics_fit_the_label": [
        (
            "evaluate: {metrics: [auk]}",
            f'1: evaluate.metrics[0]: no metric "auk"; for binary: {BINARY}; did you mean "auc"?',
        ),
        (
            "evaluate: {metrics: [auc, accuracy]}",
            '1: evaluate.metrics[1]: "accuracy" is for multiclass or next_word labels, and this label is binary; for'
            f' binary: {BINARY}; did you mean "binary_accuracy"?',
        ),
        ("evaluate: {metrics: [auc, auc]}", '1: evaluate.metrics[1]: "auc" stands here twice; remove one'),
    ],
    "thresholds_are_of_metrics": [
        (
            "evaluate: {metrics: [auc], thresholds: {recall: {min: 0.5}}}",
            '1: evaluate.thresholds.recall: "recall" is not measured; add it to evaluate.metrics, or remove the '
            "threshold",
        ),
        (
            "evaluate: {thresholds: {squared_correlation: {min: 0.5}}}",
            '1: evaluate.thresholds.squared_correlation: "squared_correlation" is for regression labels, and this '
            "label is binary; for "
            f"binary: {BINARY}",
        ),
    ],
    "thresholds_can_be_met": [
        (
            "evaluate: {thresholds: {auc: {min: 85}}}",
            "1: evaluate.thresholds.auc.min: found 85, but auc lies between 0 and 1; did you mean 0.85?",
        ),
        (
            "evaluate: {thresholds: {binary_crossentropy: {max: -1}}}",
            "1: evaluate.thresholds.binary_crossentropy.max: found -1, but binary_crossentropy is never below 0, so no "
            "model could pass",
        ),
    ],
    "names_are_tensor_names": [
        (
            'features:\n  "Trip Miles": {column: numeric}',
            '2: features.Trip Miles: a feature\'s name is letters, digits and _, no digit first; found "Trip Miles"; '
            "call "
            'it trip_miles, with `key: "Trip Miles"` for the column',
        ),
        (
            "features:\n  2nd: {column: numeric, key: second}",
            '2: features.2nd: a feature\'s name is letters, digits and _, no digit first; found "2nd"; call it '
            "feature_2nd",
        ),
    ],
    "names_differ_from_label": [
        (
            features(tip="numeric, key: fare"),
            '2: features.tip: "tip" is the label, which keeps its name; give the feature another one',
        )
    ],
    "features_do_not_read_label": [
        (
            features(tip="numeric"),
            '2: features.tip: reads the label "tip": the model would learn from the answer; remove the feature',
        ),
        (
            features(a="numeric, key: tip"),
            '2: features.a.key: reads the label "tip": the model would learn from the answer; remove the feature',
        ),
        (
            features(a="'crossed', keys: [b, tip], hash_buckets: 9"),
            '2: features.a.keys[1]: reads the label "tip": the model would learn from the answer; remove it from keys',
        ),
    ],
    "crosses_are_of_categories": [
        (
            features(fare="numeric", a="crossed, keys: [b, fare], hash_buckets: 9"),
            '3: features.a.keys[1]: "fare" is numeric, and a cross takes categories; cross a bucketized one, such as '
            "fare_bucket: {column: bucketized, key: fare, buckets: 10}",
        ),
        (
            "model: {kind: image}\n"
            + features(photo="image, height: 8, width: 8", a="crossed, keys: [b, photo], hash_buckets: 9"),
            '4: features.a.keys[1]: "photo" is an image, and a cross takes categories; remove it from keys',
        ),
        (
            features(a="crossed, keys: [a, b], hash_buckets: 9"),
            '2: features.a.keys[0]: "a" crosses itself; give the cross a name that is none of its keys',
        ),
        (
            features(a="crossed, keys: [c, d], hash_buckets: 9", b="crossed, keys: [a, e], hash_buckets: 9"),
            '3: features.b.keys[0]: "a" is a cross itself, and crosses do not nest; list its keys here instead: c, d',
        ),
        (
            features(a="custom, function: my.f, keys: [c]", b="crossed, keys: [a, e], hash_buckets: 9"),
            '3: features.b.keys[0]: "a" gives a number, and a cross takes categories; set its num_categories',
        ),
    ],
    "crosses_have_different_keys": [
        (
            features(a="crossed, keys: [b, c, b], hash_buckets: 9"),
            '2: features.a.keys[2]: "b" stands here twice; remove one',
        )
    ],
    "crossed_columns_are_not_float": [
        (
            f"data: {{{SOURCE}, types: {{lat: float}}}}\n" + features(a="crossed, keys: [lat, b], hash_buckets: 9"),
            '3: features.a.keys[0]: "lat" is a float column (data.types), and a cross takes categories; cross a '
            "bucketized "
            "one, such as lat_bucket: {column: bucketized, key: lat, buckets: 10}",
        )
    ],
    "declared_types_fit_features": [
        (
            f"data: {{{SOURCE}, types: {{fare: string}}}}\n" + features(fare="numeric"),
            '3: features.fare.column: column "fare" is string (data.types), and numeric takes int or float; use a '
            "vocabulary or hashed feature, or change its type",
        ),
        (
            f"data: {{{SOURCE}, types: {{lat: float}}}}\n" + features(a="hashed, key: lat, hash_buckets: 9"),
            '3: features.a.column: column "lat" is float (data.types), and hashed takes int or string; use a '
            "bucketized "
            "feature, or change its type",
        ),
    ],
    "declared_type_fits_label": [
        (
            f"data: {{{SOURCE}, types: {{tip: string}}}}",
            "1: data.types.tip: the label's classes are integers, and its column is declared string; declare int, or "
            "list "
            "its values in label.classes",
        ),
        (
            f"data: {{{SOURCE}, types: {{tip: string}}}}\nlabel: {{key: tip, kind: regression}}",
            "1: data.types.tip: the label of a regression is a number; found string; declare int or float",
        ),
    ],
    "next_word_follows_a_text": [
        (
            "label: {key: tip, kind: next_word, text: fare}\nmodel: {kind: text}\n"
            + features(fare="numeric", story="text"),
            '1: label.text: "fare" is no feature with `column: text`; such are: story',
        ),
        (
            "label: {key: tip, kind: next_word, text: sayd}\nmodel: {kind: text}\n" + features(said="text"),
            '1: label.text: "sayd" is no feature with `column: text`; did you mean "said"?',
        ),
        (
            "label: {key: tip, kind: next_word, text: said}\nmodel: {kind: text}\n"
            + features(said="text, hash_buckets: 9"),
            '1: label.text: "said" hashes its words, and which word is meant cannot be told; drop its hash_buckets',
        ),
        (
            "label: {key: tip, kind: next_word, text: said}\nmodel: {kind: text}\n"
            + features(said="text, max_tokens: 9"),
            "4: features.said.max_tokens: of a longer text the first words would be kept, and not those that the label "
            "follows; say `keep: last`",
        ),
    ],
    "crossed_features_have_one_value": [
        (
            features(
                tags='hashed, hash_buckets: 9, multivalued: true, separator: ","',
                pair="crossed, keys: [tags, b], hash_buckets: 9",
            ),
            '3: features.pair.keys[0]: "tags" may have several values in an example, and a cross takes one of each key;'
            " cross a feature of the same column without `multivalued`, which takes the first",
        ),
    ],
    "compiled_features_have_one_shape": [
        (
            features(tags='hashed, hash_buckets: 9, multivalued: true, separator: ","') + "\ntrain: {jit: on}",
            '3: train.jit: XLA cannot compile what takes any number of values, as "tags" has; use `auto`',
        ),
        (
            features(long="text, max_tokens: 9", short="text, max_tokens: 9, padded: true") + "\ntrain: {jit: true}",
            '4: train.jit: XLA cannot compile what takes any number of values, as "long" has; use `auto`, or set'
            " features.long.padded, with max_tokens",
        ),
    ],
    "delimited_text_is_separated": [
        (
            features(tags="vocabulary, multivalued: true"),
            "2: features.tags.multivalued: a field of a CSV file holds one text, which is cut into values only at a "
            '`separator`; say `separator: "|"`, or remove the line',
        ),
        (
            features(tags="identity, num_buckets: 9, multivalued: true"),
            "2: features.tags.multivalued: a field of a CSV file holds one text, which is cut into values only at a "
            '`separator`; use a vocabulary or hashed feature with `separator: "|"`, or remove the line',
        ),
    ],
    "activation_is_known": [
        ("model: {activation: reul}", '1: model.activation: Keras has no activation "reul"; did you mean "relu"?')
    ],
    "deep_part_sees_something": [
        (
            "model: {kind: dnn}\n" + features(area="hashed, hash_buckets: 9, deep: false"),
            "1: model.kind: `kind: dnn` sees no feature: all have `deep: false`; set `deep: true` in some, or "
            "`kind: wide_and_deep`",
        )
    ],
    "images_are_seen": [
        (
            features(photo="image, height: 8, width: 8"),
            "2: features.photo.column: `kind: wide_and_deep` does not see images; use `model: {kind: image}`, or a "
            "builder of your own",
        ),
        (
            "model: {kind: image}",
            "1: model.kind: `kind: image` needs a feature with `column: image`; add one, or use another kind",
        ),
    ],
    "texts_are_read": [
        (
            "model: {kind: text}",
            "1: model.kind: `kind: text` needs a feature with `column: text`; add one, or use another kind",
        ),
        (
            "model: {kind: text, text: sad}\n" + features(said="text"),
            '1: model.text: "sad" is no feature with `column: text`; did you mean "said"?',
        ),
        (
            "model: {kind: text}\n" + features(said="text", title="text"),
            "1: model.kind: which text is it to read? Say `text:` said or title",
        ),
        (
            "label: {key: tip, kind: next_word, text: said}\n" + features(said="text"),
            "1: model.kind: `label.kind: next_word` needs `kind: text`; found wide_and_deep",
        ),
    ],
    "placeholders_are_right": [
        (
            "data: {source: {kind: csv, path: 'a-{DAY}.csv'}}",
            "1: data.source.path: `{DAY}` is no placeholder; there are {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}",
        ),
        (
            "data:\n  source:\n    kind: csv\n    path: ['a/{SPAN}.csv', 'b/{SPAN}-{MM}.csv']",
            "4: data.source.path[1]: has both {SPAN} and a date; one of them counts the spans",
        ),
        ("data: {source: {kind: csv, path: '{YYYY}-{MM}.csv'}}", "1: data.source.path: the date lacks {DD}"),
        (
            "data: {source: {kind: csv, path: 'v{VERSION}.csv'}}",
            "1: data.source.path: {VERSION} is the version of a span: {SPAN} or a date is missing",
        ),
    ],
    "paths_count_spans_alike": [
        (
            "data: {source: {kind: csv, path: ['a/{SPAN}.csv', b.csv]}}",
            "1: data.source.path[1]: has no placeholders, and the first path has {SPAN}; all must have the same ones",
        )
    ],
    "window_needs_spans": [
        (
            f"data: {{{SOURCE}, window: 7}}",
            "1: data.window: there are no spans: no path has {SPAN}, or {YYYY}, {MM} and {DD}; put them in, or remove"
            " this",
        ),
        (
            "data: {source: {kind: sql, url: 'sqlite:///a', table: a}, window: all}",
            "1: data.window: only files come in spans, and this source is sql; remove it",
        ),
        (
            f"data: {{{SOURCE}, spans: 3}}",
            "1: data.spans: there are no spans: no path has {SPAN}, or {YYYY}, {MM} and {DD}; put them in, or remove"
            " this",
        ),
    ],
    "chosen_spans_exist": [
        (
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}, spans: '2026-02-30'}",
            "1: data.spans: 2026-02-30 is no date",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, spans: '2026-02-03'}",
            "1: data.spans: 2026-02-03 is a date, and the path counts its spans by {SPAN}: give a number",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, spans: [3, 1]}",
            "1: data.spans: the range starts with 3, after its end, 1",
        ),
    ],
    "run_date_is_a_day_of_dated_spans": [
        (
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}, run_date: '2026-02-30'}",
            "1: data.run_date: 2026-02-30 is no date",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, run_date: '2026-02-03'}",
            "1: data.run_date: the path counts its spans by {SPAN}, so no day tells which there are; remove it",
        ),
    ],
    "optimizer_is_known": [
        ("train: {optimizer: adm}", '1: train.optimizer: Keras has no optimizer "adm"; did you mean "adam"?'),
        (
            "train: {optimizer: {kind: sdg}}",
            '1: train.optimizer.kind: Keras has no optimizer "sdg"; did you mean "sgd"?',
        ),
        (
            "train: {optimizer: mine..Slow}",
            '1: train.optimizer: "mine..Slow" is no dotted path, such as my_package.my_module.MyOptimizer',
        ),
    ],
    "optimizer_takes_its_arguments": [
        (
            "train: {optimizer: {kind: sgd, momentumm: 0.5}}",
            "1: train.optimizer.momentumm: sgd has no such argument; it has: momentum, nesterov, weight_decay, "
            'use_ema, ema_momentum, ema_overwrite_frequency, loss_scale_factor; did you mean "momentum"?',
        ),
        (
            "train: {optimizer: {kind: adam, beta_1: high}}",
            '1: train.optimizer.beta_1: found "high"; allowed: a number',
        ),
        (
            "train: {optimizer: {kind: muon, ns_steps: 2.5}}",
            "1: train.optimizer.ns_steps: found 2.5; allowed: a whole number",
        ),
        (
            "train: {optimizer: {kind: mine.Slow, clipnorm: 1}}",
            "1: train.optimizer.clipnorm: this is set by train.clip.norm; move it there",
        ),
    ],
    "averages_count_optimizer_steps": [
        (
            "train: {gradient_accumulation: 2, optimizer: {kind: adam, use_ema: true}}",
            "1: train.optimizer.use_ema: Keras averages the weights after every batch, not after every optimizer step, "
            "so this does not go with train.gradient_accumulation; remove one of them",
        )
    ],
    "schedule_knows_its_end": [
        (
            "train: {input: {cache: none}, learning_rate: {schedule: cosine, initial: 0.1}}",
            "1: train.learning_rate: a cosine schedule needs decay_steps where `train.input.cache: none` leaves it open"
            " how many steps the training has; give decay_steps, or train.steps_per_epoch",
        )
    ],
    "coordinated_reads_are_unsharded": [
        (
            "train: {input: {service: {address: 'grpc://a:1', coordinated: true}}}",
            "1: train.input.service.coordinated: workers that take turns each read everything; set `sharding: off`"
            " beside it",
        )
    ],
    "unsharded_reads_have_no_end": [
        (
            "train: {input: {service: {address: 'grpc://a:1', sharding: off}}}",
            "1: train.input.service.sharding: `off` reads without an end, so an epoch needs `train.steps_per_epoch`; or"
            " use `dynamic`",
        ),
        (
            "train: {steps_per_epoch: 64, input: {snapshot: a, service: {address: 'grpc://a:1', sharding: off}}}",
            "1: train.input.service.sharding: `off` reads without an end, and train.input.snapshot stores one pass;"
            " remove one of them",
        ),
        (
            "train: {steps_per_epoch: 64, input: {cache: disk, service: {address: 'grpc://a:1', sharding: off}}}",
            "1: train.input.service.sharding: `off` reads without an end, so there is nothing for `cache: disk`; remove"
            " one",
        ),
    ],
    "strategy_can_do_the_rest": [
        (
            "train: {strategy: mirrored, jit: true}",
            "1: train.jit: XLA is for a single device here, not for `strategy: mirrored`; use `auto`, or `strategy:"
            " one_gpu`",
        )
    ],
    "own_shards_are_of_workers": [
        (
            "train: {strategy: multi_worker, input: {own_shards: true}}",
            "1: train.input.own_shards: each worker then reads files without an end in common; set"
            " `train.steps_per_epoch`",
        ),
        (
            "train: {input: {own_shards: true}, steps_per_epoch: 9}",
            "1: train.input.own_shards: only the workers of `strategy: multi_worker` share files, not `auto`; remove"
            " it",
        ),
    ],
    "executions_divide_an_epoch": [
        (
            "train: {steps_per_execution: 7, steps_per_epoch: 64}",
            "1: train.steps_per_execution: 7 does not divide the 64 of train.steps_per_epoch; use `auto`, or a number"
            " that does",
        )
    ],
    "objective_is_reported": [
        (
            "tune: {objective: acu, parameters: {model.dropout: {min: 0, max: 0.5}}}",
            '1: tune.objective: a training for a binary label reports no "acu"; did you mean "auc"?',
        )
    ],
    "hyperband_has_rounds": [
        (
            "tune: {algorithm: hyperband, epochs: 2, parameters: {model.dropout: {min: 0, max: 0.5}}}",
            "1: tune.epochs: hyperband has no rounds with 2 epochs; give at least 3, or take random or bayesian",
        ),
        (
            "tune: {algorithm: hyperband, parameters: {model.dropout: {min: 0, max: 0.5}}}\ntrain: {epochs: 1}",
            "1: tune.algorithm: hyperband has no rounds with 1 epoch; give at least 3, or take random or bayesian",
        ),
    ],
    "trials_are_on_one_machine": [
        (
            "train: {strategy: multi_worker}\ntune: {parameters: {model.dropout: {min: 0, max: 0.5}}}",
            "1: train.strategy: multi_worker trains once, and `tune` trains many times; search on one machine"
            " (`mirrored`, `one_gpu`, `cpu`), then put the best values into the config, remove `tune`, and train on"
            " all",
        )
    ],
    "parameters_are_settings": [
        (
            "tune: {parameters: {model.droput: {min: 0, max: 0.5}}}",
            '1: tune.parameters.model.droput: there is no setting "model.droput" in model or train; did you mean'
            ' "model.dropout"?',
        )
    ],
    "options_are_known": [
        (
            "beam: {options: {experimants: [a]}}",
            '1: beam.options.experimants: Beam has no such option; did you mean "experiments"?',
        ),
        (
            "beam: {options: {--experiments: [a]}}",
            "1: beam.options.--experiments: names stand here without dashes: experiments",
        ),
        (
            "beam: {runner: portable, options: {job_endpoint: a, environment_type: LOOPBACK, environmnt_config: a}}",
            '1: beam.options.environmnt_config: Beam has no such option; did you mean "environment_config"?',
        ),
    ],
    "options_have_values_that_fit": [
        (
            "beam: {runner: flink, options: {flink_master: '[local]', job_server_timeout: soon}}",
            '1: beam.options.job_server_timeout: found "soon"; allowed: a whole number',
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
            "1: beam.options.temp_location: temporary files lie in the run's own folder; remove it",
        ),
    ],
    "options_are_for_the_runner": [
        (
            "beam: {options: {job_endpoint: 'jobs:8099'}}",
            "1: beam.options.job_endpoint: this is for beam.runner: flink, spark or portable, and the runner"
            " is auto; change the runner, or remove the option",
        ),
    ],
    "options_hold_no_credential": [
        (
            "beam: {options: {s3_secret_access_key: abc}}",
            "1: beam.options.s3_secret_access_key: a credential does not go into a config; set the store's "
            "own environment variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (on Kubeflow "
            "under kubeflow.defaults.secrets), and leave this out",
        ),
        (
            "beam: {options: {s3_endpoint_url: 'http://me:hunter2@store'}}",
            "1: beam.options.s3_endpoint_url: a credential does not go into a config; set the store's own "
            "environment variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (on Kubeflow under "
            "kubeflow.defaults.secrets), and leave this out",
        ),
    ],
    "runner_knows_where_to_go": [
        (
            "beam: {runner: flink}",
            "1: beam.options: `runner: flink` needs flink_master: HOST:8081, Flink's REST API, or "
            "job_endpoint: HOST:8099, that of Beam's job server",
        ),
        (
            "beam: {runner: dataflow, options: {project: p, temp_location: 'gs://b/t'}}",
            "1: beam.options: `runner: dataflow` needs region: such as europe-west1",
        ),
        (
            "beam: {runner: dataflow, options: {project: p, region: r, temp_location: /tmp}}",
            '1: beam.options.temp_location: found "/tmp"; allowed: a folder of Cloud Storage, such as gs://bucket/tmp',
        ),
        (
            "beam: {runner: spark, options: {spark_master_url: local, spark_submit_uber_jar: true}}",
            "1: beam.options: spark_submit_uber_jar needs spark_rest_url: http://HOST:6066 beside it",
        ),
    ],
    "workers_have_the_code": [
        (
            "beam: {runner: flink, options: {flink_master: 'flink:8081'}}",
            "1: beam.options: `runner: flink` needs environment_type, which says where Python workers run: "
            "DOCKER (environment_config: the image that `headrace image` builds; Beam's own has neither TFX "
            'nor Headrace); PROCESS (environment_config: {"command": "..."} as JSON, the program that starts'
            " a worker); EXTERNAL (environment_config: HOST:PORT of a pool of workers); LOOPBACK, in this "
            "process, for a runner on the same machine",
        ),
        (
            "beam: {runner: portable, options: {job_endpoint: 'jobs:8099', environment_type: EXTERNALLY}}",
            '1: beam.options.environment_type: found "EXTERNALLY"; allowed: DOCKER, PROCESS, EXTERNAL or '
            'LOOPBACK; did you mean "EXTERNAL"?',
        ),
        (
            "beam: {runner: portable, options: {job_endpoint: 'jobs:8099', environment_type: process}}",
            '1: beam.options.environment_type: PROCESS needs environment_config: {"command": "..."} as JSON,'
            " the program that starts a worker",
        ),
    ],
    "workers_are_the_runners": [
        (
            "beam: {runner: spark, workers: 2, options: {spark_master_url: local}}",
            "1: beam.workers: `runner: spark` decides by itself how many workers it has; remove it",
        ),
        (
            "beam: {direct_running_mode: in_memory, workers: 2}",
            "1: beam.direct_running_mode: in_memory has one worker, and beam.workers is 2; use "
            "multi_threading or multi_processing",
        ),
        (
            "beam: {runner: spark, direct_running_mode: in_memory, options: {spark_master_url: local}}",
            "1: beam.direct_running_mode: only auto and direct run workers on this machine, and the runner "
            "is spark; remove it",
        ),
    ],
    "components_are_known": [
        (
            "kubeflow: {components: {Trainor: {cpu: 1}}}",
            '1: kubeflow.components.Trainor: there is no component Trainor; did you mean "Trainer"?',
        )
    ],
    "reference_has_a_volume": [
        (
            "kubeflow: {storage: reference}",
            "1: kubeflow.storage: `storage: reference` keeps artifacts on a shared volume; say which as"
            " kubeflow.volume: {claim: NAME}",
        ),
        (
            "kubeflow: {volume: {claim: a}}",
            "1: kubeflow.volume: only `storage: reference` uses it; other volumes go under kubeflow.defaults.volumes",
        ),
    ],
    "env_holds_no_secret": [
        (
            "kubeflow: {defaults: {env: {DB_PASSWORD: x}}}",
            "1: kubeflow.defaults.env.DB_PASSWORD: DB_PASSWORD looks like a credential; put it into a Secret and name"
            " it under `secrets:`",
        )
    ],
    "secrets_go_somewhere": [
        (
            "kubeflow: {components: {Trainer: {secrets: [{name: a}]}}}",
            "1: kubeflow.components.Trainer.secrets[0]: say where a goes: `env: {VARIABLE: key}`, or `path:` for files",
        )
    ],
    "mounts_leave_kubeflow_alone": [
        (
            "kubeflow: {defaults: {volumes: [{claim: a, path: /minio}]}}",
            "1: kubeflow.defaults.volumes[0].path: /minio is where Kubeflow mounts a folder of its own; choose another",
        ),
        *(
            (
                f"kubeflow: {{storage: reference, volume: {{claim: a, path: {path}}}}}",
                f"1: kubeflow.volume.path: {path} is where Kubeflow mounts a folder of its own; choose another",
            )
            for path in ("/minio", "//minio", "/minio/.", "/x/../minio/")
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, path: //}]}}",
            "1: kubeflow.defaults.secrets[0].path: // is the whole of the container; choose a folder in it",
        ),
        (
            "kubeflow: {defaults: {volumes: [{claim: kfp-launcher, path: /x}]}}",
            "1: kubeflow.defaults.volumes[0].claim: a volume of Kubeflow's or Headrace's own is called kfp-launcher in"
            " every pod; choose another name",
        ),
        (
            "kubeflow: {storage: reference, volume: {claim: headrace-shared-memory}}",
            "1: kubeflow.volume.claim: a volume of Kubeflow's or Headrace's own is called headrace-shared-memory in"
            " every pod; choose another name",
        ),
    ],
    "sub_paths_are_inside": [
        (
            f"kubeflow: {{defaults: {{volumes: [{{claim: a, path: /x, sub_path: {path}}}]}}}}",
            f"1: kubeflow.defaults.volumes[0].sub_path: {path} is no folder within the volume; name one without a slash"
            " before it, and without ..",
        )
        for path in ("../y", "a/../../y", "/y")
    ],
    "tolerations_are_whole": [
        (
            "kubeflow: {defaults: {tolerations: [{key: a, operator: Exists, value: b}]}}",
            "1: kubeflow.defaults.tolerations[0]: `operator: Exists` takes no value; remove it, or use `Equal`",
        ),
        (
            "kubeflow: {defaults: {tolerations: [{value: b}]}}",
            "1: kubeflow.defaults.tolerations[0]: `operator: Equal` needs a key; name it, or use `Exists`",
        ),
        (
            "kubeflow: {defaults: {tolerations: [{key: a, seconds: 5}]}}",
            "1: kubeflow.defaults.tolerations[0]: `seconds` goes with `effect: NoExecute`",
        ),
    ],
    "root_is_meant": [
        (
            "kubeflow: {defaults: {security: {user: 0}}}",
            "1: kubeflow.defaults.security.user: Kubernetes would refuse to start user 0; say `non_root: false` too, or"
            " name another user",
        )
    ],
    "times_can_be_kept": [
        (
            "kubeflow: {defaults: {timeout: 9999999999d}}",
            "1: kubeflow.defaults.timeout: 9999999999d is longer than the 24855d that can be counted",
        ),
        (
            "kubeflow: {components: {Trainer: {retries: {count: 2, at_most: 366d}}}}",
            "1: kubeflow.components.Trainer.retries.at_most: 366d is longer than the 365d that can be counted",
        ),
        (
            "kubeflow: {defaults: {retries: {count: 2, wait: 2h, at_most: 1h}}}",
            "1: kubeflow.defaults.retries.wait: after a wait of 2h there is no further try, as at_most is 1h; raise it",
        ),
    ],
    "workers_train_together": [
        (
            "kubeflow: {workers: {count: 2}}",
            "1: kubeflow.workers: several pods train together by `train.strategy: multi_worker`, not by `auto`; set it",
        )
    ],
    "names_are_those_of_kubernetes": [
        (
            "kubeflow: {defaults: {volumes: [{claim: My_Claim, path: /x}]}}",
            '1: kubeflow.defaults.volumes[0].claim: "My_Claim" is no name that Kubernetes knows: lower-case letters,'
            " digits and dashes, at most 63, a dash neither first nor last",
        ),
        (
            "kubeflow: {defaults: {image_pull_secrets: [a_b]}}",
            '1: kubeflow.defaults.image_pull_secrets[0]: "a_b" is no name that Kubernetes knows: lower-case letters,'
            " digits, dashes and dots",
        ),
    ],
    "images_are_names": [
        (
            "kubeflow: {image: 'https://registry.example/headrace:1'}",
            '1: kubeflow.image: "https://registry.example/headrace:1" is no name of an image, such as'
            " registry.example/team/headrace:1",
        ),
        (
            "kubeflow: {components: {Trainer: {image: bad image name}}}",
            '1: kubeflow.components.Trainer.image: "bad image name" is no name of an image, such as'
            " registry.example/team/headrace:1",
        ),
        (
            "kubeflow: {image: 'reader:hunter2@registry.example/headrace'}",
            "1: kubeflow.image: this is no name of an image, such as registry.example/team/headrace:1",
        ),
    ],
    "labels_are_those_of_kubernetes": [
        (
            'kubeflow: {defaults: {labels: {"a b": c}}}',
            '1: kubeflow.defaults.labels.a b: "a b" is no name of a label: letters, digits, -, _ and ., at most 63, the'
            " first and the last a letter or digit; a domain and / before it",
        ),
        (
            'kubeflow: {components: {Trainer: {node_selector: {a.example/b: "x y"}}}}',
            '1: kubeflow.components.Trainer.node_selector.a.example/b: "x y" cannot be the value of a label: letters,'
            " digits, -, _ and ., at most 63, the first and the last a letter or digit",
        ),
        (
            'kubeflow: {defaults: {labels: {pipelines.kubeflow.org/v2_component: "false"}}}',
            "1: kubeflow.defaults.labels.pipelines.kubeflow.org/v2_component: pipelines.kubeflow.org/v2_component is"
            " Kubeflow's own label; choose another name",
        ),
        (
            "kubeflow: {defaults: {labels: {pipeline/runid: a}}}",
            "1: kubeflow.defaults.labels.pipeline/runid: pipeline/runid is Kubeflow's own label; choose another name",
        ),
    ],
    "nodes_are_named_as_in_kubernetes": [
        (
            "kubeflow: {defaults: {accelerator: {type: gpu}}}",
            '1: kubeflow.defaults.accelerator.type: "gpu" is no resource of a node, such as nvidia.com/gpu or'
            " google.com/tpu",
        ),
        (
            'kubeflow: {defaults: {tolerations: [{key: "a b", value: c}]}}',
            '1: kubeflow.defaults.tolerations[0].key: "a b" is no key of a taint: letters, digits, -, _ and ., at most'
            " 63, the first and the last a letter or digit",
        ),
        (
            'kubeflow: {defaults: {tolerations: [{key: a, value: "c d"}]}}',
            '1: kubeflow.defaults.tolerations[0].value: "c d" is no value of a taint: letters, digits, -, _ and ., at'
            " most 63, the first and the last a letter or digit",
        ),
    ],
    "variables_are_those_of_kubernetes": [
        (
            'kubeflow: {defaults: {env: {"a b": c}}}',
            '1: kubeflow.defaults.env.a b: "a b" is no name of a variable: letters, digits, -, _ and ., no digit first',
        ),
    ],
    "keys_are_those_of_secrets": [
        (
            "kubeflow: {object_store: {secret: a, secret_key: wJ4lrXUtnFEMI0K7MDENG2bPxRfiCY1XAMPLEKEY}}",
            "1: kubeflow.object_store.secret_key: this looks like the secret itself; put it into a Secret, and say here"
            " what it is called there",
        ),
        (
            "kubeflow: {object_store: {access_key: a b}}",
            '1: kubeflow.object_store.access_key: "a b" is no key of a Secret: letters, digits, -, _ and .',
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, env: {A: correct horse battery}}]}}",
            "1: kubeflow.defaults.secrets[0].env.A: this looks like the secret itself; put it into a Secret, and say"
            " here what it is called there",
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, env: {A: b/c}}]}}",
            '1: kubeflow.defaults.secrets[0].env.A: "b/c" is no key of a Secret: letters, digits, -, _ and .',
        ),
    ],
    "variables_are_given_once": [
        (
            "kubeflow: {defaults: {env: {FOO: x}, secrets: [{name: a, env: {FOO: b}}]}}",
            "1: kubeflow.defaults.secrets[0].env.FOO: FOO is given elsewhere under `env` or `secrets` already; remove"
            " one of the two",
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, env: {FOO: b}}, {name: c, env: {FOO: b}}]}}",
            "1: kubeflow.defaults.secrets[1].env.FOO: FOO is given elsewhere under `env` or `secrets` already; remove"
            " one of the two",
        ),
        (
            "kubeflow: {defaults: {secrets: [{name: a, env: {FOO: b}}]}, components: {Trainer: {env: {FOO: x}}}}",
            "1: kubeflow.components.Trainer.env.FOO: FOO is given elsewhere under `env` or `secrets` already; remove"
            " one of the two",
        ),
    ],
    "mounts_are_apart": [
        (
            "kubeflow: {defaults: {volumes: [{claim: a, path: /x}, {claim: b, path: /x/}]}}",
            "1: kubeflow.defaults.volumes[1].path: another volume is mounted at /x already; choose another folder",
        ),
        (
            "kubeflow: {defaults: {volumes: [{claim: a, path: /x}]}, components: {Trainer: {secrets: [{name: b, path: "
            "/x}]}}}",
            "1: kubeflow.components.Trainer.secrets[0].path: another volume is mounted at /x already; choose another"
            " folder",
        ),
        (
            "kubeflow: {defaults: {shared_memory: 1G, volumes: [{claim: a, path: /dev/shm}]}}",
            "1: kubeflow.defaults.volumes[0].path: another volume is mounted at /dev/shm already; choose another"
            " folder",
        ),
    ],
    "volumes_are_claims_or_secrets": [
        (
            "kubeflow: {defaults: {volumes: [{claim: data, path: /x}], secrets: [{name: data, path: /y}]}}",
            "1: kubeflow.defaults.secrets[0].name: a PersistentVolumeClaim data is mounted too, and a pod cannot have"
            " two volumes of one name; give the Secret another name, or take it as variables",
        ),
        (
            "kubeflow: {storage: reference, volume: {claim: data}, components: {Trainer: {secrets: [{name: data,"
            " path: /y}]}}}",
            "1: kubeflow.components.Trainer.secrets[0].name: a PersistentVolumeClaim data is mounted too, and a pod"
            " cannot have two volumes of one name; give the Secret another name, or take it as variables",
        ),
    ],
    "limits_hold_requests": [
        (
            "kubeflow: {defaults: {memory: 4G, memory_limit: 4000Mi}, components: {Trainer: {memory: 4Gi}}}",
            "1: kubeflow.components.Trainer.memory: memory 4Gi is asked for, which is more than memory_limit 4000Mi",
        ),
        (
            "kubeflow: {defaults: {cpu: 2, cpu_limit: 0.5}}",
            "1: kubeflow.defaults.cpu_limit: cpu 2.0 is asked for, which is more than cpu_limit 0.5",
        ),
    ],
    "secret_has_one_place": [
        (
            "kubeflow: {server: {auth: {kind: bearer}}}",
            "1: kubeflow.server.auth.kind: `bearer` needs either `file:` or `env:`, where the token is",
        )
    ],
    "authority_needs_tls": [
        (
            'kubeflow: {server: {endpoint: "http://x", ca_file: ca.pem}}',
            "1: kubeflow.server.ca_file: the endpoint is http://, which has no certificate; use https://",
        )
    ],
    "schedule_is_one_of_two": [
        (
            "schedule: {paused: true}",
            '1: schedule: say when: either `cron: "30 4 * * *"` or `every: 6h`',
        )
    ],
    "time_zones_are_known": [
        (
            "schedule: {every: 6h, time_zone: Mars/Base}",
            "1: schedule.time_zone: there is no time zone Mars/Base; such as Europe/Berlin",
        )
    ],
    "cron_can_be_scheduled": [
        (
            "schedule: {cron: 0 0 31 2 *}",
            "1: schedule.cron: it never comes, as February has no day 31",
        ),
        (
            "schedule: {cron: '0 0 31 4,6 */2'}",
            "1: schedule.cron: it never comes, as April and June have no day 31",
        ),
        (
            "schedule: {cron: 0 4 * *}",
            "1: schedule.cron: 4 fields; there are five: minute, hour, day of the month, month, weekday",
        ),
    ],
    "window_is_a_parameter": [
        (
            "schedule: {every: 6h, window: 3}",
            "1: schedule.window: put `window` into kubeflow.parameters, so that runs can be given one; or set"
            " data.window",
        )
    ],
    "scheduled_day_can_be_told": [
        (
            "schedule: {every: 6h, as_of: scheduled}",
            "1: schedule.as_of: only spans by date have days: the path needs {YYYY}, {MM} and {DD}",
        ),
        (
            "schedule: {every: 6h, as_of: scheduled, pinned: false}\n"
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}}",
            "1: schedule.as_of: only pinned schedules tell runs their scheduled time; remove `pinned: false`",
        ),
    ],
    "drift_is_of_features": [
        (
            "schedule: {every: 6h, drift: {columns: {fares: 0.1}}}",
            '1: schedule.drift.columns.fares: no feature reads a column fares; did you mean "fare"?',
        )
    ],
    "drift_has_a_limit": [
        (
            "schedule: {every: 6h, retrain: drift, drift: {categorical: null, numeric: null}}",
            "1: schedule.drift: nothing is compared, so no drift is ever found; give `categorical`, `numeric` or"
            " `columns` a limit, or use `retrain: new_span`",
        )
    ],
}
CASES = [(rule, text, told) for rule, cases in BROKEN.items() for text, told in cases]


@pytest.mark.parametrize(("rule", "text", "told"), CASES)
def test_a_broken_rule_is_told_at_its_line_and_alone(tmp_path: Path, rule: str, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config(tmp_path, text))
    assert str(caught.value) == f"{tmp_path}/c.yaml:{told}", rule


def test_every_rule_has_a_config_that_breaks_it() -> None:
    assert [rule.__name__ for rule in rules.RULES] == list(BROKEN)


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

"""Configs that break the rules of `beam:`."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
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
}

"""Configs that break the rules of `deploy.canary.server:` and `deploy.serving:`."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
    "staging_server_has_an_address": [
        ("deploy: {canary: {server: {folder: staging}}}", "1: deploy.canary.server: set `rest"),
    ],
    "serving_has_something_to_do": [
        ("deploy: {serving: {model: taxi}}", "1: deploy.serving: neither an address nor a `config_file`"),
        (
            "deploy: {serving: {config_file: models.config, on_failure: roll_back}}",
            "1: deploy.serving.on_failure: set `rest` or `grpc`",
        ),
        ("deploy: {serving: {grpc: 'serving:8500', labels: true}}", "1: deploy.serving.labels: `config_file`"),
        (
            "deploy: {serving: {grpc: 'serving:8500', base_path: /models/taxi}}",
            "1: deploy.serving.base_path: `config_file`",
        ),
    ],
    "labels_follow_what_is_loaded": [
        ("deploy: {serving: {config_file: models.config, labels: true}}", "1: deploy.serving.labels: `rest` or `grpc`"),
    ],
    "encryption_is_of_what_is_used": [
        (
            "deploy: {serving: {rest: 'http://serving:8501', grpc_tls: true}}",
            "1: deploy.serving.grpc_tls: set `grpc`",
        ),
        (
            "deploy: {canary: {server: {rest: 'http://serving:8501', ca_file: ca.pem, folder: staging}}}",
            "1: deploy.canary.server.ca_file: nothing is encrypted",
        ),
    ],
    "candidates_are_staged_elsewhere": [
        (
            "deploy: {push: models, canary: {server: {rest: 'http://serving:8501', folder: ./models/}}}",
            "1: deploy.canary.server.folder: a folder of its own",
        ),
    ],
}

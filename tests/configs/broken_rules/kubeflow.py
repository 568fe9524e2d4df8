"""Configs that break the rules of `kubeflow:`."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
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
        ),
        (
            "kubeflow: {workers: {count: 2}}\nmodel: {kind: trees}",
            "1: kubeflow.workers: trains on one machine, without workers; remove `kubeflow.workers`",
        ),
        (
            "kubeflow: {workers: {count: 2}}\nmodel: {kind: auto}",
            "1: kubeflow.workers: `model.kind: auto` trains on one machine, without workers; remove `kubeflow.workers`",
        ),
        (
            "kubeflow: {workers: {count: 2}}\ntune: {parameters: {model.dropout: {min: 0, max: 0.5}}}",
            "1: kubeflow.workers: `tune` searches on one machine, without workers; remove `kubeflow.workers`",
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
    "notifier_has_a_schedule": [
        (
            'kubeflow: {notify: {cron: "*/5 * * *"}}',
            "1: kubeflow.notify.cron: found 4 fields",
        )
    ],
}

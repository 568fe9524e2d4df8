"""Configs that break the rules of names and objects of Kubernetes."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
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
}

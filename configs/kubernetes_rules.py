"""What Kubernetes would refuse of `kubeflow:` when the first pod is made, long after the run was accepted.

The syntax: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/, and of labels beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from headrace.configs.credentials import is_no_name
from headrace.configs.image_names import is_image
from headrace.configs.kubeflow import ComponentSettings, KubeflowConfig
from headrace.configs.pod_resources import amount
from headrace.configs.pods import folder, mounts, pods
from headrace.configs.tree import Where

Finding = tuple[Where, str]
LABEL = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""RFC 1123's, of volumes and namespaces. Kubeflow names a volume as its claim, or its Secret."""
SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
WORD = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
"""The value of a label, and what stands after the slash of its name."""
VARIABLE = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
KEY = re.compile(r"(?=.{1,253}\Z)[-._A-Za-z0-9]+")
LONG = 8
"""Characters from which on a text that is no key's name may be a secret."""
RESERVED = ("pipelines.kubeflow.org", "pipeline", "workflows.argoproj.io")
"""Prefixes of the labels by which Kubeflow and Argo know their pods."""
_LABEL = "lower-case letters, digits and dashes, at most 63, a dash neither first nor last"
_SUBDOMAIN = "lower-case letters, digits, dashes and dots"
_WORD = "letters, digits, -, _ and ., at most 63, the first and the last a letter or digit"


def names_are_those_of_kubernetes(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, name, shape, words in _names(kubeflow):
        if not shape.fullmatch(name):
            yield where, f'"{name}" is no name that Kubernetes knows: {words}'


def _names(kubeflow: KubeflowConfig) -> Iterator[tuple[Where, str, re.Pattern[str], str]]:
    yield ("kubeflow", "namespace"), kubeflow.namespace, LABEL, _LABEL
    if kubeflow.volume is not None:
        yield ("kubeflow", "volume", "claim"), kubeflow.volume.claim, LABEL, _LABEL
    if kubeflow.server.service_account is not None:
        yield ("kubeflow", "server", "service_account"), kubeflow.server.service_account, SUBDOMAIN, _SUBDOMAIN
    if kubeflow.object_store.secret is not None:
        yield ("kubeflow", "object_store", "secret"), kubeflow.object_store.secret, SUBDOMAIN, _SUBDOMAIN
    pulling: list[tuple[Where, tuple[str, ...]]] = [(("kubeflow",), kubeflow.image_pull_secrets)]
    for where, one in pods(kubeflow):
        pulling.append((where, one.image_pull_secrets or ()))
        for number, volume in enumerate(one.volumes):
            yield (*where, "volumes", number, "claim"), volume.claim, LABEL, _LABEL
        for number, secret in enumerate(one.secrets):
            mounted = secret.path is not None
            shape, words = (LABEL, _LABEL) if mounted else (SUBDOMAIN, _SUBDOMAIN)
            yield (*where, "secrets", number, "name"), secret.name, shape, words
    for where, secrets in pulling:
        for number, name in enumerate(secrets):
            yield (*where, "image_pull_secrets", number), name, SUBDOMAIN, _SUBDOMAIN


def images_are_names(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    """What is no name is not repeated where it may hold a password, as `user:password@registry/headrace` does."""
    given = [
        (("kubeflow", "image"), kubeflow.image),
        *(((*where, "image"), one.image) for where, one in pods(kubeflow)),
    ]
    for where, image in given:
        if image is not None and not is_image(image):
            what = "this" if "@" in image else f'"{image}"'
            yield where, f"{what} is no name of an image, such as registry.example/team/headrace:1"


def labels_are_those_of_kubernetes(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, one in pods(kubeflow):
        for name in one.labels:
            prefix, slash, _ = name.partition("/")
            if slash and prefix in RESERVED:
                yield (*where, "labels", name), f"{name} is Kubeflow's own label; choose another name"
        for setting, labels in (("labels", one.labels), ("node_selector", one.node_selector)):
            for name, value in labels.items():
                if not _qualified(name):
                    yield (*where, setting, name), f'"{name}" is no name of a label: {_WORD}; a domain and / before it'
                elif value and not WORD.fullmatch(value):
                    yield (*where, setting, name), f'"{value}" cannot be the value of a label: {_WORD}'


def nodes_are_named_as_in_kubernetes(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, one in pods(kubeflow):
        if one.accelerator is not None and not ("/" in one.accelerator.type and _qualified(one.accelerator.type)):
            what = f'"{one.accelerator.type}" is no resource of a node, such as nvidia.com/gpu or google.com/tpu'
            yield (*where, "accelerator", "type"), what
        for number, each in enumerate(one.tolerations):
            if each.key is not None and not _qualified(each.key):
                yield (*where, "tolerations", number, "key"), f'"{each.key}" is no key of a taint: {_WORD}'
            if each.value is not None and not WORD.fullmatch(each.value):
                yield (*where, "tolerations", number, "value"), f'"{each.value}" is no value of a taint: {_WORD}'


def variables_are_those_of_kubernetes(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, one in pods(kubeflow):
        variables: list[tuple[Where, str]] = [((*where, "env", name), name) for name in one.env]
        for number, secret in enumerate(one.secrets):
            place: Where = (*where, "secrets", number, "env")
            variables += [((*place, name), name) for name in secret.env]
        for found, name in variables:
            if not VARIABLE.fullmatch(name):
                yield found, f'"{name}" is no name of a variable: letters, digits, -, _ and ., no digit first'


def keys_are_those_of_secrets(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    """What a key is called stands in the config. Where the secret itself was put there, it is not repeated."""
    for where, key in _keys(kubeflow):
        if is_no_name(key) or (len(key) >= LONG and not KEY.fullmatch(key)):
            yield where, "this looks like the secret itself; put it into a Secret, and say here what it is called there"
        elif not KEY.fullmatch(key):
            yield where, f'"{key}" is no key of a Secret: letters, digits, -, _ and .'


def _keys(kubeflow: KubeflowConfig) -> Iterator[tuple[Where, str]]:
    store: Where = ("kubeflow", "object_store")
    yield (*store, "access_key"), kubeflow.object_store.access_key
    yield (*store, "secret_key"), kubeflow.object_store.secret_key
    for where, one in pods(kubeflow):
        for number, secret in enumerate(one.secrets):
            for name, key in secret.env.items():
                yield (*where, "secrets", number, "env", name), key


def variables_are_given_once(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    """Kubernetes refuses a variable with a value and a Secret, and of two Secrets the last one would win."""
    for where, own in pods(kubeflow):
        one = _whole(kubeflow, where)
        given: list[tuple[Where, str]] = [(("env", name), name) for name in one.env]
        for number, secret in enumerate(one.secrets):
            given += [(("secrets", number, "env", name), name) for name in secret.env]
        for inside, name in _again(given, own):
            yield (
                (*where, *inside),
                f"{name} is given elsewhere under `env` or `secrets` already; remove one of the two",
            )


def mounts_are_apart(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, own in pods(kubeflow):
        one = _whole(kubeflow, where)
        paths: list[tuple[Where, str]] = [(("volume",), folder(kubeflow.volume.path))] if kubeflow.volume else []
        paths += [(("shared_memory",), "/dev/shm")] if one.shared_memory else []  # noqa: S108 - of the pod
        paths += [((*inside, "path"), folder(path)) for inside, _, path in mounts(one)]
        for inside, path in _again(paths, own):
            yield (*where, *inside), f"another volume is mounted at {path} already; choose another folder"


def volumes_are_claims_or_secrets(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    """In a pod each is called by its own name, so two of one name would be one volume with two sources."""
    for where, own in pods(kubeflow):
        found = list(mounts(_whole(kubeflow, where)))
        claims = {name for inside, name, _ in found if inside[0] == "volumes"}
        claims |= {kubeflow.volume.claim} if kubeflow.volume else set()
        for inside, name, _ in found:
            if inside[0] == "secrets" and name in claims and {"volumes", "secrets"} & own.model_fields_set:
                what = f"a PersistentVolumeClaim {name} is mounted too, and a pod cannot have two volumes of one name"
                yield (*where, *inside, "name"), f"{what}; give the Secret another name, or take it as variables"


def _again(given: Iterable[tuple[Where, str]], own: ComponentSettings) -> Iterator[tuple[Where, str]]:
    """What was given before, with its place in the settings; what is said at that place clashes with the rest."""
    taken: set[str] = set()
    for inside, name in sorted(given, key=lambda one: one[0][0] in own.model_fields_set):
        if name in taken and inside[0] in own.model_fields_set:
            yield inside, name
        taken.add(name)


def limits_hold_requests(kubeflow: KubeflowConfig) -> Iterator[Finding]:
    for where, own in pods(kubeflow):
        one = _whole(kubeflow, where)
        for asked, limit in (("cpu", "cpu_limit"), ("memory", "memory_limit")):
            wanted, most = getattr(one, asked), getattr(one, limit)
            said = next((name for name in (limit, asked) if name in own.model_fields_set), None)
            if said and wanted is not None and most is not None and amount(str(most)) < amount(str(wanted)):
                yield (*where, said), f"{asked} {wanted} is asked for, which is more than {limit} {most}"


def _whole(kubeflow: KubeflowConfig, where: Where) -> ComponentSettings:
    """The settings at a place, with the defaults under them."""
    return kubeflow.settings(str(where[-1])) if where[1] == "components" else kubeflow.defaults


def _qualified(name: str) -> bool:
    prefix, slash, word = name.rpartition("/")
    return bool(WORD.fullmatch(word) and (not slash or SUBDOMAIN.fullmatch(prefix)))


RULES = (
    names_are_those_of_kubernetes,
    images_are_names,
    labels_are_those_of_kubernetes,
    nodes_are_named_as_in_kubernetes,
    variables_are_those_of_kubernetes,
    keys_are_those_of_secrets,
    variables_are_given_once,
    mounts_are_apart,
    volumes_are_claims_or_secrets,
    limits_hold_requests,
)

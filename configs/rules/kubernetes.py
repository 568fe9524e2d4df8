"""What Kubernetes would reject in `kubeflow:` only when the first pod is created, long after the run was accepted.

Syntax: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/, and the page on labels next to it.
Image names follow the distribution specification, and its reference implementation for the registry's host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from headrace.common.credentials import looks_like_secret
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.pod_resources import parse_quantity
from headrace.configs.schema.pods import ComponentSettings, normalized
from headrace.configs.schema.section import KeyPath

_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REPOSITORY = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")
"""Path of an image in a registry, after the host."""
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
HOST = re.compile(
    r"(?:localhost|(?=[^/]*[.:])[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?"
)
"""The first part is the registry's host only if it contains a dot or a colon, or is `localhost`."""
DIGEST = re.compile(r"[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9A-Fa-f]{32,}")
LABEL = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
"""An RFC 1123 label, for volumes and namespaces. Kubeflow names a volume after its claim or Secret."""
SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
WORD = re.compile(r"(?=.{1,63}\Z)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
"""The value of a label, and the part of its name after the slash."""
VARIABLE = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
KEY = re.compile(r"(?=.{1,253}\Z)[-._A-Za-z0-9]+")
SECRET_LENGTH = 8
"""Minimum length of an invalid key name that may be a secret."""
RESERVED = ("pipelines.kubeflow.org", "pipeline", "workflows.argoproj.io")
"""Prefixes of the labels by which Kubeflow and Argo identify their pods."""
_LABEL = "use at most 63 lower-case letters, digits and inner dashes"
_SUBDOMAIN = "use lower-case letters, digits, dashes and dots"
_WORD = "use at most 63 letters, digits, -, _ and ., starting and ending with a letter or digit"


def is_image(text: str) -> bool:
    """Whether a text names an image: `registry.example:5000/team/headrace:1`, or `headrace@sha256:...`."""
    name, at, digest = text.partition("@")
    host, slash, path = name.partition("/")
    rest = path if slash and HOST.fullmatch(host) else name
    repository, colon, tag = rest.partition(":")
    return bool(
        REPOSITORY.fullmatch(repository) and (not colon or TAG.fullmatch(tag)) and (not at or DIGEST.fullmatch(digest))
    )


def names_are_valid(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, name, shape, words in _names(kubeflow):
        if not shape.fullmatch(name):
            yield where, f'"{name}" is not a valid Kubernetes name; {words}'


def _names(kubeflow: KubeflowConfig) -> Iterator[tuple[KeyPath, str, re.Pattern[str], str]]:
    yield ("kubeflow", "namespace"), kubeflow.namespace, LABEL, _LABEL
    if kubeflow.volume is not None:
        yield ("kubeflow", "volume", "claim"), kubeflow.volume.claim, LABEL, _LABEL
    if kubeflow.server.service_account is not None:
        yield ("kubeflow", "server", "service_account"), kubeflow.server.service_account, SUBDOMAIN, _SUBDOMAIN
    if kubeflow.notify is not None:
        yield ("kubeflow", "notify", "service_account"), kubeflow.notify.service_account, SUBDOMAIN, _SUBDOMAIN
    if kubeflow.object_store.secret is not None:
        yield ("kubeflow", "object_store", "secret"), kubeflow.object_store.secret, SUBDOMAIN, _SUBDOMAIN
    pulling: list[tuple[KeyPath, tuple[str, ...]]] = [(("kubeflow",), kubeflow.image_pull_secrets)]
    for where, one in kubeflow.pods():
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


def images_are_valid(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    """An invalid name is not repeated if it may contain a password, such as `user:password@registry/headrace`."""
    given = [
        (("kubeflow", "image"), kubeflow.image),
        *(((*where, "image"), one.image) for where, one in kubeflow.pods()),
    ]
    for where, image in given:
        if image is not None and not is_image(image):
            what = "this" if "@" in image else f'"{image}"'
            yield where, f"{what} is not an image name such as registry.example/team/headrace:1"


def labels_are_valid(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, one in kubeflow.pods():
        for name in one.labels:
            prefix, slash, _ = name.partition("/")
            if slash and prefix in RESERVED:
                yield (*where, "labels", name), f"{name} is reserved for Kubeflow; choose another name"
        for setting, labels in (("labels", one.labels), ("node_selector", one.node_selector)):
            for name, value in labels.items():
                if not _qualified(name):
                    yield (
                        (*where, setting, name),
                        f'"{name}" is not a valid label name; {_WORD}, after an optional domain and /',
                    )
                elif value and not WORD.fullmatch(value):
                    yield (*where, setting, name), f'"{value}" is not a valid label value; {_WORD}'


def node_names_are_valid(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, one in kubeflow.pods():
        if one.accelerator is not None and not ("/" in one.accelerator.type and _qualified(one.accelerator.type)):
            what = f'"{one.accelerator.type}" is not a node resource such as nvidia.com/gpu or google.com/tpu'
            yield (*where, "accelerator", "type"), what
        for number, each in enumerate(one.tolerations):
            if each.key is not None and not _qualified(each.key):
                yield (*where, "tolerations", number, "key"), f'"{each.key}" is not a valid taint key; {_WORD}'
            if each.value is not None and not WORD.fullmatch(each.value):
                yield (*where, "tolerations", number, "value"), f'"{each.value}" is not a valid taint value; {_WORD}'


def variables_are_valid(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, one in kubeflow.pods():
        variables: list[tuple[KeyPath, str]] = [((*where, "env", name), name) for name in one.env]
        for number, secret in enumerate(one.secrets):
            place: KeyPath = (*where, "secrets", number, "env")
            variables += [((*place, name), name) for name in secret.env]
        for found, name in variables:
            if not VARIABLE.fullmatch(name):
                yield (
                    found,
                    f'"{name}" is not a valid variable name; use letters, digits, -, _ and ., and no digit first',
                )


def secret_keys_are_valid(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    """The config holds the name of a key. If it holds the secret itself by mistake, that is not repeated."""
    for where, key in _keys(kubeflow):
        if looks_like_secret(key) or (len(key) >= SECRET_LENGTH and not KEY.fullmatch(key)):
            yield where, "this looks like the secret itself; put it into a Secret, and its key here"
        elif not KEY.fullmatch(key):
            yield where, f'"{key}" is not a valid key of a Secret; use letters, digits, -, _ and .'


def _keys(kubeflow: KubeflowConfig) -> Iterator[tuple[KeyPath, str]]:
    store: KeyPath = ("kubeflow", "object_store")
    yield (*store, "access_key"), kubeflow.object_store.access_key
    yield (*store, "secret_key"), kubeflow.object_store.secret_key
    for where, one in kubeflow.pods():
        for number, secret in enumerate(one.secrets):
            for name, key in secret.env.items():
                yield (*where, "secrets", number, "env", name), key


def variables_are_set_once(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    """Kubernetes rejects a variable with both a value and a Secret, and of two Secrets the last would win."""
    for where, own in kubeflow.pods():
        one = _with_defaults(kubeflow, where)
        given: list[tuple[KeyPath, str]] = [(("env", name), name) for name in one.env]
        for number, secret in enumerate(one.secrets):
            given += [(("secrets", number, "env", name), name) for name in secret.env]
        for inside, name in _duplicates(given, own):
            yield (
                (*where, *inside),
                f"{name} is already set under `env` or `secrets`; remove one of the two",
            )


def mounts_do_not_overlap(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, own in kubeflow.pods():
        one = _with_defaults(kubeflow, where)
        paths: list[tuple[KeyPath, str]] = [(("volume",), normalized(kubeflow.volume.path))] if kubeflow.volume else []
        paths += [(("shared_memory",), "/dev/shm")] if one.shared_memory else []  # noqa: S108 - of the pod
        paths += [((*inside, "path"), normalized(path)) for inside, _, path in one.mounts()]
        for inside, path in _duplicates(paths, own):
            yield (*where, *inside), f"another volume is already mounted at {path}; choose another folder"


def volumes_have_unique_names(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    """In a pod, each volume has the name of its source, so two sources with one name would clash."""
    for where, own in kubeflow.pods():
        found = list(_with_defaults(kubeflow, where).mounts())
        claims = {name for inside, name, _ in found if inside[0] == "volumes"}
        claims |= {kubeflow.volume.claim} if kubeflow.volume else set()
        for inside, name, _ in found:
            if inside[0] == "secrets" and name in claims and {"volumes", "secrets"} & own.model_fields_set:
                what = f"a PersistentVolumeClaim {name} is mounted too, and volumes of a pod need different names"
                yield (*where, *inside, "name"), f"{what}; rename the Secret, or use it as variables"


def _duplicates(given: Iterable[tuple[KeyPath, str]], own: ComponentSettings) -> Iterator[tuple[KeyPath, str]]:
    """The names that occur more than once, each with the path of the setting in `own` that repeats it."""
    taken: set[str] = set()
    for inside, name in sorted(given, key=lambda one: one[0][0] in own.model_fields_set):
        if name in taken and inside[0] in own.model_fields_set:
            yield inside, name
        taken.add(name)


def limits_cover_requests(kubeflow: KubeflowConfig) -> Iterator[Violation]:
    for where, own in kubeflow.pods():
        one = _with_defaults(kubeflow, where)
        for asked, limit in (("cpu", "cpu_limit"), ("memory", "memory_limit")):
            wanted, most = getattr(one, asked), getattr(one, limit)
            named = next((name for name in (limit, asked) if name in own.model_fields_set), None)
            if not named or wanted is None or most is None:
                continue
            if parse_quantity(str(most)) < parse_quantity(str(wanted)):
                yield (*where, named), f"the request {asked}: {wanted} is more than {limit}: {most}"


def _with_defaults(kubeflow: KubeflowConfig, where: KeyPath) -> ComponentSettings:
    """The settings at a path, merged with the defaults, which are not those of the notifier's pod."""
    if where[1] == "notify":
        return dict(kubeflow.pods())[where]
    return kubeflow.settings(str(where[-1])) if where[1] == "components" else kubeflow.defaults


def _qualified(name: str) -> bool:
    prefix, slash, word = name.rpartition("/")
    return bool(WORD.fullmatch(word) and (not slash or SUBDOMAIN.fullmatch(prefix)))

"""How an object store is reached: the options of `open_store`, from the config or from Kubeflow's own settings.

root, options = launcher_settings(Path("/etc/kfp-launcher"), None)
store = open_store(options)

Kubeflow's settings are the ConfigMap `kfp-launcher`, mounted as a folder in a pod. They are read as the launcher reads
them (`backend/src/v2/config` of Kubeflow Pipelines 2.17.0), except for the keys, which come from the environment.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import yaml

from headrace.common import yaml_text
from headrace.common.errors import RunError

if TYPE_CHECKING:
    from headrace.configs.schema.kubeflow import Backend, KubeflowConfig

DEFAULT_ROOT = "minio://mlpipeline/v2/artifacts"
DEFAULT_STORE = "http://seaweedfs.kubeflow:9000"
BEFORE_SEAWEEDFS = ("2.14", "2.15")
"""Releases whose own store is MinIO."""
AWS = "s3.amazonaws.com"
"""The address of Amazon's store without a region. It is not an endpoint to connect to; the region decides which is."""


def store_options(settings: KubeflowConfig) -> dict[str, str]:
    """The options of `open_store` for a config."""
    own = settings.object_store.model_dump(include={"endpoint", "region"}, exclude_none=True)
    return {**own, "minio": own_store(settings.backend)}


def own_store(backend: Backend) -> str:
    """The endpoint of `minio://` unless the installation names another, as in the server's `objectstore/config.go`."""
    name = "minio-service" if backend in BEFORE_SEAWEEDFS else "seaweedfs"
    return f"http://{name}.kubeflow:9000"


def launcher_settings(folder: Path | None, root: str | None) -> tuple[str, dict[str, str]]:
    """The root of the runs, and the options of `open_store` to reach it. Raises RunError for unreadable settings.

    folder: the mounted ConfigMap; None, or a missing file in it, means Kubeflow's defaults. root: overrides the root
    in the settings.
    """
    texts = {name: _read(folder, name) for name in ("defaultPipelineRoot", "providers")}
    root, _, query = (root or texts["defaultPipelineRoot"] or DEFAULT_ROOT).partition("?")
    try:
        if query:  # is complete by itself: `?region=eu-1&endpoint=store.example:9000&disableSSL=true`
            return root, _address({name: values[-1] for name, values in parse_qs(query).items()})
        return root, _options(yaml_text.parse(texts["providers"]) or {}, root)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise RunError(f"{folder}/providers is not what Kubeflow's launcher reads: {error}") from error


def _read(folder: Path | None, name: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        return (folder / name).read_text(encoding="utf-8").strip() if folder else ""
    return ""


def _options(providers: Mapping[str, Any], root: str) -> dict[str, str]:
    scheme, _, path = root.partition("://")
    bucket, _, prefix = path.partition("/")
    provider = {name.lower(): value for name, value in (providers.get(scheme) or {}).items()}  # as Go reads names
    default = {"endpoint": DEFAULT_STORE.partition("://")[2], "disableSSL": True} if scheme == "minio" else {}
    if not provider.get("default") and not provider.get("overrides"):
        return _address(default)
    for one in provider.get("overrides") or ():
        if one["bucketName"] == bucket and f"{prefix.rstrip('/')}/".startswith(one.get("keyPrefix") or ""):
            return _address(
                {**provider["default"], **{name: value for name, value in one.items() if value not in ("", None)}}
            )
    return _address(provider["default"])


def _address(provider: Mapping[str, Any]) -> dict[str, str]:
    endpoint, region = provider.get("endpoint") or "", provider.get("region") or ""
    found = {"region": region} if region else {}
    host = re.sub(r"^https?://", "", endpoint)
    if not host or host.lower().startswith(AWS):
        return found
    without_tls = str(provider.get("disableSSL")).lower() == "true"
    plain = endpoint.startswith("http://") or (without_tls and not endpoint.startswith("https://"))
    return {**found, "endpoint": f"{'http' if plain else 'https'}://{host}"}

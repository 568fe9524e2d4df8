"""Kubeflow's own settings for the object store: the ConfigMap `kfp-launcher`, as files of a folder in a pod.

root, options = launcher_settings(Path("/etc/kfp-launcher"), None)
store = open_store(options)

Read as the launcher reads them (`backend/src/v2/config` of Kubeflow Pipelines 2.17.0); the keys of the store come from
the environment here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import yaml

from headrace.configs.errors import RunError

DEFAULT_ROOT = "minio://mlpipeline/v2/artifacts"
DEFAULT_STORE = "http://seaweedfs.kubeflow:9000"
AWS = "s3.amazonaws.com"
"""The address of Amazon's own store that says no region, and so is none to ask; the region says which is."""


def launcher_settings(folder: Path | None, root: str | None) -> tuple[str, dict[str, str]]:
    """The root of the runs, and what `open_store` has to know to reach it. RunError where that cannot be read.

    folder: of the ConfigMap; None, or without one of its files: as where the installation says nothing. root: another
    root than the one that stands there.
    """
    told = {name: _read(folder, name) for name in ("defaultPipelineRoot", "providers")}
    root, _, query = (root or told["defaultPipelineRoot"] or DEFAULT_ROOT).partition("?")
    try:
        if query:  # says all itself: `?region=eu-1&endpoint=store.example:9000&disableSSL=true`
            return root, _address({name: values[-1] for name, values in parse_qs(query).items()})
        return root, _options(yaml.safe_load(told["providers"]) or {}, root)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise RunError(f"{folder}/providers is not what Kubeflow's launcher reads: {error}") from error


def _read(folder: Path | None, name: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        return (folder / name).read_text(encoding="utf-8").strip() if folder else ""
    return ""


def _options(providers: Mapping[str, Any], root: str) -> dict[str, str]:
    scheme, _, path = root.partition("://")
    bucket, _, prefix = path.partition("/")
    told = {name.lower(): value for name, value in (providers.get(scheme) or {}).items()}  # as Go reads names
    default = {"endpoint": DEFAULT_STORE.partition("://")[2], "disableSSL": True} if scheme == "minio" else {}
    if not told.get("default") and not told.get("overrides"):
        return _address(default)
    for one in told.get("overrides") or ():
        if one["bucketName"] == bucket and f"{prefix.rstrip('/')}/".startswith(one.get("keyPrefix") or ""):
            return _address(
                {**told["default"], **{name: value for name, value in one.items() if value not in ("", None)}}
            )
    return _address(told["default"])


def _address(provider: Mapping[str, Any]) -> dict[str, str]:
    endpoint, region = provider.get("endpoint") or "", provider.get("region") or ""
    found = {"region": region} if region else {}
    host = re.sub(r"^https?://", "", endpoint)
    if not host or host.lower().startswith(AWS):
        return found
    without_tls = str(provider.get("disableSSL")).lower() == "true"
    plain = endpoint.startswith("http://") or (without_tls and not endpoint.startswith("https://"))
    return {**found, "endpoint": f"{'http' if plain else 'https'}://{host}"}

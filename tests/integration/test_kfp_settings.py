"""The ConfigMaps `kfp-launcher` of the overlays, as the release's own driver and launcher read them; and as we do."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from command import ROOT
from kfp_server import Server

from headrace.pipeline.kubeflow.store_settings import launcher_settings

pytestmark = pytest.mark.slow

KEYS = {"secretName": "mlpipeline-minio-artifact", "accessKeyKey": "accesskey", "secretKeyKey": "secretkey"}
OVERRIDES = """
s3:
  default: {endpoint: far.example, region: eu-1, credentials: {fromEnv: true}}
  Overrides:
    - {bucketName: b, keyPrefix: a/, endpoint: "near:9000", disableSSL: true, credentials: {fromEnv: true}}
"""


def settings(overlay: str) -> dict[str, str]:
    reported: dict[str, str] = yaml.safe_load((ROOT / "kubernetes/overlays" / overlay / "launcher.yaml").read_text())[
        "data"
    ]
    return reported


def read_by_kubeflow(server: Server, data: dict[str, str], root: str = "") -> Any:
    body = json.dumps(data).encode()
    request = urllib.request.Request(f"{server.url}/launcher-settings?root={quote(root)}", body, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def read_by_us(folder: Path, data: dict[str, str], root: str = "") -> tuple[str, dict[str, str]]:
    for name, text in data.items():
        (folder / name).write_text(text)
    return launcher_settings(folder, root or None)


def test_small_overlay_says_what_kubeflow_would_take_without_it(server: Server) -> None:
    reported = read_by_kubeflow(server, settings("small"))
    usual = read_by_kubeflow(server, {})
    assert reported["root"] == usual["root"] == "minio://mlpipeline/v2/artifacts"
    assert reported["provider"] == usual["provider"] == "minio"
    assert reported["params"] == {**usual["params"], "forcePathStyle": "true"}  # what S3 stores of one's own need
    assert reported["params"].items() >= {**KEYS, "endpoint": "seaweedfs.kubeflow:9000", "disableSSL": "true"}.items()


def test_cloud_overlay_has_no_keys_and_amazons_store(server: Server) -> None:
    reported = read_by_kubeflow(server, settings("cloud"))
    assert (reported["root"], reported["provider"]) == ("s3://your-bucket/headrace", "s3")
    assert reported["params"].items() >= {"fromEnv": "true", "region": "eu-central-1", "disableSSL": "false"}.items()
    assert not set(KEYS) & set(reported["params"])


@pytest.mark.parametrize(
    ("data", "root"),
    [
        ({}, ""),
        (settings("small"), ""),
        (settings("cloud"), ""),
        ({"providers": OVERRIDES}, "s3://b/a"),
        ({"providers": OVERRIDES}, "s3://b/ab/c"),
        ({"providers": OVERRIDES}, "s3://c/a"),
        ({"providers": OVERRIDES}, "minio://mlpipeline/v2/artifacts"),
    ],
)
def test_we_reach_the_store_that_kubeflow_reaches(
    server: Server, data: dict[str, str], root: str, tmp_path: Path
) -> None:
    reported = read_by_kubeflow(server, data, root)
    found, options = read_by_us(tmp_path, data, root)
    assert found == reported["root"]
    plain = reported["params"]["disableSSL"] == "true"
    endpoint = f"http{'' if plain else 's'}://{reported['params']['endpoint']}"
    amazon = endpoint == "https://s3.amazonaws.com"  # the launcher leaves that out too
    assert options.get("endpoint") == (None if amazon else endpoint)
    assert options.get("region", "minio") == reported["params"]["region"]

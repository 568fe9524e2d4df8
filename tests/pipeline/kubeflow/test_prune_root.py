"""`headrace prune --root`, on a store with all that runs on Kubeflow leave there: spans go, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forks
import pytest
from s3_proxy import s3_proxy
from s3_servers import S3Server

from headrace.pipeline.kubeflow.store import Store

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: "s3://lake/{YYYY}-{MM}-{DD}.csv"}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""
OLD, NEW = "0" * 32, "f" * 32
UNLISTED = f"trips/spans/{NEW}/shards/{'3' * 64}"
"""What a killed pod uploaded of a span that stays."""
GOES = {
    UNLISTED,
    f"trips/spans/{OLD}/shards.json",
    f"trips/spans/{OLD}/shards/{'1' * 64}",
    "trips/spans/runs/a/example-gen.json",
}
STAYS = {
    f"trips/spans/{NEW}/shards.json",
    f"trips/spans/{NEW}/shards/{'2' * 64}",
    "trips/spans/runs/b/example-gen.json",
    "trips/spans/seen.json",
    "trips/blessed.json",
    "trips/blessed/2026-03-01T12:00:00.000000+00:00-blessed-0123456789abcdef.json",
    "trips/trained.json",
    "trips/trained/2026-03-01T12:00:00.000000+00:00-blessed-0123456789abcdef.json",
    "trips/pushed.json",
    "trips/serving/1772366400/saved_model.pb",
    "trips/serving/1772366400/variables/variables.index",
    "trips/checkpoints/0123/checkpoint-00000010.npz",
    "trips/a/trainer/17/model/Format-Serving/saved_model.pb",
    "trips/a/record-blessing/17/record",
    f"trips-two/spans/{OLD}/shards.json",
    "trips-two/spans/runs/a/example-gen.json",
    f"trips/other/spans/{OLD}/shards.json",
}


@pytest.fixture
def bucket(s3_server: S3Server, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """All of it, written long ago; run `b` a day after run `a`."""
    bucket, keys = s3_server.resource().Bucket("root"), {"a": OLD, "b": NEW}
    for name in GOES | STAYS:
        used = json.dumps([keys[name.split("/")[3]]]) if "/runs/" in name else "{}"
        if name == f"trips/spans/{NEW}/shards.json":
            used = json.dumps({"a": {"object": "2" * 64, "size": 2, "crc32c": 0}})
        bucket.put_object(Key=f"v2/{name}", Body=used.encode())
    with s3_proxy(s3_server.url) as proxy:
        proxy.age({f"/root/v2/{name}": age_of(name) for name in GOES | STAYS})
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield bucket


def age_of(name: str) -> int:
    """Days."""
    return 4 if "/runs/b/" in name or (NEW in name and name != UNLISTED) else 5


def prune(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "trips.yaml").write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("headrace")), "prune", "trips.yaml", "--keep", "1", *more]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return forks.run(command, cwd=folder, env=environment)


@pytest.mark.slow
def test_only_spans_that_no_kept_run_used_go_of_all_that_is_there(bucket: Any, tmp_path: Path) -> None:
    tried = prune(tmp_path, "--root", "s3://root/v2", "--dry-run")
    would = [
        f"would remove s3://root/v2/trips/spans/{OLD}",
        f"would remove s3://root/v2/{UNLISTED}, which no list names",
    ]
    assert (tried.returncode, tried.stdout.splitlines()[:2]) == (0, would)
    assert files(bucket) == {f"v2/{name}" for name in GOES | STAYS}
    done = prune(tmp_path, "--root", "s3://root/v2/")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 key of spans and 1 unlisted object: freed" in done.stdout
    marks = {
        f"v2/trips/spans/{folder}" for folder in ("", "runs/", f"{NEW}/shards/")
    }  # PyArrow's, of folders that are there
    assert files(bucket) == {f"v2/{name}" for name in STAYS} | marks


def files(bucket: Any) -> set[str]:
    return {one.key for one in bucket.objects.all()}

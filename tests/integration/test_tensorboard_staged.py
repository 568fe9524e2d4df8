"""TensorBoard as in the pod of `kubernetes/base`: it shows what `headrace follow-logs` copies from a real S3 server."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from command import ROOT, Going, headrace, wait_until
from forks import Forked
from kfp_cluster import BUCKET, Bucket
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

pytestmark = pytest.mark.slow

PIPELINE_ROOT = f"minio://{BUCKET}/v2/artifacts"
LOSSES = {"run-1": [3.0, 2.0, 1.0], "run-2": [0.75, 0.5]}
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def train(bucket: Bucket, folder: Path, run: str) -> list[str]:
    """Put what a training of a run logged where Kubeflow's launcher puts it; the names of the objects."""
    writer = EventFileWriter(str(folder))
    for step, loss in enumerate(LOSSES[run]):
        value = Summary.Value(tag="epoch_loss", simple_value=loss)
        writer.add_event(Event(step=step, wall_time=1.0 + step, summary=Summary(value=[value])))
    writer.close()
    names = []
    for path in folder.iterdir():
        names.append(f"v2/artifacts/taxi/{run}/trainer/4711/model_run/train/{path.name}")
        bucket.client.upload_file(str(path), BUCKET, names[-1])
    return names


@pytest.fixture
def settings(bucket: Bucket, tmp_path: Path) -> Path:
    """The small overlay's ConfigMap `kfp-launcher`, as a pod has it mounted, with the store of this test."""
    reported = yaml.safe_load((ROOT / "kubernetes/overlays/small/launcher.yaml").read_text())["data"]
    folder = tmp_path / "kfp-launcher"
    folder.mkdir()
    for name, text in reported.items():
        (folder / name).write_text(text.replace("seaweedfs.kubeflow:9000", bucket.server.removeprefix("http://")))
    return folder


@pytest.fixture
def arguments() -> dict[str, list[str]]:
    """The arguments of the containers in the pod."""
    deployment = next(yaml.safe_load_all((ROOT / "kubernetes/base/tensorboard.yaml").read_text()))
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return {container["name"]: container["args"] for container in containers}


@pytest.fixture
def board(arguments: dict[str, list[str]], tmp_path: Path) -> Iterator[str]:
    """The address of a TensorBoard."""
    (tmp_path / "logs").mkdir()
    there = {"/logs": str(tmp_path / "logs"), "0.0.0.0": "127.0.0.1", "6006": "0", "30": "1"}
    command = [sys.executable, "-m", "tensorboard.main", *(there.get(one, one) for one in arguments["tensorboard"])]
    with Forked(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        yield next(found[0] for line in lines if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        process.kill()


def shown(board: str, plugin_path: str, **asked: str) -> Any:
    with urllib.request.urlopen(f"{board}/data/plugin/scalars/{plugin_path}?{urlencode(asked)}", timeout=60) as answer:
        return json.load(answer)


def test_a_staged_training_is_shown_when_it_appears_and_no_longer_when_it_is_gone(
    bucket: Bucket, settings: Path, board: str, arguments: dict[str, list[str]], tmp_path: Path
) -> None:
    first = train(bucket, tmp_path / "first", "run-1")
    there = {"/logs": "logs", "/etc/kfp-launcher": str(settings), "30": "0.2"}
    environment = {name: bucket.at.environment[name] for name in KEYS}
    options = [there.get(one, one) for one in arguments["follow-logs"]]
    follower = Going(tmp_path, "follow-logs", *options, **environment)
    follower.wait_for(rf"^following {PIPELINE_ROOT} in logs$")
    follower.wait_for(r"^copied 1 file .* removed 0; 1 in the folder$")
    assert wait_until(lambda: set(shown(board, "tags")) == {"taxi/run-1/train"})

    train(bucket, tmp_path / "second", "run-2")
    for name in first:
        bucket.client.delete_object(Bucket=BUCKET, Key=name)
    assert wait_until(lambda: set(shown(board, "tags")) == {"taxi/run-2/train"})
    points = shown(board, "scalars", run="taxi/run-2/train", tag="epoch_loss")
    assert [value for _, _, value in points] == LOSSES["run-2"]

    follower.signal(signal.SIGTERM)
    ended = follower.finish()
    assert (ended.code, ended.lines[-1]) == (0, "ended"), ended.err
    again = headrace(tmp_path, "follow-logs", *options, "--once", **environment)
    assert (again.code, again.lines[-1]) == (0, "copied 0 files (0 B), removed 0; 1 in the folder"), again.err

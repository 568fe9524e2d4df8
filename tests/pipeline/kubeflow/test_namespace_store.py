"""Kubeflow's object store on a multi-user server, with the policies that Kubeflow sets: what a namespace's keys reach
there, and what a pod does with them.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from s3_servers import ENDPOINT, S3Server

from headrace.components.stored_models.blessed_record import Registry
from headrace.components.stored_models.blessing import record_blessing
from headrace.pipeline.kubeflow.pod.checkpoints import mirrored
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import KEYS, Store, StoreError, open_store

BUCKET = "mlpipeline"
ARN = f"arn:aws:s3:::{BUCKET}"
HOME = f"minio://{BUCKET}/private-artifacts/team-a/v2/artifacts/trips"
NOON = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
CHECKPOINT = "0123456789abcdef/batch-00000001.npz"


def may_list(effect: str, condition: dict[str, Any]) -> dict[str, Any]:
    return {"Effect": effect, "Principal": "*", "Action": "s3:ListBucket", "Resource": ARN, "Condition": condition}


OWN = ["private-artifacts/${aws:username}/*", "private/${aws:username}/*"]
LISTING = [
    may_list("Allow", {"StringLike": {"s3:prefix": [*OWN, "artifacts/*", "shared/*"]}}),
    may_list("Allow", {"StringEquals": {"s3:RequestMethod": "HEAD"}}),
    may_list("Allow", {"Null": {"s3:prefix": "true"}, "StringEquals": {"s3:delimiter": "/"}}),
    may_list(
        "Deny", {"StringLike": {"s3:prefix": ["private-artifacts/*", "private/*"]}, "StringNotLike": {"s3:prefix": OWN}}
    ),
]
"""The policy of the bucket. This and that of a user are from 2.17.0's `pipelines-profile-controller/sync.py`."""


def objects_of(namespace: str) -> dict[str, Any]:
    folders = ("artifacts/*", f"private-artifacts/{namespace}/*", f"private/{namespace}/*", "shared/*")
    actions = ["s3:Put*", "s3:Get*", "s3:List*", "s3:DeleteObject"]
    return {"Effect": "Allow", "Action": actions, "Resource": [f"{ARN}/{folder}" for folder in folders]}


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture(scope="module")
def keys(s3_server: S3Server) -> Iterator[dict[str, tuple[str, str]]]:
    """By namespace the keys that Kubeflow puts into its Secret `mlpipeline-minio-artifact`."""
    if ENDPOINT in os.environ:
        pytest.skip(f"{ENDPOINT} names a server that may have no users")
    import boto3

    found, of_server = {}, {"aws_access_key_id": s3_server.access_key, "aws_secret_access_key": s3_server.secret_key}
    iam = boto3.client("iam", endpoint_url=s3_server.url, region_name=s3_server.region, **of_server)
    with s3_server.bucket(BUCKET) as bucket:
        for namespace in ("team-a", "team-b"):
            iam.create_user(UserName=namespace)
            made = iam.create_access_key(UserName=namespace)["AccessKey"]
            document = policy(objects_of(namespace))
            iam.put_user_policy(UserName=namespace, PolicyName=f"KubeflowProject{namespace}", PolicyDocument=document)
            found[namespace] = (made["AccessKeyId"], made["SecretAccessKey"])
        bucket.meta.client.put_bucket_policy(Bucket=BUCKET, Policy=policy(*LISTING))
        yield found
        bucket.meta.client.delete_bucket_policy(Bucket=BUCKET)
        for namespace, (access, _) in found.items():
            iam.delete_access_key(UserName=namespace, AccessKeyId=access)
            iam.delete_user_policy(UserName=namespace, PolicyName=f"KubeflowProject{namespace}")
            iam.delete_user(UserName=namespace)


@pytest.fixture
def store_of(
    s3_server: S3Server, keys: dict[str, tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Store]:
    """The store as a pod in a namespace has it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("HEADRACE_STORE", raising=False)

    def store(namespace: str) -> Store:
        for name, value in zip(KEYS, keys[namespace], strict=True):
            monkeypatch.setenv(name, value)
        made = open_store({"endpoint": s3_server.url}, of_pod=True)
        assert not made.files(f"minio://{BUCKET}/private/{namespace}/none")  # with the keys that are set now
        return made

    return store


def test_a_pod_does_all_that_it_must_below_the_folder_of_its_namespace(
    store_of: Callable[[str], Store], tmp_path: Path
) -> None:
    store, pod = store_of("team-a"), PodPaths(str(tmp_path / "pod"))
    registry = pod.local(f"{HOME}/blessed.json")
    with present({"registry": str(registry)}, pod, store):
        record_blessing(registry, str(pod.local(f"{HOME}/run-1/trainer/17/model")), NOON)
    (tmp_path / "model" / "variables").mkdir(parents=True)
    (tmp_path / "model" / "saved_model.pb").write_text("graph")
    (tmp_path / "model" / "variables" / "data").write_bytes(bytes(6_000_000))  # in more than one part
    store.put_all(tmp_path / "model", f"{HOME}/serving/7", last="saved_model.pb")
    assert store.children(f"{HOME}/serving") == ["7"]
    assert store.get_all(f"{HOME}/serving/7", tmp_path / "back") == 2
    assert (tmp_path / "back/variables/data").stat().st_size == 6_000_000
    checkpoints = tmp_path / "checkpoints"
    with mirrored(checkpoints, f"{HOME}/checkpoints", store):
        (checkpoints / CHECKPOINT).parent.mkdir(parents=True)
        (checkpoints / CHECKPOINT).write_text("weights")
    assert list(store.files(f"{HOME}/checkpoints")) == [CHECKPOINT]
    for name in store.files(f"{HOME}/serving/7"):
        store.remove(f"{HOME}/serving/7/{name}")
    store.remove_if_empty(f"{HOME}/serving/7")
    assert not store.children(f"{HOME}/serving")
    again = PodPaths(str(tmp_path / "again"))
    registry = again.local(f"{HOME}/blessed.json")
    with present({"registry": str(registry)}, again, store):
        (model,) = Registry.read(registry).models
    assert model.uri.endswith("run-1/trainer/17/model")


@pytest.mark.parametrize(
    ("namespace", "root"),
    [
        ("team-b", HOME),
        ("team-a", f"minio://{BUCKET}/v2/artifacts/trips"),  # kubeflow.pipeline_root, unless it is set
        ("team-a", f"minio://{BUCKET}/private-artifacts/team-ab/v2/trips"),
    ],
)
def test_elsewhere_a_pod_is_refused_and_says_which_folder_it_has(
    store_of: Callable[[str], Store], tmp_path: Path, namespace: str, root: str
) -> None:
    store = store_of(namespace)
    (tmp_path / "file").write_text("x")
    uri = f"{root}/blessed.json"
    asks: list[Callable[[], object]] = [
        lambda: store.get(uri, tmp_path / "back"),
        lambda: store.files(root),
        lambda: store.put(tmp_path / "file", uri),
        lambda: store.remove(uri),
    ]
    for each in asks:
        with pytest.raises(StoreError, match=r"(?s)refuses the keys .*pipeline_root .*private-artifacts/<namespace>/"):
            each()

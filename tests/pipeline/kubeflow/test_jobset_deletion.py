"""A JobSet that is deleted and stays, as one does whose finalizer nobody removes."""

from __future__ import annotations

from pathlib import Path

import jobsets
import pytest

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.distributed.cluster import JobSetClient
from headrace.pipeline.kubeflow.distributed.jobset import GROUP

RULES = [{"apiGroups": [GROUP], "resources": ["jobsets"], "verbs": ["create", "delete", "get"]}]


def test_a_new_try_does_not_wait_for_ever_for_the_jobset_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with jobsets.Cluster(tmp_path, RULES, {}, {}) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        stuck = {"metadata": {"name": "headrace-1", "finalizers": ["example.com/quota"]}}
        cluster.jobsets["headrace-1"] = jobsets.JobSet(stuck)
        with pytest.raises(RunError) as raised:
            JobSetClient("kubeflow", gone_seconds=0).create({"metadata": {"name": "headrace-1"}})
        assert cluster.jobsets["headrace-1"].deleted.is_set()
    first, way_out = str(raised.value).splitlines()
    assert "headrace-1" in first
    assert "finalizers: example.com/quota" in first
    assert "kubectl -n kubeflow edit jobset headrace-1" in way_out

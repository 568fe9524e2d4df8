"""The exit handler of a run through a stock release's API server, driver and launcher: the program of its pod tells of
a run whose pod was killed, while the run is going on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ROOT, headrace
from kfp_cluster import Bucket, Cluster, cluster
from kfp_server import Server
from kfp_workflows import tell
from receivers import http_receiver

pytestmark = pytest.mark.slow

KILL = """
import os, signal

def rows():
    os.killpg(0, signal.SIGKILL)  # the launcher too, as the kernel does with a container
    yield {}
"""
CONFIG = """
pipeline: {{name: doomed}}
data: {{source: {{kind: python, function: doomed_rows.rows}}}}
label: {{key: y, kind: regression}}
features: {{x: {{column: numeric}}}}
notify: {{ops: {{kind: webhook, url: "{hook}", on: [failed, interrupted]}}}}
kubeflow:
  image: registry.example/headrace:1
  object_store: {{endpoint: "{store}"}}
  defaults: {{env: {{PYTHONPATH: "{folder}"}}}}
  notify: {{exit_handler: true, endpoint: "{server}"}}
"""


@pytest.fixture(scope="module")
def there(
    server: Server, kfp_binary: Path, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("code")
    with cluster(server, kfp_binary, bucket, tmp_path_factory.mktemp("cluster"), shared=[folder]) as there:
        (folder / "doomed_rows.py").write_text(KILL, encoding="utf-8")
        (there.database.parent / "code").symlink_to(folder)
        yield there


def test_a_run_whose_pod_was_killed_is_told_by_its_exit_handler_and_not_again_by_the_sweep(
    there: Cluster, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (there.database.parent / "code").resolve()
    with http_receiver() as hook:
        given = {"hook": hook.url, "store": bucket.server, "folder": code, "server": there.server.url}
        (tmp_path / "doomed.yaml").write_text(CONFIG.format(**given), encoding="utf-8")
        environment = {"PYTHONPATH": str(code)}
        done = headrace(tmp_path, "compile", "doomed.yaml", "-o", "pipeline.yaml", **environment)
        assert done.code == 0, done.out + done.err
        run = there.submitted(there.uploaded(tmp_path / "pipeline.yaml", "doomed"))
        argo = there.argo(there.server.executed(run.run_id))
        argo.on_exit = lambda: tell(there.server, run.run_id, argo.status)
        with pytest.raises(AssertionError, match=r"example-gen: main: OOMKilled \(exit code 137\)"):
            argo.run()
        pod = argo.pods["headrace-notify"]
        assert (pod.code, argo.status["phase"]) == (0, "Failed"), pod.log
        assert f"run       {run.display_name}  failed: told ops" in pod.log
        (event,) = (one.json for one in hook.requests)
        assert event["id"].split("/")[1] == run.run_id
        assert [one["component"] for one in event["data"]["failed"]] == ["ExampleGen"]
        assert event["data"]["failed"][0]["error"].endswith("(OOMKilled, exit code 137)")
        assert hook.url not in pod.log

        tell(there.server, run.run_id, argo.status)
        assert there.server.get(f"/apis/v2beta1/runs/{run.run_id}")["state"] == "FAILED"
        keys = {"HEADRACE_STORE_ACCESS_KEY": bucket.at.access_key, "HEADRACE_STORE_SECRET_KEY": bucket.at.secret_key}
        sweep = ("notify", "doomed.yaml", "--kubeflow", "--set", f"kubeflow.server.endpoint={there.server.url}")
        swept = headrace(tmp_path, *sweep, **environment, **keys)
        assert (swept.code, swept.out[:16]) == (0, "nothing to tell:"), swept.err
        assert len(hook.requests) == 1


def test_conditions_and_parameters_of_a_run_are_accepted_within_the_group(there: Cluster, tmp_path: Path) -> None:
    settings = {
        "kubeflow.image": "registry.example/headrace:1",
        "notify": "{ops: {kind: webhook, url: 'http://127.0.0.1:9'}}",
        "kubeflow.notify": "{exit_handler: true}",
        "schedule": "{cron: '30 4 * * *', retrain: drift}",
    }
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    done = headrace(ROOT, "compile", "configs/taxi.yaml", *options, "-o", str(tmp_path / "pipeline.yaml"))
    assert done.code == 0, done.out + done.err
    run = there.submitted(there.uploaded(tmp_path / "pipeline.yaml", "taxi"), epochs=3)
    templates = {one["name"]: one for one in there.server.workflow(run.run_id)["spec"]["templates"]}
    (hooked,) = (one for one in templates["root"]["dag"]["tasks"] if "hooks" in one)
    assert (hooked["name"], hooked["hooks"]["exit"]["template"]) == ("exit-handler-1", "exit-hook-root-headrace-notify")
    of_group = {one["name"] for one in templates["comp-exit-handler-1"]["dag"]["tasks"]}
    assert {"spans", "condition-2"} <= of_group
    assert "trainer" in {one["name"] for one in templates["comp-condition-3"]["dag"]["tasks"]}

"""What a Kubeflow with its own configuration of Argo does by itself, and what the verbs make of it: the same assertions
against the API server of a release that the tests built, with a test instead of Argo, and against the Kubeflow
that HEADRACE_TEST_KFP_ENDPOINT names (conftest.py says what it needs).
"""

from __future__ import annotations

import itertools
import re
import urllib.request

import pytest
from kfp_commands import Built, Kubeflow, name_of
from kfp_server import Server
from kfp_workflows import archived, put, report

pytestmark = pytest.mark.slow

numbers = itertools.count(3000)
EVERY = "schedule.every=1m"


def test_a_run_outlives_its_schedule_and_can_still_be_cancelled(kubeflow: Kubeflow) -> None:
    kubeflow("schedule", "--set", EVERY)
    (schedule,) = kubeflow.schedules()
    run_id = kubeflow.first_run(schedule)
    assert kubeflow("schedule", "--set", "schedule.every=6h").lines[-1].endswith("every 6h  changed")
    assert kubeflow("unschedule").lines[-1].endswith("deleted")
    assert kubeflow.schedules() == []
    assert kubeflow("status", run_id).lines[-1].endswith("running")
    assert "is being cancelled" in kubeflow("cancel", run_id).out
    kubeflow.end_cancelled(run_id)
    assert kubeflow("status", run_id, code=3).lines[-1].endswith("cancelled")


def test_a_cancelled_run_is_failed_for_the_server_and_cancelled_for_us(kubeflow: Kubeflow) -> None:
    name = name_of(kubeflow("submit"))
    (run,) = kubeflow.runs()
    kubeflow.pod_of(run["run_id"], "spans")
    assert "is being cancelled" in kubeflow("cancel", name).out
    kubeflow.end_cancelled(run["run_id"])
    (run,) = kubeflow.runs()
    assert run["state"] == "FAILED"
    assert "CANCELING" in [entry["state"] for entry in run["state_history"]]
    for watch in ((), ("--watch",)):
        assert kubeflow("status", *watch, code=3).lines[-1] == f"run       {name}  cancelled"
    assert [line.split()[2] for line in kubeflow("runs").lines] == ["cancelled"]


def test_a_pod_whose_log_is_out_of_reach_is_named(kubeflow: Kubeflow) -> None:
    kubeflow("submit")
    (run,) = kubeflow.runs()
    pod = kubeflow.pod_of(run["run_id"], "spans")
    last = kubeflow("logs", "Spans", code=1, KUBECONFIG="/nowhere").err.splitlines()[-1]
    found = re.fullmatch(r"  with access to the cluster: kubectl logs -n \S+ -c main (\S+)", last)
    assert found, last
    assert found[1] == pod if pod else re.fullmatch(r".+-system-container-impl-\d+", found[1])


@pytest.fixture
def built(server: Server) -> Built:
    return Built(server, next(numbers))


def test_a_log_is_read_by_the_interface_while_its_pod_is_there_and_from_the_archive_afterwards(built: Built) -> None:
    built("submit")
    (run,) = built.runs()
    pod = built.pod_of(run["run_id"], "trainer")
    put(built.server, f"/pods/{pod}", "epoch 1/10\n")
    assert "the API server: " in built("logs", "Trainer", code=1, KUBECONFIG="/nowhere").err
    built.url = built.server.interface
    assert built("logs", "Trainer").out == "epoch 1/10\n"
    urllib.request.urlopen(urllib.request.Request(f"{built.server.url}/pods/{pod}", method="DELETE")).close()
    archived(built.server, run["run_id"], pod, "epoch 2/10\n")
    assert built("logs", "Trainer").out == "epoch 2/10\n"


def test_a_run_whose_workflow_is_gone_is_lost(built: Built) -> None:
    name = name_of(built("submit"))
    (run,) = built.runs()
    report(built.server, run["run_id"], "Running", {"a": ("spans", "Running", 0, 0)})
    urllib.request.urlopen(urllib.request.Request(f"{built.url}/argo/{run['run_id']}", method="DELETE")).close()
    assert f"{name}  lost: its workflow is gone" in built("cancel", name).out


def test_a_component_killed_for_memory_says_so_and_what_to_set(built: Built) -> None:
    built("submit", "--set", "kubeflow.components.Trainer.memory_limit=6Gi")
    (run,) = built.runs()
    pod = built.pod_of(run["run_id"], "trainer")
    archived(built.server, run["run_id"], pod, "epoch 2/10\n", ended="main: OOMKilled (exit code 137)")
    status, logs = built("status", code=1), built("logs", "Trainer")
    assert status.lines[-1].endswith("failed: Trainer")
    assert logs.out == "epoch 2/10\n"
    for done in (status, logs):
        assert "Trainer was killed because its pod ran out of memory" in done.err
        assert "6Gi" in done.err
        assert "kubeflow.components.Trainer.memory_limit: 12Gi" in done.err


def test_every_container_of_a_run_says_what_it_asks_for_so_that_a_quota_takes_it(built: Built) -> None:
    built("submit")
    (run,) = built.runs()
    templates = built.server.executed(run["run_id"])["spec"]["templates"]
    names = []
    for template in templates:
        own = [template["container"]] if "container" in template else []
        for container in [*own, *template.get("initContainers", ()), *template.get("sidecars", ())]:
            names.append((template["name"], container.get("name") or "main"))
            if names[-1] == ("system-container-impl", "main"):
                continue  # the driver's patch gives it what is compiled, below
            limits = container["resources"]["limits"]
            assert limits.keys() >= {"cpu", "memory"}, names[-1]  # Kubernetes takes them for requests that are missing
    assert {("system-container-impl", "kfp-launcher"), ("system-container-driver", "main")} <= set(names)
    (version,) = built.versions()
    specification = version["pipeline_spec"]
    executors = specification.get("pipeline_spec", specification)["deploymentSpec"]["executors"]
    for executor in executors.values():
        resources = executor["container"]["resources"]
        asked = {"resourceCpuRequest", "resourceCpuLimit", "resourceMemoryRequest", "resourceMemoryLimit"}
        assert resources.keys() >= asked

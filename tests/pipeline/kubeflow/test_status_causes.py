"""`headrace status` of a run that ended badly: what its pods said about a failure, such as a gate that stopped the run,
and which gate refused its model.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from api_server import ApiServer
from command import Finished, headrace
from compiled_trips import TRIPS
from ended_runs import BLESSED, EVALUATION, HOME, ROOT, Kubeflow
from ended_runs import kubeflow_of as pipeline_on
from faulty_backend import serving
from forks import Forked
from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from test_kubeflow_entrypoint import Pod
from test_kubeflow_gates import config as gated_config
from test_kubeflow_gates import put_day

from headrace.components.evaluation.result import ThresholdCheck
from headrace.components.gates.verdict import DataVerdicts, GateRow, GateVerdict
from headrace.pipeline.kubeflow.compiler import compile as compile_module
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
from headrace.pipeline.kubeflow.store import KEYS, open_store

GOLDEN = Path(__file__).with_name("golden") / "plain.golden"
NODE = "taxi-abc.root.{task}.executor"


def verdicts(*stopping: str) -> str:
    row = GateRow(
        what="fare", measure="Jensen-Shannon divergence", value="0.8", limit="0.1", before="a", now="b", excess=7
    )
    return DataVerdicts(gates=tuple(GateVerdict.of(name, "stop", [row]) for name in stopping)).model_dump_json()


def statistics() -> DatasetFeatureStatisticsList:
    """Of 200 rows with nothing wrong."""
    found = DatasetFeatureStatisticsList()
    dataset = found.datasets.add(name="train", num_examples=200)
    for name, kind in {"fare": "FLOAT", "kind": "STRING", "tip": "INT"}.items():
        feature = dataset.features.add(type=kind)
        feature.path.step.append(name)
        values = feature.string_stats if kind == "STRING" else feature.num_stats
        values.common_stats.num_non_missing = values.common_stats.tot_num_values = 200
        values.common_stats.min_num_values = values.common_stats.max_num_values = 1
        values.common_stats.avg_num_values = 1
        if kind == "STRING":
            values.unique = 2
        else:
            values.min, values.max, values.mean, values.std_dev = 0, 1, 0.5, 0.5
    return found


@pytest.fixture(scope="module")
def message(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The termination message of the pod of DataGate that two gates stop."""
    folder = tmp_path_factory.mktemp("gate")
    put_day(folder, 1)
    task = next(one for one in component_tasks(gated_config(folder)) if one.name == "data-gate")
    pod = Pod(folder / "pod")
    artifacts = {}
    for key in (key for key, port in task.invocation.inputs.items() if port.how == "artifact"):
        uri = f"minio://bucket/trips/run/before/1/{key}"
        artifacts[key] = {"artifacts": [{"name": key, "uri": uri, "metadata": {"split_names": '["train"]'}}]}
        there = pod.root / f"minio/bucket/trips/run/before/1/{key}/Split-train"
        there.mkdir(parents=True)
        (there / "SchemaDiff.pb").write_bytes(Anomalies().SerializeToString())
        (there / "FeatureStats.pb").write_bytes(statistics().SerializeToString())
    values = {
        key: verdicts("gates.rows", "gates.drift.blessed")
        for key, port in task.invocation.inputs.items()
        if port.how == "value"
    }
    outputs = {
        key: {"artifacts": [{"name": key, "uri": f"minio://bucket/trips/run/data-gate/1/{key}"}]}
        for key in task.invocation.artifact_outputs
    }
    given = {
        "inputs": {"artifacts": artifacts, "parameterValues": values},
        "outputs": {"artifacts": outputs, "outputFile": "/minio/bucket/trips/run/data-gate/1/out.json"},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Forked)
        process = pod.start(task.invocation, given)
        out, _ = process.communicate()
    assert process.returncode == 1, out
    return pod.message


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving(ApiServer()) as alive:
        assert isinstance(alive, ApiServer)
        yield alive


@pytest.fixture
def kubeflow(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubeflow:
    text = GOLDEN.read_text(encoding="utf-8")
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HEADRACE_STORE", str(tmp_path / "store"))
    return pipeline_on(server, open_store({}), tmp_path)


def status(kubeflow: Kubeflow, *options: str, **environment: str) -> Finished:
    tree = yaml.safe_load(Path(TRIPS).read_text(encoding="utf-8"))
    tree["kubeflow"]["pipeline_root"] = ROOT
    (kubeflow.tmp / "trips.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    endpoint = f"kubeflow.server.endpoint={kubeflow.server.url}"
    given = ("status", "trips.yaml", "--set", endpoint, *options)
    return headrace(kubeflow.tmp, *given, **{"KUBECONFIG": str(kubeflow.tmp / "none"), **environment})


@pytest.mark.parametrize("from_argo", [True, False], ids=["a node of the workflow", "an error of the task"])
def test_gates_that_stopped_a_run_are_named_with_the_reasons_and_the_way_out(
    kubeflow: Kubeflow, message: str, from_argo: bool
) -> None:
    said = f"Error (exit code 1): {message}"
    skipped = dict.fromkeys(("transform", "trainer", "evaluator", "pusher"), ("SKIPPED", ""))
    node = {"id": "n", "type": "Pod", "name": NODE.format(task="data-gate"), "message": said}
    reported = ("FAILED", "child task failed" if from_argo else said)
    kubeflow.ended("FAILED", {"data-gate": reported, **skipped}, [node] if from_argo else [])
    done = status(kubeflow)
    assert done.code == 1
    assert done.out.splitlines()[-1].endswith("failed: DataGate")
    lines = done.err.splitlines()
    assert lines[0] == "DataGate failed: gates.rows, gates.drift.blessed stop the run:"
    assert "  fare: Jensen-Shannon divergence 0.8, limit 0.1 (a → b)" in lines
    assert "set `on_anomaly: warn` in gates.rows, gates.drift.blessed" in lines[-1]
    assert sum("stop the run" in line for line in lines) == 1


def test_failure_without_a_message_names_the_log(kubeflow: Kubeflow) -> None:
    kubeflow.ended("FAILED", {"trainer": ("FAILED", "Error (exit code 1)")})
    done = status(kubeflow)
    assert "Trainer failed: `headrace logs CONFIG Trainer trips" in done.err


@pytest.mark.slow
def test_pod_that_was_killed_for_memory_is_told_once_and_control_characters_do_not_reach_the_terminal(
    kubeflow: Kubeflow,
) -> None:
    killed = {"id": "n", "type": "Pod", "name": NODE.format(task="trainer"), "message": "OOMKilled (exit code 137)"}
    tasks = {"trainer": ("FAILED", "OOMKilled"), "evaluator": ("FAILED", "Error (exit code 1): a\x1b[31mb\nway out")}
    kubeflow.ended("FAILED", tasks, [killed])
    done = status(kubeflow)
    assert done.err.count("Trainer") == 2  # with the setting to change
    assert "memory_limit" in done.err
    assert "Evaluator failed: a\N{REPLACEMENT CHARACTER}[31mb" in done.err
    assert "way out" in done.err
    assert json.dumps(done.err).count("\\u001b") == 0


CHANGE = ThresholdCheck("auc", "not_worse_than_baseline_by", 0.74, 0.71, 0.75, passed=False)


@pytest.mark.parametrize("watched", [(), ("--watch",)], ids=["once", "watched"])
def test_thresholds_that_refused_a_model_are_named_with_the_values(
    kubeflow: Kubeflow, watched: tuple[str, ...]
) -> None:
    run_id = kubeflow.ended("SUCCEEDED", {})
    both = (*EVALUATION.checks, CHANGE)
    kubeflow.evaluated(run_id, replace(EVALUATION, checks=both, reasons=tuple(map(str, both))))
    done = status(kubeflow, *watched)
    assert (done.code, done.err) == (0, "")
    *_, state, first, second = done.out.splitlines()
    assert state.endswith("succeeded")
    assert first == "blessing  not blessed by Evaluator: auc is 0.7100; it must be at least 0.8"
    assert second.strip().startswith("auc is 0.7100; it must be at least 0.7400 (baseline: 0.7500)")


def test_canary_that_refused_a_model_is_named_and_control_characters_do_not_reach_the_terminal(
    kubeflow: Kubeflow,
) -> None:
    kubeflow.evaluated(
        kubeflow.ended("SUCCEEDED", {}), BLESSED, "p99 is 9 ms; \x1b[31mmore", "miles is not as in training"
    )
    *_, first, second = status(kubeflow).out.splitlines()
    assert first == "blessing  not blessed by Canary: p99 is 9 ms; \N{REPLACEMENT CHARACTER}[31mmore"
    assert second.strip() == "miles is not as in training"


@pytest.mark.slow
def test_model_that_two_components_refused_has_both_even_if_the_run_failed_later(kubeflow: Kubeflow) -> None:
    run_id = kubeflow.ended("FAILED", {"pusher": ("FAILED", "Error (exit code 1): no space")})
    kubeflow.evaluated(run_id, EVALUATION, "p99 is 9 ms")
    done = status(kubeflow)
    assert done.code == 1
    assert "Pusher failed: no space" in done.err
    assert "not blessed by Evaluator, Canary: auc is 0.7100" in done.out


@pytest.mark.slow
def test_refused_model_of_a_cached_evaluation_is_told_and_a_blessed_one_is_not(kubeflow: Kubeflow) -> None:
    kubeflow.evaluated("an-earlier-run", EVALUATION)
    given = {"artifacts": {"blessing": {"artifacts": [{"uri": f"{HOME}/an-earlier-run/evaluator/17/blessing"}]}}}
    command = ["launch", "--executor_input", json.dumps({"inputs": given})]
    patch = {"name": "pod-spec-patch", "value": json.dumps({"containers": [{"command": command}]})}
    driver = {"id": "n", "displayName": "record-blessing-driver", "outputs": {"parameters": [patch]}}
    kubeflow.ended("SUCCEEDED", {"evaluator": ("CACHED", "")}, [driver])
    assert "not blessed by Evaluator: auc is 0.7100; it must be at least 0.8" in status(kubeflow).out
    kubeflow.evaluated(kubeflow.ended("SUCCEEDED", {}), BLESSED)
    done = status(kubeflow)
    assert (done.out.splitlines()[-1].rpartition("  ")[2], done.err) == ("succeeded", "")


@pytest.mark.slow
def test_results_that_cannot_be_read_leave_the_state_and_the_exit_code(
    kubeflow: Kubeflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeflow.ended("SUCCEEDED", {})
    monkeypatch.delenv("HEADRACE_STORE")
    away = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", **dict.fromkeys(KEYS, "none")}
    done = status(kubeflow, **away)
    assert done.code == 0
    assert done.out.splitlines()[-1].endswith("succeeded")
    assert HOME in done.err
    assert "headrace logs CONFIG Evaluator trips" in done.err

"""What decided the cache of tasks on Kubeflow, from what its API tells of two runs."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from compiled_trips import compiled, needs_kubernetes, trips

from headrace.common.errors import ServerError
from headrace.pipeline.cache.explanation import ComponentExplanation
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.server.cache import explain

START = dt.datetime(2026, 11, 21, 4, 0, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def specification() -> dict[str, Any]:
    return compiled()


class Fake:
    """A session whose server knows some runs; `reported`: whether it reports their workflows."""

    pipeline = "trips"

    def __init__(self, *, reported: bool = True) -> None:
        self._runs: list[Any] = []
        self._workflows: dict[str, Any] = {}
        self._reported = reported
        self.server = SimpleNamespace(text=self._text)

    def add(
        self,
        specification: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        cached: tuple[str, ...] = (),
        platform: Mapping[str, Any] | None = None,
        **parameters: Any,
    ) -> None:
        number = len(self._runs)
        start = START + dt.timedelta(hours=number)
        tasks = list(specification["root"]["dag"]["tasks"])
        shown = [(name, "SUCCEEDED", second) for second, name in enumerate(tasks)]
        shown += [("executor", "SKIPPED", tasks.index(name)) for name in cached]
        details = [_detail(name, state, start + dt.timedelta(seconds=10 * second)) for name, state, second in shown]
        run = SimpleNamespace(
            run_id=f"id-{number}",
            display_name=f"run-{number}",
            created_at=start,
            finished_at=start + dt.timedelta(minutes=9),
            state="SUCCEEDED",
            state_history=None,
            error=None,
            run_details=SimpleNamespace(task_details=details),
            tasks=None,
            task_count=None,
            pipeline_version_reference=None,
            pipeline_spec={"pipeline_spec": specification, "platform_spec": platform} if platform else specification,
            runtime_config=SimpleNamespace(parameters=parameters),
        )
        self._runs.append(run)
        self._workflows[run.run_id] = inputs or {}

    def find(self, name: str | None) -> Any:
        return next((one for one in self._runs if name in (one.run_id, one.display_name)), self._runs[-1])

    def runs(self, _limit: int) -> list[Any]:
        return self._runs[::-1]

    def _text(self, _what: str, path: str, run_id: str) -> str:
        assert path == "/apis/v1beta1/runs/{run_id}"
        if not self._reported:
            raise ServerError("no such path", 404)
        nodes = {
            name: {
                "displayName": f"{name}-driver",
                "outputs": {"parameters": [{"name": "pod-spec-patch", "value": _patch(reported)}]},
            }
            for name, reported in self._workflows[run_id].items()
        }
        return json.dumps({"pipeline_runtime": {"workflow_manifest": json.dumps({"status": {"nodes": nodes}})}})

    def explained(self) -> dict[str, ComponentExplanation]:
        return {one.component: one for one in explain(self, None).components}  # type: ignore[arg-type]


def _detail(name: str, state: str, start: dt.datetime) -> Any:
    end = start + dt.timedelta(seconds=5)
    return SimpleNamespace(display_name=name, state=state, start_time=start, end_time=end, error=None)


def _patch(reported: Any) -> str:
    launcher = ["/kfp-launcher/launch", "--executor_input", json.dumps({"inputs": reported}), "--component_spec", "{}"]
    return json.dumps({"containers": [{"name": "main", "command": launcher}]})


def artifact(key: str, run: str) -> dict[str, Any]:
    uri = f"minio://mlpipeline/v2/artifacts/trips/{run}/task/salt/{key}"
    return {"artifacts": {key: {"artifacts": [{"name": f"{run}-id", "uri": uri}]}}}


@pytest.mark.slow
def test_a_setting_that_was_compiled_in_is_reported_and_what_was_cached_is_reused(
    specification: dict[str, Any],
) -> None:
    server = Fake()
    server.add(specification)
    server.add(compiled("train.epochs=9"), cached=("transform",))
    reported = server.explained()
    assert reported["Trainer"] == ComponentExplanation(
        "Trainer", "ran", "run-0", ["setting parameter epochs: 3 → 9", "setting train.epochs: 3 → 9"]
    )
    assert reported["Transform"].result == "reused"
    assert reported["Spans"].result == "always runs"


def test_parameter_of_the_run_is_reported_only_for_the_task_that_takes_it(specification: dict[str, Any]) -> None:
    server = Fake()
    server.add(specification)
    server.add(specification, epochs=1)
    reported = server.explained()
    assert reported["Trainer"].reasons == ["setting parameter epochs: 3 → 1"]
    assert "inputs may differ" not in reported["Trainer"].reasons[0]


def test_inputs_are_those_that_the_driver_gave_the_launcher(specification: dict[str, Any]) -> None:
    server = Fake()
    for run in ("one", "two"):
        server.add(specification, {"transform": artifact("examples", run)})
    assert server.explained()["Transform"].reasons == [
        "input examples from ExampleGen: made by run one, now by run two",
    ]


def test_missing_inputs_on_the_server_are_reported(specification: dict[str, Any]) -> None:
    server = Fake(reported=False)
    server.add(specification)
    assert ["no earlier run" in each for each in server.explained()["Trainer"].reasons] == [True]
    server.add(specification)
    (reason,) = server.explained()["Trainer"].reasons
    assert "no executor input" in reason


@pytest.mark.slow
@needs_kubernetes
def test_another_claim_of_a_volume_is_reported_for_the_task_that_mounts_it() -> None:
    server = Fake()
    for claim in ("old", "new"):
        volumes = f"kubeflow.components.Trainer.volumes=[{{claim: {claim}, path: /data}}]"
        specification, platform = yaml.safe_load_all(compile_pipeline(trips(volumes), {}))
        server.add(specification, platform=platform)
    reported = server.explained()
    assert reported["Trainer"].reasons == ['setting volumes: ["old"] → ["new"]']
    assert "volumes and parameters are the same" in reported["Transform"].reasons[0]


def test_other_code_and_another_image_are_reported(specification: dict[str, Any]) -> None:
    server = Fake()
    server.add(specification)
    changed = compiled("kubeflow.components.Trainer.image=other:2")
    arguments = changed["deploymentSpec"]["executors"]["exec-trainer"]["container"]["args"]
    invocation = json.loads(arguments[1])
    arguments[1] = json.dumps({**invocation, "code": "0" * 64})
    server.add(changed)
    assert server.explained()["Trainer"].reasons == [
        'setting image: "registry.example/headrace:1" → "other:2"',
        "code and libraries changed",
    ]

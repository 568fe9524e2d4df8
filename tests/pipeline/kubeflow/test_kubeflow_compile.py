"""The compiled file: what it holds, what it must not hold, and that it is the same each time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from compiled_trips import ROOT, TRIPS, compiled, invocations, trips
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from headrace.common.errors import ConfigError, RunError
from headrace.configs.loading.loader import load
from headrace.configs.schema.evaluate import EvaluateConfig
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import ORIGIN, task_specs, version_name
from headrace.pipeline.kubeflow.pod.invocation import restore_uncached


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return compiled()


@pytest.mark.slow
def test_golden_files_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "tools/golden.py", "--check"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "77"},
    )
    assert done.returncode == 0, f"{done.stderr[-2000:]}\nif the change is meant: make golden"


@pytest.mark.slow
def test_a_pipeline_that_blesses_every_model_is_compiled_with_a_warning(log: pytest.LogCaptureFixture) -> None:
    assert compile_pipeline(trips().model_copy(update={"evaluate": EvaluateConfig(metrics=("auc",))}), {})
    assert "warning: `evaluate.thresholds` is empty: " in log.text
    log.clear()
    assert compiled()
    assert log.text == ""


EXAMPLES = sorted(path for path in (ROOT / "configs").glob("*.yaml") if "." not in path.stem)


@pytest.mark.parametrize("config", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_compiles(config: Path) -> None:
    text = compile_pipeline(load(config, overrides=["kubeflow.image=registry.example/headrace:1"]), {})
    pipeline = next(yaml.safe_load_all(text))
    assert pipeline["schemaVersion"] == "2.1.0"
    assert "trainer" in pipeline["root"]["dag"]["tasks"]


def test_the_server_can_read_every_field(plain: dict[str, Any]) -> None:
    spec = json_format.ParseDict(plain, pipeline_spec_pb2.PipelineSpec())  # as strict as the server's protojson
    assert spec.schema_version == "2.1.0"
    assert spec.pipeline_info.name == "trips"
    for name in plain["root"]["dag"]["tasks"]:
        assert re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name)  # Argo refuses others


def test_only_tasks_that_look_at_the_world_outside_run_each_time(plain: dict[str, Any]) -> None:
    uncached = {name for name, spec in task_specs(plain).items() if not spec.cacheable}
    assert uncached == {"spans", "baseline", "record-blessing"}


def test_spans_and_baseline_travel_as_parameters_so_that_cache_keys_hold_them(plain: dict[str, Any]) -> None:
    specs = task_specs(plain)
    assert set(specs["example-gen"].task["inputs"]["parameters"]) == {"spans"}
    assert "artifacts" not in specs["example-gen"].task["inputs"]
    assert specs["evaluator"].task["inputs"]["parameters"]["baseline_model"]["taskOutputParameter"] == {
        "outputParameterKey": "baseline",
        "producerTask": "baseline",
    }


def test_transform_waits_for_the_gate_though_it_reads_nothing_of_it(plain: dict[str, Any]) -> None:
    assert "data-gate" in task_specs(plain)["transform"].after


def test_a_gate_on_the_profile_is_a_task_between_the_verdict_and_what_a_model_comes_to() -> None:
    limit = "train.profile={fail_if_input_bound_above: 0.2}"
    specs = task_specs(compiled(limit, "deploy.push=models"))
    verdict = specs["profile-gate"].task["inputs"]["parameters"]["verdict"]["taskOutputParameter"]
    assert (verdict["producerTask"], verdict["outputParameterKey"]) == ("profile-verdict", "verdict")
    assert {name for name, spec in specs.items() if "profile-gate" in spec.after} == {"record-blessing", "pusher"}
    assert specs["profile-gate"].cacheable


def test_run_parameters_have_the_configs_values_as_defaults() -> None:
    pipeline = compiled("data.spans=[1, 5]", "train.epochs=7", "train.steps_per_epoch=30")
    parameters = pipeline["root"]["inputDefinitions"]["parameters"]
    defaults = {name: one["defaultValue"] for name, one in parameters.items()}
    assert defaults == {"spans": "1..5", "window": "7", "epochs": 7, "steps_per_epoch": 30}
    assert set(task_specs(pipeline)["trainer"].task["inputs"]["parameters"]) == {"epochs", "steps_per_epoch"}


def test_the_default_model_is_left_to_the_trainers_pod_with_the_code_of_both_kinds(plain: dict[str, Any]) -> None:
    def compiled_model(pipeline: dict[str, Any]) -> tuple[dict[str, Any], str]:
        found = json.loads(invocations(pipeline)["trainer"].exec_properties["custom_config"])
        return json.loads(found["config"])["model"], found["sources"]

    (model, sources), (named, of_one) = compiled_model(plain), compiled_model(compiled("model.kind=tabm"))
    assert (model.pop("kind"), named["kind"]) == ("table", "tabm")
    assert model.items() <= named.items()
    assert sources != of_one


def test_checkpoint_settings_are_compiled_apart_from_the_cache_key(plain: dict[str, Any]) -> None:
    changed = compiled("train.checkpoint={every_steps: 7, keep: 5}")
    before, after = task_specs(plain)["trainer"].container, task_specs(changed)["trainer"].container
    assert after["args"] == before["args"]  # with the image, all of the key that the config decides
    (variable,) = (one for one in after["env"] if one["name"] != ORIGIN)
    invocation = invocations(changed)["trainer"]
    properties = restore_uncached(invocation.exec_properties, {variable["name"]: variable["value"]})
    assert json.loads(json.loads(properties["custom_config"])["checkpoint"]) == {"every_steps": 7, "keep": 5}


def test_files_that_the_config_names_come_along_with_their_content(plain: dict[str, Any]) -> None:
    transform, schema_gen = (invocations(plain)[name] for name in ("transform", "schema-gen"))
    assert transform.files == {"0-kinds.txt": "x\ny\n"}
    assert list(schema_gen.files) == ["1-schema.pbtxt"]
    assert str(ROOT) not in json.dumps(plain)


def test_a_file_too_long_to_travel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("x\n" * 40_000)
    with pytest.raises(RunError, match=r"long\.txt.*too long to travel"):
        compile_pipeline(trips(f"features.kind.file={tmp_path / 'long.txt'}"), {})


def test_arguments_hold_nothing_that_kubeflow_or_kubernetes_would_replace() -> None:
    pipeline = compiled(
        "features.kind={column: vocabulary, file: null, values: ['{{$}}', '{{$.inputs}}', '$(HOME)', '{{{']}"
    )
    for spec in task_specs(pipeline).values():
        (_, invocation, _, executor_input) = spec.container["args"]
        assert executor_input == "{{$}}"
        assert "{{" not in invocation
        assert "$(" not in invocation
    values = json.loads(invocations(pipeline)["trainer"].exec_properties["custom_config"])["config"]
    assert '"{{$}}"' in values
    assert '"$(HOME)"' in values


@pytest.mark.slow
def test_a_table_of_many_columns_still_fits_into_an_argument_and_hides_nothing() -> None:
    feature = '{"column": "bucketized", "boundaries": [1, 2, 3]}'
    many = "{" + ", ".join(f'"column_{number}": {feature}' for number in range(1500)) + "}"
    config = load(TRIPS, overrides=[f"features={many}"])
    pipeline = next(yaml.safe_load_all(compile_pipeline(config, {})))
    arguments = {name: spec.container["args"][1] for name, spec in task_specs(pipeline).items()}
    assert arguments["transform"].startswith("zlib:")
    assert max(map(len, arguments.values())) < 131_072
    assert "column_1499" in invocations(pipeline)["transform"].exec_properties["custom_config"]
    with pytest.raises(RunError, match="the value of the environment variable MY_TOKEN"):
        compile_pipeline(config, {"MY_TOKEN": "column_1499"})


def test_without_an_image_nothing_is_compiled() -> None:
    with pytest.raises(ConfigError, match=r"^kubeflow\.image:"):
        compile_pipeline(trips("kubeflow.image=null"), {})


def test_a_push_to_where_only_the_pod_can_see_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"deploy\.push: .* on no volume"):
        compile_pipeline(trips("deploy.push=/models"), {})
    with pytest.raises(ConfigError, match=r"deploy\.push: s3://bucket/models .*this machine.* relative"):
        compile_pipeline(trips("deploy.push=s3://bucket/models"), {})


@pytest.mark.slow
def test_conversion_for_devices_is_a_task_unless_nothing_is_pushed() -> None:
    tasks = compiled("deploy.lite={precision: int8}")["root"]["dag"]["tasks"]
    assert set(tasks["lite"]["dependentTasks"]) == {"canary", "example-gen", "trainer"}
    inputs = (tasks[name]["inputs"]["artifacts"]["canary"] for name in ("record-blessing", "pusher"))
    assert {one["taskOutputArtifact"]["producerTask"] for one in inputs} == {"lite"}
    assert "lite" not in invocations(compiled("deploy.push=null", "deploy.lite={}"))


@pytest.mark.slow
def test_canary_is_not_taken_from_the_cache_if_its_server_may_have_been_away() -> None:
    server = "rest: 'http://staging.models:8501', folder: 's3://models/staging'"
    for how, caching in (("stop", {"enableCache": True}), ("warn", {})):
        text = f"deploy.canary.server={{{server}, on_unreachable: {how}}}"
        assert compiled(text)["root"]["dag"]["tasks"]["canary"]["cachingOptions"] == caching


@pytest.mark.slow
def test_approval_by_a_person_is_refused_only_for_a_folder_that_no_command_reaches() -> None:
    with pytest.raises(ConfigError, match=r'deploy\.approval: .* does not reach /srv/models.* "automatic"'):
        compile_pipeline(trips("deploy.approval=manual", "deploy.push=/srv/models"), {})
    manual = invocations(compiled("deploy.approval=manual"))
    assert [manual[name].exec_properties["approval"] for name in ("record-blessing", "pusher")] == ["manual"] * 2
    unpushed = invocations(compiled("deploy.push=null", "deploy.approval=manual"))
    assert "pusher" not in unpushed
    assert unpushed["record-blessing"].exec_properties["approval"] == "automatic"


@pytest.mark.slow
def test_receivers_need_a_notifier_and_what_is_compiled_is_the_same(plain: dict[str, Any]) -> None:
    receiver = "notify.ops={kind: webhook, url_env: OPS_URL}"
    with pytest.raises(ConfigError, match=r"notify: .* a CronJob does: .* `notify: null`"):
        compile_pipeline(trips(receiver), {})
    with pytest.raises(ConfigError, match=r"notify\.ops: .*CronJob .*OPS_URL; .*kubeflow\.notify\.secrets"):
        compile_pipeline(trips(receiver, "kubeflow.notify={}"), {})
    notifier = "kubeflow.notify={secrets: [{name: ops, env: {OPS_URL: url}}]}"
    with pytest.raises(ConfigError, match=r"notify\.file: .*`kind: pushgateway`"):
        compile_pipeline(trips(receiver, notifier, "notify.file={kind: prometheus_file, path: x.prom}"), {})
    for accepted in ((receiver, notifier), (receiver, "kubeflow.notify={cron: null}"), (receiver, "notify=null")):
        texts = [json.dumps(one) for one in (compiled(*accepted), plain)]
        assert (
            len({version_name("trips", text) for text in texts}) == 1
        )  # apart from the config that models are noted with

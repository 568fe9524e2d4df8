"""The compiled file: what it holds, what it must not hold, and that it is the same each time."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from configs.config import PipelineConfig
from configs.errors import ConfigError, HeadraceError, MissingDependencyError, RunError
from configs.loader import load
from configs.sources import SqlSource
from pipeline.kubeflow import backends
from pipeline.kubeflow.argument import unpack
from pipeline.kubeflow.aside import put_back
from pipeline.kubeflow.compile import compile_pipeline
from pipeline.kubeflow.invocation import Invocation
from pipeline.kubeflow.verify.driver import task_specs

ROOT = Path(__file__).parents[3]
TRIPS = ROOT / "tests" / "pipeline" / "kubeflow" / "golden" / "trips.yaml"
WITH_KUBERNETES = importlib.util.find_spec("kfp.kubernetes") is not None
NO_SECRET = "kubeflow.object_store.secret=none"
needs_kubernetes = pytest.mark.skipif(not WITH_KUBERNETES, reason="kfp-kubernetes is not installed")


def trips(*overrides: str, profile: str | None = None) -> PipelineConfig:
    return load(TRIPS, profile, overrides)


def compiled(*overrides: str, profile: str | None = None) -> dict[str, Any]:
    text = compile_pipeline(trips(*overrides, profile=profile), {})
    first: dict[str, Any] = next(yaml.safe_load_all(text))
    return first


def settings_of(config: PipelineConfig) -> dict[str, Any]:
    """What the second document holds for each executor."""
    documents = [*yaml.safe_load_all(compile_pipeline(config, {})), {}]
    executors: dict[str, Any] = (
        documents[1].get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    )
    return executors


def invocations(pipeline: dict[str, Any]) -> dict[str, Invocation]:
    return {
        name: Invocation.from_json(unpack(spec.container["args"][1])) for name, spec in task_specs(pipeline).items()
    }


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return compiled()


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


@needs_kubernetes
def test_the_server_can_read_every_kubernetes_setting() -> None:
    from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes

    _, platform = yaml.safe_load_all(compile_pipeline(trips(profile="cluster"), {}))
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    found = {name: json_format.ParseDict(one, kubernetes.KubernetesExecutorConfig()) for name, one in executors.items()}
    trainer = found["exec-trainer"]
    assert [mount.mount_path for mount in trainer.pvc_mount] == ["/data", "/headrace"]
    assert [one.key for one in trainer.tolerations] == ["nvidia.com/gpu", "spot"]
    assert trainer.empty_dir_mounts[0].size_limit == "4Gi"
    assert trainer.active_deadline_seconds == 7200
    assert not found["exec-spans"].tolerations


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


def test_how_checkpoints_are_kept_is_told_beside_what_the_cache_key_holds(plain: dict[str, Any]) -> None:
    changed = compiled("train.checkpoint={every_steps: 7, keep: 5}")
    before, after = task_specs(plain)["trainer"].container, task_specs(changed)["trainer"].container
    assert after["args"] == before["args"]  # with the image, all of the key that the config decides
    (variable,) = after["env"]
    invocation = invocations(changed)["trainer"]
    properties = put_back(invocation.exec_properties, {variable["name"]: variable["value"]})
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
    with pytest.raises(ConfigError, match=r"kubeflow\.image: name the image"):
        compile_pipeline(trips("kubeflow.image=null"), {})


def test_a_push_to_where_only_the_pod_can_see_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="is on no volume that the Pusher's pod mounts"):
        compile_pipeline(trips("deploy.push=/models"), {})
    with pytest.raises(ConfigError, match="is a URI"):
        compile_pipeline(trips("deploy.push=s3://bucket/models"), {})


# Credentials


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("data.source.path='https://reader:hunter2@example.com/trips-{SPAN}.csv'", "a URL with a password"),
        ("beam.args=['--s3_secret_access_key=wJalrXUtnFEMI']", "an option with a credential"),
        ("beam.args=['--s3_secret_access_key', wJalrXUtnFEMI]", "an option and a credential"),
        ("beam.args=['--key=AKIAIOSFODNN7EXAMPLE']", "an access key of AWS"),
    ],
)
def test_a_credential_in_the_config_is_refused(override: str, what: str) -> None:
    with pytest.raises(HeadraceError, match=what):
        compile_pipeline(trips(override), {})


def test_the_value_of_a_secret_variable_is_found_wherever_it_stands() -> None:
    config = trips("beam.args=['--experiments=opensesame42']")
    with pytest.raises(RunError, match="the value of the environment variable DB_PASSWORD"):
        compile_pipeline(config, {"DB_PASSWORD": "opensesame42"})
    compile_pipeline(config, {"EXPERIMENT": "opensesame42", "API_TOKEN": "short"})
    odd = 'open "sésame\\" now'  # in YAML and JSON such letters are written otherwise
    for told in (f"beam.args={json.dumps([odd])}", f"kubeflow.defaults.env={json.dumps({'GREETING': odd})}"):
        with pytest.raises(RunError, match="the value of the environment variable MYSQL_PWD"):
            compile_pipeline(trips(told), {"MYSQL_PWD": odd})


def test_planted_secrets_do_not_reach_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {"AWS_SECRET_ACCESS_KEY": "planted-aws-secret", "KFP_TOKEN": "planted-token", "HOME": "/home/planted-me"}
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    source = SqlSource(kind="sql", url="postgresql://db/shop", password_env="KFP_TOKEN", table="trips")
    config = trips()
    text = compile_pipeline(config.model_copy(update={"data": config.data.model_copy(update={"source": source})}))
    assert "KFP_TOKEN" in text
    assert not [value for value in planted.values() if value in text]


# Kubernetes settings


def test_kubernetes_settings_without_the_package_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kfp.kubernetes", None)
    monkeypatch.delattr("kfp.kubernetes", raising=False)
    with pytest.raises(MissingDependencyError, match="pip install 'kfp-kubernetes"):
        compile_pipeline(trips(), {})  # the user that it runs as is one


def test_resources_env_and_retries_need_no_further_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kfp.kubernetes", None)
    monkeypatch.delattr("kfp.kubernetes", raising=False)
    pipeline = compiled(
        "kubeflow.backend='2.15'",
        NO_SECRET,
        "kubeflow.defaults={cpu: 0.5, memory: 2Gi, env: {A: b}, retries: {count: 2, wait: 10s}}",
        "kubeflow.components.Trainer={cpu: 4, accelerator: {type: nvidia.com/gpu, count: 2}}",
    )
    trainer, spans = (task_specs(pipeline)[name] for name in ("trainer", "spans"))
    assert trainer.container["resources"]["resourceCpuRequest"] == "4"
    assert trainer.container["resources"]["accelerator"]["resourceType"] == "nvidia.com/gpu"
    assert spans.container["resources"]["resourceCpuRequest"] == "0.5"
    assert spans.container["resources"]["resourceMemoryRequest"] == "2Gi"
    assert spans.container["env"] == [{"name": "A", "value": "b"}]
    assert spans.task["retryPolicy"]["maxRetryCount"] == 2
    assert spans.task["retryPolicy"]["backoffDuration"] == "10s"


@needs_kubernetes
def test_a_setting_that_an_older_server_drops_is_refused_with_its_release() -> None:
    mount = "kubeflow.defaults.volumes=[{claim: data, path: /data, sub_path: trips}]"
    compile_pipeline(trips(mount, "kubeflow.backend='2.16'"), {})
    with pytest.raises(RunError, match=r"`volumes\.sub_path` \(pvcMount\.subPath .* 2\.16.*is 2\.15"):
        compile_pipeline(trips(mount, "kubeflow.backend='2.15'"), {})


@needs_kubernetes
def test_secrets_as_variables_compile_for_a_server_that_knows_only_required_ones() -> None:
    secret = "kubeflow.defaults.secrets=[{name: database, env: {DB_PASSWORD: password}, optional: %s}]"
    old = settings_of(trips(secret % "false", NO_SECRET, "kubeflow.backend='2.14'"))["exec-trainer"]["secretAsEnv"]
    new = settings_of(trips(secret % "false", NO_SECRET, "kubeflow.backend='2.15'"))["exec-trainer"]["secretAsEnv"]
    assert [one.pop("optional") for one in new] == [False]
    assert old == new
    with pytest.raises(RunError) as caught:
        compile_pipeline(trips(secret % "true", "kubeflow.backend='2.14'"), {})
    first, why, out = str(caught.value).splitlines()
    assert first.startswith("kubeflow: the setting `secrets.optional` (secretAsEnv.optional in what the server reads)")
    assert first.endswith(" came with Kubeflow Pipelines 2.15, and kubeflow.backend is 2.14")
    assert "drops all Kubernetes settings" in why
    assert out == "  Remove the setting, or set kubeflow.backend to the release of your server."


@needs_kubernetes
def test_components_are_not_root_where_the_server_can_be_told() -> None:
    usual = {"runAsUser": "1000", "runAsGroup": "1000", "runAsNonRoot": True}
    found = settings_of(trips("kubeflow.components.Pusher.security={user: null, group: null}"))
    assert found.pop("exec-pusher")["securityContext"] == {"runAsNonRoot": True}
    assert {"exec-spans", "exec-trainer"} < set(found)
    assert [one["securityContext"] for one in found.values()] == [usual] * len(found)
    left = {"user": None, "group": None, "non_root": False}
    assert settings_of(trips(f"kubeflow.defaults.security={json.dumps(left)}", NO_SECRET)) == {}


@needs_kubernetes
@pytest.mark.parametrize("backend", ["2.14", "2.15"])
def test_an_older_server_is_told_no_user_and_a_config_that_names_one_is_refused(backend: str) -> None:
    assert settings_of(trips(f"kubeflow.backend='{backend}'", NO_SECRET)) == {}
    with pytest.raises(RunError, match=rf"`security` .*, of trainer, came with .* 2\.16, and .* is {backend}"):
        compile_pipeline(trips(f"kubeflow.backend='{backend}'", "kubeflow.components.Trainer.security={}"), {})


@needs_kubernetes
def test_a_component_may_have_pull_secrets_of_its_own() -> None:
    found = settings_of(
        trips("kubeflow.image_pull_secrets=[all]", "kubeflow.components.Trainer.image_pull_secrets=[gpu, mirror]")
    )
    named = {task: [one["secretName"] for one in settings["imagePullSecret"]] for task, settings in found.items()}
    assert named.pop("exec-trainer") == ["gpu", "mirror"]
    assert set(map(tuple, named.values())) == {("all",)}
    none = settings_of(trips("kubeflow.image_pull_secrets=[all]", "kubeflow.components.Trainer.image_pull_secrets=[]"))
    assert "imagePullSecret" not in none["exec-trainer"]


def test_kubeflows_own_object_store_is_the_one_of_the_release() -> None:
    stores = {
        backend: invocations(compiled(f"kubeflow.backend='{backend}'"))["baseline"].store["minio"]
        for backend in ("2.15", "2.17")
    }
    assert stores == {"2.15": "http://minio-service.kubeflow:9000", "2.17": "http://seaweedfs.kubeflow:9000"}


def store_keys(config: PipelineConfig) -> dict[str, dict[str, tuple[str, str]]]:
    """Executor to the environment variables that it gets from Secrets: which Secret, and which key of it."""
    return {
        name: {
            key["envVar"]: (one["secretNameParameter"]["runtimeValue"]["constant"], key["secretKey"])
            for one in settings["secretAsEnv"]
            for key in one["keyToEnv"]
        }
        for name, settings in settings_of(config).items()
        if "secretAsEnv" in settings
    }


def readmes_config(folder: Path) -> PipelineConfig:
    """The taxi example with what the README says to put into the config for Kubeflow, and no more."""
    (line,) = re.findall(r"in the config \(`(kubeflow: \{.*\})`\)", (ROOT / "README.md").read_text())
    shutil.copy(ROOT / "configs" / "taxi.yaml", folder)
    (folder / "taxi.readme.yaml").write_text(line.replace("image: ...", "image: registry.example/headrace:1"))
    return load(folder / "taxi.yaml", "readme")


@needs_kubernetes
def test_pods_of_the_readmes_config_have_the_keys_and_the_address_of_kubeflows_own_store(tmp_path: Path) -> None:
    found = readmes_config(tmp_path)
    own = "mlpipeline-minio-artifact"  # as Kubeflow's launcher takes it, and kubernetes/overlays/small says
    keys = {"AWS_ACCESS_KEY_ID": (own, "accesskey"), "AWS_SECRET_ACCESS_KEY": (own, "secretkey")}
    reaching = ("baseline", "evaluator", "pusher", "record-blessing", "trainer")
    assert store_keys(found) == {f"exec-{name}": keys for name in reaching}
    told = invocations(next(yaml.safe_load_all(compile_pipeline(found, {}))))
    assert {one.store["minio"] for one in told.values()} == {"http://seaweedfs.kubeflow:9000"}
    launcher = yaml.safe_load((ROOT / "kubernetes/overlays/small/launcher.yaml").read_text())["data"]
    assert launcher["defaultPipelineRoot"] == found.kubeflow.pipeline_root
    (provider,) = yaml.safe_load(launcher["providers"]).values()
    by_launcher = provider["default"]["credentials"]["secretRef"]
    assert by_launcher == {"secretName": own, "accessKeyKey": "accesskey", "secretKeyKey": "secretkey"}


OVERLAYS = {"kubeflow": "small", "cloud": "cloud"}
"""Profile of the taxi example to the overlay that it goes with."""


@needs_kubernetes
@pytest.mark.parametrize("profile", OVERLAYS)
def test_profiles_of_the_taxi_example_fit_the_overlay_that_they_go_with(profile: str) -> None:
    found = load(ROOT / "configs" / "taxi.yaml", profile)
    settings = found.kubeflow
    overlay = ROOT / "kubernetes" / "overlays" / OVERLAYS[profile]
    assert settings.namespace == yaml.safe_load((overlay / "kustomization.yaml").read_text())["namespace"]
    told = yaml.safe_load((overlay / "launcher.yaml").read_text())["data"]
    ((scheme, provider),) = yaml.safe_load(told["providers"]).items()
    assert settings.pipeline_root == told["defaultPipelineRoot"]
    assert settings.pipeline_root.startswith(f"{scheme}://")
    assert settings.store_secret == provider["default"]["credentials"].get("secretRef", {}).get("secretName")
    assert settings.object_store.region in (None, provider["default"]["region"])
    objects = yaml.safe_load_all((ROOT / "kubernetes" / "base" / "runner.yaml").read_text())
    accounts = [one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"]
    assert [settings.server.service_account] == accounts
    assert bool(store_keys(found)) == (profile == "kubeflow")  # compiles it
    assert set(settings.model_dump(exclude_defaults=True)) <= {
        "image", "namespace", "pipeline_root", "object_store", "server",
    }  # fmt: skip


def test_there_is_an_overlay_for_each_profile() -> None:
    profiles = {path.stem.removeprefix("taxi.") for path in (ROOT / "configs").glob("taxi.*.yaml")}
    assert profiles == set(OVERLAYS)
    assert set(OVERLAYS.values()) == {path.name for path in (ROOT / "kubernetes" / "overlays").iterdir()}


@needs_kubernetes
def test_the_schedule_of_the_docs_fits_the_taxi_example_as_it_is(tmp_path: Path) -> None:
    docs = (ROOT / "docs" / "kubeflow.md").read_text()
    schedules = re.findall(r"(?m)^    schedule:\n(?:      .*\n)+", docs)
    assert len(schedules) == 2  # the plain one, and the one that trains only where there is a reason to
    shutil.copy(ROOT / "configs" / "taxi.yaml", tmp_path)
    for text in schedules:
        (tmp_path / "taxi.docs.yaml").write_text(f"{text}    kubeflow: {{image: 'registry.example/headrace:1'}}\n")
        found = load(tmp_path / "taxi.yaml", "docs")
        assert found.schedule is not None
        assert compile_pipeline(found, {})


@pytest.mark.parametrize(
    ("overrides", "secret"),
    [
        ((NO_SECRET,), None),
        (("kubeflow.pipeline_root=s3://bucket/root",), None),
        (("kubeflow.pipeline_root=gs://bucket/root",), None),
        (("kubeflow.object_store.secret=keys",), "keys"),
        (("kubeflow.pipeline_root=s3://bucket/root", "kubeflow.object_store.secret=keys"), "keys"),
    ],
)
def test_the_stores_secret_is_the_one_named_or_none(overrides: tuple[str, ...], secret: str | None) -> None:
    assert trips(*overrides).kubeflow.store_secret == secret


@needs_kubernetes
def test_whoever_reads_or_writes_beside_the_artifacts_has_the_stores_keys() -> None:
    schedule = "schedule={cron: '30 4 * * *', retrain: drift}"
    search = "tune={max_trials: 2, parameters: {train.batch_size: {choices: [8, 16]}}}"
    found = trips(schedule, search, "train.warm_start=true")
    looking = {"baseline", "drift", "evaluator", "pusher", "record-blessing", "record-training", "spans", "trainer"}
    assert set(store_keys(found)) == {f"exec-{name}" for name in {*looking, "tuner", "warm-start"}}


@pytest.mark.parametrize(
    ("executor", "backend", "refused"),
    [
        ({"pvcMount": [{"constant": "a", "mountPath": "/a"}]}, "2.14", None),
        ({"pvcMount": [{"constant": "a", "subPath": "b"}]}, "2.15", r"pvcMount\.subPath .* came with .* 2\.16"),
        ({"securityContext": {"runAsUser": 1}}, "2.15", r"`security` \(securityContext .*, of a, came with .* 2\.16"),
        ({"securityContext": {"runAsUser": 1}}, "2.16", None),
        ({"secretAsEnv": [{"optional": False}]}, "2.14", r"`secrets\.optional` \(secretAsEnv.* 2\.15"),
        ({"enabledSharedMemory": {"size": "1G"}}, "2.17", r"enabledSharedMemory, of a, has no effect"),
    ],
)
def test_fields_are_known_by_release(executor: dict[str, Any], backend: Any, refused: str | None) -> None:
    document = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-a": executor}}}}}
    if refused is None:
        backends.check(document, backend)
    else:
        with pytest.raises(RunError, match=refused):
            backends.check(document, backend)

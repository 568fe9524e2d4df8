"""Which strategy is chosen, and which settings it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import TrainingError
from headrace.configs.rules.training import executions_divide_an_epoch, strategy_fits_the_settings
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.devices.machine import Hardware, TfConfig, unmet_requirements
from headrace.trainer.devices.strategy import StrategyChoice, choose_strategy, detect_hardware
from headrace.trainer.job import Job

CLUSTER = TfConfig(3, "worker 0", chief=True)


@pytest.mark.parametrize(
    ("hardware", "strategy", "words"),
    [
        (Hardware(), "cpu", "cpu: there is no TPU, "),
        (Hardware(gpus=1), "one_gpu", "one_gpu: it is in this machine"),
        (Hardware(gpus=4), "mirrored", "mirrored over 4 GPUs: "),
        (Hardware(gpus=4, cluster=CLUSTER), "multi_worker",
         "multi_worker over 3 workers of 4 GPUs each: TF_CONFIG"),
        (Hardware("local", 4, cluster=CLUSTER), "tpu", "tpu: there is a TPU, local"),
        (Hardware(virtual=4), "cpu", "cpu: there is no TPU, "),
    ],
)  # fmt: skip
def test_auto_takes_the_tpu_then_the_cluster_then_the_gpus(hardware: Hardware, strategy: str, words: str) -> None:
    choice = choose_strategy(TrainConfig(), hardware)
    assert choice.strategy == strategy
    assert choice.words.startswith(words)
    assert choice.distributed == (strategy in {"mirrored", "multi_worker", "tpu"})


@pytest.mark.parametrize("strategy", ["one_gpu", "mirrored", "multi_worker", "tpu"])
def test_a_strategy_without_its_devices_is_refused_with_what_to_use_instead(strategy: Any) -> None:
    with pytest.raises(TrainingError, match=f"train.strategy: {strategy} (finds no|needs TF_CONFIG).*(cpu|local)"):
        choose_strategy(TrainConfig(strategy=strategy), Hardware())


def test_a_strategy_that_was_asked_for_wins_over_what_is_there() -> None:
    assert (
        choose_strategy(TrainConfig(strategy="cpu"), Hardware("local", 8)).words == "cpu: `train.strategy: cpu` says so"
    )


def test_what_auto_finds_is_refused_with_settings_that_it_cannot_go_with() -> None:
    with pytest.raises(TrainingError, match=r"^train\.jit: XLA .*mirrored: they are in"):
        choose_strategy(TrainConfig(jit="on"), Hardware(gpus=2))
    assert choose_strategy(TrainConfig(jit="on"), Hardware(gpus=1)).strategy == "one_gpu"


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"strategy": "mirrored", "jit": "on"}, "train.jit"),
        ({"strategy": "multi_worker", "gradient_accumulation": 2}, "train.gradient_accumulation"),
        ({"strategy": "tpu", "precision": "mixed_float16"}, "train.precision"),
        ({"strategy": "multi_worker", "input": {"deterministic": False}}, "train.input.deterministic"),
        ({"strategy": "multi_worker", "input": {"service": "grpc://a:1"}}, None),
        ({"strategy": "mirrored", "input": {"deterministic": False}}, None),
        ({"strategy": "tpu", "jit": "on"}, None),
        ({"strategy": "one_gpu", "jit": "on", "precision": "mixed_float16", "gradient_accumulation": 2}, None),
    ],
)
def test_settings_that_a_strategy_cannot_go_with_are_refused(settings: dict[str, Any], where: str | None) -> None:
    found = list(strategy_fits_the_settings(TrainConfig.model_validate(settings)))
    assert [".".join(map(str, place)) for place, _ in found] == ([where] if where else [])


@pytest.mark.parametrize(
    ("together", "steps", "fine"), [(7, 70, True), (8, 70, False), (8, None, True), ("auto", 70, True)]
)
def test_steps_of_an_execution_have_to_divide_those_of_an_epoch(together: Any, steps: int | None, fine: bool) -> None:
    train = TrainConfig(steps_per_execution=together, steps_per_epoch=steps)
    assert (not list(executions_divide_an_epoch(train))) == fine


@pytest.mark.parametrize(("written", "meant"), [(True, "on"), (False, "off"), ("auto", "auto"), ("on", "on")])
def test_yamls_booleans_are_on_and_off(written: object, meant: str) -> None:
    assert TrainConfig.model_validate({"jit": written}).jit == meant


def tf_config(cluster: dict[str, list[str]], kind: str, index: int) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        (tf_config({"worker": ["a:1"]}, "worker", 0), None),
        (tf_config({"worker": ["a:1", "b:1"]}, "worker", 0), TfConfig(2, "worker 0", True)),
        (tf_config({"worker": ["a:1", "b:1"]}, "worker", 1), TfConfig(2, "worker 1", False, 1)),
        (
            tf_config({"chief": ["c:1"], "worker": ["a:1", "b:1"]}, "worker", 0),
            TfConfig(3, "worker 0", False, 1),
        ),
        (tf_config({"chief": ["c:1"], "worker": ["a:1", "b:1"]}, "chief", 0), TfConfig(3, "chief 0", True)),
        (
            tf_config({"worker": ["localhost:1", "127.0.0.1:2"]}, "worker", 1),
            TfConfig(2, "worker 1", False, 1, 2),
        ),
        (tf_config({"worker": ["[::1]:1", "127.9.8.7:2"]}, "worker", 0), TfConfig(2, "worker 0", True, 0, 1)),
        (tf_config({"worker": ["localhost:1", "b:2"]}, "worker", 0), TfConfig(2, "worker 0", True)),
        (
            tf_config({"worker": ["localhost.example:1", "localhost:2"]}, "worker", 0),
            TfConfig(2, "worker 0", True),
        ),
    ],
)
def test_one_worker_of_a_cluster_is_its_chief(environment: dict[str, str], expected: TfConfig | None) -> None:
    assert detect_hardware(environment).cluster == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TF_CONFIG": "{"}, "TF_CONFIG cannot be read"),
        ({"TF_CONFIG": '{"cluster": {}}'}, "TF_CONFIG cannot be read.*'task'"),
        (tf_config({"worker": ["a:1", "b:1"]}, "worker", 2), "says that this is worker 2.*2 of worker"),
        ({"HEADRACE_VIRTUAL_CPUS": "two"}, "HEADRACE_VIRTUAL_CPUS is 'two'"),
        ({"TPU_CONFIG": "ours"}, "TPU_CONFIG is not JSON with a `tpu_node_name`"),
    ],
)
def test_an_environment_that_makes_no_sense_is_reported(environment: dict[str, str], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        detect_hardware(environment)


def test_a_tpu_is_named_by_the_environment() -> None:
    assert detect_hardware({"TPU_NAME": "local"}).tpu == "local"
    assert detect_hardware({"TPU_CONFIG": '{"tpu_node_name": "ours", "zone": "z"}'}).tpu == "ours"
    assert detect_hardware({}).tpu is None


def test_workers_that_are_not_the_chief_write_elsewhere() -> None:
    other = Hardware(cluster=TfConfig(2, "worker 1", chief=False))
    assert not StrategyChoice("multi_worker", "", other).writes
    assert StrategyChoice("multi_worker", "", Hardware(cluster=CLUSTER)).writes
    assert StrategyChoice("cpu", "", other).writes


def test_a_job_comes_back_from_text_as_it_was() -> None:
    job = Job({"config": "{}", "checkpoints": "/c"}, "/t", ["/a*"], ["/e*"], "/r", "/b")
    assert Job.from_json(job.to_json()) == job


@pytest.mark.parametrize(
    ("settings", "environment", "devices", "where", "what"),
    [
        ({"strategy": "one_gpu"}, {}, [], "train.strategy", "one_gpu finds no GPU"),
        ({"strategy": "one_gpu"}, {}, ["nvidia0"], None, ""),
        ({"strategy": "one_gpu"}, {"CUDA_VISIBLE_DEVICES": "-1"}, ["nvidia0"], "train.strategy", "one_gpu finds no"),
        ({"strategy": "mirrored"}, {}, [], "train.strategy", "mirrored finds no GPU"),
        ({"strategy": "mirrored"}, {"HEADRACE_VIRTUAL_CPUS": "2"}, [], None, ""),
        ({"strategy": "multi_worker"}, {}, ["nvidia0"], "train.strategy", "multi_worker needs TF_CONFIG"),
        ({"strategy": "tpu"}, {}, [], "train.strategy", "tpu finds no TPU"),
        ({"jit": "on"}, tf_config({"worker": ["a:1", "b:1"]}, "worker", 0), ["nvidia0"], "train.jit",
         "TF_CONFIG names 2 workers"),
        ({"jit": "on"}, {}, [], None, ""),
        ({"jit": "on"}, {}, ["nvidia0", "nvidia1"], None, ""),
    ],
)  # fmt: skip
def test_what_a_machine_lacks_is_known_before_tensorflow_looks(
    tmp_path: Path,
    settings: dict[str, Any],
    environment: dict[str, str],
    devices: list[str],
    where: str | None,
    what: str,
) -> None:
    for name in devices:
        (tmp_path / name).touch()
    found = list(unmet_requirements(TrainConfig.model_validate(settings), environment, tmp_path))
    assert [".".join(map(str, place)) for place, _ in found] == ([where] if where else [])
    assert all(what in reported for _, reported in found)

"""The devices of this machine, as far as the environment and the file system show, without importing TensorFlow."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.common.errors import TrainingError
from headrace.configs.rules.training import strategy_fits_the_settings
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.train import TrainConfig

VIRTUAL = "HEADRACE_VIRTUAL_CPUS"
"""Environment variable: split the CPU into this many devices, to try a strategy for several devices without them."""
TPU_NAMES = ("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME", "TPU_CONFIG")
"""Where TensorFlow's TPU resolver looks for the name of a TPU, in this order; in the last, it is an entry of JSON.
Without any of them it would query the network."""
LOCAL_TPU = "local"
"""The name of a TPU in this machine."""
GPU_DEVICES = ("nvidia*", "nvhost*", "nvmap", "dxg", "kfd")
"""Files in /dev on Linux, one of which exists if there is a GPU: with NVIDIA's driver, on its boards, in WSL, with
AMD's driver."""
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|\[::1\]")


@dataclass(frozen=True)
class TfConfig:
    workers: int
    task: str
    """The type and index of this process' task, such as `worker 1`."""
    chief: bool
    """Whether this worker writes the results of the training."""
    number: int = 0
    """The number of this worker, the chief being 0."""
    local_port: int = 0
    """This worker's port if TF_CONFIG only names hosts of the loopback; otherwise 0."""


@dataclass(frozen=True)
class Hardware:
    """The devices to train on."""

    tpu: str | None = None
    """The name of a TPU; `local` for one in this machine."""
    gpus: int = 0
    virtual: int = 0
    """Number of devices into which the CPU is split."""
    cluster: TfConfig | None = None
    """A cluster of more than one worker."""


def hardware_from(environment: Mapping[str, str], gpus: int) -> Hardware:
    """Add what the environment shows to the number of GPUs. Raises TrainingError for an invalid TF_CONFIG."""
    cluster = _cluster(environment.get("TF_CONFIG", ""))
    return Hardware(_tpu(environment), gpus, _virtual(environment), cluster)


def unmet_requirements(
    train: TrainConfig, environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")
) -> Iterator[tuple[KeyPath, str]]:
    """Yield what prevents this machine from training as the config says, as far as it is known without TensorFlow.

    Raises TrainingError for an invalid TF_CONFIG.
    """
    no_gpu = without_gpu(environment, devices)
    hardware = hardware_from(environment, 0 if no_gpu else 1)
    if train.strategy != "auto":
        if what := missing_for(train.strategy, hardware):
            yield ("train", "strategy"), f"{train.strategy} {what}"
        return
    strategy, why = best_strategy(hardware)
    if no_gpu or strategy in ("tpu", "multi_worker"):  # otherwise it depends on the number of GPUs
        for where, what in strategy_fits_the_settings(train.model_copy(update={"strategy": strategy})):
            yield where, f"{what}. The strategy is {strategy}: {why}"


def without_gpu(environment: Mapping[str, str], devices: Path) -> bool:
    """Whether there is certainly no GPU."""
    if environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return True
    return sys.platform == "linux" and not any(path for name in GPU_DEVICES for path in devices.glob(name))


def best_strategy(hardware: Hardware) -> tuple[str, str]:
    """Return the strategy for some hardware, and why. A cluster takes precedence, since it uses every worker's GPUs."""
    if hardware.tpu is not None:
        return "tpu", f"there is a TPU, {hardware.tpu}"
    if hardware.cluster is not None:
        return "multi_worker", f"TF_CONFIG names {hardware.cluster.workers} workers"
    if hardware.gpus > 1:
        return "mirrored", "they are in this machine"
    if hardware.gpus == 1:
        return "one_gpu", "it is in this machine"
    return "cpu", "there is no TPU, no GPU and no TF_CONFIG of several workers"


def missing_for(strategy: str, hardware: Hardware) -> str:
    """Describe what the strategy needs and this machine lacks; empty if it lacks nothing."""
    if strategy == "tpu" and hardware.tpu is None:
        return f"finds no TPU: none of {', '.join(TPU_NAMES)} is set. On a TPU virtual machine, set TPU_NAME=local"
    if strategy == "one_gpu" and not hardware.gpus:
        return "finds no GPU. Set `train.strategy: cpu` or `auto`, or check with `nvidia-smi` whether the driver works"
    if strategy == "mirrored" and not hardware.gpus and hardware.virtual < 2:
        return f"finds no GPU. Set `train.strategy: cpu` or `auto`; to try it without GPUs, set {VIRTUAL}=2"
    if strategy == "multi_worker" and hardware.cluster is None:
        return (
            "needs TF_CONFIG in the environment of each worker, with more than one in its `cluster` (see"
            " docs/training.md). On one machine, use `mirrored`, `one_gpu` or `cpu`"
        )
    return ""


def _tpu(environment: Mapping[str, str]) -> str | None:
    found = next((name for name in TPU_NAMES if environment.get(name)), None)
    if found is None:
        return LOCAL_TPU if Path("/dev/accel0").exists() else None
    if found != "TPU_CONFIG":
        return environment[found]
    try:
        return str(json.loads(environment[found])["tpu_node_name"])
    except (ValueError, TypeError, KeyError) as error:
        raise TrainingError(
            "the environment variable TPU_CONFIG is not JSON with a `tpu_node_name`; name the TPU in TPU_NAME instead"
        ) from error


def _virtual(environment: Mapping[str, str]) -> int:
    text = environment.get(VIRTUAL, "") or "0"
    if not text.isdecimal():
        raise TrainingError(f"the environment variable {VIRTUAL} is {text!r}: it takes a number of devices, such as 2")
    return int(text)


def _cluster(text: str) -> TfConfig | None:
    """The cluster in TF_CONFIG; None without one, or with a single worker."""
    if not text:
        return None
    try:
        config = json.loads(text)
        jobs = {job: list(tasks) for job, tasks in config.get("cluster", {}).items()}
        task, index = str(config["task"]["type"]), int(config["task"]["index"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TrainingError(
            f"the environment variable TF_CONFIG cannot be read ({type(error).__name__}: {error}). It looks like"
            ' {"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
        ) from error
    workers = len(jobs.get("chief", [])) + len(jobs.get("worker", []))
    if workers < 2:
        return None
    if task not in ("chief", "worker") or index not in range(len(jobs.get(task, []))):
        raise TrainingError(
            f"the environment variable TF_CONFIG says that this is {task} {index}, and its cluster has no such task:"
            f" {', '.join(f'{len(tasks)} of {job}' for job, tasks in jobs.items())}. Give each worker its own index"
        )
    number = index + len(jobs.get("chief", [])) * (task == "worker")
    return TfConfig(workers, f"{task} {index}", number == 0, number, _local_port(jobs, task, index))


def _local_port(jobs: Mapping[str, list[str]], task: str, index: int) -> int:
    addresses = [str(address).rpartition(":") for tasks in jobs.values() for address in tasks]
    port = str(jobs[task][index]).rpartition(":")[2]
    local = all(_LOOPBACK.fullmatch(host) for host, _, _ in addresses)
    return int(port) if local and port.isdecimal() else 0

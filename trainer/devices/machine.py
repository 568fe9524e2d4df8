"""What there is to train on, as far as the environment and the file system tell: without importing TensorFlow."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.configs.device_rules import unfit
from headrace.configs.errors import TrainingError
from headrace.configs.train import TrainConfig
from headrace.configs.tree import Where

VIRTUAL = "HEADRACE_VIRTUAL_CPUS"
"""Environment variable: so many devices are made of the CPU, to try a strategy over several without having them."""
TPU_NAMES = ("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME", "TPU_CONFIG")
"""Where TensorFlow's TPU resolver finds the name of a TPU, in its order; in the last it is one entry of JSON. Without
one it would ask the network."""
LOCAL_TPU = "local"
"""The name of a TPU in this machine."""


GPUS = ("nvidia*", "nvhost*", "nvmap", "dxg", "kfd")
"""In /dev on Linux, one of which there is where there is a GPU: of NVIDIA's driver, on its boards, under Windows, of
AMD's driver."""
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|\[::1\]")


@dataclass(frozen=True)
class Cluster:
    """What TF_CONFIG says."""

    workers: int
    task: str
    """This process: the kind and number of its task, such as `worker 1`."""
    chief: bool
    """Whether this worker is the one that writes what the training leaves behind."""
    number: int = 0
    """Of this worker among all, the chief being 0."""
    local_port: int = 0
    """This worker's, where TF_CONFIG names no host but the loopback; else 0."""


@dataclass(frozen=True)
class Hardware:
    """What there is to train on."""

    tpu: str | None = None
    """The name of a TPU; `local` for one in this machine."""
    gpus: int = 0
    virtual: int = 0
    """Devices made of the CPU."""
    cluster: Cluster | None = None
    """Of more than one worker."""


def told_by(environment: Mapping[str, str], gpus: int) -> Hardware:
    """What the environment tells beside the GPUs. Raises TrainingError for a TF_CONFIG that makes no sense."""
    cluster = _cluster(environment.get("TF_CONFIG", ""))
    return Hardware(_tpu(environment), gpus, _virtual(environment), cluster)


def unmet(
    train: TrainConfig, environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")
) -> Iterator[tuple[Where, str]]:
    """What keeps this machine from training as the config says, as far as is known before TensorFlow looks.

    Raises TrainingError for a TF_CONFIG that makes no sense.
    """
    none = without_gpu(environment, devices)
    hardware = told_by(environment, 0 if none else 1)
    if train.strategy != "auto":
        if what := lacking(train.strategy, hardware):
            yield ("train", "strategy"), f"{train.strategy} {what}"
        return
    strategy, why = found(hardware)
    if none or strategy in ("tpu", "multi_worker"):  # else it depends on how many GPUs there are
        for where, what in unfit(strategy, train):
            yield where, f"{what}. The strategy is {strategy}: {why}"


def without_gpu(environment: Mapping[str, str], devices: Path) -> bool:
    """Whether there is no GPU for sure."""
    if environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return True
    return sys.platform == "linux" and not any(path for name in GPUS for path in devices.glob(name))


def found(hardware: Hardware) -> tuple[str, str]:
    """The strategy that fits what there is. A cluster comes before the GPUs, since it uses those of every worker."""
    if hardware.tpu is not None:
        return "tpu", f"there is a TPU, {hardware.tpu}"
    if hardware.cluster is not None:
        return "multi_worker", f"TF_CONFIG names {hardware.cluster.workers} workers"
    if hardware.gpus > 1:
        return "mirrored", "they are in this machine"
    if hardware.gpus == 1:
        return "one_gpu", "it is in this machine"
    return "cpu", "there is no TPU, no GPU and no TF_CONFIG of several workers"


def lacking(strategy: str, hardware: Hardware) -> str:
    """What the strategy needs and this machine does not have."""
    if strategy == "tpu" and hardware.tpu is None:
        return f"finds no TPU: none of {', '.join(TPU_NAMES)} is set. On a TPU virtual machine, set TPU_NAME=local"
    if strategy == "one_gpu" and not hardware.gpus:
        return "finds no GPU. Set `train.strategy: cpu` or `auto`, or see with `nvidia-smi` whether the driver works"
    if strategy == "mirrored" and not hardware.gpus and hardware.virtual < 2:
        return f"finds no GPU. Set `train.strategy: cpu` or `auto`; to try it out without GPUs, set {VIRTUAL}=2"
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
            "the environment variable TPU_CONFIG is no JSON with a `tpu_node_name`; name the TPU in TPU_NAME instead"
        ) from error


def _virtual(environment: Mapping[str, str]) -> int:
    text = environment.get(VIRTUAL, "") or "0"
    if not text.isdecimal():
        raise TrainingError(f"the environment variable {VIRTUAL} is {text!r}: it takes a number of devices, such as 2")
    return int(text)


def _cluster(text: str) -> Cluster | None:
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
            f" {', '.join(f'{len(tasks)} of {job}' for job, tasks in jobs.items())}. Give each worker its own number"
        )
    number = index + len(jobs.get("chief", [])) * (task == "worker")
    return Cluster(workers, f"{task} {index}", number == 0, number, _local_port(jobs, task, index))


def _local_port(jobs: Mapping[str, list[str]], task: str, index: int) -> int:
    addresses = [str(address).rpartition(":") for tasks in jobs.values() for address in tasks]
    port = str(jobs[task][index]).rpartition(":")[2]
    local = all(_LOOPBACK.fullmatch(host) for host, _, _ in addresses)
    return int(port) if local and port.isdecimal() else 0

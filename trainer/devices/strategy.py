"""On what training runs: looks at the machine, decides as `train.strategy` says, and tells why.

    choice = choose(train, look())
    print(choice.words)              # strategy: mirrored over 4 GPUs: they are on this machine
    with opened(choice).scope():     # a tf.distribute.Strategy
        ...

Looking starts nothing: TensorFlow's devices stay unset up, so that a process of its own can be started for strategies
over several devices, which have to be set up before any operation.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from configs.device_rules import unfit
from configs.devices import DISTRIBUTED
from configs.errors import TrainingError
from configs.train import TrainConfig

VIRTUAL = "HEADRACE_VIRTUAL_CPUS"
"""Environment variable: so many devices are made of the CPU, to try a strategy over several without having them."""
TPU_NAMES = ("TPU_NAME", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_CONFIG")
"""Where TensorFlow's TPU resolver finds the name of a TPU. Without one it would ask the network."""


@dataclass(frozen=True)
class Cluster:
    """What TF_CONFIG says."""

    workers: int
    task: str
    """This process: the kind and number of its task, such as `worker 1`."""
    chief: bool
    """Whether this worker is the one that writes what the training leaves behind."""


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


@dataclass(frozen=True)
class Choice:
    """A strategy that can be carried out here, and why it was chosen."""

    strategy: str
    """One of `train.strategy`, without auto."""
    words: str
    """For the log, the training record and the report."""
    hardware: Hardware = Hardware()

    @property
    def distributed(self) -> bool:
        """Whether it trains on several devices, in a process of its own and in a loop of ours."""
        return self.strategy in DISTRIBUTED

    @property
    def writes(self) -> bool:
        """Whether this process is the one that writes what the training leaves behind."""
        cluster = self.hardware.cluster
        return self.strategy != "multi_worker" or cluster is None or cluster.chief

    @property
    def on_cpu(self) -> bool:
        """Whether it computes on the CPU alone."""
        return (self.strategy != "tpu" and self.hardware.gpus == 0) or self.strategy == "cpu"


ONE_CPU = Choice("cpu", "cpu")


def look(environment: Mapping[str, str] | None = None) -> Hardware:
    """What this process can train on. Raises TrainingError for a TF_CONFIG that makes no sense."""
    environment = os.environ if environment is None else environment
    return Hardware(
        tpu=_tpu(environment),
        gpus=len(tf.config.list_physical_devices("GPU")),
        virtual=_virtual(environment),
        cluster=_cluster(environment.get("TF_CONFIG", "")),
    )


def choose(train: TrainConfig, hardware: Hardware) -> Choice:
    """The strategy for `train.strategy`. Raises TrainingError where this machine has not what it needs."""
    asked = train.strategy
    strategy, why = _found(hardware) if asked == "auto" else (asked, f"`train.strategy: {asked}` says so")
    lacking = _lacking(strategy, hardware)
    if lacking:
        raise TrainingError(f"train.strategy: {strategy} {lacking}")
    for where, what in unfit(strategy, train):
        raise TrainingError(f"{'.'.join(map(str, where))}: {what}. The strategy is {strategy}: {why}")
    return Choice(strategy, f"{_described(strategy, hardware)}: {why}", hardware)


def opened(choice: Choice) -> tf.distribute.Strategy:
    """The choice, set up in this process; the default strategy for a single device.

    Raises TrainingError where TensorFlow refuses: the message holds what it says.
    """
    try:
        return _open(choice)
    except TrainingError:
        raise
    except (tf.errors.OpError, RuntimeError, ValueError, OSError) as error:
        raise TrainingError(f"train.strategy: {choice.strategy} could not be set up: {error}") from error


@contextlib.contextmanager
def place_to_write(directory: Path, choice: Choice) -> Iterator[Path]:
    """The directory; for a worker that leaves writing to the chief, another that is removed afterwards."""
    if choice.writes:
        yield directory
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        yield Path(elsewhere)


def _found(hardware: Hardware) -> tuple[str, str]:
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


def _described(strategy: str, hardware: Hardware) -> str:
    on_each = f"{hardware.gpus or max(hardware.virtual, 1)} {'GPU' if hardware.gpus else 'CPU device'}"
    on_each += "s" * ((hardware.gpus or max(hardware.virtual, 1)) > 1)
    if strategy == "multi_worker" and hardware.cluster is not None:
        return f"multi_worker over {hardware.cluster.workers} workers of {on_each} each"
    return f"mirrored over {on_each}" if strategy == "mirrored" else strategy


def _lacking(strategy: str, hardware: Hardware) -> str:
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


def _open(choice: Choice) -> tf.distribute.Strategy:
    hardware = choice.hardware
    if choice.strategy == "cpu":
        _show("GPU", 0)
    if choice.strategy == "one_gpu":
        _show("GPU", 1)
    if choice.strategy == "tpu":
        return tf.distribute.TPUStrategy(tf.distribute.cluster_resolver.TPUClusterResolver.connect(hardware.tpu))
    if choice.strategy in DISTRIBUTED and not hardware.gpus and hardware.virtual > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * hardware.virtual)
    if choice.strategy == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if choice.strategy == "mirrored":
        kind = "GPU" if hardware.gpus else "CPU"
        return tf.distribute.MirroredStrategy([f"{kind}:{n}" for n in range(hardware.gpus or hardware.virtual)])
    return tf.distribute.get_strategy()


def _show(kind: str, most: int) -> None:
    """Let TensorFlow see no more than so many devices of a kind."""
    devices = tf.config.list_physical_devices(kind)
    if len(tf.config.get_visible_devices(kind)) > most:
        tf.config.set_visible_devices(devices[:most], kind)


def _tpu(environment: Mapping[str, str]) -> str | None:
    named = next((environment[name] for name in TPU_NAMES if environment.get(name)), None)
    return named or ("local" if Path("/dev/accel0").exists() else None)


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
    return Cluster(workers, f"{task} {index}", task == "chief" or (index == 0 and "chief" not in jobs))

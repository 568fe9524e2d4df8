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
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf

from headrace.configs.device_rules import unfit
from headrace.configs.devices import DISTRIBUTED
from headrace.configs.errors import RunError, TrainingError
from headrace.configs.train import TrainConfig
from headrace.trainer.devices.machine import LOCAL_TPU, Hardware, found, lacking, told_by
from headrace.trainer.input.worker import ALONE, Worker
from headrace.trainer.service.loopback import only_loopback


@dataclass(frozen=True)
class Choice:
    """A strategy that can be carried out here, and why it was chosen."""

    strategy: str
    """One of `train.strategy`, without auto."""
    words: str
    """For the log, the training record and the report."""
    hardware: Hardware = field(default_factory=Hardware)

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
    def device(self) -> str | None:
        """To which batches are brought ahead of the step; None where the step takes them as they are, or a strategy
        over several devices brings them.
        """
        return "GPU:0" if self.strategy == "one_gpu" else None

    def worker(self, training: str, *, has_share: bool = False) -> Worker:
        """Who reads, of a cluster. training: a name that it has in all workers, and no other has; has_share: whether
        the files that this process sees are its share of them.
        """
        cluster = self.hardware.cluster
        if self.strategy != "multi_worker" or cluster is None:
            return ALONE
        return Worker(cluster.number, cluster.workers, training, has_share)


_AS_LONG_AS_THE_PROCESS = contextlib.ExitStack()
ONE_CPU = Choice("cpu", "cpu")


def look(environment: Mapping[str, str] | None = None) -> Hardware:
    """What this process can train on. Raises TrainingError for a TF_CONFIG that makes no sense."""
    environment = os.environ if environment is None else environment
    return told_by(environment, len(tf.config.list_physical_devices("GPU")))


def choose(train: TrainConfig, hardware: Hardware) -> Choice:
    """The strategy for `train.strategy`. Raises TrainingError where this machine has not what it needs."""
    asked = train.strategy
    strategy, why = found(hardware) if asked == "auto" else (asked, f"`train.strategy: {asked}` says so")
    if what := lacking(strategy, hardware):
        raise TrainingError(f"train.strategy: {strategy} {what}")
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


def agreement(choice: Choice, strategy: tf.distribute.Strategy) -> Callable[[tuple[bool, ...]], tuple[bool, ...]]:
    """What asks all workers of a cluster whether things are so in any of them; each has to ask at the same places."""
    if choice.strategy != "multi_worker":
        return tuple

    @tf.function(autograph=False)
    def counts(so: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.identity(so)), axis=None)

    return lambda so: tuple(count > 0 for count in counts(tf.cast(so, tf.float32)).numpy().tolist())


def check_same_begin(choice: Choice, strategy: tf.distribute.Strategy, batches: int) -> None:
    """Raise TrainingError where the workers of a cluster would go on from different checkpoints.

    batches: those that this worker's checkpoint was trained on. Of a number that differs, some bit is 1 in one worker
    and 0 in another.
    """
    bits = tuple(bool(batches >> place & 1) for place in range(48))
    some = agreement(choice, strategy)((*bits, *(not bit for bit in bits)))
    if any(one and zero for one, zero in zip(some[:48], some[48:], strict=True)):
        raise TrainingError(
            f"the workers do not begin at the same checkpoint: this one is behind batch {batches:,}. Do all of them see"
            " the folder of the checkpoints?"
        )


@contextlib.contextmanager
def place_to_write(directory: Path, choice: Choice) -> Iterator[Path]:
    """The directory; for a worker that leaves writing to the chief, another that is removed afterwards."""
    if choice.writes:
        yield directory
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        yield Path(elsewhere)


def _described(strategy: str, hardware: Hardware) -> str:
    on_each = f"{hardware.gpus or max(hardware.virtual, 1)} {'GPU' if hardware.gpus else 'CPU device'}"
    on_each += "s" * ((hardware.gpus or max(hardware.virtual, 1)) > 1)
    if strategy == "multi_worker" and hardware.cluster is not None:
        return f"multi_worker over {hardware.cluster.workers} workers of {on_each} each"
    return f"mirrored over {on_each}" if strategy == "mirrored" else strategy


def _open(choice: Choice) -> tf.distribute.Strategy:
    hardware = choice.hardware
    if choice.strategy == "cpu":
        _show("GPU", 0)
    if choice.strategy == "one_gpu":
        _show("GPU", 1)
    if choice.strategy == "tpu":
        told = LOCAL_TPU if hardware.tpu == LOCAL_TPU else None  # else TensorFlow reads the variables itself
        return tf.distribute.TPUStrategy(tf.distribute.cluster_resolver.TPUClusterResolver.connect(told))
    if choice.strategy in DISTRIBUTED and not hardware.gpus and hardware.virtual > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * hardware.virtual)
    if choice.strategy == "multi_worker":
        if hardware.cluster is not None and hardware.cluster.local_port:
            _keep_to_loopback(hardware.cluster.local_port)
        return tf.distribute.MultiWorkerMirroredStrategy()
    if choice.strategy == "mirrored":
        kind = "GPU" if hardware.gpus else "CPU"
        return tf.distribute.MirroredStrategy([f"{kind}:{n}" for n in range(hardware.gpus or hardware.virtual)])
    return tf.distribute.get_strategy()


def _keep_to_loopback(port: int) -> None:
    """Where all workers are on this machine, let no other reach this worker's server, which runs what it is sent."""
    try:
        _AS_LONG_AS_THE_PROCESS.enter_context(only_loopback(port))
    except RunError as error:
        print(f"strategy: port {port} may be reached from other machines: {str(error).split('. ')[0]}", flush=True)
    else:
        os.environ["TF_GRPC_REUSE_PORT"] = "1"  # TensorFlow's own socket shares a port only if it is told so


def _show(kind: str, most: int) -> None:
    """Let TensorFlow see no more than so many devices of a kind."""
    devices = tf.config.list_physical_devices(kind)
    if len(tf.config.get_visible_devices(kind)) > most:
        tf.config.set_visible_devices(devices[:most], kind)

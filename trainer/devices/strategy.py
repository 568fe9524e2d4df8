"""The distribution strategy: detects the hardware, and chooses as `train.strategy` says.

    choice = choose_strategy(train, detect_hardware())
    print(choice.words)              # mirrored over 4 GPUs: they are in this machine
    with set_up(choice).scope():     # a tf.distribute.Strategy
        ...

Detection does not set up TensorFlow's devices, so that another process can be started for strategies over several
devices, which must be set up before any operation.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf

from headrace.common.errors import RunError, TrainingError
from headrace.configs.rules.training import strategy_fits_the_settings
from headrace.configs.schema.models import ModelBase
from headrace.configs.schema.train import DISTRIBUTED, TrainConfig
from headrace.trainer.devices.machine import LOCAL_TPU, Hardware, best_strategy, hardware_from, missing_for
from headrace.trainer.input.reading import SINGLE_WORKER, ClusterWorker
from headrace.trainer.service.ports import only_loopback

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StrategyChoice:
    """A strategy that is possible on this machine, and why it was chosen."""

    strategy: str
    """A value of `train.strategy` other than auto."""
    words: str
    """Description for the log, the training record and the report."""
    hardware: Hardware = field(default_factory=Hardware)

    @property
    def distributed(self) -> bool:
        """Whether it trains on several devices, with a DistributedLoop in a process of its own."""
        return self.strategy in DISTRIBUTED

    @property
    def writes(self) -> bool:
        """Whether this process writes the results of the training."""
        cluster = self.hardware.cluster
        return self.strategy != "multi_worker" or cluster is None or cluster.chief

    @property
    def device(self) -> str | None:
        """Where to copy batches ahead of the step; None if the step or the strategy does it."""
        return "GPU:0" if self.strategy == "one_gpu" else None

    def worker(self, training: str, *, has_share: bool = False) -> ClusterWorker:
        """Return which worker of a cluster reads.

        Args:
            training: A name that all workers share and no other training has.
            has_share: Whether this process only sees its share of the files.
        """
        cluster = self.hardware.cluster
        if self.strategy != "multi_worker" or cluster is None:
            return SINGLE_WORKER
        return ClusterWorker(cluster.number, cluster.workers, training, has_share)


_UNTIL_EXIT = contextlib.ExitStack()
SINGLE_CPU = StrategyChoice("cpu", "cpu")


def detect_hardware(environment: Mapping[str, str] | None = None) -> Hardware:
    """Return the devices that this process can train on. Raises TrainingError for an invalid TF_CONFIG."""
    environment = os.environ if environment is None else environment
    return hardware_from(environment, len(tf.config.list_physical_devices("GPU")))


def hardware_for(model: ModelBase) -> Hardware:
    """Return the devices that this process can train a model on: a single one for a model that needs no more."""
    found = detect_hardware()
    return Hardware(gpus=min(found.gpus, 1)) if model.one_device else found


def choose_strategy(train: TrainConfig, hardware: Hardware) -> StrategyChoice:
    """Choose as `train.strategy` says. Raises TrainingError if this machine lacks what the strategy needs."""
    asked = train.strategy
    strategy, why = best_strategy(hardware) if asked == "auto" else (asked, f"`train.strategy: {asked}` says so")
    if what := missing_for(strategy, hardware):
        raise TrainingError(f"train.strategy: {strategy} {what}")
    for where, what in strategy_fits_the_settings(train.model_copy(update={"strategy": strategy})):
        raise TrainingError(f"{'.'.join(map(str, where))}: {what}. The strategy is {strategy}: {why}")
    return StrategyChoice(strategy, f"{_describe(strategy, hardware)}: {why}", hardware)


def set_up(choice: StrategyChoice) -> tf.distribute.Strategy:
    """Set up the strategy in this process; for a single device, it is the default strategy.

    Raises TrainingError with TensorFlow's message if that fails.
    """
    try:
        return _create(choice)
    except TrainingError:
        raise
    except (tf.errors.OpError, RuntimeError, ValueError, OSError) as error:
        raise TrainingError(f"train.strategy: {choice.strategy} could not be set up: {error}") from error


def any_worker(
    choice: StrategyChoice, strategy: tf.distribute.Strategy
) -> Callable[[tuple[bool, ...]], tuple[bool, ...]]:
    """Return a function that tells for each condition whether it is true for any worker of a cluster.

    All workers must call it at the same points.
    """
    if choice.strategy != "multi_worker":
        return tuple

    @tf.function(autograph=False)
    def counts(conditions: tf.Tensor) -> tf.Tensor:
        values = strategy.run(lambda: tf.identity(conditions))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)

    return lambda conditions: tuple(count > 0 for count in counts(tf.cast(conditions, tf.float32)).numpy().tolist())


def check_same_checkpoint(choice: StrategyChoice, strategy: tf.distribute.Strategy, batches: int) -> None:
    """Raise TrainingError if the workers of a cluster would resume from different checkpoints.

    If the numbers differ, some bit is 1 for one worker and 0 for another.

    batches: number of batches before this worker's checkpoint.
    """
    bits = tuple(bool(batches >> position & 1) for position in range(48))
    some = any_worker(choice, strategy)((*bits, *(not bit for bit in bits)))
    if any(one and zero for one, zero in zip(some[:48], some[48:], strict=True)):
        raise TrainingError(
            f"the workers do not resume from the same checkpoint: this one has the checkpoint after batch {batches:,}."
            " Do all of them see the folder of the checkpoints?"
        )


@contextlib.contextmanager
def output_directory(directory: Path, choice: StrategyChoice) -> Iterator[Path]:
    """The directory; for a worker that leaves writing to the chief, a temporary one instead."""
    if choice.writes:
        yield directory
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def _describe(strategy: str, hardware: Hardware) -> str:
    on_each = f"{hardware.gpus or max(hardware.virtual, 1)} {'GPU' if hardware.gpus else 'CPU device'}"
    on_each += "s" * ((hardware.gpus or max(hardware.virtual, 1)) > 1)
    if strategy == "multi_worker" and hardware.cluster is not None:
        return f"multi_worker over {hardware.cluster.workers} workers of {on_each} each"
    return f"mirrored over {on_each}" if strategy == "mirrored" else strategy


def _create(choice: StrategyChoice) -> tf.distribute.Strategy:
    hardware = choice.hardware
    if choice.strategy == "cpu":
        _limit_visible_gpus(0)
    if choice.strategy == "one_gpu":
        _limit_visible_gpus(1)
    if choice.strategy == "tpu":
        name = LOCAL_TPU if hardware.tpu == LOCAL_TPU else None  # otherwise TensorFlow reads the variables itself
        return tf.distribute.TPUStrategy(tf.distribute.cluster_resolver.TPUClusterResolver.connect(name))
    if choice.strategy in DISTRIBUTED and not hardware.gpus and hardware.virtual > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * hardware.virtual)
    if choice.strategy == "multi_worker":
        if hardware.cluster is not None and hardware.cluster.local_port:
            _restrict_to_loopback(hardware.cluster.local_port)
        return tf.distribute.MultiWorkerMirroredStrategy()
    if choice.strategy == "mirrored":
        kind = "GPU" if hardware.gpus else "CPU"
        return tf.distribute.MirroredStrategy([f"{kind}:{n}" for n in range(hardware.gpus or hardware.virtual)])
    return tf.distribute.get_strategy()


def _restrict_to_loopback(port: int) -> None:
    """If all workers are on this machine, let no other machine reach this worker's server, which runs any graph."""
    try:
        _UNTIL_EXIT.enter_context(only_loopback(port))
    except RunError as error:
        logger.warning(f"strategy: port {port} may be reachable from other machines: {str(error).split('. ')[0]}")
    else:
        os.environ["TF_GRPC_REUSE_PORT"] = "1"  # without it, TensorFlow's own socket does not share a port


def _limit_visible_gpus(limit: int) -> None:
    devices = tf.config.list_physical_devices("GPU")
    if len(tf.config.get_visible_devices("GPU")) > limit:
        tf.config.set_visible_devices(devices[:limit], "GPU")

"""Batches that are brought to a device ahead of the step, on a second device made of the CPU."""

import json
import sys
from pathlib import Path

import forks
import numpy as np
import pytest
import tensorflow as tf

from headrace.trainer.devices.strategy import StrategyChoice

PROJECT = Path(__file__).resolve().parents[2]


def write(file: Path, rows: int) -> None:
    random = np.random.default_rng(0)
    with tf.io.TFRecordWriter(str(file), "GZIP") as writer:
        for numbers in random.normal(size=(rows, 2)).astype("float32"):
            feature = {
                "numbers": tf.train.Feature(float_list=tf.train.FloatList(value=numbers)),
                "label": tf.train.Feature(float_list=tf.train.FloatList(value=[numbers.sum()])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def test_batches_brought_to_another_device_train_the_same_weights(tmp_path: Path) -> None:
    write(tmp_path / "part-0.gz", 32 * 5 + 7)
    command = [sys.executable, str(Path(__file__).with_name("device_program.py")), str(tmp_path / "part-0.gz")]
    done = forks.run(command)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert all(device.endswith("device:CPU:1") for device in found["devices"])
    each_here, each_there, one_here, one_there = found["weights"]
    assert each_there == pytest.approx(each_here, abs=1e-6)
    assert one_there == pytest.approx(one_here, abs=1e-6)


def test_one_gpu_alone_wants_its_batches_ahead() -> None:
    assert StrategyChoice("one_gpu", "").device == "GPU:0"
    assert {StrategyChoice(strategy, "").device for strategy in ("cpu", "mirrored", "multi_worker", "tpu")} == {None}

"""What the Trainer uses of TensorFlow and Keras beside their public API is there, in the versions that it knows."""

import re
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from headrace.trainer import private_api

TRAINER = Path(private_api.__file__).parent


def test_versions_are_those_that_the_module_was_written_after() -> None:
    found = {"tensorflow": tf.__version__, "keras": keras.__version__}
    assert {name: ".".join(version.split(".")[:2]) for name, version in found.items()} == private_api.TESTED_VERSIONS


def test_nothing_else_in_the_trainer_imports_what_is_private() -> None:
    private = re.compile(r"^\s*(from|import) (tensorflow\.python|keras\.src)\b", re.MULTILINE)
    assert [path.name for path in TRAINER.rglob("*.py") if private.search(path.read_text())] == ["private_api.py"]


def test_what_is_private_does_what_it_is_used_for() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(use_ema=True), "mse", metrics=["mae"])
    model.optimizer.build(model.trainable_variables)
    shapes = [variable.shape for variable in private_api.moving_averages(model.optimizer)]
    assert shapes == [variable.shape for variable in model.trainable_variables]
    private_api.build(model, (np.zeros((3, 2), np.float32), np.zeros((3, 1), np.float32)))
    assert model.metrics_variables
    assert hasattr(model.optimizer, "_all_reduce_sum_gradients")  # which `disable_gradient_reduction` replaces
    assert private_api.ensure_global_seeds() is private_api.global_seeds()
    function = tf.function(lambda: tf.constant(3)).get_concrete_function()
    assert int(private_api.CancellationManager().get_cancelable_function(function)()) == 3

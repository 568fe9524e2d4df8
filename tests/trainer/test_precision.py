"""Layers that compute in half precision, steps compiled by XLA, and a device whose memory does not suffice."""

import contextlib
import itertools
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from messages import says
from trainings import train_alone

from headrace.common.errors import TrainingError
from headrace.configs.schema.train import TrainConfig
from headrace.trainer.callbacks.jit import JitChoice
from headrace.trainer.checkpointing.checkpoints import TrainingPosition
from headrace.trainer.columns.layers import MultiHots, PooledEmbeddings
from headrace.trainer.devices.errors import explain_out_of_memory, explain_xla_errors, xla_failure
from headrace.trainer.input.inputs import plan_inputs
from headrace.trainer.model import build_model, check_float32, compile_model, precision_policy
from headrace.trainer.models.text import RunningMean
from headrace.trainer.run import run_fn

Prepare = Callable[[str], Any]


@pytest.mark.parametrize(("precision", "computed"), [("mixed_bfloat16", "bfloat16"), ("mixed_float16", "float16")])
def test_layers_compute_in_half_precision_with_float32_weights_and_head(
    prepared: Prepare, precision: str, computed: str
) -> None:
    data = prepared("binary")
    model = build_model(data.sections(precision=precision), data.output)
    assert model.get_layer("hidden_1").compute_dtype == computed
    assert model.get_layer("predictions").compute_dtype == "float32"
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_means_and_shares_of_many_words_lose_nothing_but_the_last_rounding(precision: Any) -> None:
    """Added up one by one in bfloat16, ones come no further than 256."""
    words = np.random.default_rng(0).normal(0.05, 0.1, (2, 3000, 4)).astype(np.float32)
    ids = tf.ragged.constant([[0] * 900 + [1] * 100, [1] * 3], dtype=tf.int64)
    with precision_policy(precision):
        means, shares = RunningMean()(words), MultiHots((2,), "mean")([ids])
        counts, pooled = MultiHots((2,), "sum")([ids]), PooledEmbeddings((2,), 4, "mean")
        found = pooled([ids])
    assert means.dtype == shares.dtype == counts.dtype == precision.removeprefix("mixed_")
    true = words.cumsum(axis=1, dtype=np.float64) / np.arange(1, 3001)[:, None]
    np.testing.assert_allclose(tf.cast(means, tf.float32), true, rtol=0.02, atol=0.002)
    np.testing.assert_allclose(tf.cast(shares, tf.float32), [[0.9, 0.1], [0.0, 1.0]], rtol=0.005)
    np.testing.assert_allclose(tf.cast(counts, tf.float32), [[900, 100], [0, 3]], rtol=0.005)
    expected = np.array([[0.9, 0.1], [0, 1]]) @ np.asarray(pooled.table)
    np.testing.assert_allclose(tf.cast(found, tf.float32), expected, rtol=0.01, atol=0.0002)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_learns_as_well_and_exports_float32(prepared: Prepare, tmp_path: Path, precision: str) -> None:
    run_fn(prepared("binary").fn_args(tmp_path, precision=precision, epochs=3))
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert max(epoch["metrics"]["val_auc"] for epoch in record["epochs"]) > 0.9
    assert record["chosen"]["precision"].startswith(f"{precision}: layers compute in")
    signature = tf.saved_model.load(str(tmp_path / "Format-Serving")).signatures["serving_transformed"]
    assert {tensor.dtype for tensor in signature.structured_input_signature[1].values()} == {tf.float32, tf.int64}
    assert signature.structured_outputs["predictions"].dtype == tf.float32


def test_float16_scales_the_loss_and_passes_over_steps_that_overflow(prepared: Prepare) -> None:
    data = prepared("binary")
    sections = data.sections(precision="mixed_float16")
    model = build_model(sections, data.output)
    compile_model(model, sections.label, sections.train, 1)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    before = model.get_weights()
    model.optimizer.dynamic_scale.assign(3e38)
    inputs = plan_inputs([data.patterns["train"]], [data.patterns["eval"]], data.output, sections).open(sections.train)
    model.fit(inputs.train.dataset.take(1), verbose=0, shuffle=False)
    assert float(model.optimizer.dynamic_scale) == pytest.approx(1.5e38)
    assert all(np.array_equal(one, other) for one, other in zip(before, model.get_weights(), strict=True))


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_other_precisions_do_not_scale_the_loss(prepared: Prepare, precision: str) -> None:
    data = prepared("binary")
    sections = data.sections(precision=precision)
    model = build_model(sections, data.output)
    compile_model(model, sections.label, sections.train, 1)
    assert isinstance(model.optimizer, keras.optimizers.Adam)


def test_a_model_of_the_users_that_predicts_half_precision_is_refused() -> None:
    with precision_policy("mixed_bfloat16"):
        inputs = keras.Input([2])
        model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    with pytest.raises(TrainingError, match=r'mine\.build returned a model that predicts bfloat16.*dtype="float32"'):
        check_float32(model, "mine.build")


def trained(data: Any, *callbacks: keras.callbacks.Callback, dropout: float = 0.2) -> keras.Model:
    """A model after two epochs."""
    sections = data.sections({"dropout": dropout}, epochs=2)
    inputs = plan_inputs([data.patterns["train"]], [data.patterns["eval"]], data.output, sections).open(sections.train)
    keras.utils.set_random_seed(0)
    model = build_model(sections, data.output)
    compile_model(model, sections.label, sections.train, 2)
    model.fit(inputs.train.dataset, epochs=2, verbose=0, callbacks=list(callbacks), shuffle=False)
    return model


def choice(data: Any, clock: Callable[[], float], steps: int = 32_000) -> JitChoice:
    """What measures, in a training that is said to be long."""
    sections = data.sections()
    inputs = plan_inputs([data.patterns["train"]], [data.patterns["eval"]], data.output, sections).open(sections.train)
    return JitChoice(lambda: inputs.train.peek, 2, steps, 2, clock)


def ticking(first: float, factor: float) -> Callable[[], float]:
    """A clock whose ticks grow or shrink."""
    times = itertools.accumulate(first * factor**number for number in range(10_000))
    return lambda: next(times)


def test_measuring_changes_nothing_where_xla_is_not_faster(prepared: Prepare) -> None:
    data = prepared("binary")
    jit = choice(data, ticking(6.0, 1.01))
    measured = trained(data, jit)
    assert jit.words.startswith("off: a step takes")
    assert jit.measured
    assert measured.jit_compile is False
    for one, other in zip(trained(data).get_weights(), measured.get_weights(), strict=True):
        np.testing.assert_array_equal(other, one)


def test_training_continues_with_xla_where_it_is_faster(prepared: Prepare) -> None:
    data = prepared("binary")
    jit = choice(data, ticking(60.0, 0.7))
    measured = trained(data, jit, dropout=0.0)
    assert jit.words.startswith("on: a step takes")
    assert measured.jit_compile is True
    for one, other in zip(trained(data, dropout=0.0).get_weights(), measured.get_weights(), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-4)


def test_a_short_training_is_not_measured(prepared: Prepare) -> None:
    data = prepared("binary")
    jit, never = choice(data, ticking(6.0, 1.0), steps=20), choice(data, ticking(0.001, 1.0))
    trained(data, jit, never)
    assert jit.words.startswith("off: the rest of the training ")
    assert never.words.startswith("off: the training is short, ")
    assert not jit.measured
    assert not never.measured


def test_a_training_that_continues_looks_at_what_is_left_of_it() -> None:
    """Six of the last epoch's ten steps are passed over, of 2 s each, and four are made."""
    jit = JitChoice(
        lambda: tf.data.Dataset.range(1),
        1,
        None,
        10,
        ticking(2.0, 1.0),
        begin=TrainingPosition(epoch=9, step=6, batches=96),
    )
    jit.on_epoch_begin(9)
    for batch in range(10):
        jit.on_train_batch_end(batch)
    assert says(jit.words, "off: …about 0 s, …from 60 s")


def test_executions_that_are_passed_over_do_not_count_as_fast_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = TrainingPosition(step=60, batches=60)
    jit = JitChoice(lambda: tf.data.Dataset.range(1), 2, 200, 1, ticking(2.0, 1.0), begin=begin)
    measured: list[int] = []
    monkeypatch.setattr(jit, "_choose", lambda: measured.append(jit._done))
    jit.on_epoch_begin(0)
    for batch in range(1, 70, 2):
        jit.on_train_batch_end(batch)
    assert measured == [68, 70]  # no earlier, as 5 s of steps are looked at


def ragged(jit: bool) -> tuple[keras.Model, tf.data.Dataset]:
    """A model over several values, which XLA cannot compile, and batches for it."""
    values = keras.Input((None,), dtype="int64", ragged=True)
    model = keras.Model(values, keras.layers.Dense(1)(PooledEmbeddings((3,), 2)([values])))
    model.compile("adam", "mse", jit_compile=jit)
    batch = tf.ragged.constant([[0, 1], [2]], dtype=tf.int64), tf.constant([[0.0], [1.0]])
    return model, tf.data.Dataset.from_tensors(batch).repeat(4)


def test_what_xla_cannot_compile_is_reported_where_it_is_asked_for() -> None:
    model, batches = ragged(jit=True)
    reported = (
        r"train\.jit: on: XLA cannot compile this model's steps \(it has no RaggedTensorToTensor\)\. Set it to `auto`"
    )
    with pytest.raises(TrainingError, match=reported), explain_xla_errors(TrainConfig(jit="on")):
        model.fit(batches, verbose=0)


def test_what_xla_cannot_compile_is_reported_where_it_was_tried() -> None:
    model, batches = ragged(jit=False)
    jit = JitChoice(lambda: batches, 1, 1000, 1, ticking(6.0, 1.0))
    model.fit(batches, verbose=0, callbacks=[jit])
    assert jit.words.startswith("off: XLA cannot compile ")
    assert "RaggedTensorToTensor" in jit.words
    assert jit.measured
    assert model.jit_compile is False


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        (
            "Graph execution error:\n\nDetected at node x\n<stack traces unavailable>\nToo deep.\n\t [[{{node x}}]]",
            "Too deep.",
        ),
        (
            "One\nDetected unsupported operations on XLA_CPU_JIT: y\nTwo",
            "Detected unsupported operations on XLA_CPU_JIT: y",
        ),
        ("", "ValueError"),
    ],
)
def test_reason_of_xla_is_what_says_more_than_where(said: str, reported: str) -> None:
    assert xla_failure(ValueError(said)) == reported


def test_xla_is_used_where_it_is_asked_for(prepared: Prepare, tmp_path: Path) -> None:
    record = train_alone(prepared("binary").fn_args(tmp_path, jit="on", epochs=1))
    assert record["chosen"]["jit"] == "on: `train.jit` says so"


@contextlib.contextmanager
def room_for(more: int) -> Iterator[None]:
    """Let this process map at most this many further bytes, whatever the machine has and however it overcommits."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    (line,) = [
        line
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        if line.startswith("VmData:")
    ]
    resource.setrlimit(resource.RLIMIT_DATA, (int(line.split()[1]) * 1024 + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")


@needs_proc
def test_a_device_out_of_memory_is_reported_with_what_to_change() -> None:
    train = TrainConfig(batch_size=2048)
    with (
        pytest.raises(TrainingError, match=r"memory of CPU:0 .* float tensor") as caught,
        explain_out_of_memory(train),
        room_for(256 << 20),
    ):
        tf.zeros([2048, 1 << 17])  # 1 GiB
    said = str(caught.value)
    assert "Lower `train.batch_size` 2,048, for example to 1,024, with `train.gradient_accumulation: 2`" in said
    assert "`train.precision: mixed_bfloat16`" in said
    assert "; or make the model smaller" in said
    with explain_out_of_memory(train):
        assert tf.zeros([2048, 1 << 10]).shape == (2048, 1 << 10)  # the limit is gone


@needs_proc
def test_weights_that_no_memory_holds_are_not_blamed_on_the_batch() -> None:
    with (
        pytest.raises(TrainingError) as caught,
        explain_out_of_memory(TrainConfig(batch_size=64)),
        room_for(256 << 20),
    ):
        tf.zeros([1 << 14, 1 << 14])  # 1 GiB
    assert "of shape [16384,16384]. Make the model smaller" in str(caught.value)
    assert "is not one of its weights: lower `train.batch_size` 64" in str(caught.value)

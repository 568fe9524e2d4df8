"""What must not be trained on, or cannot continue, is reported with the place and the way out."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer.run import run_fn

Prepare = Callable[[str], Any]
SHARDS = 3


def changed(pattern: str, folder: Path, change: Callable[[int, Any], None]) -> str:
    """A copy of the transformed examples of which `change` has altered some, by their number."""
    number = 0
    for file in sorted(tf.io.gfile.glob(pattern)):
        target = folder / Path(file).name
        with tf.io.TFRecordWriter(str(target), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
            for record in tf.data.TFRecordDataset(file, compression_type="GZIP").as_numpy_iterator():
                example = tf.train.Example.FromString(record)
                change(number, example.features.feature)
                writer.write(example.SerializeToString())
                number += 1
    return str(folder / "*.gz")


def put(name: str, value: float, at: int) -> Callable[[int, Any], None]:
    def change(number: int, features: Any) -> None:
        if number == at:
            kind = features[name].WhichOneof("kind")
            getattr(features[name], kind).value[:] = [value if kind == "float_list" else int(value)]

    return change


def both_signs(name: str, value: float, at: int) -> Callable[[int, Any], None]:
    """Twenty values in turn above and below 0: a sign, with the label that it speaks for, may give no gradient."""

    def change(number: int, features: Any) -> None:
        if at <= number < at + 20:
            put(name, value * (-1) ** number, number)(number, features)

    return change


def fails(data: Any, folder: Path, split: str = "train", change: Any = None, **train: Any) -> str:
    """The message that a training ends with."""
    arguments = data.fn_args(folder, **train)
    if change is not None:
        (folder / "changed").mkdir(parents=True)
        setattr(arguments, f"{split}_files", [changed(data.patterns[split], folder / "changed", change)])
    arguments.custom_config["checkpoints"] = str(folder / "checkpoints")
    with pytest.raises(TrainingError) as caught:
        run_fn(arguments)
    assert not (folder / "Format-Serving").exists()
    return str(caught.value)


FILES = {"input": {"shuffle": 0}, "early_stopping": None, "steps_per_execution": 8}
"""Examples in the order of the files, so that it is known in which batch one is."""


def test_infinite_feature_is_named_with_the_step_that_meets_it(prepared: Prepare, tmp_path: Path) -> None:
    reported = fails(prepared("regression"), tmp_path, "train", put("amount", float("inf"), at=64 * 9 + 5), **FILES)
    assert "nan in steps 9 to 16 of epoch 1. Step 10 " in reported
    assert "feature 'amount' holds inf in 1 of 64 values of that batch. Correct " in reported
    assert "learning_rate" not in reported


def test_feature_of_huge_numbers_is_found_by_blanking_it(prepared: Prepare, tmp_path: Path) -> None:
    changes = [put("amount", 1e30, at=64 * 20), put("amount", -1e30, at=64 * 20 + 1)]  # relu may let one sign die
    reported = fails(
        prepared("regression"),
        tmp_path,
        "train",
        lambda number, features: [change(number, features) for change in changes],
        **FILES,
        checkpoint={"every_steps": 8},
    )
    assert re.search(r"Step 21 .*feature 'amount' is the cause: it reaches 1e\+30", reported)
    assert "without it the loss is finite" in reported
    assert f"The last good checkpoint is {tmp_path / 'checkpoints'}" in reported
    kept = reported.partition("checkpoint is ")[2]
    assert "batch-000000000016" in kept  # the one before step 21


def test_feature_that_spoils_the_optimizer_first_is_named_with_its_own_step(prepared: Prepare, tmp_path: Path) -> None:
    """Adam squares the gradient of step 6; the weights are numbers after it still, and none after step 7."""
    settings = {**FILES, "steps_per_execution": 1, "checkpoint": {"every_steps": 3, "keep": 5}}
    reported = fails(prepared("binary"), tmp_path, "train", both_signs("amount", 1e36, at=64 * 5), **settings)
    assert "nan in step 8 of epoch 1. Step 6 of that epoch " in reported
    assert re.search(r"is the cause: it reaches -?1e\+36 in that batch", reported)
    assert "without it the squares " in reported
    (kept,) = (tmp_path / "checkpoints").glob("*/*.npz")
    assert kept.name.startswith("batch-000000000003")  # the one of batch 6 is spoilt
    assert f"The last good checkpoint is {kept}" in reported


def test_optimizer_that_cannot_learn_any_more_ends_the_training(prepared: Prepare, tmp_path: Path) -> None:
    """Adagrad divides each further step by infinity, so the loss stays a number for good."""
    change = both_signs("amount", 1e25, at=64 * 9)
    reported = fails(prepared("binary"), tmp_path, "train", change, **FILES, optimizer="adagrad")
    assert "a variable of the optimizer became infinite in epoch 1. Step 10 " in reported
    assert re.search(r"feature 'amount' is the cause: it reaches -?1e\+25", reported)


def test_learning_rate_that_is_too_high_is_distinguished_from_a_bad_feature(prepared: Prepare, tmp_path: Path) -> None:
    reported = fails(prepared("regression"), tmp_path, optimizer="sgd", learning_rate=1e12)
    assert "first bad one: no single feature " in reported
    assert "the largest weight was" in reported
    assert "Lower `train.learning_rate` or set `train.clip`" in reported


def test_infinite_feature_of_the_eval_split_is_named_with_its_batch(prepared: Prepare, tmp_path: Path) -> None:
    reported = fails(prepared("regression"), tmp_path, "eval", put("amount", float("inf"), at=70), **FILES)
    assert "after epoch 1. In its batch 2, feature 'amount' holds inf in 1 of 64" in reported


@pytest.mark.parametrize(
    ("kind", "label", "value", "message"),
    [
        ("binary", "bought", -1, "label 'bought': it is missing or not one of its classes (0, 1) in 1 of "),
        ("multiclass", "size", 7, "examples read at once: class number 7"),
        ("regression", "price", float("nan"), "label 'price': it is missing or infinite in 1 of "),
    ],
)
@pytest.mark.parametrize("split", ["train", "eval"])
def test_label_out_of_range_stops_the_training(
    prepared: Prepare, tmp_path: Path, kind: str, label: str, value: float, message: str, split: str
) -> None:
    assert message in fails(prepared(kind), tmp_path, split, put(label, value, at=100), epochs=1)


def test_empty_split_is_refused(prepared: Prepare, tmp_path: Path) -> None:
    data = prepared("binary")
    with tf.io.TFRecordWriter(str(tmp_path / "none.gz"), tf.io.TFRecordOptions(compression_type="GZIP")):
        pass
    for split in ("train", "eval"):
        arguments = data.fn_args(tmp_path)
        setattr(arguments, f"{split}_files", [str(tmp_path / "none.gz")])
        with pytest.raises(TrainingError, match=f"the {split} split holds no examples"):
            run_fn(arguments)


def test_checkpoint_that_cannot_be_written_is_reported(prepared: Prepare, tmp_path: Path) -> None:
    arguments = prepared("binary").fn_args(tmp_path, checkpoint={"every_steps": 1}, steps_per_execution=1)
    (tmp_path / "a-file").write_text("")
    arguments.custom_config["checkpoints"] = str(tmp_path / "a-file")
    with pytest.raises(TrainingError, match=r"the checkpoint in .*a-file.* could not be written"):
        run_fn(arguments)

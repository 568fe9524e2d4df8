"""The comparison of a converted model with its SavedModel, and the `.tflite` files beside the pushed versions."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tfx.types import standard_artifacts

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.components.deploy.lite_files import converted, push_lite
from headrace.components.lite.comparison import compare, examine
from headrace.components.lite.component import Lite
from headrace.components.lite.verdict import LiteVerdict
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.stored_models.blessing import record_blessing
from headrace.components.stored_models.push import locked
from headrace.configs.schema.deploy import LiteConfig
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.description import ModelDescription

pytestmark = pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")

BINARY = LabelConfig(key="y", kind="binary")
NAN = np.nan


def example(a: float) -> bytes:
    features = tf.train.Features(feature={"a": tf.train.Feature(float_list=tf.train.FloatList(value=[a]))})
    return tf.train.Example(features=features).SerializeToString()


EXAMPLES = [example(a) for a in np.linspace(-2, 2, 41)]


def exported(folder: Path, function: Any = lambda a: 1.5 * a) -> Path:
    """A SavedModel with the signatures of ours, which predicts sigmoid(function(a))."""
    module = tf.Module()
    module.weight = tf.Variable(1.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")], autograph=False)
    def transform(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"a": tf.io.parse_example(examples, {"a": tf.io.FixedLenFeature([], tf.float32)})["a"]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="a")], autograph=False)
    def predict(a: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": tf.sigmoid(function(a) * module.weight)[:, tf.newaxis]}

    module.predict = predict
    signatures = {"transform_features": transform, "serving_transformed": predict}
    tf.saved_model.save(module, str(folder / "Format-Serving"), signatures)
    ModelDescription(label=BINARY, types={"a": "float", "y": "int"}, features=("a",)).write(folder / "Format-Serving")
    return folder / "Format-Serving"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize(
    ("expected", "found", "label", "result"),
    [
        ([[0.2], [0.8]], [[0.2], [0.8]], BINARY, (0.8, 0.0, 0.0, 1.0, 0)),
        ([[0.2], [0.8]], [[0.6], [0.7]], BINARY, (0.8, 0.5, 0.3125, 0.5, 0)),
        ([[0.0], [0.5]], [[0.0], [NAN]], BINARY, (0.5, 0.0, 0.0, 1.0, 1)),
        ([[NAN], [4.0]], [[1.0], [3.0]], LabelConfig(key="y", kind="regression"), (4.0, 0.25, 0.25, None, 0)),
        ([[0.0], [0.0]], [[0.0], [2.0]], LabelConfig(key="y", kind="regression"), (0.0, 2.0, 1.0, None, 0)),
        (
            [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]],
            [[0.3, 0.5, 0.2], [0.1, 0.2, 0.7]],
            LabelConfig(key="y", kind="multiclass", classes=3),
            (0.7, 0.2 / 0.7, 0.4 / 6 / 0.7, 0.5, 0),
        ),
    ],
)
def test_differences_are_relative_to_the_largest_prediction(
    expected: list, found: list, label: LabelConfig, result: tuple
) -> None:
    assert tuple(compare(np.array(expected), np.array(found), label)) == pytest.approx(result)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_report_has_what_numpy_computes(plain: Path, tmp_path: Path, precision: Any) -> None:
    verdict = examine(plain, LiteConfig(precision=precision), EXAMPLES, EXAMPLES, tmp_path)
    file = tmp_path / "model.tflite"
    assert (verdict.passed, verdict.size, verdict.examples) == (True, file.stat().st_size, 41)
    assert verdict.contents == checksum(file)
    assert verdict.representative == (41 if precision == "int8" else 0)
    assert [(one.name, one.dtype, one.shape) for one in verdict.inputs] == [("a", "float32", ())]
    expected = 1 / (1 + np.exp(-1.5 * np.linspace(-2, 2, 41)))
    runner = tf.lite.Interpreter(str(file)).get_signature_runner()
    apart = np.abs(runner(a=np.linspace(-2, 2, 41).astype(np.float32))["predictions"][:, 0] - expected)
    assert verdict.largest == pytest.approx(expected.max(), rel=1e-5)
    assert verdict.difference == pytest.approx(apart.max() / expected.max(), abs=1e-5)
    assert verdict.mean_difference == pytest.approx(apart.mean() / expected.max(), abs=1e-5)
    assert apart.max() < {"float32": 1e-6, "float16": 1e-3, "int8": 0.03}[precision]


def test_limits_that_are_exceeded_are_named_with_both_numbers(plain: Path, tmp_path: Path) -> None:
    limits = LiteConfig(precision="int8", max_difference=1e-6, min_agreement=1.0)
    (reason,) = examine(plain, limits, EXAMPLES, EXAMPLES[:3], tmp_path).reasons[:1]
    assert "of the int8 file differ" in reason
    assert "deploy.lite.max_difference allows 1e-06" in reason
    assert examine(plain, LiteConfig(precision="int8", max_difference=None), EXAMPLES, EXAMPLES, tmp_path).passed


def test_operation_that_the_format_lacks_is_named(tmp_path: Path) -> None:
    model = exported(tmp_path / "model", lambda a: tf.math.digamma(tf.abs(a) + 1))
    (reason,) = examine(model, LiteConfig(), EXAMPLES, [], tmp_path).reasons
    assert "LiteRT has no operation " in reason
    assert reason.endswith(" Digamma")
    assert not (tmp_path / "model.tflite").exists()


@pytest.mark.parametrize("passes", [True, False])
def test_component_converts_what_passed_its_canary_alone(plain: Path, tmp_path: Path, passes: bool) -> None:
    for split in ("test", "train"):
        folder = tmp_path / "examples" / f"Split-{split}"
        folder.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "data-00000-of-00001.gz"), "GZIP") as writer:
            for one in EXAMPLES:
                writer.write(one)
    model, examples = standard_artifacts.Model(), standard_artifacts.Examples()
    canary, blessing = standard_artifacts.InfraBlessing(), standard_artifacts.InfraBlessing()
    model.uri, examples.uri, blessing.uri = str(plain.parent), str(tmp_path / "examples"), str(tmp_path / "blessing")
    examples.split_names = json.dumps(["test", "train"])
    canary.set_int_custom_property("blessed", int(passes))
    Path(blessing.uri).mkdir()
    settings = LiteConfig(precision="int8", examples=9, representative=7).model_dump_json()
    Lite.EXECUTOR_SPEC.executor_class().Do(
        {"model": [model], "examples": [examples], "canary": [canary]},
        {"blessing": [blessing]},
        {"settings": settings, "example_splits": '["test", "train"]'},
    )
    assert blessing.get_int_custom_property("blessed") == int(passes)
    marker = "INFRA_BLESSED" if passes else "INFRA_NOT_BLESSED"
    files = {marker, "report.json", *(["model.tflite"] if passes else [])}
    assert {path.name for path in Path(blessing.uri).iterdir()} == files
    verdict = LiteVerdict.read(Path(blessing.uri))
    assert verdict is not None
    assert (verdict.examples, verdict.representative) == ((9, 7) if passes else (0, 0))
    assert bool(verdict.skipped) is not passes
    assert (converted(blessing.uri) == blessing.uri) is passes


def made(folder: Path, content: bytes) -> str:
    """The folder of an artifact of Lite's."""
    folder.mkdir()
    (folder / "model.tflite").write_bytes(content)
    LiteVerdict(precision="int8", contents=checksum(folder / "model.tflite"), size=len(content)).write(folder)
    return folder.name


def files(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.tflite")}


def entry(lite: str | None) -> Entry:
    return Entry(uri="model", blessed_at="2026-03-01", lite=lite)


def test_file_is_put_beside_its_version_replaced_and_removed_with_it(tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    for version in ("11", "12"):
        (serving / version).mkdir(parents=True)
    first, second = made(tmp_path / "first", b"first"), made(tmp_path / "second", b"second")
    push_lite(tmp_path, entry(first), serving / "11")
    push_lite(tmp_path, entry(first), serving / "12")
    assert files(serving) == {"lite/11/model.tflite": b"first", "lite/12/model.tflite": b"first"}
    for left in (".pushing-12", ".removing-12", ".pushing-7", ".removing-9", ".pushing-mine"):  # but the last, of kills
        (serving / "lite" / left).mkdir()
    push_lite(tmp_path, entry(second), serving / "12")
    assert files(serving) == {"lite/11/model.tflite": b"first", "lite/12/model.tflite": b"second"}
    assert LiteVerdict.read(serving / "lite" / "12") == LiteVerdict.read(tmp_path / second)
    assert {path.name for path in (serving / "lite").iterdir()} == {"11", "12", ".pushing-mine"}
    (serving / "lite" / ".pushing-mine").rmdir()
    (serving / "11").rmdir()
    (serving / "lite" / ".DS_Store").touch()
    (serving / "lite" / "latest").symlink_to("12")
    push_lite(tmp_path, entry(None), serving / "12")
    assert {path.name for path in (serving / "lite").iterdir()} == {"12", ".DS_Store", "latest"}


def test_file_is_put_there_under_the_lock_of_pushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving, copied, refused = tmp_path / "serving", shutil.copyfile, []
    (serving / "11").mkdir(parents=True)

    def copy(source: Path, target: Path) -> Path:
        descriptor = os.open(serving, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refused.append(target.name)
        finally:
            os.close(descriptor)
        return copied(source, target)

    monkeypatch.setattr(shutil, "copyfile", copy)
    push_lite(tmp_path, entry(made(tmp_path / "first", b"first")), serving / "11")
    assert refused == ["model.tflite", "report.json"]
    with locked(serving):  # which is free again
        assert files(serving) == {"lite/11/model.tflite": b"first"}


def test_version_that_another_push_removed_meanwhile_gets_no_file(tmp_path: Path) -> None:
    (tmp_path / "serving").mkdir()
    push_lite(tmp_path, entry(made(tmp_path / "first", b"first")), tmp_path / "serving" / "11")
    assert not (tmp_path / "serving" / "lite").exists()


@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_file_that_is_not_intact_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    (tmp_path / "serving" / "11").mkdir(parents=True)
    name = made(tmp_path / "first", b"first")
    file = tmp_path / name / "model.tflite"
    file.write_bytes(b"other") if what == "damaged" else file.unlink()
    with caplog.at_level(logging.WARNING):
        push_lite(tmp_path, entry(name), tmp_path / "serving" / "11")
    assert f"{file} is {what}" in caplog.text
    assert not (tmp_path / "serving" / "lite" / "11" / "model.tflite").exists()


def test_destination_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "serving" / "11").mkdir(parents=True)
    (tmp_path / "serving" / "lite").write_text("a file")
    with pytest.raises(RunError, match=r"deploy\.push: cannot write to .*lite"):
        push_lite(tmp_path, entry(made(tmp_path / "first", b"first")), tmp_path / "serving" / "11")


def test_list_of_blessed_models_has_the_latest_file_of_each(tmp_path: Path) -> None:
    path, now = tmp_path / "blessed.json", datetime(2026, 3, 1, tzinfo=UTC)
    record_blessing(path, str(tmp_path / "a"), now, lite=str(tmp_path / "lite" / "1"))
    record_blessing(path, str(tmp_path / "b"), now)
    before = Registry.read(path)
    assert [one["lite"] for one in json.loads(path.read_text())["models"]] == ["lite/1", None]
    record_blessing(path, str(tmp_path / "b"), now, lite=str(tmp_path / "lite" / "2"))
    assert json.loads(path.read_text())["models"][1]["lite"] == "lite/2"
    after = Registry.read(path)
    assert [one.lite for one in after.models] == [str(tmp_path / "lite" / number) for number in "12"]
    assert after.models[1] == before.models[1].model_copy(update={"lite": str(tmp_path / "lite" / "2")})

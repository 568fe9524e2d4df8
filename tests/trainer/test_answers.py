"""The answers of the model in memory, which the Trainer records, and the canary that asks the export for the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from headrace.components.canary.examination import examine
from headrace.components.canary.reference import Reference
from headrace.components.canary.replay import Pairs
from headrace.components.canary.verdict import CanaryVerdict
from headrace.trainer.answers import EXAMPLES, RecordedAnswers
from headrace.trainer.model import build_model
from headrace.trainer.run import run_fn


@dataclass(frozen=True)
class Recorded:
    """A training with its export, and the record of its model's answers."""

    data: Any
    folder: Path
    answers: RecordedAnswers

    @property
    def serving(self) -> Path:
        return self.folder / "Format-Serving"

    @property
    def raw(self) -> list[bytes]:
        """The examples that the model in memory was asked."""
        raw: list[bytes] = self.data.serialized["eval"][:EXAMPLES]
        return raw

    def examined(self, serving: Path | None = None) -> CanaryVerdict:
        files = sorted((self.folder / "Split-eval").glob("*"))
        records = [record.numpy() for file in files for record in tf.data.TFRecordDataset(str(file), "GZIP")]
        pairs = Pairs(self.raw, records[:EXAMPLES], self.data.output.transformed_feature_spec())
        reference = Reference(self.answers, pairs)
        return examine(serving or self.serving, self.raw[:4], reference=reference)


def features_of(data: Any) -> dict[str, np.ndarray]:
    """Of the eval split, by the transform graph."""
    raw = tf.io.parse_example(data.serialized["eval"], data.output.raw_feature_spec())
    return {name: tensor.numpy() for name, tensor in data.output.transform_raw_features(raw).items()}


def write_in_order(features: dict[str, np.ndarray], folder: Path) -> str:
    """The pattern of two files with the examples in their order, as our Transform writes them."""
    folder.mkdir()
    for number, rows in enumerate((range(100), range(100, 500))):
        with tf.io.TFRecordWriter(str(folder / f"transformed_examples-{number}.gz"), "GZIP") as writer:
            for row in rows:
                example = tf.train.Example()
                for name, values in features.items():
                    kind = "int64_list" if values.dtype == np.int64 else "float_list"
                    getattr(example.features.feature[name], kind).value.append(values[row])
                writer.write(example.SerializeToString())
    return str(folder / "*")


@pytest.fixture(scope="module")
def recorded(prepared: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    data, folder = prepared("multiclass"), tmp_path_factory.mktemp("answers")
    fn_args = data.fn_args(folder, epochs=1)
    fn_args.eval_files = [write_in_order(features_of(data), folder / "Split-eval")]
    run_fn(fn_args)
    answers = RecordedAnswers.read(folder / "run")
    assert answers is not None
    return Recorded(data, folder, answers)


def test_record_has_what_the_trained_weights_predict_and_no_example(recorded: Recorded) -> None:
    model = build_model(recorded.data.sections(), recorded.data.output)
    model.load_weights(recorded.folder / "run" / "best.weights.h5")
    features = {name: values[:EXAMPLES] for name, values in features_of(recorded.data).items() if name in model.input}
    predicted = np.asarray(model(features, training=False))
    answers = recorded.answers
    assert (answers.split, answers.examples, answers.why_not) == ("eval", EXAMPLES, "")
    np.testing.assert_allclose(answers.outputs["predictions"], predicted, rtol=1e-5, atol=1e-6)
    assert {*answers.outputs} == {"predictions", "classes", "probabilities"}
    assert answers.outputs["classes"].tolist() == [[b"small", b"medium", b"large"]] * EXAMPLES
    stored = (recorded.folder / "run" / "answers.npz").read_bytes()
    answers.write(recorded.folder)
    assert (recorded.folder / "answers.npz").read_bytes() == stored


def test_a_sound_export_passes_with_the_number_of_answers_and_the_largest_difference(recorded: Recorded) -> None:
    verdict = recorded.examined()
    assert verdict.passed, verdict.reasons
    assert verdict.answers is not None
    assert (verdict.answers.examples, verdict.answers.split) == (EXAMPLES, "eval")
    assert verdict.answers.signatures == ("serving_default", "serving_raw", "serving_transformed")
    assert verdict.answers.difference is not None
    assert verdict.answers.difference < 1e-5
    assert verdict.answers.words.startswith(f"passed: {EXAMPLES} answers match ")


def saved_again(serving: Path, folder: Path, alter: Callable[[Any], dict[str, Any]]) -> Path:
    """A copy of an export whose graph and variables are those of the loaded model, once altered, with the signatures
    that are returned in place of its own.
    """
    copied, altered = Path(shutil.copytree(serving, folder / "Format-Serving")), folder / "altered"
    loaded = tf.saved_model.load(str(copied))
    changed = alter(loaded)
    tf.saved_model.save(loaded, str(altered), signatures={**loaded.signatures, **changed})
    shutil.rmtree(copied / "variables")
    shutil.copytree(altered / "variables", copied / "variables")
    shutil.copy(altered / "saved_model.pb", copied)
    return copied


@pytest.mark.parametrize("name", ["serving_raw", "serving_transformed"])
def test_a_signature_that_was_exported_wrongly_is_refused_though_both_runtimes_agree(
    recorded: Recorded, tmp_path: Path, name: str
) -> None:
    def alter(loaded: Any) -> dict[str, Any]:
        own = loaded.signatures[name]

        def shifted(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            outputs = own(**inputs)
            return {**outputs, "predictions": outputs["predictions"] + 0.1}

        return {name: tf.function(shifted).get_concrete_function(**own.structured_input_signature[1])}

    verdict = recorded.examined(saved_again(recorded.serving, tmp_path, alter))
    (reason,) = verdict.reasons
    assert reason.startswith(f"{name}: its output predictions differs ")
    assert f"in {EXAMPLES} of {EXAMPLES} examples" in reason


def test_an_export_with_other_weights_is_refused_with_the_example_and_both_values(
    recorded: Recorded, tmp_path: Path
) -> None:
    def alter(loaded: Any) -> dict[str, Any]:
        for variable in loaded.variables:
            variable.assign(variable + 0.05)
        return {}

    serving = saved_again(recorded.serving, tmp_path, alter)
    altered = tf.saved_model.load(str(serving)).signatures["serving_default"](examples=tf.constant(recorded.raw))
    verdict = recorded.examined(serving)
    (reason,) = verdict.reasons
    assert verdict.answers is not None
    differing = verdict.answers.differing
    assert differing is not None
    row, place = differing.row - 1, (differing.place or 0) - 1
    before = recorded.answers.outputs[differing.output]
    apart = np.abs(before - altered[differing.output].numpy()).max(axis=1) > 1e-4 * before.max()
    assert (differing.rows, row) == (int(apart.sum()), int(np.argmax(apart)))
    assert float(differing.trained) == pytest.approx(before[row, place], rel=1e-5)
    assert float(differing.exported) == pytest.approx(altered[differing.output].numpy()[row, place], rel=1e-5)
    assert reason.startswith(f"serving_default: its output {differing.output} differs ")
    assert reason.endswith(f"example {differing.row}, value {differing.place}: {differing.trained} in the Trainer,"
                           f" {differing.exported} in the export")  # fmt: skip


def test_without_a_record_or_the_examples_the_verdict_says_so_and_the_model_passes(recorded: Recorded) -> None:
    verdict = examine(recorded.serving, recorded.raw[:2], reference=Reference(None, Pairs()))
    assert verdict.passed
    assert verdict.answers is not None
    assert verdict.answers.words.startswith("not compared: there is no record ")
    nothing = Reference(RecordedAnswers("eval", why_not="no layer did"), Pairs())
    assert nothing.why_not == "no layer did"
    assert Reference(recorded.answers, Pairs(why_not="no order")).why_not == "no order"


def test_a_damaged_record_and_one_of_another_version_are_none(recorded: Recorded, tmp_path: Path) -> None:
    assert RecordedAnswers.read(tmp_path) is None
    whole = (recorded.folder / "run" / "answers.npz").read_bytes()
    for content in (b"", b"PK", whole[: len(whole) // 2]):
        (tmp_path / "answers.npz").write_bytes(content)
        assert RecordedAnswers.read(tmp_path) is None
    np.savez(tmp_path / "answers.npz", other=np.zeros(2))
    assert RecordedAnswers.read(tmp_path) is None


def test_texts_come_back_as_they_were(tmp_path: Path) -> None:
    texts = np.array([["a b", "ü"], ["", "c"]], object)
    encoded = np.vectorize(str.encode, otypes=[object])(texts)
    RecordedAnswers("eval", {"text": encoded}).write(tmp_path)
    found = RecordedAnswers.read(tmp_path)
    assert found is not None
    assert found.outputs["text"].dtype == object
    assert found.outputs["text"].tolist() == encoded.tolist()

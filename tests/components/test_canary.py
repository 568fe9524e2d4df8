"""The canary on small exported models: what C++ answers, what it refuses, and what ends its process."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import plain_models
import pytest
import tensorflow as tf
from messages import says
from tensorflow_serving.apis import prediction_log_pb2
from tfx.types import standard_artifacts

from headrace.components.canary import caller
from headrace.components.canary.agreement import difference, few_texts_differ
from headrace.components.canary.caller import Caller
from headrace.components.canary.component import Canary
from headrace.components.canary.examination import Limits, examine
from headrace.components.canary.exported_model import ExportedModel
from headrace.components.canary.inputs import texts
from headrace.components.canary.latency import LatencyLimits, measure_latency
from headrace.components.canary.signatures import Signature, make_inputs, read_signatures
from headrace.components.canary.verdict import CanaryVerdict
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.description import ModelDescription
from headrace.trainer.warmup import FILE_NAME

TEXTS = [tf.TensorSpec([None], tf.string, name="examples")]
Serve = Callable[[tf.Tensor], dict[str, tf.Tensor]]


def example(a: float) -> bytes:
    made = tf.train.Example()
    made.features.feature["a"].float_list.value.append(a)
    made.features.feature["name"].bytes_list.value.append(b"x")
    return bytes(made.SerializeToString())


EXAMPLES = [example(number / 8) for number in range(8)]


def saved(folder: Path, serve: Serve, **others: tuple[Serve, list[tf.TensorSpec]]) -> Path:
    """A SavedModel with `serve` as its default signature, and others by name."""
    archive = keras.export.ExportArchive()
    archive.track(tf.Module())
    archive.add_endpoint("serving_default", serve, TEXTS)
    for name, (function, spec) in others.items():
        archive.add_endpoint(name, function, spec)
    archive.write_out(str(folder), verbose=False)
    return folder


def parsed(examples: tf.Tensor) -> tf.Tensor:
    return tf.io.parse_example(examples, {"a": tf.io.FixedLenFeature([], tf.float32, 0.0)})["a"]


def doubled(examples: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"predictions": 2 * parsed(examples)}


def outcomes(verdict: CanaryVerdict, signature: str = "serving_default") -> dict[str, str]:
    (one,) = [each for each in verdict.signatures if each.name == signature]
    return {odd.what: odd.outcome for odd in one.odd}


def warm(model: Path, signature: str, **inputs: np.ndarray) -> None:
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.model_spec.signature_name = signature
    for name, value in inputs.items():
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    (model / FILE_NAME).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(model / FILE_NAME)) as writer:
        writer.write(log.SerializeToString())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    plain_models.export(folder, "binary", 1.5)
    return folder / "Format-Serving"


def test_cpp_answers_as_numpy_computes_and_the_process_survives_what_it_refuses(plain: Path) -> None:
    signature = read_signatures(plain)["serving_default"]
    fetches = [*signature.fetches.values()]
    with Caller(plain) as caller:
        answer = caller.ask(signature.tensors({"examples": texts(EXAMPLES)}), fetches)
        expected = 1 / (1 + np.exp(-1.5 * np.arange(8) / 8))
        np.testing.assert_allclose(answer.arrays[0][:, 0], expected, rtol=1e-6)
        assert answer.arrays[0].dtype == np.float32
        refused = caller.ask(signature.tensors({"examples": texts([b"not an example"])}), fetches)
        assert (refused.outcome, refused.detail) == ("refused", "Could not parse example input")
        wrong = caller.ask(signature.tensors({"examples": np.zeros(3, np.float32)}), fetches)
        assert (wrong.outcome, "string" in wrong.detail) == ("refused", True)
        assert caller.ask(signature.tensors({"examples": texts([])}), fetches).arrays[0].shape == (0, 1)


def test_rows_are_asked_one_by_one_up_to_the_first_that_is_refused(plain: Path) -> None:
    signature = read_signatures(plain)["serving_default"]
    fetches, rows = [*signature.fetches.values()], [*EXAMPLES[:2], b"not an example", EXAMPLES[2]]
    with Caller(plain) as asked:
        *answered, refused = asked.ask_each(signature.tensors({"examples": texts(rows)}), fetches, len(rows))
        assert [one.outcome for one in answered] == ["answered"] * 2
        assert (refused.outcome, refused.detail) == ("refused", "Could not parse example input")
        found = asked.ask_each(signature.tensors({"examples": texts(rows)}), fetches, 2)
        assert [one.outcome for one in found] == ["answered"] * 2
        assert found[-1].peak > 1e8 > min(one.seconds for one in found) > 0
        assert asked.ask(signature.tensors({"examples": texts(EXAMPLES)}), fetches).arrays[0].shape == (8, 1)


def test_a_request_without_an_input_that_the_graph_does_not_need_is_refused_as_by_a_server(tmp_path: Path) -> None:
    spec = {name: tf.TensorSpec([None], tf.float32, name) for name in ("a", "b")}
    folder = saved(tmp_path / "model", doubled, first=(lambda inputs: {"first": 1 * inputs["a"]}, [spec]))
    with Caller(folder) as asked:
        model = ExportedModel(folder, asked)
        signature = model.signatures["first"]
        whole, part = {name: np.ones(2, np.float32) for name in spec}, {"a": np.ones(2, np.float32)}
        assert asked.ask(signature.tensors(whole), [*signature.fetches.values()]).outcome == "answered"
        answer = model.request(signature, part)
        assert (answer.outcome, answer.detail) == ("refused", "the request lacks b")


def test_scalars_of_every_type_go_through_cpp_unchanged(tmp_path: Path) -> None:
    types = (tf.string, tf.float32, tf.float64, tf.int32, tf.int64, tf.uint8, tf.bool, tf.float16)
    spec = {f"x{number}": tf.TensorSpec([], type_, f"x{number}") for number, type_ in enumerate(types)}

    def same(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {f"of_{name}": tf.identity(value) for name, value in inputs.items()}

    model = saved(tmp_path / "model", doubled, same=(same, [spec]))
    signature = read_signatures(model)["same"]
    given = {name: tf.cast(1, one.dtype).numpy() if one.dtype != tf.string else b"1" for name, one in spec.items()}
    inputs = {name: np.array(value, object if isinstance(value, bytes) else None) for name, value in given.items()}
    with Caller(model) as caller:
        answer = caller.ask(signature.tensors(inputs), [*signature.fetches.values()])
    assert [(array.shape, array.item()) for array in answer.arrays] == [((), value) for value in given.values()]


def test_a_sound_model_passes_with_its_measurements(plain: Path) -> None:
    verdict = examine(plain, EXAMPLES)
    assert verdict.passed
    assert [(one.name, one.skipped, one.examples) for one in verdict.signatures] == [
        ("serving_default", "", 8),
        ("transform_features", "", 8),
    ]
    for one in verdict.signatures:
        assert one.difference is not None
        assert one.difference < 1e-6
        assert one.p50_ms is not None
        assert one.p99_ms is not None
        assert 0 < one.p50_ms <= one.p99_ms
    found = outcomes(verdict)
    assert set(found.values()) == {"answered", "refused"}
    assert found["an empty batch"] == found["10,000 rows"] == "answered"
    assert found["broken examples"] == found["wrong types"] == found["no features at all"] == "refused"
    assert verdict.memory_bytes is not None
    assert verdict.memory_bytes > 1e8


def test_limits_that_a_model_exceeds_are_named_with_both_numbers(plain: Path) -> None:
    verdict = examine(plain, EXAMPLES, Limits(latency_p99_ms=1e-6, memory_mb=1.0))
    latency, features, memory = verdict.reasons
    assert re.match(r"serving_default: .*p99.* ms; deploy\.canary\.latency_p99_ms allows 1e-06 ms", latency)
    assert features.startswith("transform_features: ")
    assert re.match(r".* MB of memory; deploy\.canary\.memory_mb allows 1 MB", memory)
    assert examine(plain, EXAMPLES, Limits(latency_p99_ms=1e6, memory_mb=1e6)).passed


def test_a_median_above_its_limit_refuses_a_model_whose_p99_is_within_its_own(plain: Path) -> None:
    verdict = examine(plain, EXAMPLES, Limits(latency_p50_ms=1e-6, latency_p99_ms=1e6))
    assert (verdict.latency_p50_ms, verdict.latency_p99_ms) == (1e-6, 1e6)
    for one, reason in zip(verdict.signatures, verdict.reasons, strict=True):
        what = f"{one.name}: p50 of its latency is {one.p50_ms:.3g} ms"
        assert reason == f"{what}; deploy.canary.latency_p50_ms allows 1e-06 ms"


def measured(attempts: list[list[float]], limits: LatencyLimits) -> tuple[dict[str, float], int]:
    """What is reported of requests that take so many milliseconds, attempt by attempt, and how many were sent."""
    left = iter([[one / 1000 for one in attempt] for attempt in attempts])
    found = measure_latency(lambda: next(left), limits)
    return found, 100 * (len(attempts) - len([*left]))


SLOW_MEDIAN, SLOW_TAIL, FAST = [9.0] * 100, [1.0] * 90 + [40.0] * 10, [3.0] * 100
"""Requests of attempts: p50 9 and p99 9, p50 1 and p99 40, p50 3 and p99 3."""


def test_the_latency_is_that_of_the_first_attempt_which_meets_both_limits() -> None:
    limits = LatencyLimits(p50_ms=5, p99_ms=20)
    found, sent = measured([SLOW_MEDIAN, SLOW_TAIL, FAST], limits)
    assert found == pytest.approx({"p50_ms": 3.0, "p99_ms": 3.0})
    assert sent == 300
    assert [*limits.violations(found, "deploy.canary")] == []
    assert measured([FAST, SLOW_TAIL, SLOW_TAIL], limits)[1] == 100
    assert measured([SLOW_TAIL, FAST, FAST], LatencyLimits(p50_ms=5))[1] == 100


def test_figures_of_different_attempts_are_not_combined() -> None:
    limits = LatencyLimits(p50_ms=5, p99_ms=20)
    found, sent = measured([SLOW_TAIL, SLOW_MEDIAN, SLOW_TAIL], limits)
    assert found == pytest.approx({"p50_ms": 9.0, "p99_ms": 9.0})  # 9 / 5 is less than 40 / 20
    assert sent == 300
    (why,) = limits.violations(found, "deploy.canary.server", " through the network")
    assert re.search(r"^p50 .* network .*\b9 ms; deploy\.canary\.server\.latency_p50_ms .*\b5 ms$", why)


def test_a_request_that_ends_the_process_is_a_crash_and_the_others_are_still_asked(tmp_path: Path) -> None:
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies(
            [tf.cond(tf.size(examples) == 0, lambda: tf.raw_ops.Abort(error_msg="no rows"), tf.no_op)]
        ):
            return {"predictions": 2 * parsed(examples)}

    verdict = examine(saved(tmp_path / "model", serve), EXAMPLES)
    found = outcomes(verdict)
    assert [what for what, outcome in found.items() if outcome == "crashed"] == ["an empty batch"]
    assert found["10,000 rows"] == "answered"
    (reason,) = verdict.reasons
    assert re.match(r"serving_default: an empty batch: .*SIGABRT.*no rows", reason)


def test_a_refused_empty_batch_passes(tmp_path: Path) -> None:
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([tf.debugging.Assert(tf.size(examples) > 0, ["give me rows"])]):
            return {"predictions": 2 * parsed(examples)}

    verdict = examine(saved(tmp_path / "model", serve), EXAMPLES)
    assert verdict.passed
    assert outcomes(verdict)["an empty batch"] == "refused"
    (odd,) = [odd for odd in verdict.signatures[0].odd if odd.what == "an empty batch"]
    assert "give me rows" in odd.detail


def test_texts_of_a_million_letters_are_sent_as_examples_and_as_tensors(tmp_path: Path) -> None:
    def limited(letters: tf.Tensor) -> dict[str, tf.Tensor]:
        limit = tf.debugging.assert_less(tf.strings.length(letters), 1_000_000, "too long")
        with tf.control_dependencies([limit]):
            return {"predictions": tf.strings.length(letters)}

    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return limited(tf.io.parse_example(examples, {"name": tf.io.FixedLenFeature([], tf.string, "")})["name"])

    model = saved(tmp_path / "model", serve, serving_raw=(limited, [tf.TensorSpec([None], tf.string, name="name")]))
    warm(model, "serving_raw", name=texts([b"x", b"y"]))
    verdict = examine(model, EXAMPLES)
    assert verdict.passed
    for signature in ("serving_default", "serving_raw"):
        assert outcomes(verdict, signature)["huge strings"] == "refused"


def test_a_request_without_an_answer_in_time_fails(tmp_path: Path) -> None:
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        forever = tf.while_loop(lambda _: tf.size(examples) == 0, lambda x: (x + 1,), [tf.constant(0.0)])[0]
        return {"predictions": 2 * parsed(examples) + 0 * forever}

    verdict = examine(saved(tmp_path / "model", serve), EXAMPLES, patience=2)
    assert outcomes(verdict)["an empty batch"] == "hung"
    assert "2 seconds" in verdict.reasons[0]


@pytest.mark.slow
def test_a_process_that_closes_its_pipes_and_stays_alive_counts_as_hung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closes_pipes.py").write_text("import os, time\nos.close(0)\nos.close(1)\ntime.sleep(600)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(caller, "process", SimpleNamespace(__name__="closes_pipes"))
    monkeypatch.setattr(caller, "PATIENCE", 1.0)
    with Caller(tmp_path, patience=1) as asked:
        answer = asked.load()
    assert (answer.outcome, answer.detail[:23]) == ("hung", "no end within 1 seconds")


def test_a_keras_model_whose_variables_cpp_cannot_find_fails_and_says_so(tmp_path: Path) -> None:
    a = keras.Input((), name="a")
    model = keras.Model(a, keras.layers.Dense(1)(keras.layers.Reshape((1,))(a)))
    serve = tf.function(lambda examples: {"predictions": model(parsed(examples))}, input_signature=TEXTS)
    tf.saved_model.save(model, str(tmp_path / "model"), signatures={"serving_default": serve})
    verdict = examine(tmp_path / "model", EXAMPLES)
    assert not verdict.passed
    assert "Could not find variable" in verdict.reasons[0]


def test_a_folder_without_a_model_fails(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"")
    verdict = examine(tmp_path, EXAMPLES)
    assert "cannot load" in verdict.reasons[0]


def test_a_model_that_computes_in_python_fails(tmp_path: Path) -> None:

    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": tf.numpy_function(lambda a: 2 * a, [parsed(examples)], tf.float32)}

    verdict = examine(saved(tmp_path / "model", serve), EXAMPLES)
    assert re.match(r"serving_default: real examples were not answered \((refused|crashed)\)", verdict.reasons[0])


def test_random_answers_are_not_compared(tmp_path: Path) -> None:
    tf.random.set_seed(None)  # with the seed of an earlier test, both would draw the same numbers

    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": parsed(examples) + tf.random.uniform(tf.shape(examples))}

    verdict = examine(saved(tmp_path / "model", serve), EXAMPLES)
    assert verdict.passed
    assert "random" in verdict.signatures[0].not_compared
    assert verdict.signatures[0].difference is None


def test_signatures_whose_inputs_the_examples_do_not_have_are_skipped_with_the_reason(tmp_path: Path) -> None:
    prompt = [{"prompt": tf.TensorSpec([None], tf.string, "prompt"), "length": tf.TensorSpec([], tf.int32, "length")}]

    def generate(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"text": tf.strings.join([inputs["prompt"], tf.strings.as_string(inputs["length"])])}

    verdict = examine(saved(tmp_path / "model", doubled, generate=(generate, prompt)), EXAMPLES)
    assert verdict.passed
    skipped = {one.name: one.skipped for one in verdict.signatures}
    assert says(skipped.pop("generate"), "…length, prompt, …examples")
    assert skipped == {"serving_default": ""}
    assert examine(tmp_path / "model", []).signatures[0].skipped == "there are no examples"


def test_a_column_named_examples_is_no_input_of_serialized_examples() -> None:
    spec, made = tf.TensorSpec([None], tf.string), tf.train.Example()
    made.features.feature["examples"].bytes_list.value.append(b"red")
    given = texts([made.SerializeToString()])
    label = LabelConfig.model_validate({"key": "y", "kind": "binary"})
    description = ModelDescription(label=label, types={"examples": "bytes", "y": "int"}, features=("examples",))
    inputs = {
        name: make_inputs(
            Signature(name, {"examples": spec}, {"examples": "in:0"}, {"predictions": "out:0"}),
            None,
            given,
            description,
        )
        for name in ("serving_default", "transform_features", "serving_raw")
    }
    assert {name: one.serialized for name, one in inputs.items()} == {
        "serving_default": True,
        "transform_features": True,
        "serving_raw": False,
    }
    assert [one.inputs["examples"].tolist() for one in inputs.values()] == [given.tolist(), given.tolist(), [b"red"]]


def test_a_warm_up_request_that_the_model_refuses_fails(tmp_path: Path) -> None:
    model = saved(tmp_path / "model", doubled)
    warm(model, "serving_default", examples=np.array([EXAMPLES[0]], object))
    verdict = examine(model, EXAMPLES)
    assert (verdict.passed, verdict.warmup_requests) == (True, 1)
    warm(model, "serving_default", examples=np.array([b"not an example"], object))
    (reason,) = examine(model, EXAMPLES).reasons
    assert re.match(r"warm-up request 1, to serving_default, was not answered \(refused\)", reason)
    warm(model, "serving_other", examples=np.array([EXAMPLES[0]], object))
    (reason,) = examine(model, EXAMPLES).reasons
    assert "does not fit the signature serving_other" in reason
    (model / FILE_NAME).write_bytes(b"not a TFRecord")
    (reason,) = examine(model, EXAMPLES).reasons
    assert "cannot be read" in reason


@pytest.mark.parametrize(
    ("expected", "found", "result"),
    [
        ([1.0, -4.0], [1.0, -4.1], 0.025),
        ([0.0, 0.0], [0.0, 0.5], 0.5),
        ([math.nan, 2.0], [math.nan, 2.0], 0.0),
        ([math.nan, 2.0], [1.0, 2.0], math.inf),
        ([1.0, 2.0], [1.0, math.inf], math.inf),
        ([1.0, 2.0], [1.0], math.inf),
        ([1, 2], [1, 2], 0.0),
        ([1, 2], [1, 3], math.inf),
        ([b"a"], [b"b"], math.inf),
        ([], [], 0.0),
    ],
)
def test_difference_is_relative_to_the_largest_number(expected: list, found: list, result: float) -> None:
    as_array = texts if b"a" in expected else np.array
    assert difference(as_array(expected), as_array(found)) == pytest.approx(result)


@pytest.mark.parametrize(
    ("number", "differing", "few"),
    [(100, 0, True), (100, 2, True), (100, 3, False), (10, 1, True), (10, 2, False), (2, 1, True), (1, 1, False)],
)
def test_of_written_texts_one_in_fifty_may_differ_but_not_the_only_one(number: int, differing: int, few: bool) -> None:
    expected = [b"a b"] * number
    found = texts([b"a c"] * differing + expected[differing:])
    assert few_texts_differ(texts(expected), found) is few
    assert few_texts_differ(texts(expected)[:, None], found[:, None]) is few
    assert not few_texts_differ(np.zeros(number), np.zeros(number))
    assert not few_texts_differ(texts(expected), texts([b"a b"] * (number + 1)))


@pytest.mark.parametrize("limit", [0.0, 1e-6])
def test_component_writes_what_infra_validator_writes_and_the_verdict(
    plain: Path, tmp_path: Path, limit: float
) -> None:
    shards = tmp_path / "examples" / "Split-test"
    shards.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(shards / "data-00000-of-00001.gz"), "GZIP") as writer:
        for one in EXAMPLES:
            writer.write(one)
    model, examples = standard_artifacts.Model(), standard_artifacts.Examples()
    blessing = standard_artifacts.InfraBlessing()
    model.uri, examples.uri, blessing.uri = str(plain.parent), str(shards.parent), str(tmp_path / "blessing")
    examples.split_names = json.dumps(["test"])
    Path(blessing.uri).mkdir()
    properties = {
        "example_splits": '["test"]',
        "count": 5,
        "latency_p50_ms": limit,
        "latency_p99_ms": 0.0,
        "memory_mb": 0.0,
    }
    Canary.EXECUTOR_SPEC.executor_class().Do(
        {"model": [model], "examples": [examples]}, {"blessing": [blessing]}, properties
    )
    passed = limit == 0
    assert blessing.get_int_custom_property("blessed") == int(passed)
    marker = "INFRA_BLESSED" if passed else "INFRA_NOT_BLESSED"
    assert {path.name for path in Path(blessing.uri).iterdir()} == {marker, "verdict.json"}
    verdict = CanaryVerdict.read(Path(blessing.uri))
    assert verdict is not None
    assert (verdict.passed, verdict.split, verdict.signatures[0].examples) == (passed, "test", 5)

"""The message when a feature does not fit its data column."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from pydantic import TypeAdapter

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import Feature
from headrace.trainer import columns
from headrace.trainer.columns.base import prefix_errors
from headrace.trainer.columns.vocabulary import read_vocabulary
from headrace.trainer.hooks import resolve

TENSORS = {
    "text": tf.constant([["taxi"], [""]]),
    "whole": tf.constant([[3], [4]], tf.int64),
    "fraction": tf.constant([[0.5], [1.5]]),
}


def parse(feature: dict[str, Any]) -> Feature:
    return TypeAdapter(Feature).validate_json(json.dumps(feature))


def transform(name: str, **features: dict[str, Any]) -> np.ndarray:
    """One feature of TENSORS, eagerly."""
    built = columns.build({key: parse(feature) for key, feature in features.items()})
    with prefix_errors(name):
        return built[name].transform(columns.Batch(TENSORS, built)).numpy()


@pytest.mark.parametrize(
    ("feature", "parts"),
    [
        ({"column": "numeric", "key": "text", "normalize": "none", "missing": 0.0}, ["'text'", "holds text", "hashed"]),
        ({"column": "numeric", "key": "text"}, ["'text'", "holds text", "data.types.text: float"]),
        ({"column": "bucketized", "key": "text", "boundaries": [1.0]}, ["'text'", "holds text"]),
        ({"column": "text_embedding", "key": "fraction", "saved_model": "net"}, ["'fraction'", "fractional numbers"]),
        ({"column": "bucketized", "key": "text", "buckets": 3}, ["'text'", "holds text"]),
        (
            {"column": "identity", "key": "text", "num_buckets": 3},
            ["features.f", "'text'", "vocabulary", "data.types.text: int"],
        ),
        ({"column": "identity", "key": "fraction", "num_buckets": 3}, ["features.f", "fractional", "bucketized"]),
        ({"column": "vocabulary", "key": "fraction", "values": ["1"]}, ["'fraction'", "fractional", "bucketized"]),
        ({"column": "hashed", "key": "fraction", "hash_buckets": 9}, ["'fraction'", "fractional", "bucketized"]),
        ({"column": "crossed", "keys": ["text", "fraction"], "hash_buckets": 9}, ["'fraction'", "for a cross"]),
        ({"column": "hashed", "key": "wrold", "hash_buckets": 9}, ["'wrold'", "fraction, text, whole"]),
        ({"column": "custom", "function": "no_module_of_mine.f", "keys": ["text"]}, ["features.f", "cannot import"]),
        (
            {"column": "custom", "function": "os.path.no_such", "keys": ["text"]},
            ["features.f", "no callable 'no_such'"],
        ),
    ],
)
def test_column_of_the_wrong_type_is_named_with_the_way_out(feature: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(TrainingError) as raised:
        transform("f", f=feature)
    for part in parts:
        assert part in str(raised.value)


def test_cross_over_a_numeric_feature_says_to_bucketize() -> None:
    number = {"column": "numeric", "key": "fraction", "normalize": "none", "missing": 0.0}
    with pytest.raises(TrainingError, match=r"features\.cross: .*'n' .*number.*bucketized"):
        transform("cross", n=number, cross={"column": "crossed", "keys": ["n", "text"], "hash_buckets": 9})


@pytest.mark.parametrize(
    ("body", "count", "message"),
    [
        ("tf.constant([1, 2])", None, "gives int32, and without `num_categories`"),
        ("tf.constant([1.0, 2.0])", 3, "gives float32, and `num_categories` is for an integer"),
        ("tf.constant([[1.0], [2.0]])", None, r"must give a tensor of shape \[batch\]"),
        ("[1.0, 2.0]", None, r"must give a tensor of shape \[batch\]"),
    ],
)
def test_custom_function_with_the_wrong_result_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, count: int | None, message: str
) -> None:
    module = f"hook_{abs(hash(body))}"
    (tmp_path / f"{module}.py").write_text(f"import tensorflow as tf\ndef f(raw):\n    return {body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    feature = {"column": "custom", "function": f"{module}.f", "keys": ["text"], "num_categories": count}
    with pytest.raises(TrainingError, match=message):
        transform("f", f=feature)


def test_custom_category_out_of_range_fails_with_the_features_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hook_out_of_range.py").write_text(
        "import tensorflow as tf\ndef f(raw):\n    return tf.constant([0, 5])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    feature = {"column": "custom", "function": "hook_out_of_range.f", "keys": ["text"], "num_categories": 5}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"features\.f: .* outside of 0 to 4"):
        transform("f", f=feature)


def test_module_in_the_current_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_the_config.py").write_text("def build(*_):\n    return 7\n")
    monkeypatch.setattr("sys.path", [path for path in __import__("sys").path if path])
    monkeypatch.chdir(tmp_path)
    assert resolve("beside_the_config.build", "model.kind")() == 7


def test_error_inside_the_users_module_names_module_and_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imports_nothing.py").write_text("import no_package_of_that_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TrainingError, match=r"model\.kind: cannot import 'imports_nothing'.*no_package_of_that_name"):
        resolve("imports_nothing.build", "model.kind")
    (tmp_path / "names_nothing.py").write_text("import json\n\njson.no_such_thing\n")
    with pytest.raises(
        TrainingError, match=r"model\.kind: importing 'names_nothing'.*AttributeError: .*names_nothing\.py:3\)"
    ):
        resolve("names_nothing.build", "model.kind")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\n\nb\n", r"words\.txt:2: an empty line"),
        ("a\nb\na\n", r"words\.txt:3: .*'a' .*line 1"),
        ("", "is empty"),
        (None, "cannot be read"),
    ],
)
def test_unusable_vocabulary_file_is_named_with_the_line(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "words.txt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(TrainingError, match=message):
        read_vocabulary(str(file), "f")


def test_vocabulary_file_keeps_spaces_and_drops_line_ends_alone(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes(" a \r\nb\u2028c\r\n東京".encode())
    assert read_vocabulary(str(file), "f") == (" a ", "b\u2028c", "東京")


def test_a_byte_order_mark_is_not_a_part_of_the_first_value(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes("\ufeffx\ny\n".encode())
    assert read_vocabulary(str(file), "f") == ("x", "y")


def test_empty_learned_vocabulary_is_an_error_that_names_the_column_and_the_limit() -> None:
    feature = {"column": "vocabulary", "key": "text", "min_frequency": 30}
    (column,) = columns.build({"f": parse(feature)}).values()
    with pytest.raises(TrainingError, match=r"features\.f: .* empty.*'text'.*30 times.*min_frequency"):
        column.num_categories(lambda name: {"f": 0}[name])


def test_an_error_in_the_users_function_names_feature_function_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_hooks.py").write_text("def pace(raw):\n    return raw['no such key']\n")
    monkeypatch.syspath_prepend(tmp_path)
    function = resolve("raising_hooks.pace", "features.f.function")
    message = r"features\.f\.function: raising_hooks\.pace raised KeyError: 'no such key' \(.*raising_hooks\.py:2\)"
    with pytest.raises(TrainingError, match=message):
        function({})

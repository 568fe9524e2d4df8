"""Columns become what TensorFlow's own parser makes of the tf.Examples that hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from headrace.components.examples.tfexample.encode import encode
from headrace.components.predict.parsed import Parser
from headrace.components.predict.serving_graph import load
from headrace.trainer.served_model import ModelCall

PARSER = Parser({tf.float32: ("f", "fs", "g", "absent"), tf.int64: ("i", "is"), tf.string: ("s", "ss", "b", "empty")})
FLOATS = st.floats(width=32)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
TYPES: dict[str, tuple[st.SearchStrategy[Any], pa.DataType]] = {
    "f": (FLOATS, pa.float64()),
    "fs": (st.lists(FLOATS), pa.list_(pa.float64())),
    "g": (FLOATS, pa.float32()),
    "i": (INTEGERS, pa.int64()),
    "is": (st.lists(INTEGERS), pa.list_(pa.int64())),
    "s": (TEXTS, pa.string()),
    "ss": (st.lists(TEXTS), pa.list_(pa.string())),
    "b": (st.binary(), pa.binary()),
    "empty": (st.none(), pa.null()),
}
BATCHES = (
    st.integers(1, 6)
    .flatmap(
        lambda rows: st.fixed_dictionaries(
            {name: st.lists(values | st.none(), min_size=rows, max_size=rows) for name, (values, _) in TYPES.items()}
        )
    )
    .map(
        lambda columns: pa.RecordBatch.from_arrays(
            [pa.array(values, TYPES[name][1]) for name, values in columns.items()], names=list(columns)
        )
    )
)


@given(BATCHES)
def test_columns_are_what_the_parser_makes_of_their_examples(batch: pa.RecordBatch) -> None:
    for rows in (batch, batch.slice(batch.num_rows // 2)):
        found = PARSER.of_columns(rows)
        expected = PARSER.of_examples(tf.constant(encode(rows).to_pylist()))
        assert found is not None
        for own, parsed in zip(found, expected, strict=True):
            assert (own.dtype, own.shape) == (parsed.dtype, parsed.shape)
            np.testing.assert_array_equal(own.numpy(), parsed.numpy())


def test_a_column_of_another_type_is_left_to_examples() -> None:
    assert PARSER.of_columns(pa.RecordBatch.from_pydict({"f": pa.array([1])})) is None
    assert PARSER.of_columns(pa.RecordBatch.from_pydict({"s": pa.array([["a"]])})) is not None


class Model(tf.Module):
    """It adds up floats, integers and the lengths of texts, however many an example has."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def predict(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        types = {"f": tf.float32, "g": tf.float32, "i": tf.int64, "s": tf.string}
        parsed = tf.io.parse_example(examples, {name: tf.io.VarLenFeature(own) for name, own in types.items()})
        parts = [tf.sparse.to_dense(parsed[name], default_value=-1) for name in ("f", "g", "i")]
        parts.append(tf.strings.length(tf.sparse.to_dense(parsed["s"], default_value="none")))
        return {"predictions": tf.stack([tf.reduce_sum(tf.cast(one, tf.float32), 1) for one in parts], axis=1)}


def test_a_signature_predicts_columns_as_the_examples_of_them(tmp_path: Path) -> None:
    model = Model()
    tf.saved_model.save(model, str(tmp_path), {"serving_default": model.predict})
    loaded = load(tmp_path, ModelCall("label"))
    assert loaded is not None
    columns = {"f": [1.5, None, 2.0], "g": [[1.0, 4.0], [], [3.0]], "i": [7, -1, None], "s": ["ab", None, "öö"]}
    batch = pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})
    examples = tf.constant(encode(batch).to_pylist())
    expected = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](examples)["predictions"].numpy()
    found = loaded.of_columns(batch)
    assert found is not None
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(loaded(examples).numpy(), expected)

"""Every kind of feature column, through real TFT, against the same rule written in NumPy."""

import functools
import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import farmhash
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam

from trainer import columns
from trainer.preprocessing import preprocessing_fn
from trainer.sections import TrainerSections

ROWS = 240
SPEC = {
    "amount": tf.float32,
    "degrees": tf.float32,
    "same": tf.float32,
    "nothing": tf.float32,
    "seconds": tf.int64,
    "whole": tf.int64,
    "hour": tf.int64,
    "word": tf.string,
    "label": tf.int64,
}
WORDS = ["taxi", "Zürich", "東京", "naïve", "🚕", "a_X_b", " spaced ", "0"]
EXTREMES = [2**63 - 1, -(2**63) + 1, 2**53 + 1, 0, -1]
NO_VALUE = "no value was seen"

HOOKS = """
import tensorflow as tf

def twice(raw):
    return 2.0 * tf.sparse.to_dense(raw["amount"], default_value=0.0)[:, 0]

def parity(raw):
    return tf.cast(tf.sparse.to_dense(raw["hour"], default_value=0)[:, 0] % 2, tf.int32)
"""


@functools.cache
def examples() -> list[dict[str, Any]]:
    """Rows with missing values, NaN, unicode, extreme integers, values on boundaries and ties of frequency."""
    rng = np.random.default_rng(7)
    rows = []
    for number in range(ROWS):
        row: dict[str, Any] = {
            "amount": float(np.float32(rng.normal(3, 20))) if number % 7 else None,
            "degrees": float(np.float32(rng.choice([41.7, 41.8, 41.85, 41.9, 42.0]))),
            "same": float(np.float32(0.1)) if number % 5 else None,
            "nothing": None,
            "seconds": 1_400_000_000 + int(rng.integers(0, 20)),
            "whole": EXTREMES[number % len(EXTREMES)] if number % 3 == 0 else int(rng.integers(-50, 50)),
            "hour": int(rng.integers(-2, 27)) if number % 11 else None,
            "word": WORDS[int(rng.zipf(1.5)) % len(WORDS)] if number % 6 else None,
            "label": number % 2,
        }
        if number % 13 == 1:
            row["amount"] = math.nan
        rows.append({key: [] if value is None else [value] for key, value in row.items()})
    return rows


UNSEEN: list[dict[str, Any]] = [
    {"amount": [1e30], "degrees": [-5.0], "same": [7.0], "nothing": [3.0], "seconds": [0], "whole": [2**62],
     "hour": [23], "word": ["never seen"], "label": [1]},
    {"amount": [-0.0], "degrees": [99.0], "same": [], "nothing": [math.nan], "seconds": [-5], "whole": [], "hour": [24],
     "word": ["ещё одно"], "label": [0]},
    {"amount": [], "degrees": [], "same": [], "nothing": [], "seconds": [], "whole": [], "hour": [], "word": [],
     "label": []},
    {"amount": [2.5], "degrees": [41.8], "same": [0.1], "nothing": [], "seconds": [1_400_000_003], "whole": [40],
     "hour": [0], "word": ["taxi\nwith a line break"], "label": [1]},
]  # fmt: skip


def feature_config(folder: Path) -> dict[str, dict[str, Any]]:
    vocabulary_file = folder / "words.txt"
    vocabulary_file.write_text("東京\ntaxi\n🚕\n", encoding="utf-8")
    bucketized, vocabulary, hashed = {"column": "bucketized"}, {"column": "vocabulary"}, {"column": "hashed"}
    return {
        "amount": {"column": "numeric"},
        "amount_range": {"column": "numeric", "key": "amount", "normalize": "min_max"},
        "amount_log": {"column": "numeric", "key": "amount", "normalize": "log"},
        "amount_plain": {"column": "numeric", "key": "amount", "normalize": "none", "missing": -1.5},
        "amount_zero": {"column": "numeric", "key": "amount", "missing": 0.0},
        "seconds": {"column": "numeric"},
        "whole_log": {"column": "numeric", "key": "whole", "normalize": "log", "missing": 0.0},
        "same": {"column": "numeric"},
        "same_range": {"column": "numeric", "key": "same", "normalize": "min_max"},
        "nothing": {"column": "numeric"},
        "amount_quarters": {**bucketized, "key": "amount", "buckets": 4},
        "amount_tenths": {**bucketized, "key": "amount", "buckets": 10, "missing": 2.0},
        "whole_quarters": {**bucketized, "key": "whole", "buckets": 4},
        "same_quarters": {**bucketized, "key": "same", "buckets": 4},
        "nothing_quarters": {**bucketized, "key": "nothing", "buckets": 4},
        "degrees": {**bucketized, "boundaries": [41.8, 41.9]},
        "whole_fixed": {**bucketized, "key": "whole", "boundaries": [-1.5, 0.0, 40.0], "missing": -7.0},
        "hour": {"column": "identity", "num_buckets": 24},
        "hour_filled": {"column": "identity", "key": "hour", "num_buckets": 24, "missing": 12},
        "word": vocabulary,
        "word_top": {**vocabulary, "key": "word", "top_k": 3, "oov_buckets": 4},
        "word_often": {**vocabulary, "key": "word", "min_frequency": 30, "oov_buckets": 2},
        "word_filled": {**vocabulary, "key": "word", "missing": "taxi"},
        "word_values": {**vocabulary, "key": "word", "values": ["0", "naïve", "Zürich"], "oov_buckets": 3},
        "word_file": {**vocabulary, "key": "word", "file": str(vocabulary_file)},
        "whole_vocabulary": {**vocabulary, "key": "whole", "top_k": 8, "missing": -1},
        "hour_values": {**vocabulary, "key": "hour", "values": [7, 8, 9]},
        "word_hashed": {**hashed, "key": "word", "hash_buckets": 17},
        "whole_hashed": {**hashed, "key": "whole", "hash_buckets": 1000},
        "word_hashed_filled": {**hashed, "key": "word", "hash_buckets": 17, "missing": "taxi"},
        "cross_raw": {"column": "crossed", "keys": ["word", "seconds_id", "whole"], "hash_buckets": 97},
        "seconds_id": {**hashed, "key": "seconds", "hash_buckets": 5},
        "cross_features": {"column": "crossed", "keys": ["amount_quarters", "word_top"], "hash_buckets": 50},
        "cross_filled": {"column": "crossed", "keys": ["amount_tenths", "hour_filled"], "hash_buckets": 50},
        "cross_of_cross": {"column": "crossed", "keys": ["cross_features", "hour"], "hash_buckets": 31},
        "whole": {"column": "crossed", "keys": ["whole", "hour_values"], "hash_buckets": 41},
        "custom_number": {"column": "custom", "function": "column_test_hooks.twice", "keys": ["amount"]},
        "custom_category": {
            "column": "custom", "function": "column_test_hooks.parity", "keys": ["hour"], "num_categories": 2,
        },
    }  # fmt: skip


class Transformed(NamedTuple):
    """One run of TFT."""

    rows: list[dict[str, Any]]
    """What Beam transformed: the train rows, in order."""
    train: dict[str, np.ndarray]
    """The same rows through the written graph."""
    unseen: dict[str, np.ndarray]
    """UNSEEN through the written graph."""
    output: tft.TFTransformOutput
    sections: TrainerSections


def as_sparse(rows: list[dict[str, Any]]) -> dict[str, tf.SparseTensor]:
    tensors = {}
    for key, dtype in SPEC.items():
        indices = [[number, 0] for number, row in enumerate(rows) if row[key]]
        values = tf.constant([row[key][0] for row in rows if row[key]], dtype)
        tensors[key] = tf.SparseTensor(np.array(indices, np.int64).reshape(-1, 2), values, [len(rows), 1])
    return tensors


@pytest.fixture(scope="module")
def transformed(tmp_path_factory: pytest.TempPathFactory) -> Transformed:
    folder = tmp_path_factory.mktemp("columns")
    (folder / "column_test_hooks.py").write_text(HOOKS)
    sys.path.insert(0, str(folder))
    config = {"label": {"key": "label", "kind": "binary"}, "features": feature_config(folder)}
    sections = TrainerSections.from_json(json.dumps(config))
    metadata = tft.DatasetMetadata.from_feature_spec({key: tf.io.VarLenFeature(dtype) for key, dtype in SPEC.items()})
    custom_config = {"config": sections.to_json()}
    with (
        beam.Pipeline(argv=["--runner=FnApiRunner"]) as pipeline,
        tft_beam.Context(temp_dir=str(folder / "tmp"), force_tf_compat_v1=False, desired_batch_size=50),
    ):
        raw = pipeline | beam.Create(examples(), reshuffle=False)
        (data, _), function = (raw, metadata) | tft_beam.AnalyzeAndTransformDataset(
            lambda inputs: preprocessing_fn(inputs, custom_config)
        )
        function | tft_beam.WriteTransformFn(str(folder / "graph"))
        data | beam.Map(to_json) | beam.io.WriteToText(str(folder / "rows"))
    rows = [json.loads(line) for path in sorted(folder.glob("rows*")) for line in path.read_text().splitlines()]
    output = tft.TFTransformOutput(str(folder / "graph"))
    layer = output.transform_features_layer()
    train, unseen = (
        {key: tensor.numpy() for key, tensor in layer(as_sparse(batch)).items()} for batch in (examples(), UNSEEN)
    )
    return Transformed(rows, train, unseen, output, sections)


def to_json(row: Any) -> str:
    return json.dumps({key: np.asarray(value).tolist() for key, value in row.items()})


# The rules once more, in NumPy and plain Python.


def column(rows: list[dict[str, Any]], key: str) -> list[Any]:
    """Values of a column; None where missing. Floats as float32 holds them."""
    values = [row[key][0] if row[key] else None for row in rows]
    if SPEC[key] == tf.float32:
        return [None if value is None or math.isnan(value) else float(np.float32(value)) for value in values]
    return values


@functools.cache
def present(key: str) -> np.ndarray:
    """The present values of the train rows, as float64."""
    return np.array([value for value in column(examples(), key) if value is not None], np.float64)


def numbers(rows: list[dict[str, Any]], key: str, missing: float) -> np.ndarray:
    return np.array([missing if value is None else value for value in column(rows, key)], np.float64)


def bucket(value: float | None, boundaries: list[float], missing: int) -> int:
    return missing if value is None else sum(boundary <= value for boundary in boundaries)


@functools.cache
def quantiles(key: str, buckets: int) -> list[float]:
    ordered = np.sort(present(key))
    return [float(ordered[part * len(ordered) // buckets]) for part in range(1, buckets)]


def fingerprint(text: str, buckets: int) -> int:
    return int(farmhash.fingerprint64(text)) % buckets


def place(value: Any, vocabulary: list[str], oov: int) -> int:
    if value is None:
        return len(vocabulary) + oov
    text = str(value)
    return vocabulary.index(text) if text in vocabulary else len(vocabulary) + fingerprint(text, oov)


def learned(key: str, top_k: int | None = None, min_frequency: int = 1, missing: Any = None) -> list[str]:
    texts = [str(value if value is not None else missing) for value in column(examples(), key)]
    texts = [text for text in texts if text != "None"]
    counts = [(texts.count(text), text.encode(), text) for text in set(texts)]
    return [text for count, _, text in sorted(counts, reverse=True) if count >= min_frequency][:top_k]


def crossed(keys: tuple[Any, ...], buckets: int) -> int:
    return buckets if None in keys else fingerprint("_X_".join(map(str, keys)), buckets)


def both(transformed: Transformed, name: str) -> np.ndarray:
    """A feature of the train rows and the unseen ones."""
    return np.concatenate([transformed.train[name], transformed.unseen[name]])


ALL = [*examples(), *UNSEEN]


def known(ids: list[int], missing: int) -> list[int | None]:
    return [None if number == missing else number for number in ids]


def test_graph_written_by_transform_gives_what_beam_wrote_for_every_row(transformed: Transformed) -> None:
    assert len(transformed.rows) == ROWS
    for name in transformed.sections.features:
        np.testing.assert_array_equal(np.array([row[name] for row in transformed.rows]), transformed.train[name], name)


def test_every_feature_has_the_dtype_and_shape_its_column_says(transformed: Transformed) -> None:
    for name, one in columns.build(transformed.sections.features).items():
        assert transformed.train[name].dtype == one.dtype
        assert transformed.train[name].shape == (ROWS,)


def test_numeric_is_scaled_by_mean_and_population_deviation_of_present_train_values(transformed: Transformed) -> None:
    mean, deviation = present("amount").mean(), present("amount").std()
    expected = (numbers(ALL, "amount", mean) - mean) / deviation
    np.testing.assert_allclose(both(transformed, "amount"), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        both(transformed, "amount_zero"), (numbers(ALL, "amount", 0.0) - mean) / deviation, rtol=1e-6
    )


def test_numeric_keeps_the_digits_of_large_integers(transformed: Transformed) -> None:
    mean, deviation = present("seconds").mean(), present("seconds").std()
    expected = (numbers(ALL, "seconds", mean) - mean) / deviation
    np.testing.assert_allclose(both(transformed, "seconds"), expected, rtol=1e-6, atol=1e-7)


def test_numeric_min_max_maps_train_to_zero_to_one(transformed: Transformed) -> None:
    values = present("amount")
    expected = (numbers(ALL, "amount", values.mean()) - values.min()) / (values.max() - values.min())
    np.testing.assert_allclose(both(transformed, "amount_range"), expected, rtol=1e-6)
    assert transformed.train["amount_range"].min() == 0
    assert transformed.train["amount_range"].max() == 1


def test_numeric_log_is_symmetric_and_fills_before_scaling(transformed: Transformed) -> None:
    x = numbers(ALL, "amount", present("amount").mean())
    np.testing.assert_allclose(both(transformed, "amount_log"), np.sign(x) * np.log1p(np.abs(x)), rtol=1e-6)
    x = numbers(ALL, "whole", 0)
    np.testing.assert_allclose(both(transformed, "whole_log"), np.sign(x) * np.log1p(np.abs(x)), rtol=1e-6)


def test_numeric_none_leaves_values_and_fills_missing_and_nan(transformed: Transformed) -> None:
    np.testing.assert_array_equal(both(transformed, "amount_plain"), numbers(ALL, "amount", -1.5).astype(np.float32))


@pytest.mark.parametrize("name", ["same", "same_range", "nothing"])
def test_numeric_without_two_different_values_becomes_zero(transformed: Transformed, name: str) -> None:
    np.testing.assert_array_equal(transformed.train[name], np.zeros(ROWS))
    np.testing.assert_array_equal(transformed.unseen[name], np.zeros(len(UNSEEN)))


def test_bucketized_by_quantiles_puts_a_value_on_a_boundary_in_the_bucket_above(transformed: Transformed) -> None:
    expected = [bucket(value, quantiles("amount", 4), 4) for value in column(ALL, "amount")]
    assert both(transformed, "amount_quarters").tolist() == expected
    counts = np.bincount(transformed.train["amount_quarters"], minlength=5)
    assert counts[:4].max() - counts[:4].min() <= 1
    filled = [2.0 if value is None else value for value in column(ALL, "amount")]
    expected = [bucket(value, quantiles("amount", 10), -1) for value in filled]
    assert both(transformed, "amount_tenths").tolist() == expected


def test_bucketized_by_quantiles_takes_integers_and_columns_of_few_values(transformed: Transformed) -> None:
    expected = [bucket(value, quantiles("whole", 4), 4) for value in column(ALL, "whole")]
    assert both(transformed, "whole_quarters").tolist() == expected
    expected = [bucket(value, quantiles("same", 4), 4) for value in column(ALL, "same")]
    assert both(transformed, "same_quarters").tolist() == expected


def test_bucketized_column_without_any_value_is_all_missing(transformed: Transformed) -> None:
    assert set(transformed.train["nothing_quarters"]) == {4}
    assert transformed.unseen["nothing_quarters"].tolist() == [3, 4, 4, 4]


def test_bucketized_by_boundaries_rounds_them_as_the_data(transformed: Transformed) -> None:
    boundaries = [float(np.float32(41.8)), float(np.float32(41.9))]
    expected = [bucket(value, boundaries, 3) for value in column(ALL, "degrees")]
    assert both(transformed, "degrees").tolist() == expected
    assert transformed.unseen["degrees"].tolist() == [0, 2, 3, 1]
    filled = [-7 if value is None else value for value in column(ALL, "whole")]
    assert both(transformed, "whole_fixed").tolist() == [bucket(value, [-1.5, 0.0, 40.0], -1) for value in filled]


def test_identity_treats_out_of_range_as_missing(transformed: Transformed) -> None:
    hours = column(ALL, "hour")
    assert {-2, -1, 24, 25, 26} <= set(hours)
    for name, missing in (("hour", 24), ("hour_filled", 12)):
        expected = [hour if hour is not None and 0 <= hour < 24 else missing for hour in hours]
        assert both(transformed, name).tolist() == expected


@pytest.mark.parametrize(
    ("name", "vocabulary", "oov", "missing"),
    [
        ("word", learned("word"), 1, None),
        ("word_top", learned("word", top_k=3), 4, None),
        ("word_often", learned("word", min_frequency=30), 2, None),
        ("word_filled", learned("word", missing="taxi"), 1, "taxi"),
        ("word_values", ["0", "naïve", "Zürich"], 3, None),
        ("word_file", ["東京", "taxi", "🚕"], 1, None),
    ],
)
def test_vocabulary_gives_place_then_oov_bucket_then_missing(
    transformed: Transformed, name: str, vocabulary: list[str], oov: int, missing: str | None
) -> None:
    words = [missing if word is None else word for word in column(ALL, "word")]
    assert both(transformed, name).tolist() == [place(word, vocabulary, oov) for word in words]


def test_vocabulary_over_integers_uses_their_decimal_text(transformed: Transformed) -> None:
    filled = [-1 if value is None else value for value in column(ALL, "whole")]
    vocabulary = learned("whole", top_k=8, missing=-1)
    assert both(transformed, "whole_vocabulary").tolist() == [place(value, vocabulary, 1) for value in filled]
    assert both(transformed, "hour_values").tolist() == [
        place(hour, ["7", "8", "9"], 1) for hour in column(ALL, "hour")
    ]


def test_learned_vocabulary_is_an_asset_under_the_features_name(transformed: Transformed) -> None:
    for name, expected in {"word": learned("word"), "word_often": learned("word", min_frequency=30)}.items():
        assert [value.decode() for value in transformed.output.vocabulary_by_name(name)] == expected
        assert columns.vocabulary_size(transformed.output)(name) == len(expected)


def test_hashed_is_farmhash_of_the_text(transformed: Transformed) -> None:
    words = column(ALL, "word")
    expected = [17 if word is None else fingerprint(word, 17) for word in words]
    assert both(transformed, "word_hashed").tolist() == expected
    expected = [fingerprint("taxi" if word is None else word, 17) for word in words]
    assert both(transformed, "word_hashed_filled").tolist() == expected
    expected = [1000 if value is None else fingerprint(str(value), 1000) for value in column(ALL, "whole")]
    assert both(transformed, "whole_hashed").tolist() == expected


def test_crossed_joins_categories_of_features_and_texts_of_data_columns(transformed: Transformed) -> None:
    words = known(both(transformed, "word").tolist(), len(learned("word")) + 1)
    seconds = known(both(transformed, "seconds_id").tolist(), 5)
    hours = known(both(transformed, "hour_values").tolist(), 4)
    wholes = column(ALL, "whole")
    expected = [crossed(keys, 41) for keys in zip(wholes, hours, strict=True)]
    assert both(transformed, "whole").tolist() == expected
    wholes = known(expected, 41)
    assert both(transformed, "cross_raw").tolist() == [crossed(k, 97) for k in zip(words, seconds, wholes, strict=True)]


def test_crossed_is_missing_where_a_key_is_and_filled_where_the_key_is(transformed: Transformed) -> None:
    amounts = known(both(transformed, "amount_quarters").tolist(), 4)
    words = known(both(transformed, "word_top").tolist(), 7)
    inner = [crossed(keys, 50) for keys in zip(amounts, words, strict=True)]
    assert both(transformed, "cross_features").tolist() == inner
    assert 50 in inner
    hours = known(both(transformed, "hour").tolist(), 24)
    expected = [crossed(keys, 31) for keys in zip(known(inner, 50), hours, strict=True)]
    assert both(transformed, "cross_of_cross").tolist() == expected
    filled = zip(both(transformed, "amount_tenths").tolist(), both(transformed, "hour_filled").tolist(), strict=True)
    assert both(transformed, "cross_filled").tolist() == [crossed(keys, 50) for keys in filled]


def test_custom_function_gets_raw_tensors_and_gives_a_number_or_a_category(transformed: Transformed) -> None:
    raw = np.array([row["amount"][0] if row["amount"] else 0.0 for row in ALL], np.float32)
    np.testing.assert_array_equal(both(transformed, "custom_number"), 2 * raw)
    expected = [0 if hour is None else hour % 2 for hour in column(ALL, "hour")]
    assert both(transformed, "custom_category").tolist() == expected


def test_no_category_lies_outside_what_the_column_announces(transformed: Transformed) -> None:
    sizes = columns.vocabulary_size(transformed.output)
    for name, one in columns.build(transformed.sections.features).items():
        count = one.num_categories(sizes)
        if count is not None:
            assert both(transformed, name).min() >= 0, name
            assert both(transformed, name).max() < count, name

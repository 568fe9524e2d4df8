"""Every kind of feature column, through real TFT (conftest.py), against the same rule in NumPy and plain Python."""

from typing import Any

import farmhash
import numpy as np
import pytest

from headrace.trainer import columns


def present(transformed: Any, key: str) -> np.ndarray:
    """The present values of the train rows, as float64."""
    return np.array([value for value in transformed.column(key)[: len(transformed.rows)] if value is not None], float)


def numbers(values: list[Any], missing: float) -> np.ndarray:
    return np.array([missing if value is None else value for value in values], np.float64)


def bucket(value: float | None, boundaries: list[float], missing: int) -> int:
    return missing if value is None else sum(boundary <= value for boundary in boundaries)


def quantiles(values: np.ndarray, buckets: int) -> list[float]:
    return [float(np.sort(values)[part * len(values) // buckets]) for part in range(1, buckets)]


def fingerprint(text: str, buckets: int) -> int:
    return int(farmhash.fingerprint64(text)) % buckets


def place(value: Any, vocabulary: list[str], oov: int) -> int:
    if value is None:
        return len(vocabulary) + oov
    text = str(value)
    return vocabulary.index(text) if text in vocabulary else len(vocabulary) + fingerprint(text, oov)


def learned(
    transformed: Any, key: str, top_k: int | None = None, min_frequency: int = 1, missing: Any = None
) -> list[str]:
    values = transformed.column(key)[: len(transformed.rows)]
    texts = [str(missing if value is None else value) for value in values if value is not None or missing is not None]
    counts = [(texts.count(text), text.encode(), text) for text in set(texts)]
    return [text for count, _, text in sorted(counts, reverse=True) if count >= min_frequency][:top_k]


def crossed(keys: tuple[Any, ...], buckets: int) -> int:
    return buckets if None in keys else fingerprint("_X_".join(map(str, keys)), buckets)


def known(ids: list[int], missing: int) -> list[int | None]:
    return [None if number == missing else number for number in ids]


def test_graph_written_by_transform_gives_what_beam_wrote_for_every_row(transformed: Any) -> None:
    assert len(transformed.rows) == len(transformed.train["label"]) == 240
    for name in transformed.sections.features:
        np.testing.assert_array_equal(np.array([row[name] for row in transformed.rows]), transformed.train[name], name)


def test_features_without_the_label_column_are_the_same_at_serving(transformed: Any) -> None:
    assert set(transformed.without_label) == set(transformed.unseen) - {"label"}
    for name, values in transformed.without_label.items():
        np.testing.assert_array_equal(values, transformed.unseen[name], name)


def test_every_feature_has_the_dtype_and_shape_its_column_says(transformed: Any) -> None:
    for name, one in columns.build(transformed.sections.features).items():
        assert transformed.train[name].dtype == one.dtype
        shape = one.keras_input().shape
        assert transformed.train[name].shape == (len(transformed.rows), *shape[1:])
        assert shape[1:] == (() if one.feature.list_size is None else (one.feature.list_size,)) or name == "texts"


def test_numeric_is_scaled_by_mean_and_population_deviation_of_present_train_values(transformed: Any) -> None:
    mean, deviation = present(transformed, "amount").mean(), present(transformed, "amount").std()
    expected = (numbers(transformed.column("amount"), mean) - mean) / deviation
    np.testing.assert_allclose(transformed.all("amount"), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        transformed.all("amount_zero"), (numbers(transformed.column("amount"), 0.0) - mean) / deviation, rtol=1e-6
    )


def test_numeric_keeps_the_digits_of_large_integers(transformed: Any) -> None:
    mean, deviation = present(transformed, "seconds").mean(), present(transformed, "seconds").std()
    expected = (numbers(transformed.column("seconds"), mean) - mean) / deviation
    np.testing.assert_allclose(transformed.all("seconds"), expected, rtol=1e-6, atol=1e-7)


def test_ranges_buckets_and_ages_keep_the_digits_of_large_integers(transformed: Any) -> None:
    given, train = transformed.column("seconds"), present(transformed, "seconds")
    assert len(np.unique(train.astype(np.float32))) == 1  # what a cast before the subtraction would leave
    x = numbers(given, train.mean())
    expected = (x - train.min()) / (train.max() - train.min())
    np.testing.assert_allclose(transformed.all("seconds_range"), expected, rtol=1e-6)
    ages = (1_767_225_600 - train) / 86_400
    expected = np.where(np.isnan(numbers(given, np.nan)), 0, ((1_767_225_600 - x) / 86_400 - ages.mean()) / ages.std())
    np.testing.assert_allclose(transformed.all("seconds_age"), expected, rtol=1e-6, atol=1e-7)
    whole = [value for value in given if value is not None]
    fixed = [1_400_000_007.0, 1_400_000_012.0]
    for name, limits in (("seconds_fixed", fixed), ("seconds_quarters", quantiles(train, 4))):
        found = [one for one, value in zip(transformed.all(name), given, strict=True) if value is not None]
        assert found == np.searchsorted(np.array(limits, np.float64), np.array(whole, np.float64), "right").tolist()
        assert len(set(found)) == len(limits) + 1


def test_numeric_min_max_maps_train_to_zero_to_one(transformed: Any) -> None:
    values = present(transformed, "amount")
    expected = (numbers(transformed.column("amount"), values.mean()) - values.min()) / (values.max() - values.min())
    np.testing.assert_allclose(transformed.all("amount_range"), expected, rtol=1e-6)
    assert transformed.train["amount_range"].min() == 0
    assert transformed.train["amount_range"].max() == 1


def test_numeric_log_is_symmetric_and_fills_before_scaling(transformed: Any) -> None:
    x = numbers(transformed.column("amount"), present(transformed, "amount").mean())
    np.testing.assert_allclose(transformed.all("amount_log"), np.sign(x) * np.log1p(np.abs(x)), rtol=1e-6)
    x = numbers(transformed.column("whole"), 0)
    np.testing.assert_allclose(transformed.all("whole_log"), np.sign(x) * np.log1p(np.abs(x)), rtol=1e-6)


def test_numeric_none_leaves_values_and_fills_missing_and_nan(transformed: Any) -> None:
    np.testing.assert_array_equal(
        transformed.all("amount_plain"), numbers(transformed.column("amount"), -1.5).astype(np.float32)
    )


@pytest.mark.parametrize("name", ["same", "same_range", "nothing"])
def test_numeric_without_two_different_values_becomes_zero(transformed: Any, name: str) -> None:
    np.testing.assert_array_equal(transformed.train[name], 0)
    np.testing.assert_array_equal(transformed.unseen[name], 0)


def test_bucketized_by_quantiles_puts_a_value_on_a_boundary_in_the_bucket_above(transformed: Any) -> None:
    expected = [
        bucket(value, quantiles(present(transformed, "amount"), 4), 4) for value in transformed.column("amount")
    ]
    assert transformed.all("amount_quarters").tolist() == expected
    counts = np.bincount(transformed.train["amount_quarters"], minlength=5)
    assert counts[:4].max() - counts[:4].min() <= 1
    filled = [2.0 if value is None else value for value in transformed.column("amount")]
    expected = [bucket(value, quantiles(present(transformed, "amount"), 10), -1) for value in filled]
    assert transformed.all("amount_tenths").tolist() == expected


def test_bucketized_by_quantiles_takes_integers_and_columns_of_few_values(transformed: Any) -> None:
    expected = [bucket(value, quantiles(present(transformed, "whole"), 4), 4) for value in transformed.column("whole")]
    assert transformed.all("whole_quarters").tolist() == expected
    expected = [bucket(value, quantiles(present(transformed, "same"), 4), 4) for value in transformed.column("same")]
    assert transformed.all("same_quarters").tolist() == expected


def test_bucketized_column_without_any_value_is_all_missing(transformed: Any) -> None:
    assert set(transformed.train["nothing_quarters"]) == {4}
    assert transformed.unseen["nothing_quarters"].tolist() == [3, 4, 4, 4]


def test_bucketized_by_boundaries_rounds_them_as_the_data(transformed: Any) -> None:
    boundaries = [float(np.float32(41.8)), float(np.float32(41.9))]
    expected = [bucket(value, boundaries, 3) for value in transformed.column("degrees")]
    assert transformed.all("degrees").tolist() == expected
    assert transformed.unseen["degrees"].tolist() == [0, 2, 3, 1]
    filled = [-7 if value is None else value for value in transformed.column("whole")]
    assert transformed.all("whole_fixed").tolist() == [bucket(value, [-1.5, 0.0, 40.0], -1) for value in filled]


def test_identity_treats_out_of_range_as_missing(transformed: Any) -> None:
    hours = transformed.column("hour")
    assert {-2, -1, 24, 25, 26} <= set(hours)
    for name, missing in (("hour", 24), ("hour_filled", 12)):
        expected = [hour if hour is not None and 0 <= hour < 24 else missing for hour in hours]
        assert transformed.all(name).tolist() == expected


@pytest.mark.parametrize(
    ("name", "oov", "missing", "rule"),
    [
        ("word", 1, None, {}),
        ("word_top", 4, None, {"top_k": 3}),
        ("word_often", 2, None, {"min_frequency": 30}),
        ("word_filled", 1, "taxi", {"missing": "taxi"}),
    ],
)
def test_learned_vocabulary_gives_place_then_oov_bucket_then_missing(
    transformed: Any, name: str, oov: int, missing: str | None, rule: dict[str, Any]
) -> None:
    words = [missing if word is None else word for word in transformed.column("word")]
    vocabulary = learned(transformed, "word", **rule)
    assert transformed.all(name).tolist() == [place(word, vocabulary, oov) for word in words]


@pytest.mark.parametrize(
    ("name", "oov", "vocabulary"),
    [("word_values", 3, ["0", "naïve", "Zürich"]), ("word_file", 1, ["東京", "taxi", "🚕"])],
)
def test_given_vocabulary_keeps_its_order(transformed: Any, name: str, oov: int, vocabulary: list[str]) -> None:
    assert transformed.all(name).tolist() == [place(word, vocabulary, oov) for word in transformed.column("word")]


def test_vocabulary_over_integers_uses_their_decimal_text(transformed: Any) -> None:
    filled = [-1 if value is None else value for value in transformed.column("whole")]
    vocabulary = learned(transformed, "whole", top_k=8, missing=-1)
    assert transformed.all("whole_vocabulary").tolist() == [place(value, vocabulary, 1) for value in filled]
    assert transformed.all("hour_values").tolist() == [
        place(hour, ["7", "8", "9"], 1) for hour in transformed.column("hour")
    ]


def test_learned_vocabulary_is_an_asset_under_the_features_name(transformed: Any) -> None:
    for name, expected in {
        "word": learned(transformed, "word"),
        "word_often": learned(transformed, "word", min_frequency=30),
    }.items():
        assert [value.decode() for value in transformed.output.vocabulary_by_name(name)] == expected
        assert columns.vocabulary_size(transformed.output)(name) == len(expected)


def test_hashed_is_farmhash_of_the_text(transformed: Any) -> None:
    words = transformed.column("word")
    expected = [17 if word is None else fingerprint(word, 17) for word in words]
    assert transformed.all("word_hashed").tolist() == expected
    expected = [fingerprint("taxi" if word is None else word, 17) for word in words]
    assert transformed.all("word_hashed_filled").tolist() == expected
    expected = [1000 if value is None else fingerprint(str(value), 1000) for value in transformed.column("whole")]
    assert transformed.all("whole_hashed").tolist() == expected


def test_crossed_joins_categories_of_features_and_texts_of_data_columns(transformed: Any) -> None:
    words = known(transformed.all("word").tolist(), len(learned(transformed, "word")) + 1)
    seconds = known(transformed.all("seconds_id").tolist(), 5)
    hours = known(transformed.all("hour_values").tolist(), 4)
    wholes = transformed.column("whole")
    expected = [crossed(keys, 41) for keys in zip(wholes, hours, strict=True)]
    assert transformed.all("whole").tolist() == expected
    wholes = known(expected, 41)
    assert transformed.all("cross_raw").tolist() == [crossed(k, 97) for k in zip(words, seconds, wholes, strict=True)]


def test_crossed_is_missing_where_a_key_is_and_filled_where_the_key_is(transformed: Any) -> None:
    amounts = known(transformed.all("amount_quarters").tolist(), 4)
    words = known(transformed.all("word_top").tolist(), 7)
    inner = [crossed(keys, 50) for keys in zip(amounts, words, strict=True)]
    assert transformed.all("cross_features").tolist() == inner
    assert 50 in inner
    hours = known(transformed.all("hour").tolist(), 24)
    expected = [crossed(keys, 31) for keys in zip(known(inner, 50), hours, strict=True)]
    assert transformed.all("cross_of_cross").tolist() == expected
    filled = zip(transformed.all("amount_tenths").tolist(), transformed.all("hour_filled").tolist(), strict=True)
    assert transformed.all("cross_filled").tolist() == [crossed(keys, 50) for keys in filled]


def test_custom_function_gets_raw_tensors_and_gives_a_number_or_a_category(transformed: Any) -> None:
    raw = np.array([row["amount"][0] if row["amount"] else 0.0 for row in transformed.raw], np.float32)
    np.testing.assert_array_equal(transformed.all("custom_number"), 2 * raw)
    expected = [0 if hour is None else hour % 2 for hour in transformed.column("hour")]
    assert transformed.all("custom_category").tolist() == expected


def test_no_category_lies_outside_what_the_column_announces(transformed: Any) -> None:
    sizes = columns.vocabulary_size(transformed.output)
    for name, one in columns.build(transformed.sections.features).items():
        count = one.num_categories(sizes)
        if count is not None:
            assert transformed.all(name).min() >= 0, name
            assert transformed.all(name).max() < count, name

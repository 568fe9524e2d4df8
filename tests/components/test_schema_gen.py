"""The inferred schema: TFDV's own where every split has values of every column, and sensible where one has none."""

import pyarrow as pa
import pytest
import tensorflow_data_validation as tfdv
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_data_validation.statistics.stats_impl import generate_statistics_in_memory
from tensorflow_metadata.proto.v0.schema_pb2 import FLOAT, INT, LifecycleStage, Schema
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

from headrace.components.schema_gen import infer_schema

Column = list[list[int] | list[float] | list[bytes] | None]


def statistics(columns: dict[str, Column]) -> DatasetFeatureStatisticsList:
    return generate_statistics_in_memory(pa.RecordBatch.from_pydict({name: pa.array(v) for name, v in columns.items()}))


def of_tfdv(splits: list[DatasetFeatureStatisticsList]) -> Schema:
    """As TFX's executor goes from split to split."""
    schema = tfdv.infer_schema(splits[0], infer_feature_shape=False)
    for split in splits[1:]:
        schema = tfdv.update_schema(schema, split, infer_feature_shape=False)
    return schema


VALUES = st.one_of(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=4, max_size=4),
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=1), min_size=4, max_size=4),
    st.lists(st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=1), min_size=4, max_size=4),
)


@settings(max_examples=20)
@given(st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1), st.lists(st.integers(0, 3), max_size=2))
def test_where_all_splits_have_values_the_schema_is_tfdvs(columns: dict[str, Column], gaps: list[int]) -> None:
    with_gaps = {name: [None if i in gaps else v for i, v in enumerate(values)] for name, values in columns.items()}
    splits = [statistics(with_gaps), statistics(columns)]
    assert infer_schema(splits) == of_tfdv(splits)


def test_a_column_without_a_value_anywhere_is_as_tfdv_says() -> None:
    splits = [statistics({"x": [[1]] * 3, "never": [None] * 3})] * 2
    assert infer_schema(splits) == of_tfdv(splits)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_column_that_one_split_alone_has_values_of_keeps_its_type_and_may_be_missing(where: int) -> None:
    splits = [
        statistics({"x": [[0.5]] * 3, "rare": [[7] if split == where else None, None, None]}) for split in range(3)
    ]
    features = {feature.name: feature for feature in infer_schema(splits).feature}
    assert (features["x"].type, features["rare"].type) == (FLOAT, INT)
    assert features["rare"].lifecycle_stage == LifecycleStage.UNKNOWN_STAGE
    assert not features["rare"].HasField("presence")
    assert features["x"].presence.min_fraction == 1
    for split in splits:
        assert not tfdv.validate_statistics(split, infer_schema(splits)).anomaly_info
    deprecated = {feature.name: feature for feature in of_tfdv(splits).feature}["rare"]
    assert deprecated.lifecycle_stage == LifecycleStage.DEPRECATED  # what this component is there for

"""The statistics of the whole train split against stock tf.Transform's own analyzers, over the same rows."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import beam_here
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam

from headrace.trainer.preprocessing import transform
from headrace.trainer.sections import TrainerSections


def stock(inputs: dict[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """As a hand-written preprocessing_fn would."""
    seconds = tf.sparse.to_dense(inputs["seconds"])[:, 0]
    degrees = tf.sparse.to_dense(inputs["degrees"])[:, 0]
    tft.vocabulary(inputs["word"], vocab_filename="stock_word")
    tft.vocabulary(inputs["word"], vocab_filename="stock_often", top_k=5, frequency_threshold=10)
    tft.vocabulary(inputs["whole"], vocab_filename="stock_whole")
    return {
        "seconds": tf.cast(tft.scale_to_z_score(tf.cast(seconds, tf.float64)), tf.float32),
        "degrees": tft.scale_to_0_1(degrees),
        "quarters": tft.bucketize(degrees, 4),  # stock rounds boundaries to float32: over seconds it gives one bucket
    }


def ours(inputs: dict[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
    vocabulary = {"column": "vocabulary", "key": "word"}
    features = {
        "word": vocabulary,
        "often": {**vocabulary, "top_k": 5, "min_frequency": 10},
        "whole": {**vocabulary, "key": "whole"},
        "ours_seconds": {"column": "numeric", "key": "seconds"},
        "ours_degrees": {"column": "numeric", "key": "degrees", "normalize": "min_max"},
        "ours_quarters": {"column": "bucketized", "key": "degrees", "buckets": 4},
    }
    sections = TrainerSections.from_json(
        json.dumps({"label": {"key": "label", "kind": "binary"}, "features": features})
    )
    return {name: tensor for name, tensor in transform(inputs, sections).items() if name.startswith("ours_")}


@pytest.mark.slow
def test_ours_and_stock_transform_agree(transformed: Any, tmp_path: Path) -> None:
    rows = transformed.raw[: len(transformed.rows)]
    spec = {key: tf.io.VarLenFeature(dtype) for key, dtype in transformed.spec.items()}
    with (
        beam_here.pipeline() as pipeline,
        tft_beam.Context(temp_dir=str(tmp_path / "tmp"), force_tf_compat_v1=False),
    ):
        raw = (pipeline | beam.Create(rows, reshuffle=False), tft.DatasetMetadata.from_feature_spec(spec))
        function = raw | tft_beam.AnalyzeDataset(lambda inputs: {**stock(inputs), **ours(inputs)})
        function | tft_beam.WriteTransformFn(str(tmp_path / "graph"))
    output = tft.TFTransformOutput(str(tmp_path / "graph"))
    for mine, theirs in {"word": "stock_word", "often": "stock_often", "whole": "stock_whole"}.items():
        assert output.vocabulary_by_name(mine) == output.vocabulary_by_name(theirs)
        assert len(output.vocabulary_by_name(mine)) > 3
    features = output.transform_features_layer()(transformed.tensors)
    for name in ("seconds", "degrees", "quarters"):
        np.testing.assert_allclose(features[f"ours_{name}"], features[name], rtol=1e-6, atol=1e-6)

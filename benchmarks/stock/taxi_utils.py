"""preprocessing_fn and run_fn for the taxi data, in the manner of TFX's example (`taxi_utils_native_keras.py`).

The features, the sizes of the layers, the epochs and the batch size are those of configs/taxi.yaml.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
import tensorflow_transform as tft
from tfx.components.trainer.fn_args_utils import DataAccessor, FnArgs
from tfx_bsl.public import tfxio

LABEL = "big_tipper"
NUMBERS = ["trip_miles", "fare", "trip_seconds"]
BUCKETIZED = ["pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude"]
BUCKETS = 10
INTEGERS = {"trip_start_hour": 24, "trip_start_day": 8, "trip_start_month": 13}
VOCABULARIES = {"pickup_community_area": None, "dropoff_community_area": None, "payment_type": 20}
COMPANY, COMPANY_BUCKETS = "company", 64
PICKUP, PICKUP_BUCKETS = "pickup", 1000
HIDDEN = [128, 64]


def transformed_name(key: str) -> str:
    """As TFX's examples name it."""
    return key + "_xf"


def fill_in_missing(x: tf.SparseTensor) -> tf.Tensor:
    """A sparse column to dense [batch], '' or 0 where a value is missing."""
    dense = tf.sparse.to_dense(
        tf.SparseTensor(x.indices, x.values, [x.dense_shape[0], 1]), "" if x.dtype == tf.string else 0
    )
    return tf.squeeze(dense, axis=1)


def preprocessing_fn(inputs: Mapping[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
    """What Transform calls."""
    raw = {key: fill_in_missing(inputs[key]) for key in inputs}
    outputs = {LABEL: raw[LABEL]}
    for key in NUMBERS:
        outputs[key] = tf.math.log1p(tf.cast(raw[key], tf.float32))
    for key in BUCKETIZED:
        outputs[key] = tft.bucketize(raw[key], BUCKETS)
    for key in INTEGERS:
        outputs[key] = raw[key]
    for key, top_k in VOCABULARIES.items():
        outputs[key] = tft.compute_and_apply_vocabulary(raw[key], top_k=top_k, num_oov_buckets=1, vocab_filename=key)
    outputs[COMPANY] = tft.hash_strings(raw[COMPANY], COMPANY_BUCKETS)
    places = [tf.strings.as_string(outputs[key]) for key in ("pickup_latitude", "pickup_longitude")]
    outputs[PICKUP] = tft.hash_strings(tf.strings.join(places, "_"), PICKUP_BUCKETS)
    return {transformed_name(key): value for key, value in outputs.items()}


def build_keras_model(transform_output: tft.TFTransformOutput) -> keras.Model:
    """Wide and deep."""
    categories = dict.fromkeys(BUCKETIZED, BUCKETS) | INTEGERS | {COMPANY: COMPANY_BUCKETS, PICKUP: PICKUP_BUCKETS}
    categories |= {key: transform_output.vocabulary_size_by_name(key) + 1 for key in VOCABULARIES}
    inputs = {key: keras.Input((1,), name=transformed_name(key), dtype="float32") for key in NUMBERS}
    inputs |= {key: keras.Input((1,), name=transformed_name(key), dtype="int64") for key in categories}

    def embed(key: str, width: int, initializer: str = "uniform") -> keras.KerasTensor:
        vector = keras.layers.Embedding(categories[key], width, embeddings_initializer=initializer)(inputs[key])
        return keras.layers.Flatten()(vector)

    deep = keras.layers.concatenate(
        [inputs[key] for key in NUMBERS]
        + [embed(key, math.ceil(size**0.25)) for key, size in categories.items() if key != PICKUP]
    )
    for units in HIDDEN:
        deep = keras.layers.Dense(units, activation="relu")(deep)
    wide = keras.layers.add([embed(key, 1, "zeros") for key in categories])
    output = keras.layers.Activation("sigmoid")(keras.layers.add([keras.layers.Dense(1)(deep), wide]))
    model = keras.Model(list(inputs.values()), output)
    model.compile(
        loss="binary_crossentropy",
        optimizer=keras.optimizers.Adam(learning_rate=0.001),
        metrics=[keras.metrics.AUC(name="auc"), keras.metrics.BinaryAccuracy()],
    )
    return model


def input_fn(
    file_pattern: Sequence[str], data_accessor: DataAccessor, transform_output: tft.TFTransformOutput, batch_size: int
) -> tf.data.Dataset:
    """One pass over the examples, shuffled, in batches of features and label."""
    options = tfxio.TensorFlowDatasetOptions(batch_size=batch_size, num_epochs=1, label_key=transformed_name(LABEL))
    return data_accessor.tf_dataset_factory(file_pattern, options, transform_output.transformed_metadata.schema)


def run_fn(fn_args: FnArgs) -> None:
    """What Trainer calls."""
    transform_output = tft.TFTransformOutput(fn_args.transform_graph_path)
    batch_size = fn_args.custom_config["batch_size"]
    train = input_fn(fn_args.train_files, fn_args.data_accessor, transform_output, batch_size)
    evaluation = input_fn(fn_args.eval_files, fn_args.data_accessor, transform_output, batch_size)
    model = build_keras_model(transform_output)
    model.fit(
        train,
        validation_data=evaluation,
        epochs=fn_args.custom_config["epochs"],
        verbose=2,
    )
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=signatures(model, transform_output))


def signatures(model: keras.Model, transform_output: tft.TFTransformOutput) -> dict[str, Callable[..., Any]]:
    """The two that TFX's examples export: predictions of raw examples, and their transformed features."""
    model.tft_layer_inference = transform_output.transform_features_layer()
    model.tft_layer_eval = transform_output.transform_features_layer()
    examples = tf.TensorSpec([None], tf.string, name="examples")

    @tf.function(input_signature=[examples])
    def serve_tf_examples_fn(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        spec = transform_output.raw_feature_spec()
        spec.pop(LABEL)
        features = model.tft_layer_inference(tf.io.parse_example(serialized, spec))
        columns = {tensor.name: tf.reshape(features[tensor.name], [-1, 1]) for tensor in model.inputs}
        return {"outputs": model(columns)}

    @tf.function(input_signature=[examples])
    def transform_features_fn(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        return model.tft_layer_eval(tf.io.parse_example(serialized, transform_output.raw_feature_spec()))

    return {"serving_default": serve_tf_examples_fn, "transform_features": transform_features_fn}

"""Steps of a model with large embedding tables: updates by rows, of whole tables, and what a Keras user would write.

    python -m benchmarks.embedding_tables            tables; about eight minutes
    python -m benchmarks.embedding_tables --json     the same figures as JSON

The data is like Criteo's: 26 categories with a Zipf distribution, 2,048 examples per batch. The label depends on the
categories, frequent and rare ones alike, so that what rows of rare categories learn shows in the AUC of other examples.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import measure
from benchmarks.tables import Section, Table

FEATURES, WIDTH, BATCH = 26, 16, 2048
CATEGORIES = (1_000, 10_000, 140_000)
"""Categories of each feature. The last makes a table of 58 million weights."""
STEPS = 40
"""Measured steps. The first execution, which traces the graph, is not among them."""
SLOW = 10
"""Measured steps where one takes seconds."""
EPOCHS, LEARNED_CATEGORIES, LEARNED_BATCHES = 3, 10_000, 100
ENGINES = {"rows": "Headrace, by rows", "whole": "Headrace, whole tables", "keras": "Keras Embedding layers, Adam"}
REPEATS, QUICK = 3, 1


def measure_here(what: str, engine: str, categories: str, seed: str) -> measure.Figures:
    """Milliseconds of a step (`speed`) or the AUC on other examples (`quality`) of one engine, in this process."""
    if what == "quality":
        return _quality(engine, int(seed))
    import tensorflow as tf

    features, label = _examples(1, int(categories), batches=4)
    batches = tf.data.Dataset.from_tensor_slices((features, label)).batch(BATCH).cache().repeat()
    steps = SLOW if engine != "rows" and int(categories) > 100_000 else STEPS
    model = _model(engine, int(categories), "adam", steps)
    model.fit(batches, steps_per_epoch=steps, verbose=0)
    started, used = time.perf_counter(), measure.processor_seconds()
    model.fit(batches, steps_per_epoch=steps, verbose=0)
    wall, cpu = time.perf_counter() - started, measure.processor_seconds() - used
    return {"ms": 1000 * wall / steps, "cpu_ms": 1000 * cpu / steps}


def _quality(engine: str, seed: int) -> measure.Figures:
    """The best AUC of an epoch, for each optimizer."""
    import keras
    import tensorflow as tf

    train = _examples(seed, LEARNED_CATEGORIES, LEARNED_BATCHES)
    others = _examples(seed, LEARNED_CATEGORIES, LEARNED_BATCHES // 5, part=1)
    found = {}
    for optimizer in ("adam", "adagrad", "sgd"):
        keras.utils.set_random_seed(seed)
        model = _model(engine, LEARNED_CATEGORIES, optimizer, 20)
        batches = tf.data.Dataset.from_tensor_slices(train).shuffle(BATCH * LEARNED_BATCHES, seed=seed).batch(BATCH)
        history = model.fit(batches, epochs=EPOCHS, validation_data=(*others,), validation_batch_size=BATCH, verbose=0)
        found[optimizer] = max(history.history["val_auc"])
    return found


def _examples(seed: int, categories: int, batches: int, part: int = 0) -> tuple[Any, Any]:
    """Category ids int64 [examples, FEATURES], labels float32 [examples]. Parts of a seed differ in examples only."""
    import numpy as np

    effects = np.random.default_rng(seed).normal(size=(FEATURES, categories))
    random = np.random.default_rng([seed, part])
    ids = (random.zipf(1.2, (batches * BATCH, FEATURES)) - 1) % categories
    logit = effects[np.arange(FEATURES), ids].sum(axis=1) / FEATURES**0.5 * 2 - 2
    return ids, (random.random(len(ids)) < 1 / (1 + np.exp(-logit))).astype(np.float32)


def _model(engine: str, categories: int, optimizer: str, steps: int) -> Any:
    """Embeddings and a dense layer, compiled by us or as a Keras user would."""
    import keras

    from headrace.configs.schema.label import LabelConfig
    from headrace.configs.schema.train import TrainConfig
    from headrace.trainer.columns.layers import Embeddings
    from headrace.trainer.model import compile_model

    ids = keras.Input((FEATURES,), dtype="int64")
    each = [ids[:, number] for number in range(FEATURES)]
    if engine == "keras":
        vectors = keras.layers.Concatenate()([keras.layers.Embedding(categories, WIDTH)(one) for one in each])
    else:
        vectors = Embeddings((categories,) * FEATURES, WIDTH)(each)
    hidden = keras.layers.Dense(64, activation="relu")(vectors)
    model = keras.Model(ids, keras.layers.Dense(1, activation="sigmoid")(hidden))
    config = {"optimizer": {"kind": "sgd", "momentum": 0.9} if optimizer == "sgd" else optimizer,
              "learning_rate": {"adam": 0.001, "adagrad": 0.05, "sgd": 0.1}[optimizer], "jit": "off"}  # fmt: skip
    if engine == "keras":
        model.compile(optimizer, "binary_crossentropy", metrics=["auc"], steps_per_execution=steps, jit_compile=False)
    else:
        train = TrainConfig.model_validate_json(json.dumps({**config, "embedding_updates": engine}))
        compile_model(model, LabelConfig(key="label", kind="binary"), train, steps)
    return model


def measure_all(repeats: int = REPEATS) -> dict[str, list[dict[str, Any]]]:
    """Rows of figures: medians over fresh processes, the engines in turn."""
    speed = []
    for categories in CATEGORIES:
        found = measure.in_turn(dict.fromkeys(ENGINES, repeats), functools.partial(_speed, categories))
        speed += [
            {"engine": engine, "weights": FEATURES * categories * WIDTH, **measure.medians(found[engine])}
            for engine in ENGINES
        ]
    quality = [
        {"engine": engine, "seed": seed, **_child("quality", engine, LEARNED_CATEGORIES, seed)}
        for seed in range(repeats)
        for engine in ("rows", "whole")
    ]
    return {"speed": speed, "quality": quality}


def _speed(categories: int, engine: str) -> measure.Figures:
    return _child("speed", engine, categories, 0)


def section(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Section:
    """The tables and notes."""
    weights = list(dict.fromkeys(row["weights"] for row in found["speed"]))
    speed = Table(
        ["", *(f"{size / 1e6:,.1f} million weights" for size in weights)],
        [
            [name, *(f"{row['ms']:,.1f} ({row['cpu_ms']:,.1f})" for row in found["speed"] if row["engine"] == engine)]
            for engine, name in ENGINES.items()
        ],
    )
    optimizers = ("adam", "adagrad", "sgd")
    quality = Table(
        ["", "seed", "Adam", "Adagrad", "SGD with momentum"],
        [
            [ENGINES[row["engine"]], str(row["seed"]), *(f"{row[name]:.4f}" for name in optimizers)]
            for row in found["quality"]
        ],
    )
    notes = (
        f"Each example has {FEATURES} categories, each category {WIDTH} weights; a batch has {BATCH:,} examples. The"
        " first two are the product's layers and `compile_model`, the third is Keras' own `fit` of the same network.",
        "Adagrad by rows learns what it learns with whole tables, except for rounding. Adam and momentum do not: the"
        " moments of a row neither decay nor move it between the batches that have its category.",
        f"AUC on other examples with Adam: {_aucs(found['quality'])}.",
    )
    parts = [("Milliseconds of a step (CPU milliseconds), Adam", speed), ("AUC on other examples", quality)]
    return Section("Embedding tables", parts, notes)


def _aucs(quality: Sequence[Mapping[str, Any]]) -> str:
    """Of each engine, for each seed."""
    of = {name: [f"{row['adam']:.3f}" for row in quality if row["engine"] == name] for name in ENGINES}
    return "; ".join(f"{ENGINES[name]} {', '.join(aucs)}" for name, aucs in of.items() if aucs)


def main() -> None:
    """Measure and print; with --child, measure one engine here."""
    measure.command(__doc__, lambda _: measure_all(), section, child=measure_here)


def _child(what: str, engine: str, categories: int, seed: int) -> measure.Figures:
    return measure.in_child("embedding_tables", what, engine, str(categories), str(seed))


if __name__ == "__main__":
    main()

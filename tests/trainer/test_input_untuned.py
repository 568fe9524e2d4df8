"""No iterator of a training has tf.data's autotuning, for whose thread its deletion would wait, for up to a minute,
unless the config asks for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from numbered_shards import SPEC, write_shards

from headrace.configs.schema.train import InputConfig
from headrace.trainer.input.pipeline import InputPipeline
from headrace.trainer.input.reading import AHEAD, InputOptions


@pytest.mark.parametrize("cache", ["memory", "disk", "none"])
@pytest.mark.parametrize("steps_per_epoch", [None, 3])
def test_nothing_that_is_read_is_tuned_while_it_is_read(
    tmp_path: Path, cache: Any, steps_per_epoch: int | None
) -> None:
    pipeline = InputPipeline(
        feature_spec=SPEC, label_key="label", batch_size=4, cache=cache, shuffle=8, steps_per_epoch=steps_per_epoch
    )
    split = pipeline.open("train", write_shards(tmp_path, [9, 4]))
    read = [split.dataset, split.peek, *([split.endless()] if split.endless else [])]
    assert len(read) == (3 if cache == "memory" and steps_per_epoch is None else 2)
    for dataset in read:
        assert dataset.options().autotune.enabled is False
        assert dataset.take(1).repeat(2).prefetch(1).options().autotune.enabled is False


@pytest.mark.parametrize("cache", ["memory", "disk", "none"])
def test_what_is_read_is_tuned_where_the_config_asks_for_it(tmp_path: Path, cache: Any) -> None:
    files = write_shards(tmp_path, [9, 4])
    buffers = {}
    for autotune in (False, True):
        reading = InputOptions.of(InputConfig(autotune=autotune))
        pipeline = InputPipeline(
            feature_spec=SPEC, label_key="label", batch_size=4, cache=cache, shuffle=8, reading=reading
        )
        split = pipeline.open("train", files)
        assert split.dataset.options().autotune.enabled is autotune
        (buffers[autotune],) = prefetched(split.dataset)
    assert buffers == {False: AHEAD, True: tf.data.AUTOTUNE}
    assert sum(len(label) for _, label in split.dataset) == 13


def prefetched(dataset: tf.data.Dataset) -> list[int]:
    """The batches that the graph of a dataset makes ready ahead, at its end."""
    graph = tf.compat.v1.GraphDef.FromString(dataset._as_serialized_graph().numpy())
    nodes = {node.name: node for node in graph.node}
    (last,) = (node for node in graph.node if node.op.startswith("PrefetchDataset"))
    return [int(tf.make_ndarray(nodes[last.input[1]].attr["value"].tensor))]


def test_settings_of_the_config_are_not_tuned() -> None:
    tuned = InputOptions.of(InputConfig(autotune=True))
    assert (tuned.prefetch, tuned.calls, tuned.autotune) == (tf.data.AUTOTUNE, tf.data.AUTOTUNE, True)
    given = InputOptions.of(InputConfig(autotune=True, prefetch=3, threads=2))
    assert (given.prefetch, given.calls) == (3, 2)
    assert InputOptions.of(InputConfig()).autotune is False


@pytest.mark.parametrize(("batch_bytes", "ahead"), [(0, AHEAD), (1 << 20, AHEAD), (10 << 20, 6), (1 << 30, 2)])
def test_batches_are_made_ahead_as_far_as_they_take_little_memory(batch_bytes: int, ahead: int) -> None:
    assert InputOptions.of(InputConfig(), batch_bytes=batch_bytes).prefetch == ahead
    assert InputOptions.of(InputConfig(prefetch=5), batch_bytes=batch_bytes).prefetch == 5

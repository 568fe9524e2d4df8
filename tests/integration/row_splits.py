"""The split into which ExampleGen put each row of a run."""

from pathlib import Path

import tensorflow as tf


def splits(examples: Path) -> dict[int, str]:
    """The split of each row, by its column `id`. examples: the folder of the artifact."""
    found = {}
    for folder in examples.glob("Split-*"):
        for record in tf.data.TFRecordDataset([*map(str, folder.iterdir())], "GZIP").as_numpy_iterator():
            example = tf.train.Example.FromString(record)
            found[example.features.feature["id"].int64_list.value[0]] = folder.name.removeprefix("Split-")
    return found

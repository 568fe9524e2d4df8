"""TFRecords."""

from __future__ import annotations

from typing import Literal

from configs.sources.base import FileSource


class TfrecordSource(FileSource):
    """Existing TFRecord files, plain or gzip (told by their first bytes), written anew into shards by plan."""

    kind: Literal["tfrecord"]
    """`tfrecord`."""
    payload: Literal["example", "sequence_example"] = "example"
    """What a record is: a tf.Example, or a tf.SequenceExample, whose feature lists become multi-valued features."""

"""TFRecords."""

from __future__ import annotations

from typing import Literal

from headrace.configs.sources.base import FileSource


class TfrecordSource(FileSource):
    """Existing TFRecord files, plain or gzip (told by their first bytes), written anew into shards by plan.

    A feature with one value at most in each record is a column of single values, any other is multi-valued. The columns
    that can be named in `types` and elsewhere are the features of the first 100 records of the first eight files (of
    fewer where they have 50,000 features or more together), and those in `data.columns`.
    """

    kind: Literal["tfrecord"]
    """`tfrecord`."""
    payload: Literal["example", "sequence_example"] = "example"
    """What a record is: a tf.Example, or a tf.SequenceExample. Its feature lists become multi-valued features, the
    values of all steps one after the other; where some step does not have exactly one value, a column `<name>.lengths`
    has the number of values of each step."""

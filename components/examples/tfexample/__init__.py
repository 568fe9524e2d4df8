"""Columns to serialized tf.Examples in TFRecord frames, without a protocol buffer object and without a loop over rows.

from headrace.components.examples.tfexample.encode import encode             # rows as serialized tf.Examples
from headrace.components.examples.tfexample.framing import framed_examples   # the same as TFRecords
"""

"""Raw data in, sharded TFRecords of tf.Example out: columnar all the way, and Beam-parallel.

from headrace.components.example_gen.component import ExampleGen   # the TFX component
from headrace.components.example_gen.spans import Spans            # what there is to read, with a fingerprint
from headrace.components.example_gen.sources import open_source    # the columns of a source, without TensorFlow or Beam
"""

"""Raw data to sharded TFRecords of tf.Example: columnar throughout, and parallel in Beam.

component.py      the TFX component ExampleGen
spans/            which spans and files a run reads, and what is stored of spans between runs
ingest.py         the reading of all spans; span_ingest.py: of a single one
sources/          the kinds of sources, without TensorFlow or Beam
shards/           rows to shuffled shard files
tfexample/        columns to serialized tf.Examples
"""

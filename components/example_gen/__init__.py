"""Raw data to sharded TFRecords of tf.Example: columnar throughout, and parallel in Beam.

component.py      the TFX component ExampleGen
ingest.py         the reading of all spans; span_ingest.py: of a single one
span_store.py     what is stored of spans between runs
shards/           rows to shuffled shard files

Which spans and files a run reads is in components/spans/, the readers of each kind of source in components/sources/,
and the format of examples in components/examples/.
"""

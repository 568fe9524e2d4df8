"""Examples on disk, as every component after ExampleGen reads and writes them.

tfexample/          columns to serialized tf.Examples in TFRecord frames; decode.py: the way back
column_files.py     the same rows as Arrow columns, beside each shard
shard_names.py, compression.py   the files of a split
arrow_columns.py    what is computed of Arrow columns of any kind
row_hash.py         rows to buckets
parts.py, skips.py  the division of data into parts, and the records that are left out
"""

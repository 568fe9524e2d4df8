"""Rows to shuffled, compressed shard files: their layout, the assignment of rows to them, and the writing.

from headrace.components.example_gen.shards.layout import ShardLayout, plan_shards
from headrace.components.example_gen.shards.write import ShardWriter
"""

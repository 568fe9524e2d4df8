"""Spans of data: which files belong to each, what a run reads, and what is stored of a span between runs.

from headrace.components.example_gen.spans.component import Spans       # the TFX component
from headrace.components.example_gen.spans.manifest import SpanManifest # what a run reads, with a fingerprint
from headrace.components.example_gen.spans.store import SpanStore       # scans and shards of spans between runs
"""

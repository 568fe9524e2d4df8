"""Spans of data: which files belong to each, and which of them a run reads, trains on and holds out.

from headrace.components.spans.component import Spans        # the TFX component
from headrace.components.spans.manifest import SpanManifest  # what a run reads, with a fingerprint
"""

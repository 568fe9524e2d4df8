"""The names of shards, as ExampleGen gives them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable


def by_span(files: Iterable[str], spans: Iterable[str]) -> dict[str, list[str]]:
    """The shards of each span, in the order of the spans; spans without any are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in files:
        named = re.search(r"/data_tfrecord-(.+)-\d{5}-of-\d{5}[^/]*$", file)
        assert named, file  # noqa: S101 - our own ExampleGen named it
        found[named[1]].append(file)
    return {span: found[span] for span in spans if span in found}

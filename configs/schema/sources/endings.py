"""The kinds of source that the endings of paths name, for commands that take a path without settings.

known_ending("trips/*.csv.gz")      # ".csv"
KIND_OF_ENDING[".csv"]              # "csv"
"""

from __future__ import annotations

JSON = ".json"
"""The ending of files that are one array, or that have one object on each line: their start says which."""
KIND_OF_ENDING = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".avro": "avro",
    ".arrow": "datasets",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".xlsb": "excel",
    ".xls": "excel",
    ".ods": "excel",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    JSON: "json",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".npz": "arrays",
}
"""The kind for an ending."""
GZIPPED = frozenset({"csv", "jsonl", "json", "tfrecord"})
"""The kinds of which files may be gzipped, and then end in `.gz` too."""
KNOWN = f"{', '.join(KIND_OF_ENDING)}, and of text and TFRecords the same with .gz"
"""For messages."""


def known_ending(path: str) -> str | None:
    """The ending of a path that names a kind, without `.gz`; None if it has another."""
    path = path.rstrip("/")
    name = path.removesuffix(".gz")
    ending = next((ending for ending in KIND_OF_ENDING if name.endswith(ending)), None)
    return None if name != path and KIND_OF_ENDING.get(ending or "") not in GZIPPED else ending

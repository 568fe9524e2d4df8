"""Calls a SavedModel as C++ servers load it, through the canary's session: no Python of TensorFlow's takes part.

    python cpp_loader.py LIBRARY MODEL CALLS RESULTS

CALLS: JSON, a list of {"feeds": {tensor: {"dtype", "shape", "values"}}, "fetches": [tensor]}; texts are in base64.
RESULTS: where to write the arrays that are fetched, as .npz by number.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from headrace.components.canary.c_api import RefusedError, TfSession


def array(reported: dict[str, Any]) -> np.ndarray:
    """An array to feed; of texts as `bytes`."""
    if reported["dtype"] == "string":
        texts = [base64.b64decode(value) for value in reported["values"]]
        return np.array(texts, object).reshape(reported["shape"])
    return np.array(reported["values"], reported["dtype"]).reshape(reported["shape"])


def main(library: str, folder: str, calls: str, results: str) -> None:
    """Make the calls and write what they return, texts as NumPy's of one length."""
    session = TfSession(library, folder)
    fetched = []
    for call in json.loads(Path(calls).read_text(encoding="utf-8")):
        fetched += session.run({name: array(feed) for name, feed in call["feeds"].items()}, call["fetches"])
    assert "tensorflow" not in sys.modules
    np.savez(results, *(found.astype(np.bytes_) if found.dtype == object else found for found in fetched))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except RefusedError as error:
        sys.exit(str(error))

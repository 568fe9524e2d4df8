"""Batches of tf.Examples as columns, for hypothesis."""

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int64(), st.integers(-3, 3)),
    "float": (pa.float32(), st.floats(width=32)),
    "share": (pa.float32(), st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, float("inf")])),
    "text": (pa.large_binary(), st.sampled_from([b"", b"a", b"b", b"\xff"]) | st.binary(max_size=4)),
    "Zürich": (pa.large_binary(), st.text(max_size=3).map(str.encode)),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """A batch as the decoder of tf.Examples makes it; columns may be missing, or of no known kind."""
    names, rows = draw(st.permutations([*KINDS])), draw(st.integers(0, 6))
    longest = draw(st.sampled_from([1, 1, 3]))
    columns = {}
    for name in names[: draw(st.integers(0, len(names)))]:
        kind, value = KINDS[name]
        filled = st.lists(value, min_size=1 if longest == 1 else 0, max_size=longest)
        values = draw(st.lists(st.none() | filled, min_size=rows, max_size=rows))
        unknown = all(one is None for one in values)
        columns[name] = pa.nulls(rows) if unknown else pa.array(values, pa.large_list(kind))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

"""How often each text of some columns occurs, counted batch by batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Strings = npt.NDArray[np.object_]

_PENDING = 1 << 16
"""Counted values that wait to be added up."""
_EMPTY = pa.table({"values": pa.array([], pa.large_binary()), "counts": pa.array([], pa.int64())})


@dataclass
class Tally:
    """How often each text of a column occurs: `table` has each once, what came since the last `settle` is pending."""

    table: pa.Table = field(default_factory=lambda: _EMPTY)
    pending: list[pa.Table] = field(default_factory=list)

    def add(self, texts: Strings) -> None:
        """Count the texts of a batch; missing ones (empty) and those with line breaks are left out."""
        found = pa.array(texts, pa.large_binary()).value_counts()
        values = found.field("values")
        plain = pc.greater(pc.binary_length(values), 0)
        for line_break in (b"\n", b"\r"):
            plain = pc.and_(plain, pc.less(pc.find_substring(values, line_break), 0))
        self.append(pa.table([values, found.field("counts")], ["values", "counts"]).filter(plain))

    def append(self, table: pa.Table) -> None:
        """Add counts."""
        self.pending.append(table)
        if sum(part.num_rows for part in self.pending) > max(_PENDING, self.table.num_rows):
            self.settle()

    def settle(self) -> pa.Table:
        """Each text once, with its count."""
        if self.pending:
            every = pa.concat_tables([self.table, *self.pending]).group_by("values", use_threads=False)
            self.table = every.aggregate([("counts", "sum")]).rename_columns(_EMPTY.schema.names).combine_chunks()
            self.pending = []
        return self.table


class CountTexts(beam.CombineFn):
    """Batches of strings, an array for each column, to a Tally of each."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self._columns = columns

    def create_accumulator(self) -> list[Tally]:
        """Nothing counted."""
        return [Tally() for _ in range(self._columns)]

    def add_input(self, accumulator: list[Tally], batches: tuple[Strings, ...]) -> list[Tally]:
        """Count a batch."""
        for tally, texts in zip(accumulator, batches, strict=True):
            tally.add(texts)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Tally]]) -> list[Tally]:
        """One of many."""
        total = self.create_accumulator()
        for accumulator in accumulators:
            for tally, other in zip(total, accumulator, strict=True):
                tally.append(other.settle())
        return total

    def compact(self, accumulator: list[Tally]) -> list[Tally]:
        """Leave nothing pending."""
        for tally in accumulator:
            tally.settle()
        return accumulator

    def extract_output(self, accumulator: list[Tally]) -> list[Tally]:
        """The tallies."""
        return self.compact(accumulator)


class TallyCoder:
    """Tallies as an Arrow stream of columns, values and counts."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def encode_cache(self, accumulator: list[Tally]) -> bytes:
        """Tallies to bytes."""
        tables = [tally.settle() for tally in accumulator]
        places = np.repeat(np.arange(len(tables), dtype=np.int32), [table.num_rows for table in tables])
        every = pa.concat_tables([_EMPTY, *tables]).append_column("column", pa.array(places))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, every.schema) as stream:
            stream.write_table(every)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    def decode_cache(self, encoded_accumulator: bytes) -> list[Tally]:
        """Bytes to tallies."""
        every = pa.ipc.open_stream(encoded_accumulator).read_all()
        tables = [every.filter(pc.equal(every["column"], place)) for place in range(self._columns)]
        return [Tally(table.select(_EMPTY.schema.names)) for table in tables]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._columns})"

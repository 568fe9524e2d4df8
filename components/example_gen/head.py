"""What a run would refuse in the first rows of the data, told before it starts, in the words of the run.

head = read_head(data, source, numbers=["fare"])      # raises DataError
head.kinds["fare"]                                    # "string": there is a text in it
why_text(data, head, "fare")                          # where the first one stands
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from headrace.components.example_gen.checks import check_rows
from headrace.components.example_gen.parts import files_of_part
from headrace.components.example_gen.rounding import Roundings
from headrace.components.example_gen.sources.base import Head, Sampled, Source
from headrace.components.example_gen.types import Kind, declared_types
from headrace.configs.data import DataConfig
from headrace.configs.errors import DataError


@dataclass(frozen=True)
class FirstRows:
    """The first rows of some data. kinds: of the columns, in these rows, or as declared; infinite: those of the columns
    that must be numbers that hold an infinite one.
    """

    head: Head
    kinds: Mapping[str, Kind]
    infinite: Collection[str] = ()


def read_head(data: DataConfig, source: Source, numbers: Collection[str], *, alone: bool = True) -> FirstRows | None:
    """The first rows, once it is certain that a run would take them; None for a source that does not give them.

    Raises DataError, as a run would, for a record that cannot be read, a value not of its declared type and a number
    beyond float32.

    Args:
        data: the config, of which a schema and types of columns that do not exist are passed over.
        source: the data, or a span of it.
        numbers: the columns that must be numbers.
        alone: whether the source is all of the data.
    """
    if not isinstance(source, Sampled):
        return None
    head = source.head()
    declared = _declared(data, head.source.columns())
    survey = head.source.survey(head.part, declared)
    if head.whole:
        check_rows(survey)
    kinds = {name: declared.get(name) or kind for name, kind in survey.kinds.items()}
    certain = kinds if head.settled and alone else {*declared, *numbers}
    roundings = Roundings(skip_bad=data.on_bad_record == "skip", file=files_of_part(head.part))
    infinite: list[str] = []
    for batch in islice(head.source.batches(head.part, kinds), 1):
        taken = roundings.checked(batch.select([name for name in batch.schema.names if name in certain]))
        doubles = [name for name in numbers if kinds.get(name) == "float"]
        infinite += [name for name in doubles if pc.any(pc.is_inf(taken.column(name))).as_py()]
    return FirstRows(head, kinds, infinite)


def why_text(data: DataConfig, found: FirstRows, column: str) -> str:
    """Why a column does not hold numbers: the place of the first value that is none; else how to read it as numbers."""
    source: Any = found.head.source
    strict: Source = replace(source, reading=replace(source.reading, skip_bad=False))
    kinds: dict[str, Kind] = {**found.kinds, column: "float"}
    try:
        strict.survey(found.head.part, {**_declared(data, strict.columns()), column: "float"})
        for _ in islice(strict.batches(found.head.part, kinds), 1):
            pass
    except DataError as error:
        return str(error)
    what = "its first values are numbers, but stored as text, beyond int64, or written as codes are, such as 007"
    return f"{what}; set `data.types.{column}: float` to read them as numbers"


def _declared(data: DataConfig, columns: Collection[str]) -> dict[str, Kind]:
    """The types that are declared of columns that there are, by a schema that there is."""
    types = {name: kind for name, kind in data.types.items() if name in columns}
    schema = data.schema_file if data.schema_file and Path(data.schema_file).is_file() else None
    return declared_types(data.model_copy(update={"types": types, "schema_file": schema}), [*columns])

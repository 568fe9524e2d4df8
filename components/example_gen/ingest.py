"""From a source to sharded examples in a directory: look at all of it, plan, write, join, put in place."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

from components.example_gen.delimited.header import nearest
from components.example_gen.encode import encode
from components.example_gen.manifest import Manifest
from components.example_gen.shards import SMALLEST, Plan, plan
from components.example_gen.sources import LIGHT, Source, Spread, Survey, in_place, open_source
from components.example_gen.split import Layout
from components.example_gen.tfrecord import frame, gzip_stream
from components.example_gen.types import Kind, declared_types
from components.example_gen.write import join_pieces, write_part
from configs.data import DataConfig
from configs.errors import DataError

SAMPLE = 4096
"""Rows that are encoded and packed to estimate the size of all."""


@dataclass(frozen=True)
class Ingested:
    """What came out: rows of each split, the kind of each column, and one line about the shards."""

    rows: Mapping[str, int]
    kinds: Mapping[str, Kind]
    plan: str


def ingest(data: DataConfig, manifest: Manifest, output: Path, make_spread: Callable[[Path], Spread]) -> Ingested:
    """Write the examples of the files in `manifest` under `output`: all of them, or after an error nothing."""
    manifest.check_unchanged()
    with _fresh(output) as work:
        spread = make_spread(work)
        source = open_source(data.source, manifest.paths)
        declared = declared_types(data, source.columns())
        _check_split_key(data, source)
        parts = source.parts(spread)
        survey = reduce(Survey.__add__, spread("Survey", partial(source.survey, declared=declared), parts), Survey())
        _check_rows(survey)
        kinds = {**survey.kinds, **declared}
        planned = plan(data.splits, _packed_size(source, parts[0], kinds, survey), data.shards, data.readers)
        layout = Layout(data.splits, planned.shards, data.split_key, data.shuffle_seed)
        write = partial(write_part, source=source, kinds=kinds, layout=layout, work=work)
        rows = sum(spread("Write", write, list(enumerate(parts))), Counter[str]())
        _check_splits(rows, layout)
        told = _join(layout, planned, len(parts), spread, work)
        manifest.check_unchanged()
        print(f"Rows: {dict(rows)}\nTypes: {kinds}\nShards: {told}", flush=True)
        return Ingested({split: rows[split] for split in data.splits}, kinds, told)


def _check_splits(rows: Counter[str], layout: Layout) -> None:
    alike = (
        f"rows with the same value of {layout.split_key!r} (`data.split_key`)"
        if layout.split_key
        else "rows that are equal"
    )
    for split in layout.buckets:
        if not rows[split]:
            raise DataError(
                f"split {split!r} came out empty; rows in all: {rows.total()}",
                hint=f"All {alike} go to the same split, so there may be too few different ones:"
                " use data with more of them, give the split more hash buckets in `data.splits`, or try another"
                " `data.shuffle_seed`",
            )


def _join(layout: Layout, planned: Plan, parts: int, spread: Spread, work: Path) -> str:
    """Join the pieces of every shard; one line about the plan and what came out."""
    shards = list(layout.all_shards())
    join = partial(join_pieces, layout=layout, parts=parts, work=work, output=work / "joined")
    copied = sum(file.stat().st_size for file in work.rglob("*.gz")) if parts > 1 else 0
    sizes = dict(zip(shards, (spread if copied > LIGHT else in_place)("Join", join, shards), strict=True))
    out = []
    for split, count in layout.shards.items():
        own = [size for (name, _), size in sizes.items() if name == split]
        spread_out = f" (within {1 - min(own) / max(own):.0%})" if count > 1 else ""
        out.append(f"{split} {count} x {sum(own) / count / 1e6:.3g} MB{spread_out}")
    return f"{planned.reason}; wrote {', '.join(out)}"


def _packed_size(source: Source, part: object, kinds: Mapping[str, Kind], survey: Survey) -> float:
    """The bytes on disk that all the rows will take, judged from the first ones."""
    rows = sum(survey.rows.values())
    heads = sum(len(name) + 10 for name in kinds)
    if survey.size + rows * heads < 2 * SMALLEST:
        return (survey.size + rows * heads) / 6
    sample = next(source.batches(part, kinds)).slice(0, SAMPLE)
    stream = gzip_stream()
    text = b"".join(frame(encode(sample)).to_pylist())
    return rows * len(stream.compress(text) + stream.flush()) / sample.num_rows


def _check_split_key(data: DataConfig, source: Source) -> None:
    columns = tuple(source.columns())
    if data.split_key is not None and data.split_key not in columns:
        raise DataError(
            f"`data.split_key` is {data.split_key!r}, which is no column", hint=nearest(data.split_key, columns)
        )


def _check_rows(survey: Survey) -> None:
    for file, rows in survey.rows.items():
        if not rows:
            raise DataError("the file has a header but no rows", file=file, hint="Remove it, or fill it")


@contextmanager
def _fresh(output: Path) -> Iterator[Path]:
    """A working directory inside `output`. At the end its folder `joined` is all that `output` holds; after an error
    `output` is empty.
    """
    shutil.rmtree(output, ignore_errors=True)
    work = output / ".writing"
    work.mkdir(parents=True)
    try:
        yield work
        for folder in sorted((work / "joined").iterdir()):
            folder.rename(output / folder.name)
        shutil.rmtree(work)
    except BaseException:
        shutil.rmtree(output)
        output.mkdir()
        raise

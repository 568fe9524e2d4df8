"""Tables of many columns: the work before a run grows with them and no faster."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from headrace.components.sources.jsonl import source as jsonl_module
from headrace.pipeline.api import load_checked
from headrace.pipeline.init.write import write
from headrace.pipeline.preview import rows as rows_module
from headrace.pipeline.verbs.init import init

COLUMNS = 60
KINDS = ("1.{}", "w{}", "2026-01-{:02}", "[{}, 2]", "yes", "3")


class Rows:
    """A table that counts how often its columns are listed, which takes as long as there are columns."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.listed = table, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    @property
    def column_names(self) -> list[str]:
        self.listed += 1
        return list(self._table.column_names)


def test_the_columns_are_listed_once_for_all_and_not_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{place}" for place in range(COLUMNS)]
    with Path("wide.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "tip"])
        writer.writerows(
            [[KINDS[place % 6].format(row % 9 + 1) for place in range(COLUMNS)] + [row % 2] for row in range(80)]
        )
    seen = list[Rows]()
    first_rows = rows_module._first_rows

    def counted(*given: Any) -> Any:
        found = first_rows(*given)
        assert found is not None
        seen.append(Rows(found.rows))
        return replace(found, rows=seen[-1])

    monkeypatch.setattr(rows_module, "_first_rows", counted)
    monkeypatch.setattr(rows_module, "split_notes", lambda *_: [])
    monkeypatch.setattr(rows_module, "split_violations", lambda *_, **__: [])
    kinds = ("numeric", "vocabulary", "datetime", "vector", "boolean", "hashed")
    more: tuple[dict[str, Any], ...] = (
        {},
        {"values": ["w1"]},
        {"part": "day"},
        {"size": 2, "separator": ","},
        {},
        {"hash_buckets": 9},
    )
    features = {name: {"column": kinds[place % 6], **more[place % 6]} for place, name in enumerate(names)}
    config = {
        "pipeline": {"name": "wide"},
        "data": {"source": {"kind": "csv", "path": "wide.csv"}},
        "label": {"key": "tip", "kind": "binary"},
        "features": features,
    }
    load_checked(config, None, (), data=True)
    (rows,) = seen
    assert 0 < rows.listed < COLUMNS / 2


def test_of_json_only_columns_of_0_and_1_are_read_again_for_their_booleans(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        f'{{"a": {row}.5, "b": {row % 3}, "sure": {str(row % 2 == 0).lower()}, "tip": {row % 2}}}' for row in range(80)
    )
    Path("rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    read = list[set[str]]()
    batches = jsonl_module.JsonlFiles.batches

    def noted(self: Any, part: Any, kinds: Any) -> Any:
        read.append({*kinds})
        return batches(self, part, kinds)

    monkeypatch.setattr(jsonl_module.JsonlFiles, "batches", noted)
    draft = write(Path("mine.yaml"), "mine", {"kind": "jsonl", "path": "rows.jsonl"}, ("tip",), lambda _: "")
    assert draft.sample.booleans == {"sure"}
    assert read == [{"a", "b", "sure", "tip"}, {"sure", "tip"}]


def test_init_notes_so_many_columns_and_counts_the_others() -> None:
    names = [f"c{place}" for place in range(COLUMNS)]
    rows = [[*(f"{row} km" for _ in names), row / 7, row % 2] for row in range(80)]
    with Path("wide.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[*names, "fare", "tip"], *rows])
    said = CliRunner().invoke(init, ["wide.csv", "--label", "tip", "-o", "mine.yaml"])
    lines = [line for line in said.stderr.splitlines() if line.startswith("note: ")]
    assert lines[0].startswith("note: c0 is left out: ")
    assert len(lines) == 21
    assert lines[-1].startswith("note: 40 more columns ")
    assert "mine.yaml" in lines[-1]

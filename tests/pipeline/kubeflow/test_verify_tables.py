"""The comparison of the predictions of new data in two runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.components.predict.writers import open_writer
from headrace.pipeline.kubeflow.verify.tables import compare_tables

ROWS = {"id": [1, 2, 3], "name": ["a", None, "c"], "probability": [0.25, 0.5, None]}


def written(folder: Path, ending: str, **changed: list[object]) -> Path:
    folder.mkdir()
    table = pa.table({**ROWS, **changed}).to_batches()[0]
    file = folder / f"predictions{ending}"
    with open_writer(file, file, table.schema) as write:
        write(table)
    return folder


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl.gz", ".tfrecord.gz"])
@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"probability": [0.25, 0.50001, None]}, True),
        ({"probability": [0.25, 0.51, None]}, False),
        ({"probability": [0.25, None, 0.5]}, False),
        ({"name": ["a", None, "d"]}, False),
        ({"id": [1, 2, 4]}, False),
    ],
)
def test_predictions_are_compared_as_numbers_and_all_else_must_be_equal(
    tmp_path: Path, ending: str, changed: dict[str, list[object]], *, same: bool
) -> None:
    found = compare_tables(written(tmp_path / "a", ending), written(tmp_path / "b", ending, **changed), 1e-4)
    assert found.same is same, found.what


def test_a_run_without_predictions_equals_only_another_without(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    some = written(tmp_path / "some", ".csv")
    assert compare_tables(tmp_path / "none", tmp_path / "none", 0).same
    assert not compare_tables(some, tmp_path / "none", 0).same

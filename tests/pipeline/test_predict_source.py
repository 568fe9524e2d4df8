"""The source that `headrace predict` takes a path for if there is no config."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from headrace.pipeline.predict.scoring import source_of


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (["a.png"], "images"),
        (["a.png", "labels.csv"], "images"),  # of which reading says that it is no image
        (["part-0.parquet"], "parquet"),
        (["part-0.parquet", "a.png"], "parquet"),
    ],
)
def test_a_folder_of_parquet_files_is_read_as_that_whatever_else_is_in_it(
    tmp_path: Path, files: list[str], kind: str
) -> None:
    for name in files:
        if name.endswith(".png"):
            Image.new("RGB", (2, 2)).save(tmp_path / name)
        elif name.endswith(".parquet"):
            pq.write_table(pa.table({"fare": [1.5]}), tmp_path / name)
        else:
            (tmp_path / name).write_text("file,label\na.png,1\n", encoding="utf-8")
    assert source_of(str(tmp_path), None).kind == kind

"""docs/images.md and docs/texts.md, followed in an empty folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from command import headrace
from pages import Followed, follow
from sklearn.datasets import load_digits

import headrace as api

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def images(new_folder: Callable[[str], Path]) -> Followed:
    return follow("images.md", new_folder("images"))


@pytest.fixture(scope="module")
def texts(new_folder: Callable[[str], Path]) -> Followed:
    return follow("texts.md", new_folder("texts"))


def test_folders_of_images_are_classes(images: Followed) -> None:
    (checked,) = images.of("validate")
    assert "classes: [digit 0, digit 1, digit 2, digit 3, digit 4" in checked.out
    assert checked.err == ""  # nothing of TensorFlow, which decodes the images
    assert images.of("run")[0].ending("blessing").startswith("blessed: accuracy is ")
    rows = images.rows("scored.csv")
    assert len(rows) == 97
    digits = load_digits().target
    assert [row["file"] for row in rows] == sorted(f"{number}.png" for number in range(1700, 1797))
    assert sum(row["prediction"] == f"digit {digits[int(row['file'][:-4])]}" for row in rows) >= 87
    assert [*rows[0]][-10:] == [f"probability_digit {digit}" for digit in range(10)]
    assert "label" not in rows[0]


def test_a_draft_has_the_classes_and_the_size_of_the_images(images: Followed) -> None:
    assert "1 column as 1 feature, 3 left out" in images.of("init")[0].out
    done = headrace(images.folder, "validate", "draft.yaml")
    assert done.code == 0, done.err
    drafted = yaml.safe_load((images.folder / "draft.yaml").read_text())
    assert drafted["features"] == {"image": {"column": "image", "height": 8, "width": 8, "channels": 1}}
    assert drafted["model"] == {"kind": "image", "filters": [32, 64], "pooling": "none"}
    assert drafted["label"]["classes"] == [f"digit {digit}" for digit in range(10)]


def test_a_model_alone_predicts_a_folder_of_images(images: Followed) -> None:
    model = images.of("run")[0].uri("Trainer", "model")
    done = headrace(images.folder, "predict", str(model), "--input", "pictures/new", "--output", "alone.csv")
    assert done.code == 0, done.err
    assert images.rows("alone.csv") == images.rows("scored.csv")
    table = api.predict(model, images.folder / "pictures" / "new", columns=["file"])
    assert isinstance(table, pa.Table)
    assert table["prediction"].to_pylist() == [row["prediction"] for row in images.rows("scored.csv")]


def test_class_folders_are_read_as_in_training(images: Followed) -> None:
    given = images.folder / "sorted" / "digit 3"
    given.mkdir(parents=True)
    shutil.copy(images.folder / "pictures" / "new" / "1700.png", given)
    done = headrace(images.folder, "predict", "pictures.yaml", "--input", "sorted", "--output", "sorted.csv")
    assert done.code == 0, done.err
    assert [(row["label"], "file" in row) for row in images.rows("sorted.csv")] == [("digit 3", False)]


def test_the_words_of_a_text_tell_its_package(texts: Followed) -> None:
    assert "package is multiclass; 7 classes" in texts.of("init")[0].out
    verdict = texts.of("run")[0].ending("blessing")
    assert verdict.startswith("blessed: accuracy is ")
    assert float(verdict.split()[3].rstrip(";")) > 0.55
    rows = texts.rows("scored.csv")
    assert {row["package"] for row in rows} == {row["prediction"] for row in rows}
    assert sum(row["prediction"] == row["package"] for row in rows) > 0.7 * len(rows)

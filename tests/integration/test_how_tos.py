"""docs/images.md and docs/texts.md, followed in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import Followed, follow

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
    assert sum(row["prediction"] == row["label"] for row in rows) >= 87
    assert [*rows[0]][-10:] == [f"probability_digit {digit}" for digit in range(10)]


def test_the_words_of_a_text_tell_its_package(texts: Followed) -> None:
    assert "package is multiclass; 7 classes" in texts.of("init")[0].out
    verdict = texts.of("run")[0].ending("blessing")
    assert verdict.startswith("blessed: accuracy is ")
    assert float(verdict.split()[3].rstrip(";")) > 0.55
    rows = texts.rows("scored.csv")
    assert {row["package"] for row in rows} == {row["prediction"] for row in rows}
    assert sum(row["prediction"] == row["package"] for row in rows) > 0.7 * len(rows)

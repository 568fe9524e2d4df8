"""Files that one process makes and all others copy; and what the tests leave."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from made_once import copied


def test_files_are_made_once_and_each_gets_a_copy(tmp_path_factory: pytest.TempPathFactory) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("as made")

    with ThreadPoolExecutor(4) as pool:
        folders = [*pool.map(partial(copied, tmp_path_factory, "copies"), [make] * 4)]
    assert len(made) == 1
    assert len({*folders}) == 4
    (folders[0] / "inner" / "file").write_text("edited")
    assert [(folder / "inner" / "file").read_text() for folder in folders[1:]] == ["as made"] * 3
    assert (copied(tmp_path_factory, "copies", make) / "inner" / "file").read_text() == "as made"


def test_what_a_failure_left_is_made_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        copied(tmp_path_factory, "failures", fail)
    folder = copied(tmp_path_factory, "failures", lambda folder: (folder / "whole").touch())
    assert [file.name for file in folder.iterdir()] == ["whole"]


EARLIER: list[Path] = []
"""Folders of tests that passed."""


@pytest.mark.parametrize("_case", range(2))
def test_what_a_test_that_passed_has_left_is_gone_and_its_folder_is_no_other_tests(tmp_path: Path, _case: int) -> None:
    assert tmp_path not in EARLIER
    assert [file for folder in EARLIER for file in folder.iterdir()] == []
    (tmp_path / "left").touch()
    EARLIER.append(tmp_path)

"""The order in which processes get files."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from longest import LONGEST, longest_first

TESTS = Path(__file__).parents[1]


def test_each_of_the_longest_files_is_there() -> None:
    assert {*LONGEST} <= {file.stem for file in TESTS.rglob("test_*.py")}


def test_long_files_come_first_and_the_tests_of_each_stay_together_in_their_order() -> None:
    given = [("a/test_a.py", 1), ("b/test_tuner.py", 2), ("b/test_tuner.py", 3), ("b/test_verify.py", 4), ("c/c.py", 5)]
    items: list[Any] = [SimpleNamespace(path=Path(file), number=number) for file, number in given]
    longest_first(items)
    assert [item.number for item in items] == [4, 2, 3, 1, 5]

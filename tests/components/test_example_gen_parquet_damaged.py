"""Reading Parquet: files that are not whole, and how little of a whole one is read."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_files import read, scan_of, write

from headrace.common.errors import DataError
from headrace.components.sources import ReadOptions


def test_only_the_chosen_columns_are_read_from_disk(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"a": [1, 2], "b": ["x" * 999, "y" * 999]}, compression="none")
    damaged = path.read_bytes().replace(b"x" * 999, b"\xff" * 999)
    path.write_bytes(damaged)
    assert read(path, ReadOptions(("a",)))[1] == [{"a": [1]}, {"a": [2]}]
    with pytest.raises(DataError):
        read(path)


def test_the_scan_needs_nothing_but_the_footer(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", {"a": list(range(1000))}, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(4000) + whole[4004:])
    assert scan_of(path).rows == {str(path): 1000}
    with pytest.raises(DataError, match="damaged"):
        read(path)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda _: b"", "the file is empty"),
        (lambda whole: whole[: len(whole) // 2], "truncated"),
        (lambda _: b"a,b\n1,2\n", "not a Parquet file"),
        (
            lambda whole: whole[: -8 - (size := int.from_bytes(whole[-8:-4], "little"))] + bytes(size) + whole[-8:],
            "damaged",
        ),
        (lambda whole: whole[:-8] + b"\xff\xff\xff\x7fPAR1", "damaged"),
        (lambda whole: b"PARE" + whole[4:-4] + b"PARE", "encrypted"),
        (lambda whole: whole[:4] + whole[5:], "damaged"),
        (lambda _: b"PAR1", "truncated"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(tmp_path: Path, damage: object, what: str) -> None:
    path = write(tmp_path / "f.parquet", {"a": list(range(100))})
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(DataError, match=what) as caught:
        read(path)
    assert caught.value.file == str(path)


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_gives_an_error_or_the_footers_number_of_rows(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = write(
        folder / "f.parquet", {"a": list(range(300)), "s": ["ab", None, "c"] * 100, "l": [[1, 2], [], [3]] * 100}
    )
    content = bytearray(path.read_bytes())
    content[place % len(content)] = byte
    path.write_bytes(content)
    try:
        _, rows = read(path)
    except DataError as error:
        assert error.file == str(path)  # noqa: PT017 - either this, or the rows
    else:
        assert len(rows) == scan_of(path).rows[str(path)]


def test_a_folder_without_files_and_a_path_without_anything_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no `\*\.parquet`"):
        read(tmp_path / "empty")
    with pytest.raises(DataError, match="no file matches"):
        read(tmp_path / "none")

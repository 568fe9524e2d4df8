"""Every byte of a file changed in turn, for what reads it and must notice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.common.errors import RunError


def assert_each_changed_byte_is_detected(path: Path, read: Callable[[Path], object], way_out: str) -> None:
    """`read` refuses the file with the lowest bit of any byte flipped, and names the file and `way_out`."""
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(RunError) as error:
            read(path)
        assert str(error.value).startswith(f"{path}: "), place
        assert way_out in str(error.value), place
    path.write_bytes(whole)

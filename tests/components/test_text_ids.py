"""Numbers of known texts, against a Python dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.components.transform import text_ids
from headrace.components.transform.text_ids import TextIds

TEXTS = st.lists(st.one_of(st.binary(max_size=3), st.binary(max_size=40)))


def by_dictionary(known: list[bytes], texts: list[bytes]) -> list[int]:
    numbers = {text: number for number, text in enumerate(known)}
    return [numbers.get(text, len(known)) for text in texts]


@given(known=TEXTS, others=TEXTS)
def test_texts_have_the_numbers_of_a_dictionary(known: list[bytes], others: list[bytes]) -> None:
    texts = [*others, *reversed(known)]
    for kind in (pa.binary(), pa.large_binary()):
        assert TextIds(known).look_up(pa.array(texts, kind)).tolist() == by_dictionary(known, texts)


def test_many_texts_have_their_numbers_and_others_none() -> None:
    texts = [f"{number:x}".encode() for number in range(20_000)]
    found = TextIds(texts[::2]).look_up(pa.array(texts, pa.binary()).slice(1))
    assert found.tolist() == by_dictionary(texts[::2], texts[1:])


def test_texts_with_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_byte(column: pa.BinaryArray) -> np.ndarray:
        return np.array([text.as_py()[0] for text in column], np.uint64) << np.uint64(56)

    monkeypatch.setattr(text_ids, "text_hash", first_byte)
    texts = [b"ab", b"ac", b"bb", b"bc", b"cc"]
    for known in (texts[:2], texts[1:3], texts[::2]):
        assert TextIds(known).look_up(pa.array(texts)).tolist() == by_dictionary(known, texts)

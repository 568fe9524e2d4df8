"""Where records end, against Python's csv module; and cutting files anywhere, against reading them in one go."""

import csv
import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.sources.csv import blocks as blocks_module
from headrace.components.sources.csv.blocks import Segment, blocks
from headrace.components.sources.csv.quotes import Dialect, ends_in_quotes, quote_runs, record_ends
from headrace.components.sources.csv.source import FileRange, join_ranges, scan_range

COMMA = Dialect(",", '"')
TEXT = st.text('a,"\n', max_size=40)


def whole_records(text: str) -> list[str]:
    """The records of a text by Python's csv reader: the lines that it takes for each."""
    lines = io.StringIO(text, newline="").readlines()
    reader = csv.reader(iter(lines))
    taken, records = 0, []
    for _ in reader:
        records.append("".join(lines[taken : reader.line_num]))
        taken = reader.line_num
    return records


def strict(text: str) -> bool:
    """Whether each closing quote ends its field, by Python's csv reader."""
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        return "unexpected end" in str(error)
    return True


@settings(max_examples=500)
@given(TEXT)
def test_a_quote_out_of_place_is_found_where_the_csv_module_finds_one(text: str) -> None:
    data = text.encode()
    assert (quote_runs(data, COMMA).bad_close(data, COMMA) is None) == strict(text)


@settings(max_examples=500)
@given(TEXT)
def test_records_end_where_the_csv_module_ends_them(text: str) -> None:
    ends = record_ends(text.encode(), COMMA).tolist()
    rest = text[ends[-1] :] if ends else text
    assert whole_records(text) == [text[a:b] for a, b in zip([0, *ends], ends, strict=False)] + ([rest] if rest else [])


@settings(max_examples=300)
@given(TEXT, st.integers(0, 40))
def test_the_state_continues_across_any_cut_that_spares_runs_of_quotes(text: str, cut: int) -> None:
    cut = min(cut, len(text))
    while 0 < cut < len(text) and text[cut - 1] == '"':
        cut += 1
    left, right = text[:cut].encode(), text[cut:].encode()
    inside = ends_in_quotes(left, COMMA)
    before = left[-1] if left else 10
    assert ends_in_quotes(right, COMMA, inside=inside, before=before) == ends_in_quotes(text.encode(), COMMA)
    both = record_ends(left, COMMA).tolist() + [
        cut + end for end in record_ends(right, COMMA, inside=inside, before=before).tolist()
    ]
    assert both == record_ends(text.encode(), COMMA).tolist()


@settings(max_examples=300, deadline=None)
@given(TEXT, st.lists(st.integers(1, 39), max_size=4), st.integers(1, 7), st.sampled_from(["head\n", "", "\ufeff"]))
def test_segments_of_a_file_cut_anywhere_hold_its_records_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, text: str, cuts: list[int], chunk: int, head: str
) -> None:
    path = tmp_path_factory.mktemp("cut") / "f.csv"
    start, data = len(head.encode()), (head + text).encode()
    path.write_bytes(data)
    places = [start, *sorted({start + cut for cut in cuts if start + cut < len(data)}), len(data)]
    pieces = [FileRange(str(path), *cut, first=not number) for number, cut in enumerate(pairwise(places))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "CHUNK", chunk)
        seen = [scan_range(piece, COMMA) for piece in pieces]
        if ends_in_quotes(data[start:], COMMA):
            with pytest.raises(DataError, match="never closes" if strict(text) else "is followed by"):
                join_ranges(pieces, seen, COMMA)
            return
        found = join_ranges(pieces, seen, COMMA)
        if not strict(text):
            with pytest.raises(DataError, match="is followed by"):
                [list(blocks(segment, COMMA)) for segment in found]
            return
        texts = ["".join(block.text.decode() for block in blocks(segment, COMMA)) for segment in found]
    assert "".join(texts) == text
    ends = {start, len(data), *(start + end for end in record_ends(data[start:], COMMA).tolist())}
    assert all(segment.start in ends and segment.end in ends for segment in found)


def test_an_open_quote_is_reported_with_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('a,b\n1,"x\ny"\n2,z\n3,"never\nclosed\n')
    with pytest.raises(DataError, match="never closes") as caught:
        list(blocks(Segment(str(path), 4), COMMA))
    assert caught.value.line == 5


def test_single_quotes_at_field_starts_do_not_merge_rows(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("id,kind,x\n" + "".join(f'{row},"a,0\n' for row in range(50)))
    with pytest.raises(DataError, match="on line 3, is followed by 'a,0'") as caught:
        list(blocks(Segment(str(path), 10), COMMA))
    assert caught.value.line == 2


def test_quotes_within_an_unquoted_field_are_its_text(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('a,b\n5" pipe,6"\nx""y,"z"\n')
    assert [block.text for block in blocks(Segment(str(path), 4), COMMA)] == [b'5" pipe,6"\nx""y,"z"\n']


def test_a_record_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks_module, "CHUNK", 64)
    monkeypatch.setattr(blocks_module, "LARGEST_RECORD", 1000)
    path = tmp_path / "f.csv"
    path.write_text("a\n1\n" + "x" * 5000 + "\n")
    with pytest.raises(DataError, match="the record that starts here") as caught:
        list(blocks(Segment(str(path), 2), COMMA))
    assert caught.value.line == 3

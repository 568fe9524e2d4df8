"""Counted texts against Python's Counter, however they are cut into batches, merged and kept."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.trainer.columns.analyzers.numbers import CombineStatistics, Moments, QuantileBoundaries, StatisticsCoder
from headrace.trainer.columns.analyzers.texts import CountTexts, TextCounts, TextCountsCoder

texts = st.sampled_from([b"", b"a", b"b\n", b"\rc", b"\xff\x00", "東京".encode(), b"a"]) | st.binary(max_size=3)
batches = st.lists(st.lists(st.tuples(texts, texts), min_size=1, max_size=20), max_size=6)


def counted(counts: TextCounts) -> dict[bytes, int]:
    table = counts.aggregate()
    return dict(zip(table["values"].to_pylist(), table["counts"].to_pylist(), strict=True))


@given(batches, st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_tallies_are_those_of_a_counter(rows: list[list[tuple[bytes, bytes]]], cut: int) -> None:
    count, coder = CountTexts(2), TextCountsCoder(2)
    parts = []
    for part in (rows[:cut], rows[cut:]):
        total = count.create_accumulator()
        for batch in part:
            total = count.add_input(total, tuple(np.array(batch, object).T))
        parts.append(coder.decode_cache(coder.encode_cache(total)))
    merged = count.extract_output(count.merge_accumulators(parts))
    for place in range(2):
        every = (row[place] for batch in rows for row in batch)
        plain = Counter(text for text in every if text and b"\n" not in text and b"\r" not in text)
        assert counted(merged[place]) == plain


def test_kept_statistics_answer_as_before() -> None:
    combine = CombineStatistics(("a", "b"), (Moments("a"), QuantileBoundaries("b", 5)))
    coder = StatisticsCoder(combine)
    rng = np.random.default_rng(1)
    parts = [combine.add_input(combine.create_accumulator(), (rng.normal(size=(500, 2)),)) for _ in range(4)]
    kept = [coder.decode_cache(coder.encode_cache(combine.compact(part))) for part in parts]
    ours, theirs = (combine.extract_output(combine.merge_accumulators(each)) for each in (kept, parts))
    np.testing.assert_array_equal(ours, theirs)


def test_coders_text_describes_what_the_bytes_mean() -> None:
    """It is part of the key under which TFT keeps them, so it must not depend on the process."""
    moments, quantiles = (
        CombineStatistics(("a",), (statistic,)) for statistic in (Moments("a"), QuantileBoundaries("a", 5))
    )
    assert repr(StatisticsCoder(moments)) == "StatisticsCoder(('a',), [])"
    assert repr(StatisticsCoder(quantiles)) == "StatisticsCoder(('a',), [0])"
    assert repr(TextCountsCoder(2)) == "TextCountsCoder(2)"

"""Requests that come at the same time are answered by one call, and each gets what belongs to its rows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.components.predict.call_size import BATCH_SIZE
from headrace.pipeline.serve.batching import BatchedFunction

BAD = 99


class Squares:
    """Squares numbers, but refuses a call with BAD. The first call waits until `start` is set."""

    def __init__(self) -> None:
        self.calls, self.entered, self.start = list[int](), threading.Event(), threading.Event()

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        self.calls.append(rows.num_rows)
        self.entered.set()
        self.start.wait(60)
        if BAD in (values := rows.column(0).to_pylist()):
            raise ValueError(f"row {values.index(BAD) + 1} is bad")
        return pa.RecordBatch.from_arrays([pc.multiply(rows.column(0), rows.column(0))], ["square"])


def asked(values: list[int], arrow: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, arrow)], ["x"])


def answers(squares: Squares, requests: list[pa.RecordBatch]) -> list[list[int] | str]:
    """What each request gets, if all but the first come while that is being answered."""
    predict = BatchedFunction(squares)

    def ask(rows: pa.RecordBatch) -> list[int] | str:
        try:
            return [int(value) for value in predict(rows).column(0).to_pylist()]
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(len(requests)) as threads:
        waiting = [threads.submit(ask, requests[0])]
        assert squares.entered.wait(60)
        waiting += [threads.submit(ask, rows) for rows in requests[1:]]
        while len(predict._queue) < len(requests) - 1:
            threading.Event().wait(0.001)
        squares.start.set()
        return [one.result(60) for one in waiting]


ROWS = st.lists(st.integers(-9, 9) | st.just(BAD), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(ROWS, st.sampled_from([pa.int64(), pa.float64()])), min_size=1, max_size=8))
def test_each_request_gets_its_own_rows_or_its_own_error(requests: list[tuple[list[int], pa.DataType]]) -> None:
    found = answers(Squares(), [asked(*one) for one in requests])
    for (values, _), answer in zip(requests, found, strict=True):
        if BAD in values:
            assert answer == f"row {values.index(BAD) + 1} is bad"
        else:
            assert answer == [value * value for value in values]


def test_what_waits_is_answered_by_one_call() -> None:
    squares = Squares()
    assert answers(squares, [asked([number], pa.int64()) for number in range(8)]) == [[n * n] for n in range(8)]
    assert squares.calls == [1, 7]


@pytest.mark.parametrize(("rows", "calls"), [(BATCH_SIZE // 2, [1, BATCH_SIZE, BATCH_SIZE // 2]), (BATCH_SIZE + 1, 4)])
def test_a_call_has_no_more_rows_than_the_limit_unless_a_request_has(rows: int, calls: list[int] | int) -> None:
    squares = Squares()
    answers(squares, [asked([1], pa.int64()), *[asked([2] * rows, pa.int64())] * 3])
    assert squares.calls == calls if isinstance(calls, list) else len(squares.calls) == calls

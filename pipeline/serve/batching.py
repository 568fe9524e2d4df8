"""Rows of requests that come at the same time, predicted by one call of the model.

predict = BatchedFunction(call)
predict(rows)  # from any thread: the predictions for these rows

Nothing waits for further rows: a request that finds the model idle calls it at once. Those that come meanwhile queue,
and the first of them calls it for all. A call for one row takes about as long as one for fifty.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.common.record_batches import concatenated
from headrace.components.predict.call_size import BATCH_SIZE


@dataclass
class _Request:
    """The rows of a request, and what became of them."""

    rows: pa.RecordBatch
    found: pa.RecordBatch | None = None
    error: Exception | None = None

    @property
    def is_answered(self) -> bool:
        return self.found is not None or self.error is not None


class BatchedFunction:
    """A function of rows that is called for several threads at once.

    call: returns a row for each row that it is given, whatever the others are. If it raises for the rows of several
    requests, each is given to it alone, so only the request with the bad row fails.
    """

    def __init__(self, call: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self._call = call
        self._queue, self._busy = deque[_Request](), threading.Lock()

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What the function returns for these rows. Raises what it raises for them."""
        request = _Request(rows)
        self._queue.append(request)
        with self._busy:
            while not request.is_answered:
                self._answer(self._next())
        if request.error is not None:
            raise request.error
        return request.found

    def _next(self) -> list[_Request]:
        """Remove from the queue its first request, and those after it with the same columns, up to BATCH_SIZE rows."""
        taken = [self._queue.popleft()]
        rows, schema = taken[0].rows.num_rows, taken[0].rows.schema
        while self._queue:
            following = self._queue[0].rows
            rows += following.num_rows
            if rows > BATCH_SIZE or following.schema != schema:
                break
            taken.append(self._queue.popleft())
        return taken

    def _answer(self, requests: Sequence[_Request]) -> None:
        try:
            found = self._call(concatenated([one.rows for one in requests]))
        except Exception as error:
            if len(requests) == 1:
                requests[0].error = error
                return
            for one in requests:
                self._answer([one])
            return
        start = 0
        for one in requests:
            one.found = found.slice(start, one.rows.num_rows)
            start += one.rows.num_rows

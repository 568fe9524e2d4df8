"""Elements of a dataset from a tf.data service, with an end to the waiting for each.

When a worker does not come back, or the whole service goes, TensorFlow's client waits for ever. So a thread waits, and
is left behind where nothing has come for too long.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from headrace.trainer.input.reading import untuned
from headrace.trainer.private_api import CancellationManager

AHEAD = 8
"""Elements that may wait to be taken."""
TICK = 1.0
"""Seconds after which whoever reads gets the word, if only to stop reading."""
_END = object()


class StalledError(Exception):
    """Nothing came for too long, or the service failed."""


def arrivals(
    dataset: tf.data.Dataset, timeout: float, wait_on: Callable[[int], bool] = lambda _: False
) -> Iterator[Any]:
    """The elements, in eager tensors, and None whenever nothing has come for TICK seconds. Raises StalledError when
    nothing has come for `timeout` seconds, or on an error.

    wait_on: from how many times in a row nothing has come for so long, to whether to wait once more.
    """
    arrived: queue.Queue[Any] = queue.Queue(AHEAD)
    stop = CancellationManager()
    given_up = threading.Event()
    thread = threading.Thread(target=_take, args=(dataset, arrived, stop, given_up), daemon=True)
    thread.start()
    try:
        for element in _waiting(arrived, timeout, wait_on):
            if element is _END:
                return
            if isinstance(element, Exception):
                raise StalledError(f"{type(element).__name__}: {str(element).splitlines()[0]}") from element
            yield element
    finally:
        given_up.set()
        stop.start_cancel()


def _waiting(arrived: queue.Queue[Any], timeout: float, wait_on: Callable[[int], bool]) -> Iterator[Any]:
    ticks = max(1, math.ceil(timeout / TICK))
    vain = 0
    while True:
        try:
            element = arrived.get(timeout=timeout / ticks)
        except queue.Empty:
            vain += 1
            if vain % ticks == 0 and not wait_on(vain // ticks):
                raise StalledError(f"no batch for {vain // ticks * timeout:g} s") from None
            yield None
        else:
            vain = 0
            yield element


def _take(dataset: tf.data.Dataset, arrived: queue.Queue[Any], stop: CancellationManager, given_up: Any) -> None:
    """Put the elements into the queue, then _END or the error."""
    try:
        with tf.device("CPU"):
            iterator = iter(untuned(dataset))
            step = tf.function(iterator.get_next_as_optional, autograph=False).get_concrete_function()
        step = stop.get_cancelable_function(step)
        while not given_up.is_set():
            element = step()
            if not bool(element.has_value()):
                return _put(_END, arrived, given_up)
            _put(element.get_value(), arrived, given_up)
    except Exception as error:
        _put(error, arrived, given_up)
    return None


def _put(element: Any, arrived: queue.Queue[Any], given_up: Any) -> None:
    """Wait for room, but not for one who has gone."""
    while not given_up.is_set():
        try:
            return arrived.put(element, timeout=0.5)
        except queue.Full:
            continue
    return None

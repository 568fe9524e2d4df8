"""Messages between the canary and the process that it asks."""

from __future__ import annotations

import io
import math
import select
import subprocess
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from headrace.components.canary.inputs import texts
from headrace.components.canary.messages import TimedPipe, read, write

arrays = st.sampled_from(["<f4", "<i8", "|b1", "<f2"]).flatmap(
    lambda type_: numpy_strategies.arrays(type_, numpy_strategies.array_shapes(min_dims=0, min_side=0))
)
texts_of_any_shape = st.lists(st.binary(max_size=9), max_size=4).map(lambda words: texts(words).reshape(-1, 1))


@given(st.lists(st.one_of(arrays, texts_of_any_shape), max_size=4), st.dictionaries(st.text(), st.integers()))
def test_messages_arrive_as_they_were_sent(sent: list[np.ndarray], header: dict[str, int]) -> None:
    header.pop("arrays", None)
    pipe = io.BytesIO()
    write(pipe, dict(header), sent)
    whole = pipe.getvalue()
    message = read(io.BytesIO(whole))
    assert message is not None
    assert message[0] == header
    for one, other in zip(sent, message[1], strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes() if one.dtype != object else one.tolist() == other.tolist()
    assert read(io.BytesIO(whole[:-1])) is None


def test_messages_go_through_pipes_until_the_deadline() -> None:
    small, large = np.arange(3), np.zeros(1 << 20)
    with subprocess.Popen(["cat"], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        there, back = TimedPipe(process.stdin, select.POLLOUT), TimedPipe(process.stdout, select.POLLIN)
        write(there, {"of": 1}, [small])
        message = read(back)
        assert message is not None
        assert (message[0], message[1][0].tolist()) == ({"of": 1}, [0, 1, 2])
        there.deadline = back.deadline = time.monotonic() + 0.2
        with pytest.raises(TimeoutError):
            read(back)
        there.deadline = time.monotonic() + 0.2
        with pytest.raises(TimeoutError):
            write(there, {}, [large])  # which nobody reads at the other end
        process.kill()
        process.wait()
        there.deadline = math.inf
        with pytest.raises(BrokenPipeError):
            write(there, {}, [small])

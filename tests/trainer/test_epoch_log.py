"""The lines of a training's log."""

from __future__ import annotations

import pytest

from headrace.trainer.callbacks.epoch_log import EpochLog


def test_long_epoch_logs_step_rate_and_time_left(log: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    epochs = EpochLog(3, lambda epochs: 600 * epochs, 1000, lambda: now[0])
    epochs.on_epoch_begin(1)
    for step in range(100, 1100, 100):
        now[0] += 4
        epochs.on_train_batch_end(step - 1, {"loss": 0.5})
    epochs.on_epoch_end(1, {"loss": 0.25})
    assert log.messages == [
        "epoch 2/3, step 300 of 1,000: loss 0.5; 25 steps/s, 68 s left",
        "epoch 2/3, step 600 of 1,000: loss 0.5; 25 steps/s, 56 s left",
        "epoch 2/3, step 900 of 1,000: loss 0.5; 25 steps/s, 44 s left",
        "epoch 2/3: loss 0.25; 40.0 s, 30 examples/s",
    ]


def test_time_left_is_not_logged_if_the_length_of_an_epoch_is_unknown(log: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    epochs = EpochLog(3, lambda epochs: 600 * epochs, None, lambda: now[0])
    epochs.on_epoch_begin(0)
    now[0] = 20
    epochs.on_train_batch_end(9, {"loss": 0.5})
    assert log.messages == ["epoch 1/3, step 10: loss 0.5; 0.5 steps/s"]

"""What goes wrong while examples are read, told by the file that it is in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.trainer.input.packing import Packing

_NO_EXAMPLE = (tf.errors.InvalidArgumentError, UnicodeDecodeError)  # the second where its words quote the bytes
READ_ERRORS = (tf.errors.DataLossError, tf.errors.NotFoundError, *_NO_EXAMPLE)
"""What a damaged, foreign or vanished file raises, in a dataset and in the training step that reads from it."""


@contextmanager
def told_by_file(files: Sequence[str], packing: Packing) -> Iterator[None]:
    """Raise TrainingError, with the name of the file, for what the examples in these files are to blame for."""
    try:
        yield
    except READ_ERRORS as error:
        for file in files:
            if found := _damage(file, packing):
                raise TrainingError(found) from error
        raise


def _damage(file: str, packing: Packing) -> str | None:
    """What is wrong with the file, and what to do; None if it can be read to its end."""
    records = 0
    try:
        for record in tf.data.TFRecordDataset(file, "GZIP" if file.endswith(".gz") else ""):
            records += 1
            packing.parse(record[tf.newaxis])
    except tf.errors.NotFoundError:
        return f"{file} is gone: something removed it during the training. {_AGAIN}"
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError):
        return f"{file} is damaged: {records:,} records are sound, what follows is not. {_AGAIN}"
    except UnicodeDecodeError:
        return f"{file}, record {records:,} is no tf.Example. {_AGAIN}"
    except tf.errors.InvalidArgumentError as error:
        return f"{file}, record {records:,}: {error.message.split('[[')[0].strip()}. {_AGAIN}"
    return None


_AGAIN = "`headrace run --fresh` makes the transformed examples anew"

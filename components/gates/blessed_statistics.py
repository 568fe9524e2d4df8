"""The statistics of the data that the blessed model was trained on, which gates compare with. This module imports no
TFX.
"""

from __future__ import annotations

from pathlib import Path

from headrace.common.digests import digest_path
from headrace.components.stored_models.blessed_record import Registry

SPLIT = "train"
FILE_NAME = "FeatureStats.pb"
"""TFX's name for the file of a split."""


def blessed_statistics(registry: str) -> Path | None:
    """The folder of the statistics of the data of the model that is blessed now; None if there is none.

    registry: path of `blessed.json`; "" if nothing is compared with a blessed model's data. Raises RunError if it is
    damaged.
    """
    newest = Registry.read(Path(registry)).newest if registry else None
    folder = Path(newest.statistics) if newest is not None and newest.statistics else None
    return folder if folder is not None and statistics_file(str(folder)).exists() else None


def statistics_file(uri: str) -> Path:
    """The file of the train split in an ExampleStatistics artifact."""
    return Path(uri, f"Split-{SPLIT}", FILE_NAME)


def state_of_blessed(registry: str) -> str:
    """A digest of all that DataVerdict may read besides its inputs. Raises RunError and OSError."""
    folder = blessed_statistics(registry)
    return "" if folder is None else digest_path(folder)

"""Where the results of runs on Kubeflow are, for commands that read them: the object store, or a mounted volume.

store = open_results(config)
store.text(f"{home_uri(config)}/blessed.json")
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.pod.paths import SCHEMES
from headrace.pipeline.kubeflow.store import Store, open_store
from headrace.pipeline.kubeflow.store_settings import store_options


def home_uri(config: PipelineConfig, root: str | None = None) -> str:
    """The URI of the pipeline's folder, which holds the outputs of its runs. root: None for that of the config."""
    return f"{(root or config.kubeflow.pipeline_root).rstrip('/')}/{config.pipeline.name}"


def open_results(config: PipelineConfig) -> Store:
    """Where the results of runs and the record of sweeps are: the object store, or the volume that is mounted here.

    Raises RunError if the volume is not.
    """
    volume = config.kubeflow.volume
    if config.kubeflow.storage != "reference" or volume is None:
        return open_store(store_options(config.kubeflow))
    if not Path(volume.path).is_dir():
        raise RunError(
            f"kubeflow.volume.path: {volume.path} is not mounted here, and with `storage: reference` the results of"
            f" runs are on that volume ({volume.claim}); mount it at that path, as the pods of runs do"
        )
    return volume_store(volume.path, config.kubeflow.pipeline_root)


@contextlib.contextmanager
def results_of(config: PipelineConfig) -> Iterator[Store]:
    """The results of runs on Kubeflow. A failure of the object store becomes a RunError."""
    with naming_store(home_uri(config)):
        yield open_results(config)


@contextlib.contextmanager
def naming_store(uri: str) -> Iterator[None]:
    """Turn a failure of the object store into a RunError that names the URI."""
    try:
        yield
    except RunError:
        raise
    except OSError as error:
        raise RunError(f"{uri}: the object store failed: {error}") from None


def volume_store(mount: str, uri: str) -> Store:
    """What is on a volume in place of the object store of a URI."""
    return _VolumeStore(mount, SCHEMES[f"{uri.partition('://')[0]}://"].strip("/"))


class _VolumeStore(Store):
    """The folder on a shared volume that stands for the object store. folder: that of the scheme, such as `minio`."""

    def __init__(self, mount: str, folder: str) -> None:
        super().__init__({}, mount)
        self._scheme_folder = folder

    def _at(self, uri: str) -> tuple[Any, str]:
        return super()._at(f"{self._scheme_folder}://{uri.partition('://')[2]}")

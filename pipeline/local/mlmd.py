"""ML Metadata's package without gRPC, half of the time of its import: a store in a file does not need it.

from headrace.pipeline.local.mlmd import metadata_store_pb2 as mlmd
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["errors", "metadata_store", "metadata_store_pb2"]


class _Deferred(ModuleType):
    """Stands for a module until one of its attributes is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for these
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextlib.contextmanager
def _deferred(name: str) -> Iterator[None]:
    """Let modules that are imported in the block import a module only when they use it."""
    if name in sys.modules:
        yield
        return
    stand_in = sys.modules[name] = _Deferred(name)
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


with _deferred("grpc"):
    from ml_metadata import errors
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2

"""ML Metadata's package without gRPC, half of the time of its import: a store in a file does not need it.

from headrace.pipeline.local.mlmd import metadata_store_pb2 as mlmd
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["PutTypesRequest", "PutTypesResponse", "errors", "metadata_store", "metadata_store_pb2"]

_REMOVING = threading.Lock()


class _Deferred(ModuleType):
    """Stands for a module until one of its attributes is used, or a module in it is imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # the import system asks for these
            raise AttributeError(name)
        _remove(self)
        return getattr(import_module(self.__name__), name)


@contextlib.contextmanager
def _deferred(name: str) -> Iterator[None]:
    """Let modules that are imported in the block import a module only when they use it.

    Other threads that import the module meanwhile, such as those of the user's program, get the stand-in too. It works
    for them as for the modules in the block, but is not the same object as the module.
    """
    if name in sys.modules:
        yield
        return
    stand_in = sys.modules[name] = _Deferred(name)
    try:
        yield
    finally:
        _remove(stand_in)


def _remove(stand_in: ModuleType) -> None:
    with _REMOVING:
        if sys.modules.get(stand_in.__name__) is stand_in:
            del sys.modules[stand_in.__name__]


with _deferred("grpc"):
    from ml_metadata import errors
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2
    from ml_metadata.proto.metadata_store_service_pb2 import PutTypesRequest, PutTypesResponse

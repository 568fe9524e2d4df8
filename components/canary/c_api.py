"""TensorFlow's C API by ctypes: a SavedModel in a session of the C++ runtime, as model servers load it.

session = TfSession("…/tensorflow/libtensorflow_cc.so.2", "serving/taxi/1795402861")
(predictions,) = session.run({"serving_default_examples:0": texts}, ["StatefulPartitionedCall:0"])

Arrays are NumPy's; texts are arrays of `bytes` with dtype object. Needs NumPy alone, so that the process that loads the
model holds nothing of TensorFlow's Python. The layouts and signatures are those of tensorflow/c/c_api.h,
tensorflow/c/tf_datatype.h and tensorflow/core/platform/ctstring_internal.h.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

STRING = 7
NUMBERS: dict[int, Any] = {
    1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8, 8: np.complex64, 9: np.int64,
    10: np.bool_, 17: np.uint16, 18: np.complex128, 19: np.float16, 22: np.uint32, 23: np.uint64,
}  # fmt: skip
"""TF_DataType to NumPy's type; texts are apart."""
_CODES = {np.dtype(type_): code for code, type_ in NUMBERS.items()}
_TSTRING_BYTES = 24
"""Size of a TF_TString."""


class RefusedError(Exception):
    """TensorFlow returned an error. `str(error)` is its message."""


class TfOutput(ctypes.Structure):
    """TF_Output: an operation and the number of its output."""

    _fields_ = (("oper", ctypes.c_void_p), ("index", ctypes.c_int))


class TfApi:
    """The functions that are needed, with their types, and one TF_Status for all calls."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library, handle=_opened(library))
        pointer, text, size, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
        shape = ctypes.POINTER(ctypes.c_int64)
        array, outputs = ctypes.POINTER(pointer), ctypes.POINTER(TfOutput)
        self._declare("TF_NewStatus", pointer)
        self._declare("TF_GetCode", number, pointer)
        self._declare("TF_Message", text, pointer)
        self._declare("TF_NewGraph", pointer)
        self._declare("TF_NewSessionOptions", pointer)
        self._declare("TF_GraphOperationByName", pointer, pointer, text)
        self._declare("TF_AllocateTensor", pointer, number, shape, number, size)
        self._declare("TF_DeleteTensor", None, pointer)
        self._declare("TF_TensorData", pointer, pointer)
        self._declare("TF_TensorByteSize", size, pointer)
        self._declare("TF_TensorType", number, pointer)
        self._declare("TF_NumDims", number, pointer)
        self._declare("TF_Dim", ctypes.c_int64, pointer, number)
        for name in ("TF_StringInit", "TF_StringDealloc"):
            self._declare(name, None, pointer)
        self._declare("TF_StringCopy", None, pointer, text, size)
        self._declare("TF_StringGetDataPointer", pointer, pointer)
        self._declare("TF_StringGetSize", size, pointer)
        self._declare(
            "TF_LoadSessionFromSavedModel",
            pointer,
            *(pointer, pointer, text, ctypes.POINTER(text), number, pointer, pointer, pointer),
        )
        self._declare(
            "TF_SessionRun",
            None,
            *(
                pointer,
                pointer,
                outputs,
                array,
                number,
                outputs,
                array,
                number,
                pointer,
                number,
                pointer,
                pointer,
            ),
        )
        self.status = self.TF_NewStatus()

    def _declare(self, name: str, result: Any, *arguments: Any) -> None:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments
        setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def check(self) -> None:
        """Raise RefusedError if the last call failed."""
        if self.TF_GetCode(self.status):
            raise RefusedError(self.TF_Message(self.status).decode("utf-8", "replace"))


def _opened(library: str) -> int:
    """The handle of a library whose functions are bound when they are first called.

    ctypes binds all of them at once, which takes a third of the time that TensorFlow's library needs to load. Raises
    OSError if the library cannot be loaded.
    """
    loader = ctypes.CDLL(None).dlopen
    loader.restype, loader.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
    handle: int | None = loader(library.encode(), os.RTLD_LAZY | os.RTLD_LOCAL)
    return handle or int(ctypes.CDLL(library)._handle)  # which says why


class TfSession:
    """A SavedModel, loaded. Raises RefusedError if TensorFlow cannot load it."""

    def __init__(self, library: str, folder: str) -> None:
        self._api = api = TfApi(library)
        self._graph = api.TF_NewGraph()
        tags = (ctypes.c_char_p * 1)(b"serve")
        self._session = api.TF_LoadSessionFromSavedModel(
            api.TF_NewSessionOptions(), None, folder.encode(), tags, 1, self._graph, None, api.status
        )
        api.check()

    def run(self, feeds: Mapping[str, NDArray[Any]], fetches: Sequence[str]) -> list[NDArray[Any]]:
        """The tensors named `fetches`, given the tensors named in `feeds`. Raises RefusedError."""
        inputs = (TfOutput * len(feeds))(*map(self._output, feeds))
        outputs = (TfOutput * len(fetches))(*map(self._output, fetches))
        found = (ctypes.c_void_p * len(fetches))()
        given = [_tensor(self._api, array) for array in feeds.values()]
        try:
            self._api.TF_SessionRun(
                self._session, None, inputs, (ctypes.c_void_p * len(given))(*given), len(given), outputs, found,
                len(fetches), None, 0, None, self._api.status,
            )  # fmt: skip
            self._api.check()
            return [_array(self._api, tensor) for tensor in found if tensor]
        finally:
            for tensor, array in zip(given, feeds.values(), strict=True):
                _free(self._api, tensor, array)
            for tensor in filter(None, found):
                self._api.TF_DeleteTensor(tensor)

    def _output(self, name: str) -> TfOutput:
        operation, _, index = name.partition(":")
        found = self._api.TF_GraphOperationByName(self._graph, operation.encode())
        if not found:
            raise RefusedError(f"the graph has no operation {operation}")
        return TfOutput(found, int(index or 0))


def _tensor(api: TfApi, array: NDArray[Any]) -> int:
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    if array.dtype == object:
        made: int = api.TF_AllocateTensor(STRING, shape, array.ndim, _TSTRING_BYTES * array.size)
        start = api.TF_TensorData(made)
        for number, text in enumerate(array.ravel()):
            place = start + _TSTRING_BYTES * number
            api.TF_StringInit(place)
            api.TF_StringCopy(place, text, len(text))
        return made
    array = np.asarray(array, order="C")  # `ascontiguousarray` would give a scalar a dimension
    made = api.TF_AllocateTensor(_CODES[array.dtype], shape, array.ndim, array.nbytes)
    ctypes.memmove(api.TF_TensorData(made), array.ctypes.data, array.nbytes)
    return made


def _free(api: TfApi, tensor: int, array: NDArray[Any]) -> None:
    """Free a tensor that was made of `array`."""
    if array.dtype == object:
        start = api.TF_TensorData(tensor)
        for number in range(array.size):
            api.TF_StringDealloc(start + _TSTRING_BYTES * number)
    api.TF_DeleteTensor(tensor)


def _array(api: TfApi, tensor: int) -> NDArray[Any]:
    """A TF_Tensor as an array. Raises RefusedError for a type that NumPy does not have, such as bfloat16."""
    shape = [api.TF_Dim(tensor, number) for number in range(api.TF_NumDims(tensor))]
    code, start = api.TF_TensorType(tensor), api.TF_TensorData(tensor)
    if code == STRING:
        texts = np.empty(math.prod(shape), object)
        for number in range(texts.size):
            place = start + _TSTRING_BYTES * number
            texts[number] = ctypes.string_at(api.TF_StringGetDataPointer(place), api.TF_StringGetSize(place))
        return texts.reshape(shape)
    if code not in NUMBERS:
        raise RefusedError(f"an output has the type {code} of TF_DataType, which NumPy does not have")
    content = ctypes.string_at(start, api.TF_TensorByteSize(tensor)) if math.prod(shape) else b""
    return np.frombuffer(content, NUMBERS[code]).reshape(shape)

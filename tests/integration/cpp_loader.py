"""Calls a SavedModel through TensorFlow's C API, as C++ servers load it: no Python of TensorFlow's takes part.

    python cpp_loader.py LIBRARY MODEL CALLS RESULTS

CALLS: JSON, a list of {"feeds": {tensor: {"dtype", "shape", "values"}}, "fetch": tensor}; texts are in base64. RESULTS:
where to write the arrays that are fetched, as .npz by number.

The layouts and signatures are those of tensorflow/c/c_api.h and tensorflow/core/platform/ctstring_internal.h.
"""

from __future__ import annotations

import base64
import ctypes
import json
import sys
from typing import Any

import numpy as np

FLOAT, STRING, INT64 = 1, 7, 9
"""TF_DataType."""
TYPES: dict[str, tuple[int, Any]] = {"float32": (FLOAT, np.float32), "int64": (INT64, np.int64)}
TSTRING_BYTES = 24


class Output(ctypes.Structure):
    """TF_Output: an operation and the number of its output."""

    _fields_ = (("oper", ctypes.c_void_p), ("index", ctypes.c_int))


class Api:
    """The functions that are needed, with their types."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        pointer, text, size, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
        shape = ctypes.POINTER(ctypes.c_int64)
        several, outputs = ctypes.POINTER(pointer), ctypes.POINTER(Output)
        self.declare("TF_NewStatus", pointer)
        self.declare("TF_GetCode", number, pointer)
        self.declare("TF_Message", text, pointer)
        self.declare("TF_NewGraph", pointer)
        self.declare("TF_NewSessionOptions", pointer)
        self.declare("TF_GraphOperationByName", pointer, pointer, text)
        self.declare("TF_AllocateTensor", pointer, number, shape, number, size)
        self.declare("TF_TensorData", pointer, pointer)
        self.declare("TF_TensorByteSize", size, pointer)
        self.declare("TF_TensorType", number, pointer)
        self.declare("TF_NumDims", number, pointer)
        self.declare("TF_Dim", ctypes.c_int64, pointer, number)
        self.declare("TF_StringInit", None, pointer)
        self.declare("TF_StringCopy", None, pointer, text, size)
        self.declare("TF_StringGetDataPointer", pointer, pointer)
        self.declare("TF_StringGetSize", size, pointer)
        self.declare(
            "TF_LoadSessionFromSavedModel",
            pointer,
            *(pointer, pointer, text, ctypes.POINTER(text), number, pointer, pointer, pointer),
        )
        self.declare(
            "TF_SessionRun",
            None,
            *(pointer, pointer, outputs, several, number, outputs, several, number, pointer, number, pointer, pointer),
        )
        self.status = self.TF_NewStatus()

    def declare(self, name: str, result: Any, *arguments: Any) -> None:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments
        setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def check(self) -> None:
        if self.TF_GetCode(self.status):
            sys.exit(self.TF_Message(self.status).decode())


class Model:
    """A SavedModel in a session of the C++ runtime."""

    def __init__(self, api: Api, folder: str) -> None:
        self._api, self._graph = api, api.TF_NewGraph()
        tags = (ctypes.c_char_p * 1)(b"serve")
        self._session = api.TF_LoadSessionFromSavedModel(
            api.TF_NewSessionOptions(), None, folder.encode(), tags, 1, self._graph, None, api.status
        )
        api.check()

    def run(self, feeds: dict[str, Any], fetch: str) -> np.ndarray:
        names = list(feeds)
        inputs = (Output * len(names))(*map(self._output, names))
        values = (ctypes.c_void_p * len(names))(*(tensor(self._api, feeds[name]) for name in names))
        found = (ctypes.c_void_p * 1)()
        self._api.TF_SessionRun(
            self._session, None, inputs, values, len(names), (Output * 1)(self._output(fetch)), found, 1, None, 0, None,
            self._api.status,
        )  # fmt: skip
        self._api.check()
        return array(self._api, found[0])

    def _output(self, name: str) -> Output:
        operation, _, index = name.partition(":")
        found = self._api.TF_GraphOperationByName(self._graph, operation.encode())
        if not found:
            sys.exit(f"no operation {operation}")
        return Output(found, int(index or 0))


def tensor(api: Api, reported: dict[str, Any]) -> int:
    """A new TF_Tensor."""
    shape = (ctypes.c_int64 * len(reported["shape"]))(*reported["shape"])
    if reported["dtype"] == "string":
        texts = [base64.b64decode(value) for value in reported["values"]]
        made: int = api.TF_AllocateTensor(STRING, shape, len(reported["shape"]), TSTRING_BYTES * len(texts))
        start = api.TF_TensorData(made)
        for number, text in enumerate(texts):
            api.TF_StringInit(start + TSTRING_BYTES * number)
            api.TF_StringCopy(start + TSTRING_BYTES * number, text, len(text))
        return made
    number, dtype = TYPES[reported["dtype"]]
    values = np.array(reported["values"], dtype)
    made = api.TF_AllocateTensor(number, shape, len(reported["shape"]), values.nbytes)
    ctypes.memmove(api.TF_TensorData(made), values.ctypes.data, values.nbytes)
    return made


def array(api: Api, found: int | None) -> np.ndarray:
    """A tensor as an array."""
    shape = [api.TF_Dim(found, number) for number in range(api.TF_NumDims(found))]
    if api.TF_TensorType(found) == STRING:
        places = (api.TF_TensorData(found) + TSTRING_BYTES * number for number in range(int(np.prod(shape))))
        texts = [ctypes.string_at(api.TF_StringGetDataPointer(each), api.TF_StringGetSize(each)) for each in places]
        return np.array(texts, np.bytes_).reshape(shape)
    dtype = next(dtype for number, dtype in TYPES.values() if number == api.TF_TensorType(found))
    content = ctypes.string_at(api.TF_TensorData(found), api.TF_TensorByteSize(found))
    return np.frombuffer(content, dtype).reshape(shape)


def main(library: str, folder: str, calls: str, results: str) -> None:
    """Make the calls and write what they give."""
    model = Model(Api(library), folder)
    with open(calls, encoding="utf-8") as file:
        asked = json.load(file)
    assert "tensorflow" not in sys.modules
    np.savez(results, *(model.run(call["feeds"], call["fetch"]) for call in asked))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The server of `headrace serve`.

with serving(App(follow(config, None), "taxi"), "127.0.0.1", 8501) as address: ...

GET  /v1/models/NAME[/versions/N]             its state
GET  /v1/models/NAME[/versions/N]/metadata    its signatures
POST /v1/models/NAME[/versions/N]:predict     predictions; `:classify` and `:regress`, of tf.Examples

It is for trying a model out on one machine. Werkzeug's server, which is TensorBoard's too, answers each request in a
thread. Rows of data columns that come at the same time are predicted by one call (batching.py). For production there is
TensorFlow Serving, which takes the same requests.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework import types_pb2
from werkzeug.exceptions import BadRequest, HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from headrace.common.errors import BadRecordError, DataError, HeadraceError, RunError
from headrace.common.names import did_you_mean_or_list
from headrace.components.failed_checks import reason_of
from headrace.components.predict.model import Predictor
from headrace.components.predict.predict import answered, predict_batch
from headrace.components.predict.records import record_batch
from headrace.components.predict.serving_graph import read_signatures
from headrace.configs.config import PipelineConfig
from headrace.pipeline.folders import Folders
from headrace.pipeline.predict.models import ChosenModel, choose_model, pushed_versions
from headrace.pipeline.predict.scoring import Form, predict_table
from headrace.pipeline.predict.trained import TrainedModel
from headrace.pipeline.serve.batching import BatchedFunction
from headrace.pipeline.serve.examples import ExamplesRequest, Method, answers_of, classifications, regressions
from headrace.pipeline.serve.rest import (
    BadRequestError,
    PredictRequest,
    arrays,
    check_lengths,
    flat_records,
    plain_rows,
    why_of_several_kinds,
)
from headrace.trainer.description import ModelDescription

logger = logging.getLogger(__name__)

MOST_BYTES = 64 << 20
"""Of a request's body."""
_METHODS: tuple[Method, ...] = ("predict", "classify", "regress")
_URLS = Map(
    [
        *(Rule(f"/v1/models/<name>:{method}", endpoint=method) for method in _METHODS),
        *(Rule(f"/v1/models/<name>/versions/<int:version>:{method}", endpoint=method) for method in _METHODS),
        Rule("/v1/models/<name>/metadata", endpoint="metadata"),
        Rule("/v1/models/<name>/versions/<int:version>/metadata", endpoint="metadata"),
        Rule("/v1/models/<name>", endpoint="state"),
        Rule("/v1/models/<name>/versions/<int:version>", endpoint="state"),
    ]
)


class LoadedModel:
    """A SavedModel in this process.

    Attributes:
        chosen: Where it is from.
        version: The number of its folder, or 1 if it has none, as clients need one.
        description: What it reads and predicts; None if Headrace did not export it.

    Raises RunError if TensorFlow cannot load it. Of a model with a description, only what predicts rows of data columns
    is loaded at first; the first request to a signature loads all of them, which takes several times as long.
    """

    def __init__(self, chosen: ChosenModel) -> None:
        self.chosen, name = chosen, chosen.folder.name
        self.version = int(name) if name.isdecimal() else 1
        self.description: ModelDescription | None = None
        self._model, self._signatures = TrainedModel(chosen.folder), read_signatures(chosen.folder)
        with contextlib.suppress(RunError):
            self.description = ModelDescription.read(chosen.folder)
        if self.description is None:
            _ = self._model.signatures
        else:
            predictor = Predictor(chosen.folder.absolute(), self.description)
            predictor.load()
            self._predict_rows = BatchedFunction(partial(predict_batch, predictor))

    def inputs(self, signature: str) -> dict[str, tf.TensorSpec]:
        """The inputs of a signature. Raises BadRequestError if there is no such signature."""
        if signature not in self._signatures:
            known = did_you_mean_or_list(signature, self._signatures, "the model has")
            raise BadRequestError(f"there is no signature {signature!r}{known}")
        return {
            name: tf.TensorSpec(tf.TensorShape(one.tensor_shape), one.dtype, name)
            for name, one in self._signatures[signature].inputs.items()
        }

    def predict(self, request: PredictRequest) -> dict[str, Any]:
        """The answer to a request. Raises BadRequestError if it does not fit, or the model refuses it."""
        inputs = self.inputs(request.signature)
        if self.description is not None and request.are_records(inputs):
            return {"predictions": self._of_records(request.rows or [], self.description)}
        tensors = request.tensors(inputs)
        if self.description is not None:
            check_lengths(tensors, inputs)
        return request.response(self._outputs(request.signature, tensors))

    def answer(self, request: ExamplesRequest, method: Method) -> dict[str, Any]:
        """The answer to `:classify` or `:regress`. Raises BadRequestError as `predict` does, and for another method
        than the signature's.
        """
        inputs, label = self.inputs(request.signature), None if self.description is None else self.description.label
        can = answers_of(inputs, self._signatures[request.signature].outputs, label)
        if can.method != method:
            raise BadRequestError(f"the signature {request.signature!r} {can.what}: ask it with :{can.method}")
        (name,) = inputs
        outputs = self._outputs(request.signature, {name: request.serialized(self.description)})
        return {"results": classifications(outputs, label) if method == "classify" else regressions(outputs)}

    def _outputs(self, signature: str, tensors: Mapping[str, tf.Tensor]) -> dict[str, NDArray[Any]]:
        """The outputs of a signature. Raises BadRequestError if the model refuses the tensors."""
        try:
            return arrays(self._model.signatures[signature](**tensors))
        except UnicodeDecodeError:  # of TensorFlow's own message, which quotes the request
            raise BadRequestError("the model refuses it: it holds bytes that are not UTF-8") from None
        except tf.errors.OpError as error:
            why = reason_of(str(error.message)) or type(error).__name__
            raise BadRequestError(f"the model refuses it: {why}") from None

    def _of_records(self, rows: Any, description: ModelDescription) -> list[dict[str, Any]]:
        """The predictions for rows of data columns, with class names as `headrace predict` writes them."""
        records = flat_records(rows, description.types.keys(), description.features)
        try:
            batch = record_batch(records, description)
            found = self._converted(records, description) if batch is None else self._predict_rows(batch)
        except BadRecordError as error:  # whose ways out are settings of data, not of a request
            raise BadRequestError(error.found) from None
        except DataError as error:
            raise BadRequestError(str(error)) from None
        return plain_rows(found)

    def _converted(self, records: Sequence[Mapping[str, Any]], description: ModelDescription) -> pa.Table:
        """The predictions for rows with values of other types than the model's, such as numbers in text."""
        columns = {}
        for name in description.features:
            values = [record.get(name) for record in records]
            try:
                columns[name] = pa.array(values)
            except (pa.ArrowException, ValueError, OverflowError) as error:
                raise BadRequestError(f"column {name!r}: {why_of_several_kinds(values) or error}") from None
        form = Form(columns=(), probabilities=answered(description))
        return predict_table(self.chosen.folder, pa.table(columns), form)

    def metadata(self) -> dict[str, Any]:
        """The signatures in the form of TensorFlow Serving."""
        return {
            name: {
                "inputs": {key: _tensor_info(one) for key, one in sorted(signature.inputs.items())},
                "outputs": {key: _tensor_info(one) for key, one in sorted(signature.outputs.items())},
                "method_name": "tensorflow/serving/predict",
            }
            for name, signature in self._signatures.items()
        }


def _tensor_info(info: Any) -> dict[str, Any]:
    sizes = [{"size": str(dimension.size)} for dimension in info.tensor_shape.dim]
    return {"dtype": types_pb2.DataType.Name(info.dtype), "tensor_shape": {"dim": sizes}}


Follow = Callable[[], ChosenModel]
"""The model to serve now."""


def follow(config: PipelineConfig, wanted: str | None) -> Follow:
    """The wanted model of a pipeline; without one, the newest pushed version whenever it is asked for, or, as long as
    there is none, the newest blessed model.
    """
    destination = Folders.of(config).pushed(config.push_directory) if config.push_directory else None
    chosen: dict[int | None, ChosenModel] = {}

    def newest() -> ChosenModel:
        version = None if wanted else max(pushed_versions(destination), default=None)
        if version not in chosen:
            chosen[version] = choose_model(config, wanted or (str(version) if version else None))
        return chosen[version]

    return newest


class App:
    """The WSGI application. name: of the model in the addresses. Raises RunError if there is no model."""

    def __init__(self, model: Follow, name: str) -> None:
        self._follow, self.name = model, name
        self._lock = threading.Lock()
        self._loaded = LoadedModel(model())

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        request.max_content_length = MOST_BYTES
        return self._response(request)(environ, start_response)

    def _response(self, request: Request) -> Response:
        try:
            try:
                endpoint, values = _URLS.bind_to_environ(request.environ).match()
            except NotFound:
                raise NotFound(f"nothing is at {request.path}") from None
            allowed = "POST" if endpoint in _METHODS else "GET"
            if request.method != allowed:
                raise MethodNotAllowed([allowed])
            answer = getattr(self, f"_{endpoint}")(self._model(**values), request)
            return _json(answer)
        except BadRequestError as error:
            return _json({"error": str(error)}, BadRequest.code)
        except MethodNotAllowed as error:
            return _json({"error": f"this address takes {' and '.join(error.valid_methods or ())} alone"}, error.code)
        except HTTPException as error:
            known = "" if request.path.startswith("/v1/models/") else f"; the model is at /v1/models/{self.name}"
            return _json({"error": f"{error.name}: {error.description}{known}"}, error.code)
        except HeadraceError as error:
            return _json({"error": str(error)}, 503)
        except Exception:
            logger.exception("a request failed")
            return _json({"error": "the server failed; its log says why"}, 500)

    def _model(self, name: str, version: int | None = None) -> LoadedModel:
        """The model that is asked for. A version that was pushed since the last request is loaded first."""
        if name != self.name:
            raise NotFound(f"there is no model {name!r} here; this one is {self.name!r}")
        with self._lock:
            chosen = self._follow()
            if chosen != self._loaded.chosen:
                self._loaded = LoadedModel(chosen)
                logger.info(f"serving {chosen.name}")
            loaded = self._loaded
        if version is not None and version != loaded.version:
            raise NotFound(f"version {version} is not served here; version {loaded.version} is")
        return loaded

    @staticmethod
    def _predict(model: LoadedModel, request: Request) -> dict[str, Any]:
        return model.predict(PredictRequest.parse(request.get_data()))

    @staticmethod
    def _classify(model: LoadedModel, request: Request) -> dict[str, Any]:
        return model.answer(ExamplesRequest.parse(request.get_data()), "classify")

    @staticmethod
    def _regress(model: LoadedModel, request: Request) -> dict[str, Any]:
        return model.answer(ExamplesRequest.parse(request.get_data()), "regress")

    @staticmethod
    def _state(model: LoadedModel, _: Request) -> dict[str, Any]:
        status = {"error_code": "OK", "error_message": ""}
        return {"model_version_status": [{"version": str(model.version), "state": "AVAILABLE", "status": status}]}

    def _metadata(self, model: LoadedModel, _: Request) -> dict[str, Any]:
        spec = {"name": self.name, "signature_name": "", "version": str(model.version)}
        return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": model.metadata()}}}


def _json(content: dict[str, Any], status: int | None = 200) -> Response:
    text = json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n"
    body = text.encode("utf-8", "backslashreplace")  # half of a surrogate pair, which a request may quote
    return Response(body, status, content_type="application/json")


@contextlib.contextmanager
def serving(app: App, host: str, port: int) -> Iterator[str]:
    """Serve while the context is open; yields the address of the model.

    port: 0 takes any free one. Raises RunError if the port is taken.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):  # werkzeug prints why it cannot, and exits
            server = make_server(host, port, app, threaded=True)
    except (OSError, SystemExit) as error:
        why = printed.getvalue().partition("\n")[0] or error
        raise RunError(f"port {port} of {host} cannot be served: {why}; choose another with --port") from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/v1/models/{app.name}"
    finally:
        server.shutdown()
        thread.join()


def served_folder(folder: Path) -> Follow:
    """The model in a folder."""
    chosen = ChosenModel(folder.absolute(), str(folder))
    return lambda: chosen

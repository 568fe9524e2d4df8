"""Pretrained networks as Keras layers: SavedModels in TensorFlow Hub's format (TF2), from a folder or a Hub handle.

Hub's own KerasLayer is for Keras 2. These layers wrap the SavedModel's variables as Keras variables, so that they are
counted, trained, saved with the model's weights, and exported like any others.

A handle is an `https://` address. Its files are cached as the `tensorflow_hub` library caches them, in a folder named
after the SHA-1 of the handle inside TFHUB_CACHE_DIR, so that both find each other's downloads.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO, Any, ClassVar

import keras
import tensorflow as tf

from headrace.common.durable import sync_folder, sync_tree, working_folder
from headrace.common.errors import TrainingError
from headrace.trainer.hooks import innermost

CACHE = "TFHUB_CACHE_DIR"
TIMEOUT = 60
"""Seconds without a byte after which a download fails."""


class Pretrained(keras.layers.Layer):
    """A network that maps a batch to float32 [batch, n]."""

    refusal: ClassVar[str]
    """What to say of a network that takes `{takes}`, and not inputs whose shape, without the batch, is `{shape}`."""

    def __init__(self, saved_model: str, fine_tune: bool, section: str, **settings: Any) -> None:
        """Load the network. Raises TrainingError if it does not exist or has another format.

        Args:
            saved_model: A folder or a handle.
            fine_tune: Whether to train its weights.
            section: Section of the config with the settings `saved_model` and `fine_tune`, for errors.
            settings: Arguments of `keras.layers.Layer`.
        """
        super().__init__(**{**settings, "dtype": "float32", "trainable": fine_tune})
        self.saved_model = saved_model
        self.fine_tune = fine_tune
        self.section = section
        self.network = _load(saved_model, f"{section}.saved_model")
        trainable = {id(variable) for variable in getattr(self.network, "trainable_variables", ())} if fine_tune else ()
        for variable in getattr(self.network, "variables", ()):
            self._track_variable(_wrapped(variable, trainable=id(variable) in trainable))
        if fine_tune and not trainable:
            raise TrainingError(
                f"{section}.fine_tune: {saved_model} lists no `trainable_variables`, as TensorFlow Hub's format"
                " requires; set `fine_tune: false`, or save the model with that attribute"
            )
        self._knows_training = _takes_training(self.network)
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """Configuration without the weights, which come from the SavedModel and then from the model's own file."""
        settings = {name: value for name, value in super().get_config().items() if name not in {"dtype", "trainable"}}
        return {**settings, "saved_model": self.saved_model, "fine_tune": self.fine_tune}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As Keras does, with an error about the network as it is."""
        try:
            return super().__call__(*args, **kwargs)
        except TrainingError as error:
            raise innermost(error) from None

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Compute the vectors. A frozen network always runs in inference mode."""
        arguments = {"training": bool(training and self.fine_tune)} if self._knows_training else {}
        setting = f"{self.section}.saved_model: {self.saved_model}"
        try:
            vectors = self.network(inputs, **arguments)
        except (ValueError, TypeError) as error:
            refusal = self.refusal.format(shape=inputs.shape[1:], takes=_takes(self.network) or _first_line(error))
            raise TrainingError(f"{setting} {refusal}") from error
        if not isinstance(vectors, tf.Tensor) or vectors.shape.rank != 2 or vectors.shape[1] is None:
            raise TrainingError(f"{setting} gives {vectors}, not vectors of shape [batch, n]")
        if training and self.fine_tune:
            for penalty in getattr(self.network, "regularization_losses", ()):
                self.add_loss(penalty())
        return tf.cast(vectors, tf.float32)


@keras.saving.register_keras_serializable("headrace")
class Backbone(Pretrained):
    """float32 [batch, height, width, channels] → float32 [batch, n]."""

    refusal = (
        "does not take images of the shape {shape}; set the feature's `height`, `width` and `channels` to what it"
        " takes, {takes}, or choose another network"
    )

    def __init__(self, saved_model: str, fine_tune: bool = False, **settings: Any) -> None:
        super().__init__(saved_model, fine_tune, "model.backbone", **settings)


@keras.saving.register_keras_serializable("headrace")
class TextVectors(Pretrained):
    """string [batch] → float32 [batch, n]."""

    refusal = (
        "does not take texts, string [batch]; choose a network that turns whole texts into vectors. This one takes"
        " {takes}"
    )

    def __init__(self, saved_model: str, fine_tune: bool, feature: str, **settings: Any) -> None:
        """feature: its name; the others as of `Pretrained`."""
        super().__init__(saved_model, fine_tune, f"features.{feature}", **settings)
        self.feature = feature

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "feature": self.feature}


def _load(saved_model: str, setting: str) -> Any:
    folder = local_folder(saved_model, setting)
    try:
        network = tf.saved_model.load(folder)
    except (OSError, tf.errors.OpError) as error:
        raise TrainingError(f"{setting}: {folder} is not a SavedModel: {_first_line(error)}") from error
    if not callable(network):
        raise TrainingError(
            f"{setting}: {saved_model} is a SavedModel that cannot be called. One in TensorFlow Hub's format (TF2) can:"
            " save a tf.Module with a `__call__`, or a Keras model wrapped in one"
        )
    return network


def _wrapped(variable: tf.Variable, *, trainable: bool) -> keras.Variable:
    """Wrap a TensorFlow variable for Keras; both share the value."""
    name = variable.name.partition(":")[0].replace("/", "_")
    return keras.Variable(variable, trainable=trainable, dtype=variable.dtype.name, name=name)


def _takes_training(network: Any) -> bool:
    specification = network.__call__.function_spec.fullargspec
    return "training" in (*specification.args, *specification.kwonlyargs)


def _takes(network: Any) -> str:
    """What a network takes as its first argument; empty if it does not say."""
    found = []
    for function in getattr(network.__call__, "concrete_functions", ()):
        arguments, _ = function.structured_input_signature
        found += [describe_tensor(arguments[0])] if arguments and isinstance(arguments[0], tf.TensorSpec) else []
    return " or ".join(dict.fromkeys(found))


def describe_tensor(tensor: keras.KerasTensor | tf.TensorSpec) -> str:
    """Type and shape, such as `float32 [batch, 8, 8, any]`."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if tensor.shape is None or getattr(tensor.shape, "rank", 0) is None:
        return f"{dtype} of any shape"
    first, *others = ("any" if size is None else str(size) for size in tensor.shape) if len(tensor.shape) else ("",)
    return f"{dtype} [{', '.join(['batch' if first == 'any' else first, *others])}]"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def is_handle(saved_model: str) -> bool:
    """Whether this is an address and not a path."""
    return saved_model.startswith(("https://", "http://"))


def local_folder(saved_model: str, setting: str) -> str:
    """Return the folder of the SavedModel, downloading it if necessary. Raises TrainingError if there is none.

    setting: What names it, for errors.
    """
    if is_handle(saved_model):
        return str(_cached(saved_model, setting))
    if not tf.io.gfile.exists(f"{saved_model.rstrip('/')}/saved_model.pb"):
        raise TrainingError(
            f"{setting}: there is no SavedModel in {saved_model}: no file saved_model.pb"
            + ("" if "://" in saved_model else f" (looked for in {Path.cwd()})")
        )
    return saved_model


def cache_folder() -> Path:
    """The folder for downloaded SavedModels."""
    return Path(os.environ.get(CACHE) or Path(tempfile.gettempdir(), "tfhub_modules"))


def _cached(handle: str, setting: str) -> Path:
    folder = cache_folder() / hashlib.sha1(handle.encode()).hexdigest()  # noqa: S324 - a name, not a secret
    if not _is_complete(folder):
        _download(handle, folder, setting)
    return folder


def _download(handle: str, folder: Path, setting: str) -> None:
    """Download into a temporary folder alongside, so that a failed download leaves nothing that looks complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(folder) as fresh:
        try:
            with urllib.request.urlopen(_compressed(handle), timeout=TIMEOUT) as stream:  # noqa: S310 - http(s) only
                _unpack(stream, fresh)
            sync_tree(fresh)
        except (OSError, tarfile.TarError, EOFError) as error:
            raise TrainingError(
                f"{setting}: {handle} cannot be downloaded: {error}. Download it by hand, and set its folder"
            ) from error
        if not _is_complete(fresh):
            raise TrainingError(f"{setting}: {handle} returned an archive without a saved_model.pb")
        _put(fresh, folder)


def _put(fresh: Path, folder: Path) -> None:
    """Move a download to its place, unless another process was first: its model may be reading the files there."""
    if folder.exists() and not _is_complete(folder):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        fresh.rename(folder)
        sync_folder(folder.parent)
    except OSError:  # a folder that is not empty cannot be replaced
        if not _is_complete(folder):
            raise


def _is_complete(folder: Path) -> bool:
    return (folder / "saved_model.pb").is_file()


def _compressed(handle: str) -> str:
    """The address of the archive in TensorFlow Hub's protocol."""
    parts = urllib.parse.urlsplit(handle)
    query = [*urllib.parse.parse_qsl(parts.query), ("tf-hub-format", "compressed")]
    return urllib.parse.urlunsplit(parts._replace(query=urllib.parse.urlencode(query)))


def _unpack(stream: IO[bytes], folder: Path) -> None:
    """Write the folders and files of an archive. Raises TarError for one that would lie elsewhere, and for anything
    else, such as a link. Python's own filters for that came with 3.11.4.
    """
    with tarfile.open(fileobj=stream, mode="r|gz") as archive:
        for member in archive:
            path = Path(folder, member.name)
            if not path.resolve().is_relative_to(folder.resolve()):
                raise tarfile.TarError(f"{member.name!r} in its archive leads out of the folder")
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            content = archive.extractfile(member) if member.isfile() else None
            if content is None:
                raise tarfile.TarError(f"{member.name!r} in its archive is neither a file nor a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)

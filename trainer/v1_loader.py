"""Whether the V1 loader, whose way TensorFlow Serving and BulkInferrer load a SavedModel, finds its variables.

`tf.saved_model.save` writes a Keras 3 model so that its functions name variables which that loader does not create.
Python's `tf.saved_model.load` reads it anyway, and what it returns can be saved in full.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import saved_model_pb2


def variables_not_found(directory: str) -> list[str]:
    """The names of the variables that the graph of a SavedModel uses, and that its restore operation does not set."""
    tags = _tags(directory)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.compat.v1.saved_model.loader.load(session, tags, directory)
        handles = {node.attr["shared_name"].s.decode(): node for node in _nodes(graph.as_graph_def())}
        created = {
            name: tf.raw_ops.VarIsInitializedOp(
                resource=tf.raw_ops.VarHandleOp(
                    dtype=node.attr["dtype"].type,
                    shape=tf.TensorShape(node.attr["shape"].shape),
                    shared_name=name,
                    container=node.attr["container"].s.decode(),
                )
            )
            for name, node in handles.items()
        }
        return sorted(name for name, there in session.run(created).items() if not there)


def save_again(directory: str) -> None:
    """Load a SavedModel and replace its files by those of the loaded one: the same signatures, variables and assets."""
    loaded = tf.saved_model.load(directory)
    again = Path(f"{directory.rstrip('/')}.again")
    tf.saved_model.save(loaded, str(again), signatures=dict(loaded.signatures))
    for name in ("saved_model.pb", "fingerprint.pb", "variables", "assets"):
        _remove(Path(directory, name))
        if (again / name).exists():
            shutil.move(again / name, Path(directory, name))
    shutil.rmtree(again)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _tags(directory: str) -> list[str]:
    """The tags of the graph for serving."""
    saved = saved_model_pb2.SavedModel.FromString(Path(directory, "saved_model.pb").read_bytes())
    graphs = [list(graph.meta_info_def.tags) for graph in saved.meta_graphs]
    return next((tags for tags in graphs if "serve" in tags), graphs[0])


def _nodes(graph: Message) -> Iterator[tf.compat.v1.NodeDef]:
    """The nodes of a graph and of its functions that refer to variables."""
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        yield from (node for node in nodes if node.op == "VarHandleOp")

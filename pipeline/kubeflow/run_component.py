"""Runs the component of a pod, between the executor input of Kubeflow's launcher and the executor of TFX.

Components that take milliseconds run without TensorFlow and TFX (pod/light.py), and so does the cheap first task of a
pipeline with `schedule.retrain`, which scans the spans and decides whether there is a reason to train. So this module
imports neither until `_import_tfx` does.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.environment import imports_alone
from headrace.common.errors import GateError
from headrace.components.gates.arrival import stop_if_judged_so
from headrace.components.gates.verdict import DataVerdicts
from headrace.components.trigger.decision import VERDICT, look_for_new
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.kubeflow import TRAINER
from headrace.pipeline.kubeflow.distributed.launch import POD_NAME, TrainerTask, distributed
from headrace.pipeline.kubeflow.pod.invocation import PUSHER, Invocation, pack, restore_uncached
from headrace.pipeline.kubeflow.pod.parameters import with_parameters
from headrace.pipeline.kubeflow.pod.paths import RECORD, ROOT, PodPaths, fill_placeholders, home_of
from headrace.pipeline.kubeflow.pod.records import TRAININGS
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.pod.version_claims import with_free_number
from headrace.pipeline.kubeflow.results_store import volume_store
from headrace.pipeline.kubeflow.store import Store, open_store

if TYPE_CHECKING:
    from headrace.pipeline.execute import Artifacts
    from headrace.pipeline.kubeflow.pod.exchange import Exchange
    from headrace.pipeline.kubeflow.pod.own_push import Pushed

logger = logging.getLogger(__name__)

SPANS_EXECUTOR = "headrace.components.trigger.component:LookForNew_Executor"
"""The executor of the first task of a pipeline that trains only when there is a reason to."""
NOISE = ("Examples artifact does not have payload_format", "TF_USE_LEGACY_KERAS is set to 0")
"""Warnings that TFX and TensorFlow Transform would repeat in each pod and that need no action: the payload format is
tf.Example, and Keras 3 is intended."""


def run(invocation: Invocation, executor_input: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> None:
    """Run the component and write its executor output. Raises whatever the executor raises."""
    if invocation.executor == SPANS_EXECUTOR:
        _run_spans(invocation, executor_input, environ.get(ROOT, ""))
    else:
        _run_component(invocation, executor_input, environ)


def _run_spans(invocation: Invocation, executor_input: Mapping[str, Any], root: str) -> None:
    """What `headrace.components.trigger.component.LookForNew` does, without TFX."""
    paths = PodPaths(root, invocation.mount)
    record = executor_input["outputs"]["artifacts"][RECORD]["artifacts"][0]["uri"]
    parameters = executor_input.get("inputs", {}).get("parameterValues", {})
    properties = with_parameters(invocation.id, invocation.exec_properties, parameters)
    properties = fill_placeholders(properties, paths.local(home_of(record)), Path(os.devnull))
    trained, remote = Path(properties["trained"]), paths.remote(properties["trained"])
    if remote is not None and not paths.mount:
        TRAININGS.fetch(remote, trained, open_store(invocation.store, of_pod=True))
    names = ("data", "retrain", "limits", "work", "trained", "freshness")
    texts = look_for_new(**{name: properties[name] for name in names if name in properties})
    verdict = DataVerdicts.model_validate_json(texts[VERDICT])
    if verdict.stopping:
        store = (
            volume_store(paths.shared, home_of(record)) if paths.mount else open_store(invocation.store, of_pod=True)
        )
        store.write(record, texts[VERDICT])
    stop_if_judged_so(verdict)
    _write_texts(texts, record, executor_input["outputs"]["outputFile"], PodPaths(root))


def _write_texts(texts: Mapping[str, str], record: str, output_file: str, paths: PodPaths) -> None:
    """Write output parameters as the executor output, and their texts as the RECORD artifact."""
    path, file = paths.local(record), paths.launcher_file(output_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(texts.values()), encoding="utf-8")
    executor_output = {
        "artifacts": {RECORD: {"artifacts": [{"name": RECORD, "uri": record, "metadata": {}}]}},
        "parameterValues": {key: pack(text, f"Spans: {key}") for key, text in texts.items()},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(executor_output), encoding="utf-8")


def _run_component(invocation: Invocation, executor_input: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    with imports_alone():
        from headrace.pipeline.kubeflow.pod.exchange import Exchange, new_artifact
        from headrace.pipeline.kubeflow.pod.light import is_light, new_light, run_light
        from headrace.pipeline.kubeflow.pod.origin import compiled_in
        from headrace.pipeline.kubeflow.pod.own_push import pushed

        light = is_light(invocation)
        if not light:
            _import_tfx()
    paths = PodPaths(environ.get(ROOT, ""), invocation.mount)
    store = open_store(invocation.store, of_pod=True)
    beam = BeamConfig.model_validate_json(json.dumps(invocation.beam))
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(_scratch())
        exchange = Exchange(invocation, executor_input, paths, scratch, new_light if light else new_artifact)
        shared = stack.enter_context(_shared_scratch(exchange)) if paths.mount and beam.is_remote else scratch
        files = _write_files(invocation.files, shared)
        properties = restore_uncached(invocation.exec_properties, environ)
        properties = with_parameters(invocation.id, properties, exchange.parameters)
        properties = fill_placeholders(properties, exchange.home, files)
        inputs = exchange.inputs(store)
        home = paths.remote(exchange.home) or ""
        task = TrainerTask(exchange.user, home, environ.get(POD_NAME, ""), files, paths, store, invocation.store)
        stack.enter_context(distributed(environ, task))

        def run_once() -> Artifacts:
            with present(properties, paths, store, exchange.user):
                if light:
                    return run_light(invocation, properties, inputs, exchange.output_uris())
                return _run_with_tfx(invocation, properties, inputs, exchange.output_uris(), beam, shared)

        results = volume_store(paths.shared, home) if paths.mount else store
        try:
            outputs = with_free_number(run_once)
        except GateError as error:
            exchange.leave(error.verdicts, results)
            raise
        exchange.write(outputs)
        if paths.mount and "spans" in inputs and "examples" in outputs:
            exchange.write_spans(inputs["spans"][0].uri, results)
        if invocation.id == TRAINER:
            exchange.write_origin(outputs["model"][0], compiled_in(environ), results)
        if invocation.id == PUSHER and (made := pushed(properties, inputs, outputs, exchange.home, paths, store)):
            _write_card(made, paths, home, results)
        _follow_push(invocation, exchange.user, home, results)


def _import_tfx() -> None:
    importlib.import_module("absl.logging")  # it has no types, and it creates the logger
    logging.getLogger("absl").addFilter(_is_useful)
    importlib.import_module("headrace.components.beam_pipelines")
    importlib.import_module("headrace.pipeline.execute")


def _run_with_tfx(
    invocation: Invocation,
    properties: Mapping[str, Any],
    inputs: Artifacts,
    uris: Mapping[str, str],
    beam: BeamConfig,
    scratch: Path,
) -> Artifacts:
    from headrace.components.beam_pipelines import BeamPipelines
    from headrace.pipeline.execute import execute

    node, given = invocation.node(properties), BeamPipelines(beam, scratch)
    return execute(node, inputs, uris, given)


def _follow_push(invocation: Invocation, user: str, home: str, store: Store) -> None:
    """Let servers serve what the Pusher pushed, and registries learn of it, each whatever becomes of the others.

    Raises RunError if the version failed on KServe, or TensorFlow Serving has not loaded it.
    """
    try:
        if invocation.kserve:
            from headrace.pipeline.kubeflow.kserve.follow import follow_in_pod

            follow_in_pod(invocation.kserve, home, store, user)
    finally:
        if invocation.registration:
            from headrace.pipeline.kubeflow.registration import register_pushed

            register_pushed(invocation.registration, home, store)
        if invocation.serving:
            from headrace.pipeline.kubeflow.production import serve_pushed

            serve_pushed(invocation.serving, home, store)


def _write_card(made: Pushed, paths: PodPaths, home: str, store: Store) -> None:
    """Write the card of the model that the Pusher pushed."""
    from headrace.pipeline.kubeflow.stored_card import write_stored_card

    push, model = (paths.remote(path) or str(path) for path in (made.version.parent, made.model))
    write_stored_card(home, push.removeprefix(f"{home}/"), store, model.removeprefix(f"{home}/"), made.version.name)


def _is_useful(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(NOISE)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="headrace-"))
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _shared_scratch(exchange: Exchange) -> Iterator[Path]:
    """A folder on the shared volume: Beam's workers may be in other pods, which cannot see this pod's disk."""
    folder = exchange.shared_scratch
    shutil.rmtree(folder, ignore_errors=True)  # left by an earlier try
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_files(contents: Mapping[str, str], scratch: Path) -> Path:
    """The folder with the files that were compiled in."""
    folder = scratch / "files"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder

"""The cheap first task in a pod: what there is to read, and whether any of it is new. Imports no TensorFlow and no TFX.

What `headrace.components.trigger.component.LookForNew` does, with the executor input and output of
`headrace.pipeline.kubeflow.exchange`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.components.example_gen.find import find_spans
from headrace.components.trigger.look import GO, WHY, decide
from headrace.components.trigger.trained import Trained
from headrace.configs.data import DataConfig
from headrace.pipeline.kubeflow import trainings
from headrace.pipeline.kubeflow.argument import pack
from headrace.pipeline.kubeflow.carried import with_paths
from headrace.pipeline.kubeflow.parameters import with_parameters
from headrace.pipeline.kubeflow.places import RECORD, Places, home_of
from headrace.pipeline.kubeflow.store import open_store


def look(invocation: Mapping[str, Any], told: Mapping[str, Any], root: str) -> None:
    """invocation: as compiled; told: the executor input; root: what stands before the pod's paths, "" in a pod."""
    places = Places(root, invocation["mount"])
    record = told["outputs"]["artifacts"][RECORD]["artifacts"][0]["uri"]
    given = told.get("inputs", {}).get("parameterValues", {})
    properties = with_parameters(invocation["id"], invocation["exec_properties"], given)
    properties = with_paths(properties, places.local(home_of(record)), Path(os.devnull))
    trained, remote = Path(properties["trained"]), places.remote(properties["trained"])
    if remote is not None and not places.mount:
        trainings.fetch(remote, trained, open_store(invocation["store"], of_pod=True))
    manifest = find_spans(DataConfig.model_validate_json(properties["data"]))
    decision = decide(manifest, Trained.read(trained), properties["work"], properties["retrain"], properties["limits"])
    print(decision.why)
    texts = {"spans": manifest.to_json(), GO: decision.go, WHY: decision.why}
    _write(texts, record, told["outputs"]["outputFile"], Places(root))


def _write(texts: Mapping[str, str], record: str, output_file: str, places: Places) -> None:
    path, file = places.local(record), places.launchers(output_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(texts.values()), encoding="utf-8")
    told = {
        "artifacts": {RECORD: {"artifacts": [{"name": RECORD, "uri": record, "metadata": {}}]}},
        "parameterValues": {key: pack(text, f"Spans: {key}") for key, text in texts.items()},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(told), encoding="utf-8")

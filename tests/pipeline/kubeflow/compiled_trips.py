"""The pipeline of golden/trips.yaml, compiled with other settings, and what stands in it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import task_specs
from headrace.pipeline.kubeflow.pod.invocation import Invocation, unpack

ROOT = Path(__file__).parents[3]
TRIPS = Path(__file__).with_name("golden") / "trips.yaml"
WITH_KUBERNETES = importlib.util.find_spec("kfp.kubernetes") is not None
NO_SECRET = "kubeflow.object_store.secret=none"
needs_kubernetes = pytest.mark.skipif(not WITH_KUBERNETES, reason="kfp-kubernetes is not installed")


def trips(*overrides: str, profile: str | None = None) -> PipelineConfig:
    return load(TRIPS, profile, overrides)


def compiled(*overrides: str, profile: str | None = None) -> dict[str, Any]:
    text = compile_pipeline(trips(*overrides, profile=profile), {})
    first: dict[str, Any] = next(yaml.safe_load_all(text))
    return first


def settings_of(config: PipelineConfig) -> dict[str, Any]:
    """What the second document holds for each executor."""
    documents = [*yaml.safe_load_all(compile_pipeline(config, {})), {}]
    executors: dict[str, Any] = (
        documents[1].get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    )
    return executors


def invocations(pipeline: dict[str, Any]) -> dict[str, Invocation]:
    return {
        name: Invocation.from_json(unpack(spec.container["args"][1])) for name, spec in task_specs(pipeline).items()
    }


def store_keys(config: PipelineConfig) -> dict[str, dict[str, tuple[str, str]]]:
    """Executor to the environment variables that it gets from Secrets: which Secret, and which key of it."""
    return {
        name: {
            key["envVar"]: (one["secretNameParameter"]["runtimeValue"]["constant"], key["secretKey"])
            for one in settings["secretAsEnv"]
            for key in one["keyToEnv"]
        }
        for name, settings in settings_of(config).items()
        if "secretAsEnv" in settings
    }

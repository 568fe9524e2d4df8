"""Loading a config stays quick: nothing heavy is imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
from headrace.configs.loading.loader import load
load("configs/taxi.yaml")
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = {
    "tensorflow",
    "keras",
    "tfx",
    "apache_beam",
    "pyarrow",
    "numpy",
    "kfp",
    "rich",
    "headrace.components",
    "headrace.trainer",
    "headrace.pipeline",
}


def test_loading_a_config_imports_nothing_heavy() -> None:
    modules = json.loads(subprocess.check_output([sys.executable, "-c", SCRIPT], text=True))
    assert "headrace.configs.config" in modules
    assert not HEAVY & set(modules)


@pytest.mark.slow
def test_models_are_promoted_and_rolled_back_without_tensorflow() -> None:
    modules_of = "headrace.pipeline.models.promotion, headrace.pipeline.kubeflow.model_changes"
    script = f"import json, sys, {modules_of}; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(subprocess.check_output([sys.executable, "-c", script], text=True))
    assert "headrace.components.stored_models.push" in modules
    assert not {"tensorflow", "keras", "tfx", "apache_beam"} & set(modules)


def test_ml_metadata_is_imported_without_grpc_which_it_finds_when_it_needs_it() -> None:
    script = """
import json, sys
from headrace.pipeline.local import mlmd, store
before = sorted(sys.modules)
import grpc, grpc.aio
deferred = mlmd.metadata_store.grpc
print(json.dumps([before, grpc.__spec__.name, deferred.RpcError is grpc.RpcError, deferred is grpc]))
"""
    modules, name, same, whole = json.loads(subprocess.check_output([sys.executable, "-c", script], text=True))
    assert "ml_metadata" in modules
    assert not {"grpc", "asyncio"} & set(modules)
    assert (name, same, whole) == ("grpc", True, False)


def test_thread_that_imports_grpc_while_ml_metadata_is_imported_gets_all_of_it() -> None:
    script = """
import json, threading
from headrace.pipeline.local import mlmd
found = []
def other():
    import grpc
    import grpc.aio
    from grpc import StatusCode
    found.extend([grpc.__spec__.name, grpc.aio.__name__, StatusCode.OK.name])
with mlmd._deferred("grpc"):
    import grpc as stand_in
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
import grpc
print(json.dumps([*found, stand_in is grpc, stand_in.RpcError is grpc.RpcError]))
"""
    found = json.loads(subprocess.check_output([sys.executable, "-c", script], text=True))
    assert found == ["grpc", "grpc.aio", "OK", False, True]


def test_no_section_has_a_validator_of_its_own_before_it_is_used() -> None:
    script = """
import headrace.configs.config
from headrace.configs.schema.section import Section
waiting = [Section]
for each in waiting:
    waiting += each.__subclasses__()
print(len(waiting), sum(each.__pydantic_complete__ for each in waiting))
"""
    sections, built = map(int, subprocess.check_output([sys.executable, "-c", script], text=True).split())
    assert sections > 100
    assert built <= 1  # Section itself

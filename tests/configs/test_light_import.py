"""Loading a config stays quick: nothing heavy is imported."""

from __future__ import annotations

import json
import subprocess
import sys

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


def test_models_are_promoted_and_rolled_back_without_tensorflow() -> None:
    modules_of = "headrace.pipeline.models.promotion, headrace.pipeline.kubeflow.model_changes"
    script = f"import json, sys, {modules_of}; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(subprocess.check_output([sys.executable, "-c", script], text=True))
    assert "headrace.components.deploy.push" in modules
    assert not {"tensorflow", "keras", "tfx", "apache_beam"} & set(modules)

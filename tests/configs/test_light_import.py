"""Loading a config stays quick: nothing heavy is imported."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, sys, time
start = time.process_time()
import yaml
from pydantic import BaseModel
libraries = time.process_time() - start
from headrace.configs.loading.loader import load
load("configs/taxi.yaml")
seconds = time.process_time() - start
print(json.dumps({"times": seconds / libraries, "modules": sorted(sys.modules)}))
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
    "components",
    "trainer",
    "pipeline",
}


def test_loading_a_config_imports_nothing_heavy_and_takes_a_few_times_as_long_as_importing_pydantic() -> None:
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", SCRIPT], text=True)) for _ in range(3)]
    assert not HEAVY & set(runs[0]["modules"])
    assert min(run["times"] for run in runs) < 5

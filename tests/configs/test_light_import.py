"""Loading a config stays quick: nothing heavy is imported."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, sys, time
start = time.process_time()
from configs.loader import load
load("configs/taxi.yaml")
print(json.dumps({"seconds": time.process_time() - start, "modules": sorted(sys.modules)}))
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


def test_loading_a_config_imports_nothing_heavy_and_takes_under_a_quarter_second() -> None:
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", SCRIPT], text=True)) for _ in range(3)]
    assert not HEAVY & set(runs[0]["modules"])
    assert min(run["seconds"] for run in runs) < 0.25

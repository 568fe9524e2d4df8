"""Write the golden files of the Kubeflow compiler: what it makes of tests/pipeline/kubeflow/golden/trips.yaml.

python tools/golden.py            # writes them
python tools/golden.py --check    # exit status 1 if one is not current

Digests of code are masked, so that only a change of what is compiled changes a golden file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run from anywhere, installed or not

FOLDER = ROOT / "tests" / "pipeline" / "kubeflow" / "golden"
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def goldens() -> Iterator[tuple[Path, str]]:
    """Each golden file with its text; the one with Kubernetes settings only where kfp-kubernetes is installed."""
    from pipeline.environment import prepare

    prepare()
    from configs.loader import load
    from pipeline.kubeflow.compile import compile_pipeline

    os.chdir(ROOT)  # the config names files from there
    with_kubernetes = importlib.util.find_spec("kfp.kubernetes") is not None
    for name, profile in (("plain", None), ("cluster", "cluster")):
        if profile is None or with_kubernetes:
            text = compile_pipeline(load(FOLDER / "trips.yaml", profile), {})
            yield FOLDER / f"{name}.golden", DIGEST.sub("<sha256>", text)


def main() -> None:
    check = "--check" in sys.argv[1:]
    for path, text in goldens():
        if check and (not path.exists() or path.read_text() != text):
            sys.exit(f"{path} is not current; run python {sys.argv[0]}")
        if not check:
            path.write_text(text)


if __name__ == "__main__":
    main()

"""Write the golden files of the Kubeflow compiler: its output for tests/pipeline/kubeflow/golden/trips.yaml.

python tools/golden.py            # writes them
python tools/golden.py --check    # exit status 1 if one is not current

A digest of code changes with every edit, so the files have its name instead:
`<code of headrace.components.deploy.pusher>`, or `<sources of headrace.trainer.run>`.
No two digests share a name, and no two names a digest. Every other digest stays.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run from anywhere, installed or not

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig

FOLDER = ROOT / "tests" / "pipeline" / "kubeflow" / "golden"


def goldens() -> Iterator[tuple[Path, str]]:
    """Each golden file with its text. The one with Kubernetes settings needs kfp-kubernetes."""
    from headrace.common.environment import prepare

    prepare()
    from headrace.configs.loading.loader import load
    from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline

    os.chdir(ROOT)  # the config names files from there
    with_kubernetes = importlib.util.find_spec("kfp.kubernetes") is not None
    for name, profile in (("plain", None), ("cluster", "cluster")):
        if profile is None or with_kubernetes:
            config = load(FOLDER / "trips.yaml", profile)
            yield FOLDER / f"{name}.golden", named(compile_pipeline(config, {}), config)


def named(text: str, config: PipelineConfig) -> str:
    """A compiled pipeline with names instead of digests of code. Raises ValueError if two names share a digest."""
    from headrace.pipeline.code.digest import requested_modules
    from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
    from headrace.pipeline.training_digest import training_digest

    names = {f"sources of {', '.join(modules)}": digest for digest, modules in requested_modules().items()}
    invocations = [task.invocation for task in component_tasks(config)]
    names |= {f"code of {one.executor.partition(':')[0]}": one.code for one in invocations}
    names["code of the model"] = next(task.code for task in component_tasks(config) if task.code)
    names["work"] = training_digest(config)
    if len(set(names.values())) < len(names):
        raise ValueError(f"one digest has two names: {names}")
    for name, digest in names.items():
        text = text.replace(digest, f"<{name}>")
    return text


def main() -> None:
    check = "--check" in sys.argv[1:]
    for path, text in goldens():
        if check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            sys.exit(f"{path} is not current; run python {sys.argv[0]}")
        if not check:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

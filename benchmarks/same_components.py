"""Our components, from `headrace.pipeline.build.create_pipeline`, under TFX's LocalDagRunner.

python -m benchmarks.same_components CONFIG OUT_FOLDER
"""

import argparse
from pathlib import Path

from headrace.common.environment import prepare

prepare()

from tfx import v1 as tfx  # noqa: E402 - after prepare()

from headrace.configs.loading.loader import load  # noqa: E402
from headrace.pipeline.build import create_pipeline  # noqa: E402


def main() -> None:
    """Run it once, in the folder that it is called in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config")
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    given = parser.parse_args()
    config = load(given.config, overrides=given.overrides)
    ours = create_pipeline(config)
    given.out.mkdir(parents=True, exist_ok=True)
    pipeline = tfx.dsl.Pipeline(
        config.pipeline.name,
        str(given.out.absolute() / "artifacts"),
        components=ours.components,
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(given.out.absolute() / "metadata.sqlite")
        ),
        beam_pipeline_args=["--runner=FnApiRunner"],
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)


if __name__ == "__main__":
    main()

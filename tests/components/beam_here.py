"""A Beam pipeline in this process, with options as the project's own pipelines have them: Beam's usual ones are parsed
again for each view, which takes a third of the CPU time of an analysis by TensorFlow Transform.

executor.Context(make_beam_pipeline_fn=pipeline)
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from apache_beam import Pipeline
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from headrace.components.beam_pipelines import beam_options
from headrace.configs.schema.beam import BeamConfig


def pipeline(*more: str) -> Pipeline:
    """more: other `--direct_` options, as on a command line."""
    options = beam_options(BeamConfig(runner="direct"), Path(tempfile.gettempdir()))
    direct, asked = (one.view_as(DirectOptions) for one in (options, PipelineOptions([*more])))
    direct.direct_running_mode, direct.direct_num_workers = asked.direct_running_mode, asked.direct_num_workers
    return Pipeline(options=options)

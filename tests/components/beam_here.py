"""A Beam pipeline in this process, with options as the project's own pipelines have them: Beam's usual ones are parsed
again for each view, which takes a third of the CPU time of an analysis by TensorFlow Transform.

executor.Context(make_beam_pipeline_fn=pipeline)
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import tensorflow_model_analysis as tfma
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from headrace.components.beam_pipelines import beam_options
from headrace.configs.schema.beam import BeamConfig

PIPELINE = beam.Pipeline


def pipeline(*more: str) -> beam.Pipeline:
    """more: other `--direct_` options, as on a command line."""
    options = beam_options(BeamConfig(runner="direct"), Path(tempfile.gettempdir()))
    direct, asked = (one.view_as(DirectOptions) for one in (options, PipelineOptions([*more])))
    direct.direct_running_mode, direct.direct_num_workers = asked.direct_running_mode, asked.direct_num_workers
    return PIPELINE(options=options)


def analyzed(data: Any, config: Any) -> tfma.EvalResult:
    """What TFMA makes of a DataFrame of labels and predictions, in a pipeline that is its own otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "Pipeline", pipeline)
        return tfma.analyze_raw_data(data, config)

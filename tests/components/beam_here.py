"""A Beam pipeline in this process, with options as the project's own pipelines have them: Beam's usual ones are parsed
again for each view, which takes a third of the CPU time of an analysis by TensorFlow Transform.

executor.Context(make_beam_pipeline_fn=pipeline)
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apache_beam import Pipeline
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.transforms import core

from headrace.components.beam_pipelines import beam_options
from headrace.configs.schema.beam import BeamConfig


def pipeline(*more: str) -> Pipeline:
    """more: other `--direct_` options, as on a command line."""
    options = beam_options(BeamConfig(runner="direct"), Path(tempfile.gettempdir()))
    direct, asked = (one.view_as(DirectOptions) for one in (options, PipelineOptions([*more])))
    direct.direct_running_mode, direct.direct_num_workers = asked.direct_running_mode, asked.direct_num_workers
    return Pipeline(options=options)


def inspect_once() -> None:
    """Remember the arguments of functions: Beam inspects all methods of a DoFn a dozen times for each pipeline, which
    takes a fifth of the CPU time of a small one.
    """
    inspect: Callable[[Any], tuple[list[str], list[Any]]] = core.get_function_args_defaults
    known: weakref.WeakKeyDictionary[Any, dict[bool, tuple[list[str], list[Any]]]] = weakref.WeakKeyDictionary()

    def arguments(function: Any) -> tuple[list[str], list[Any]]:
        plain = getattr(function, "__func__", function)
        try:
            found = known.setdefault(plain, {})
        except TypeError:  # a builtin
            return inspect(function)
        bound = plain is not function
        if bound not in found:
            found[bound] = inspect(function)
        names, defaults = found[bound]
        return [*names], [*defaults]

    core.get_function_args_defaults = arguments


inspect_once()

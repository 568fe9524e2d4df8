"""The table of Beam's options is that of the installed Beam, which takes what the rules let by."""

from __future__ import annotations

import argparse
import copy
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.runner import create_runner

from headrace.common.errors import RunError
from headrace.components.beam_pipelines import BeamPipelines, beam_options
from headrace.configs.rules import beam as beam_rules
from headrace.configs.rules.beam_options import BEAM_OPTIONS, BOOLEAN, INTEGER, NUMBER, STRING, STRINGS
from headrace.configs.rules.rule import apply_rules, rules_of
from headrace.configs.schema.beam import BeamConfig

DOCS = Path(__file__).parents[2] / "docs" / "beam.md"
CLOUD = {"project": "my-project", "region": "europe-west1", "temp_location": "gs://bucket/tmp"}


def installed() -> dict[str, str | tuple[str, ...]]:
    """The same table, made of Beam's own parsers."""
    found: dict[str, str | tuple[str, ...]] = {}
    for owner in PipelineOptions.__subclasses__():
        if owner.__module__ != pipeline_options.__name__:
            continue
        parser = pipeline_options._BeamArgumentParser(add_help=False)
        owner._add_argparse_args(parser)
        for action in parser._actions:
            names = [name.removeprefix("--") for name in action.option_strings]
            found |= {name: takes(action) for name in names if "-" not in name}
    return found


def takes(action: argparse.Action) -> str | tuple[str, ...]:
    if action.nargs == 0:
        return BOOLEAN
    if action.choices:
        return tuple(action.choices)
    if isinstance(action, argparse._AppendAction | pipeline_options._CommaSeparatedListAction):
        return STRINGS
    kinds: dict[Any, str] = {int: INTEGER, float: NUMBER}
    return kinds.get(action.type, STRING)


def test_the_options_are_those_of_the_installed_beam() -> None:
    assert installed() == BEAM_OPTIONS


def of(**beam: Any) -> BeamConfig:
    """A config that keeps the rules."""
    settings = BeamConfig(**beam)
    assert apply_rules(rules_of(beam_rules), {"beam": settings}) == []
    return settings


def test_the_examples_of_the_docs_keep_the_rules() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    settings = [yaml.safe_load(text)["beam"] for text in examples]
    assert {one["runner"] for one in settings} == {"flink", "spark", "dataflow", "portable"}
    for one in settings:
        of(**one)


def viewed(settings: BeamConfig, view: type[PipelineOptions]) -> dict[str, Any]:
    found: dict[str, Any] = beam_options(settings, Path("/scratch")).view_as(view).get_all_options()
    return found


@pytest.mark.parametrize(
    ("settings", "view", "expected"),
    [
        (of(), StandardOptions, {"runner": "FnApiRunner"}),
        (of(), DirectOptions, {"direct_running_mode": "in_memory", "direct_num_workers": 1}),
        (of(workers=3), DirectOptions, {"direct_running_mode": "multi_threading", "direct_num_workers": 3}),
        (of(runner="direct", direct_running_mode="multi_processing", workers=2), DirectOptions,
         {"direct_running_mode": "multi_processing", "direct_num_workers": 2}),
        (of(options={"experiments": ("a", "b=1")}), DebugOptions, {"experiments": ["a", "b=1"]}),
        (of(runner="flink", workers=4, options={"flink_master": "[local]", "flink_version": "1.20"}),
         FlinkRunnerOptions, {"flink_master": "[local]", "flink_version": "1.20", "parallelism": 4}),
        (of(runner="flink", options={"job_endpoint": "jobs:8099", "environment_type": "EXTERNAL",
                                     "environment_config": "localhost:50000", "environment_cache_millis": 10000}),
         PortableOptions, {"job_endpoint": "jobs:8099", "environment_type": "EXTERNAL",
                           "environment_config": "localhost:50000", "environment_cache_millis": "10000"}),
        (of(runner="spark", options={"spark_master_url": "local[2]", "spark_submit_uber_jar": False}),
         SparkRunnerOptions, {"spark_master_url": "local[2]", "spark_submit_uber_jar": False}),
        (of(runner="portable", options={"job_endpoint": "embed", "environment_type": "LOOPBACK"}),
         PortableOptions, {"job_endpoint": "embed", "environment_type": "LOOPBACK"}),
        (of(runner="dataflow", options=CLOUD), GoogleCloudOptions, CLOUD),
        (of(runner="dataflow", workers=5, options={**CLOUD, "use_public_ips": False}), WorkerOptions,
         {"num_workers": 5, "use_public_ips": False}),
    ],
)  # fmt: skip
def test_beam_reads_the_settings_as_they_were_meant(
    settings: BeamConfig, view: type[PipelineOptions], expected: dict[str, Any]
) -> None:
    assert viewed(settings, view).items() >= expected.items()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (of(runner="flink", options={"flink_master": "[local]"}), "FlinkRunner"),
        (of(runner="spark", options={"spark_master_url": "local"}), "SparkRunner"),
        (of(runner="portable", options={"job_endpoint": "embed", "environment_type": "LOOPBACK"}), "PortableRunner"),
        (of(runner="dataflow", options=CLOUD), "DataflowRunner"),
    ],
)
def test_beams_own_validator_has_nothing_against_what_the_rules_let_by(
    settings: BeamConfig, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Asks Google's storage, for up to two minutes where there is no network, only to write a warning.
    monkeypatch.setattr(GoogleCloudOptions, "_warn_if_soft_delete_policy_enabled", lambda *_: None)
    options = beam_options(settings, Path("/scratch"))
    runner = create_runner(options.view_as(StandardOptions).runner)
    assert type(runner).__name__ == name
    assert PipelineOptionsValidator(options, runner).validate() == []


def test_a_view_is_made_once_and_shares_its_values_also_in_a_copy() -> None:
    options = beam_options(of(runner="direct", workers=2, direct_running_mode="multi_threading"), Path("/scratch"))
    view = options.view_as(DirectOptions)
    assert options.view_as(DirectOptions) is view
    for copied in (copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        again: Any = copied.view_as(DirectOptions)
        assert again is copied.view_as(DirectOptions)
        assert (again.direct_num_workers, again.direct_running_mode) == (2, "multi_threading")
        again.direct_num_workers = 3
        assert copied.get_all_options()["direct_num_workers"] == 3
    view.direct_num_workers = 5
    assert options.get_all_options()["direct_num_workers"] == 5
    assert beam_options(of(runner="direct"), Path("/scratch")).view_as(DirectOptions).direct_num_workers == 1


def test_temporary_files_lie_in_the_run_but_for_those_of_dataflow() -> None:
    assert viewed(of(), GoogleCloudOptions)["temp_location"] == "/scratch"
    assert viewed(of(runner="dataflow", options=CLOUD), GoogleCloudOptions)["temp_location"] == "gs://bucket/tmp"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (of(options={"sdk_harness_log_level_overrides": "no JSON"}), "argument --sdk_harness_log_level_overrides"),
        (
            of(
                runner="portable",
                options={
                    "job_endpoint": "embed",
                    "environment_type": "DOCKER",
                    "environment_options": ("process_command=boot",),
                },
            ),
            "process_command",
        ),
    ],
)
def test_what_only_beam_knows_to_be_wrong_is_the_users_mistake(settings: BeamConfig, said: str, tmp_path: Path) -> None:
    with pytest.raises(RunError) as raised:
        BeamPipelines(settings, tmp_path)()
    assert str(raised.value).startswith("Beam rejects `beam.options`: ")
    assert said in str(raised.value)

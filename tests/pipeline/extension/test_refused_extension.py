"""`pipeline.extend`: what is refused, and how."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from extensions import CONFIG, MODULE, config

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline.api import validate
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
from headrace.pipeline.kubeflow.document import task_name
from headrace.pipeline.validate import check_data


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("number", "'own_parts.number' is not a function"),
        ("raises", "own_parts.raises raised KeyError: 'example'"),
        ("returns_none", "own_parts.returns_none returns None; "),
        ("returns_one", "returns Count Count; "),
        ("yields", "returns <generator object yields"),
        ("extra_is_one", "returns Count Count; "),
        ("returns_names", "returns 'Count', which is not a component"),
        ("twice", "there are 2 components with the id Count"),
        ("same_id", "there are 2 components with the id Trainer"),
        ("renamed", "gives trainer another id"),
        ("bad_id", "my count is no name"),
        ("circle", "in a circle: "),
        ("circle_with_ours", "in a circle: "),
        ("forgotten", "ReadNote reads note of Count, "),
        ("forgotten_gate", "Transform waits for Count, "),
        ("local_executor", "define it at the top of a module"),
        ("resolver", "is a Resolver"),
        ("importer", "is an Importer"),
        ("example_gen", "CsvExampleGen has a driver (FileBasedDriver)"),
        ("infra_validator", "is an InfraValidator"),
        ("container", "has no executor class but a TemplatedExecutorContainerSpec"),
        ("conditional", "Count is in a Cond"),
        ("joined", "ReadNote has an input `note` "),
        ("later", "has a parameter `column` "),
        ("beam_arguments", "set `beam.options`"),
        ("bytes_output", "has an output `raw` of bytes"),
        ("go_output", "has an output `go`"),
        ("reserved", "Stores has a parameter `store`"),
        ("credential", "Count has a credential in its parameter `column`; "),
        ("module_file", "has `module_file`"),
        ("custom_config", "has a `custom_config` "),
        ("trainer", "replaces trainer, which cannot be replaced; set `model.kind`"),
        ("removed", "sets pusher to None"),
        ("absent", "replaces profile_gate, which this config does not have"),
        (
            "lacking",
            "ExampleValidator reads schema of schema_gen, ",
        ),
        ("wrong_type", "that of its replacement is Note, not Schema"),
        ("around", "needs schema_gen itself"),
    ],
)
def test_what_cannot_run_is_refused_with_the_setting_and_the_function(function: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        create_pipeline(config(function))
    assert all(problem.where == "pipeline.extend" for problem in caught.value.problems)
    assert f"own_parts.{function}" in str(caught.value)
    assert words in str(caught.value)


def test_an_error_in_the_function_names_its_line(folder: Path) -> None:
    line = 1 + MODULE.splitlines().index("""    return components.example_gen.outputs["example"]""")
    with pytest.raises(ConfigError, match=rf"\({folder}/own_parts.py:{line}\)"):
        create_pipeline(config("raises"))


def test_a_component_that_the_config_does_not_have_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        create_pipeline(config("waits_for_drift"))
    assert re.search(r"this config has no [\w, ]*drift, ", str(caught.value))
    assert "trainer" not in str(caught.value)


def test_a_pusher_that_knows_nothing_of_approvals_is_refused_where_a_person_approves() -> None:
    for build in (create_pipeline, component_tasks):
        build(config("gate_and_pusher"))
        with pytest.raises(ConfigError) as caught:
            build(config("gate_and_pusher", "deploy.approval=manual"))
        (problem,) = caught.value.problems
        assert problem.where == "pipeline.extend"
        assert "own_parts.gate_and_pusher: replaces pusher" in problem.what
        assert "set `deploy.approval: automatic`" in problem.what
        build(config("two", "deploy.approval=manual"))


def test_two_ids_of_one_task_name_are_refused_when_compiled() -> None:
    with pytest.raises(ConfigError, match="ReadNote and read_note would both be the task read-note"):
        component_tasks(config("same_task"))
    assert (task_name("ExampleGen"), task_name("read_note"), task_name("A.b-c")) == (
        "example-gen",
        "read-note",
        "a-b-c",
    )


def test_validate_reports_what_is_returned_at_its_line() -> None:
    validate("trips.yaml")
    Path("wrong.yaml").write_text(CONFIG.replace("nothing", "returns_none"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        validate("wrong.yaml")
    (problem,) = caught.value.problems
    assert problem.where == "wrong.yaml:1"
    assert problem.what.startswith("pipeline.extend: own_parts.returns_none returns None")


def test_validate_finds_a_function_that_is_missing_or_takes_the_wrong_arguments() -> None:
    def problems(function: str) -> list[str]:
        return [str(one) for one in check_data(load_with_locations("trips.yaml", overrides=(function,)))]

    (missing,) = problems("pipeline.extend=own_parts.nothin")
    assert "pipeline.extend" in missing
    assert "did you mean nothing" in missing.replace('"', "")
    (wrong,) = problems("pipeline.extend=own_parts.count_all")
    assert "count_all" in wrong
    assert problems("pipeline.extend=own_parts.two") == []

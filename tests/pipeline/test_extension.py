"""`pipeline.extend`: what is woven into the DAG, and what is refused."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from headrace.common.errors import ConfigError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load, load_with_locations
from headrace.pipeline.api import validate
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks, task_name
from headrace.pipeline.plan import Node, plan
from headrace.pipeline.training_digest import training_digest
from headrace.pipeline.validate import check_data

CONFIG = """\
pipeline: {name: trips, extend: own_parts.nothing}
data: {source: {kind: csv, path: trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""
TYPES = """\
from tfx.types import Artifact


class Note(Artifact):
    TYPE_NAME = "OwnNote"
"""
PARTS = """\
import dataclasses

from own_types import Note
from tfx.components import BulkInferrer, CsvExampleGen, InfraValidator, SchemaGen, Trainer
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, OutputDict, Parameter
from tfx.dsl.component.experimental.container_component import create_container_component
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.dsl.components.base.base_executor import BaseExecutor
from tfx.dsl.components.base.executor_spec import ExecutorClassSpec
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.experimental.conditionals.conditional import Cond
from tfx.dsl.experimental.latest_artifacts_resolver import LatestArtifactsResolver
from tfx.orchestration.data_types import RuntimeParameter
from tfx.proto import infra_validator_pb2, trainer_pb2
from tfx.types import Channel, standard_artifacts
from tfx.types.channel import union
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.types.standard_artifacts import Examples, ExampleStatistics, Schema

number = 3
seen = {}


@component
def Count(examples: InputArtifact[Examples], note: OutputArtifact[Note], column: Parameter[str]) -> OutputDict(n=int):
    return {"n": 1}


@component
def read_note(note: InputArtifact[Note], n: int, again: OutputArtifact[Note]):
    pass


@component
def ReadNote(note: InputArtifact[Note], n: int, again: OutputArtifact[Note]):
    pass


@component
def Infer(statistics: InputArtifact[ExampleStatistics], schema: OutputArtifact[Schema]):
    pass


@component
def Tighten(schema: InputArtifact[Schema], statistics: InputArtifact[ExampleStatistics], tight: OutputArtifact[Schema]):
    pass


@component
def Wrong(statistics: InputArtifact[ExampleStatistics], schema: OutputArtifact[Note]):
    pass


@component
def Around(inferred: InputArtifact[Schema], schema: OutputArtifact[Schema]):
    pass


@component
def Bytes(examples: InputArtifact[Examples]) -> OutputDict(raw=bytes):
    return {"raw": b""}


@component
def Go(examples: InputArtifact[Examples]) -> OutputDict(go=str):
    return {"go": "no"}


@component
def Stores(examples: InputArtifact[Examples], store: Parameter[str]):
    pass


class ModelSpec(ComponentSpec):
    INPUTS = {"examples": ChannelParameter(type=Examples)}
    OUTPUTS = {"note": ChannelParameter(type=Note)}
    PARAMETERS = {
        "run_fn": ExecutionParameter(type=str, optional=True),
        "module_file": ExecutionParameter(type=str, optional=True),
        "custom_config": ExecutionParameter(type=str, optional=True),
    }


class ModelExecutor(BaseExecutor):
    def Do(self, input_dict, output_dict, exec_properties):
        pass


class OwnModel(BaseComponent):
    SPEC_CLASS = ModelSpec
    EXECUTOR_SPEC = ExecutorClassSpec(ModelExecutor)

    def __init__(self, examples, executor=None, **parameters):
        spec = ModelSpec(examples=examples, note=Channel(type=Note), **parameters)
        super().__init__(spec, custom_executor_spec=executor and ExecutorClassSpec(executor))


def examples(components):
    return components.example_gen.outputs["examples"]


def count(components, **parameters):
    return Count(examples=examples(components), **{"column": "fare", **parameters})


def names_a_table(components):
    return [count(components, column="tables.trips")]


def nothing(components):
    return []


def look(components):
    seen.update(components.named())
    return []


def two(components):
    counts = count(components)
    reads = read_note(note=counts.outputs["note"], n=counts.outputs["n"])
    components.transform.add_upstream_node(reads)
    return [counts, reads]


def own(components):
    return [OwnModel(examples(components), run_fn="own_types.Note")]


def replaced(components):
    mine = Infer(statistics=components.statistics_gen.outputs["statistics"])
    reads = Tighten(
        schema=components.schema_gen.outputs["schema"], statistics=components.statistics_gen.outputs["statistics"]
    )
    return dataclasses.replace(components, schema_gen=mine, extra=[reads])


def gate_and_pusher(components):
    mine = Infer(statistics=components.statistics_gen.outputs["statistics"])
    return dataclasses.replace(components, data_gate=mine, pusher=count(components))


def raises(components):
    return components.example_gen.outputs["example"]


def waits_for_drift(components):
    return [count(components, column=components.drift.id)]


def returns_none(components):
    count(components)


def returns_one(components):
    return count(components)


def yields(components):
    yield count(components)


def extra_is_one(components):
    return dataclasses.replace(components, extra=count(components))


def returns_names(components):
    return ["Count"]


def twice(components):
    return [count(components), count(components)]


def renamed(components):
    components.trainer.with_id("Learner")
    return []


def same_id(components):
    return [count(components).with_id("Trainer")]


def bad_id(components):
    return [count(components).with_id("my count")]


def circle(components):
    one, other = count(components), count(components).with_id("Other")
    one.add_upstream_node(other)
    other.add_upstream_node(one)
    return [one, other]


def circle_with_ours(components):
    late = OwnModel(components.transform.outputs["transformed_examples"])
    components.data_gate.add_upstream_node(late)
    return [late]


def forgotten(components):
    counts = count(components)
    return [ReadNote(note=counts.outputs["note"], n=counts.outputs["n"])]


def forgotten_gate(components):
    components.transform.add_upstream_node(count(components))
    return []


def local_executor(components):
    class Inside(BaseExecutor):
        def Do(self, input_dict, output_dict, exec_properties):
            pass

    return [OwnModel(examples(components), executor=Inside)]


def resolver(components):
    return [Resolver(strategy_class=LatestArtifactsResolver, note=Channel(type=Note))]


def importer(components):
    return [Importer(source_uri="x", artifact_type=Note)]


def example_gen(components):
    return [CsvExampleGen(input_base="x")]


def infra_validator(components):
    return [InfraValidator(model=components.trainer.outputs["model"], serving_spec=infra_validator_pb2.ServingSpec())]


def container(components):
    return [create_container_component(name="Box", image="busybox", command=["true"])()]


def conditional(components):
    with Cond(components.trainer.outputs["model"].future()[0].property("x") == "y"):
        return [count(components)]


def joined(components):
    counts, other = count(components), count(components).with_id("Other")
    notes = union([counts.outputs["note"], other.outputs["note"]])
    return [counts, other, ReadNote(note=notes, n=counts.outputs["n"])]


def later(components):
    return [count(components, column=RuntimeParameter(name="column", ptype=str))]


def beam_arguments(components):
    return [BulkInferrer(examples=examples(components)).with_beam_pipeline_args(["--direct_num_workers=2"])]


def bytes_output(components):
    return [Bytes(examples=examples(components))]


def go_output(components):
    return [Go(examples=examples(components))]


def reserved(components):
    return [Stores(examples=examples(components), store="x")]


def credential(components):
    return [count(components, column="postgresql://shop:hunter2@db.example/trips")]


def module_file(components):
    return [OwnModel(examples(components), module_file="/x/mine.py")]


def custom_config(components):
    return [OwnModel(examples(components), custom_config="[1]")]


def trainer(components):
    return dataclasses.replace(components, trainer=count(components))


def removed(components):
    return dataclasses.replace(components, pusher=None)


def absent(components):
    return dataclasses.replace(components, profile_gate=count(components))


def lacking(components):
    return dataclasses.replace(components, schema_gen=count(components))


def wrong_type(components):
    mine = Wrong(statistics=components.statistics_gen.outputs["statistics"])
    return dataclasses.replace(components, schema_gen=mine)


def around(components):
    return dataclasses.replace(components, schema_gen=Around(inferred=components.schema_gen.outputs["schema"]))


def same_task(components):
    counts = count(components)
    made = {"note": counts.outputs["note"], "n": counts.outputs["n"]}
    return [counts, read_note(**made), ReadNote(**made)]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("own_parts")
    files = {
        "trips.yaml": CONFIG,
        "trips.csv": "fare,tip\n" + "".join(f"{row}.5,{row % 2}\n" for row in range(40)),
        "own_types.py": TYPES,
        "own_parts.py": PARTS,
    }
    for name, text in files.items():
        (made / name).write_text(text, encoding="utf-8")
    return made


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))


def config(function: str, *overrides: str) -> PipelineConfig:
    return load("trips.yaml", overrides=(f"pipeline.extend=own_parts.{function}", *overrides))


def nodes(function: str, *overrides: str) -> dict[str, Node]:
    return plan(create_pipeline(config(function, *overrides)))


def test_a_function_that_returns_nothing_changes_nothing() -> None:
    ours = nodes("nothing", "pipeline.extend=null")
    assert {id_: (node.digest, node.upstream) for id_, node in nodes("nothing").items()} == {
        id_: (node.digest, node.upstream) for id_, node in ours.items()
    }


def test_further_components_read_ours_and_each_other_and_ours_can_wait_for_them() -> None:
    found = nodes("two")
    assert found["Count"].inputs == {"examples": (("ExampleGen", "examples"),)}
    assert found["read_note"].inputs == {"note": (("Count", "note"),), "n": (("Count", "n"),)}
    assert {"DataGate", "read_note"} <= {*found["Transform"].upstream}
    assert found["Count"].cacheable


def test_the_page_lists_the_components_with_their_outputs() -> None:
    everything = (
        "data.source.path=trips-{SPAN}.csv",
        "schedule={every: 1h, retrain: drift}",
        "train={warm_start: true, profile: {batches: [1, 2], fail_if_input_bound_above: 0.5}}",
        "tune={max_trials: 2, parameters: {train.batch_size: {choices: [8, 16]}}}",
    )
    create_pipeline(config("look", *everything))
    found = {name: {*node.outputs} for name, node in importlib.import_module("own_parts").seen.items()}
    page = (Path(__file__).parents[2] / "docs" / "components.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|(.*)\|$", page, re.MULTILINE)
    assert {name: {*re.findall(r"`(\w+)`", outputs)} for name, _, outputs in rows} == found
    create_pipeline(config("look", "deploy.push=null"))
    absent = {name for name, node in importlib.import_module("own_parts").seen.items() if node is None}
    assert absent == {name for name, condition, _ in rows if condition.strip()}


def test_the_modules_of_types_and_of_named_functions_are_in_the_cache_key() -> None:
    assert nodes("own")["OwnModel"].modules == ("own_types",)
    assert {"own_parts", "own_types"} <= nodes("own")["OwnModel"].parts["sources"].keys()
    assert nodes("own")["Trainer"].modules == ()


def test_a_parameter_that_only_looks_like_a_function_is_no_code(folder: Path) -> None:
    (folder / "tables").mkdir(exist_ok=True)
    assert nodes("names_a_table")["Count"].modules == ("own_types",)


def test_another_function_in_the_same_module_is_another_training() -> None:
    assert training_digest(config("nothing")) != training_digest(config("two"))


def test_a_replacement_takes_the_id_and_the_readers_of_what_it_replaces() -> None:
    found = nodes("replaced")
    assert found["SchemaGen"].executor.__name__ == "Infer_Executor"
    assert found["SchemaGen"].inputs == {"statistics": (("StatisticsGen", "statistics"),)}
    readers = {"ExampleValidator", "Transform", "Trainer", "Baseline", "RecordBlessing", "Tighten"}
    assert {id_ for id_, node in found.items() if (("SchemaGen", "schema"),) in node.inputs.values()} == readers
    assert "Infer" not in found


def test_a_replacement_waits_and_is_waited_for_as_what_it_replaces() -> None:
    profiled = ("train.profile={batches: [1, 2], fail_if_input_bound_above: 0.5}",)
    found = nodes("gate_and_pusher", *profiled)
    assert "DataGate" in found["Transform"].upstream
    assert found["Pusher"].upstream == ("ExampleGen", "ProfileGate")


def test_what_was_trained_on_is_recorded_after_further_components() -> None:
    spans = ("data.source.path=trips-{SPAN}.csv", "schedule={every: 1h, retrain: new_span}")
    found = nodes("two", *spans)
    assert {"Count", "read_note", "Pusher"} <= {*found["RecordTraining"].upstream}
    assert found["Spans"].executor.__name__ == "LookForNew_Executor"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("number", "'own_parts.number' is not a function"),
        ("raises", "own_parts.raises raised KeyError: 'example'"),
        ("returns_none", "own_parts.returns_none returns None; it must return a list of components"),
        ("returns_one", "returns Count Count; it must return a list"),
        ("yields", "returns <generator object yields"),
        ("extra_is_one", "returns Count Count; it must return a list"),
        ("returns_names", "returns 'Count', which is not a component"),
        ("twice", "there are 2 components with the id Count"),
        ("same_id", "there are 2 components with the id Trainer"),
        ("renamed", "gives trainer another id"),
        ("bad_id", "my count is no name"),
        ("circle", "in a circle: "),
        ("circle_with_ours", "in a circle: "),
        ("forgotten", "ReadNote reads note of Count, which is not in the pipeline; return Count too"),
        ("forgotten_gate", "Transform waits for Count, which is not in the pipeline"),
        ("local_executor", "cannot be imported; define it at the top of a module"),
        ("resolver", "is a Resolver"),
        ("importer", "is an Importer"),
        ("example_gen", "CsvExampleGen has a driver (FileBasedDriver)"),
        ("infra_validator", "is an InfraValidator"),
        ("container", "has no executor class but a TemplatedExecutorContainerSpec"),
        ("conditional", "Count is in a Cond"),
        ("joined", "ReadNote has an input `note` that is a UnionChannel"),
        ("later", "has a parameter `column` whose value is known only at run time"),
        ("beam_arguments", "set `beam.options`"),
        ("bytes_output", "has an output `raw` of bytes"),
        ("go_output", "has an output `go`"),
        ("reserved", "Stores has a parameter `store`"),
        ("credential", "Count has a credential in its parameter `column`; pass the name of an environment variable"),
        ("module_file", "has `module_file`"),
        ("custom_config", "has a `custom_config` that is not a JSON object"),
        ("trainer", "replaces trainer, which cannot be replaced; set `model.kind`"),
        ("removed", "sets pusher to None"),
        ("absent", "replaces profile_gate, which this config does not have"),
        (
            "lacking",
            "ExampleValidator reads schema of schema_gen, and its replacement has no such output; it has n, note",
        ),
        ("wrong_type", "that of its replacement is Note, not Schema"),
        ("around", "schema_gen is replaced by a component that needs schema_gen itself"),
    ],
)
def test_what_cannot_run_is_refused_with_the_setting_and_the_function(function: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        create_pipeline(config(function))
    assert all(problem.where == "pipeline.extend" for problem in caught.value.problems)
    assert f"own_parts.{function}" in str(caught.value)
    assert words in str(caught.value)


def test_an_error_in_the_function_names_its_line(folder: Path) -> None:
    line = 1 + PARTS.splitlines().index("""    return components.example_gen.outputs["example"]""")
    with pytest.raises(ConfigError, match=rf"\({folder}/own_parts.py:{line}\)"):
        create_pipeline(config("raises"))


def test_a_component_that_the_config_does_not_have_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        create_pipeline(config("waits_for_drift"))
    assert "this config has no drift, " in str(caught.value)
    assert "trainer" not in str(caught.value)


def test_two_ids_of_one_task_name_are_refused_when_compiled() -> None:
    with pytest.raises(ConfigError, match="ReadNote and read_note would both be the task read-note"):
        component_tasks(config("same_task"))
    assert (task_name("ExampleGen"), task_name("read_note"), task_name("A.b-c")) == (
        "example-gen",
        "read-note",
        "a-b-c",
    )


def test_a_pod_gets_settings_under_the_id_of_a_further_component() -> None:
    own = "kubeflow.components={Count: {memory: 1Gi}, Pusher: {memory: 1Gi}}"
    tasks = {task.name: task for task in component_tasks(config("two", own))}
    assert tasks["count"].invocation.outputs["note"].type == "own_types:Note"
    assert (tasks["read-note"].text_inputs(), tasks["read-note"].inputs["n"]) == (["n"], ("count", "n"))
    assert "read-note" in tasks["transform"].after
    with pytest.raises(ConfigError, match=r"kubeflow\.components\.Cuont: there is no component Cuont; did you mean"):
        component_tasks(config("two", "kubeflow.components={Cuont: {memory: 1Gi}}"))


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

"""The DAG as runners see it: who feeds whom, what may be reused, and which setting concerns which component."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trips_folder
from tfx.types.value_artifact import ValueArtifact

from headrace.common.errors import DataError
from headrace.configs.loading.loader import load
from headrace.configs.schema.train import CheckpointConfig
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.plan import Node, plan
from headrace.trainer.job import Job
from headrace.trainer.weights.sidecar import work_digest

NODES = [
    "Spans", "ExampleGen", "StatisticsGen", "SchemaGen", "ExampleValidator", "DataGate", "Transform", "Trainer",
    "Baseline", "Canary", "Evaluator", "Pusher", "RecordBlessing",
]  # fmt: skip

CONFIG = (
    trips_folder.CONFIG
    + """\
  kind: {column: vocabulary, file: kinds.txt}
  pace: {column: custom, function: mine_features.pace, keys: [fare, kind]}
model: {kind: mine_models.build}
evaluate:
  thresholds: {auc: {min: 0.6}}
deploy: {push: serving}
"""
)

SCHEMA = 'feature { name: "fare" type: FLOAT }\nfeature { name: "tip" type: INT }\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trips.csv").write_text("fare,kind,seconds,tip\n1.5,x,3,0\n")
    (tmp_path / "kinds.txt").write_text("x\ny\n")
    (tmp_path / "trips.yaml").write_text(CONFIG)
    (tmp_path / "mine_features.py").write_text("def pace(raw): ...\n")
    (tmp_path / "mine_models.py").write_text("def build(features, label, model): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def nodes(*overrides: str) -> dict[str, Node]:
    return plan(create_pipeline(load("trips.yaml", overrides=overrides)))


def changed(before: dict[str, Node], after: dict[str, Node]) -> set[str]:
    assert set(before) == set(after)
    return {id_ for id_ in before if before[id_].digest != after[id_].digest}


def test_nodes_come_after_all_that_they_need() -> None:
    found = nodes()
    order = list(found)
    assert set(order) == set(NODES)
    for id_, node in found.items():
        needed = {*node.upstream, *(producer for channels in node.inputs.values() for producer, _ in channels)}
        assert needed == set(node.upstream)
        assert all(order.index(other) < order.index(id_) for other in needed)


def test_artifacts_flow_as_the_design_says() -> None:
    found = nodes()
    assert found["ExampleGen"].inputs == {"spans": (("Spans", "spans"),)}
    assert found["Transform"].inputs == {
        "examples": (("ExampleGen", "examples"),),
        "schema": (("SchemaGen", "schema"),),
    }
    assert set(found["Transform"].upstream) == {"ExampleGen", "SchemaGen", "DataGate"}
    assert found["Trainer"].inputs["examples"] == (("Transform", "transformed_examples"),)
    assert found["Evaluator"].inputs["baseline_model"] == (("Baseline", "baseline"),)
    assert found["Pusher"].inputs == {
        "model": (("RecordBlessing", "newest"),),
        "model_blessing": (("Evaluator", "blessing"),),
        "entry": (("RecordBlessing", "entry"),),
        "canary": (("Canary", "blessing"),),
    }
    assert found["Canary"].upstream == ("ExampleGen", "Trainer", "Transform")
    assert found["RecordBlessing"].inputs["canary"] == (("Canary", "blessing"),)
    assert found["RecordBlessing"].upstream == ("Canary", "Evaluator", "SchemaGen", "Trainer")


def test_components_that_look_outside_run_each_time_and_the_others_are_reused() -> None:
    assert {id_ for id_, node in nodes().items() if not node.cacheable} == {"Spans", "Baseline", "RecordBlessing"}


PREDICT = "predict={source: {kind: csv, path: new.csv}, output: scored.parquet}"


def test_new_data_is_predicted_after_the_push_by_the_model_in_service() -> None:
    found = nodes(PREDICT)
    predicts = ["ModelInService", "PredictSpans", "BulkPredictor", "PublishPredictions"]
    assert list(found)[-4:] == predicts
    assert set(found) == {*NODES, *predicts}
    assert found["ModelInService"].upstream == ("Pusher",)
    assert found["PredictSpans"].upstream == ("ModelInService", "Spans")
    assert found["BulkPredictor"].inputs == {
        "spans": (("PredictSpans", "spans"),),
        "model": (("ModelInService", "newest"),),
    }
    assert found["PublishPredictions"].inputs["version"] == (("ModelInService", "version"),)
    assert [id_ for id_ in predicts if found[id_].cacheable] == ["BulkPredictor"]


def test_without_a_push_new_data_is_predicted_by_the_newest_blessed_model() -> None:
    found = nodes(PREDICT, "deploy.push=null")
    assert "ModelInService" not in found
    assert found["BulkPredictor"].inputs["model"] == (("RecordBlessing", "newest"),)
    assert found["PredictSpans"].upstream == ("RecordBlessing", "Spans")
    assert set(found["PublishPredictions"].inputs) == {"predictions", "model", "spans"}


def test_a_pipeline_that_only_predicts_has_no_other_components_and_shares_their_cache() -> None:
    found, whole = nodes(PREDICT, "predict.only=true"), nodes(PREDICT)
    assert set(found) == {"ModelInService", "PredictSpans", "BulkPredictor", "PublishPredictions"}
    assert found["BulkPredictor"].digest == whole["BulkPredictor"].digest
    assert found["BulkPredictor"].inputs["model"] == (("ModelInService", "newest"),)
    assert found["PublishPredictions"].inputs["version"] == (("ModelInService", "version"),)
    assert not found["ModelInService"].cacheable


@pytest.mark.parametrize(
    ("override", "ids"),
    [
        ("predict.output=other.parquet", {"PublishPredictions"}),
        ("predict.output=other.csv", {"PublishPredictions", "BulkPredictor"}),
        ("predict.columns=[fare]", {"BulkPredictor"}),
        ("predict.batch_size=7", {"BulkPredictor"}),
        ("predict.source.path=newer.csv", {"PredictSpans", "BulkPredictor"}),
        ("predict.on_bad_record=skip", {"BulkPredictor"}),
        ("evaluate.thresholds.auc.min=0.7", {"Evaluator"}),
    ],
)
def test_a_setting_of_predictions_concerns_no_training(override: str, ids: set[str]) -> None:
    assert changed(nodes(PREDICT), nodes(PREDICT, override)) == ids


def test_a_run_fn_gets_records_and_nothing_before_transform_changes(here: Path) -> None:
    ours, as_records = nodes(), nodes("transform.materialize=always")
    assert changed(ours, as_records) == {"Transform"}
    own = "run_fn: mine_models.build, train_steps: 1, eval_steps: 1"
    (here / "trips.yaml").write_text(CONFIG.replace("kind: mine_models.build", own))
    theirs = nodes()
    found = [one["Transform"].exec_properties["materialize"] for one in (ours, as_records, theirs)]
    assert found == ["auto", "always", "always"]
    assert changed(as_records, theirs) == {"Trainer", "Canary", "Evaluator"}
    assert changed(theirs, nodes("transform.materialize=always")) == set()


SKEW = "gates.skew={source: {kind: jsonl, path: log.jsonl}}"
LOGGED = {"ServingLog", "ServingStatistics"}


def test_a_log_is_listed_in_every_run_and_read_again_only_if_it_changed() -> None:
    found, drift = nodes(SKEW), nodes("gates.drift.blessed={}")
    assert set(found) - {*NODES} == {*LOGGED, "DataVerdict"}
    assert [id_ for id_ in (*sorted(LOGGED), "DataVerdict") if found[id_].cacheable] == ["ServingStatistics"]
    assert found["ServingStatistics"].inputs == {"log": (("ServingLog", "log"),)}
    assert found["DataVerdict"].inputs["serving"] == (("ServingStatistics", "statistics"),)
    assert "skew" not in drift["DataVerdict"].exec_properties["gates"]  # whose tasks are as before there was this gate
    assert {"serving", "labels"}.isdisjoint({*drift["DataVerdict"].inputs, *drift["DataVerdict"].exec_properties})


@pytest.mark.parametrize(
    ("override", "ids"),
    [
        ("gates.skew.categorical=0.2", {"DataVerdict"}),
        ("gates.skew.required=true", {"DataVerdict"}),
        ("gates.skew.window=all", {"DataVerdict", "ServingLog"}),
        ("gates.skew.delay=1", {"DataVerdict", "ServingLog"}),
        ("gates.skew.on_bad_record=skip", {"DataVerdict", "ServingStatistics"}),
        ("gates.skew.source.path=logs.jsonl", {"DataVerdict", *LOGGED}),
    ],
)
def test_a_setting_of_the_log_concerns_no_training(override: str, ids: set[str]) -> None:
    logged = 'gates.skew.source.path="{YYYY}-{MM}-{DD}.jsonl"'
    assert changed(nodes(SKEW, logged), nodes(SKEW, logged, override)) == ids


def test_types_of_a_curated_schema_are_those_of_a_log_of_texts(here: Path) -> None:
    (here / "curated.pbtxt").write_text(
        SCHEMA + 'feature { name: "kind" type: BYTES }\nfeature { name: "id" type: INT }\n'
    )

    def types(*overrides: str) -> dict[str, str]:
        given = nodes(SKEW, "data.schema=curated.pbtxt", *overrides)["ServingStatistics"].exec_properties["data"]
        found: dict[str, str] = json.loads(given)["types"]
        return found

    csv = "gates.skew.source={kind: csv, path: log.csv}"
    assert types(csv) == {"fare": "float", "kind": "string", "tip": "int"}  # and not `id`, which is not compared
    assert types(csv, "data.types={fare: int}")["fare"] == "int"
    assert types() == {}


def test_nodes_name_their_kind_as_tfx_does_and_the_types_of_their_outputs() -> None:
    found = nodes()
    assert found["Trainer"].kind == "tfx.components.trainer.component.Trainer"
    assert {key: type_.TYPE_NAME for key, type_ in found["Trainer"].outputs.items()} == {
        "model": "Model",
        "model_run": "ModelRun",
    }
    assert issubclass(found["Spans"].outputs["spans"], ValueArtifact)


def test_without_a_place_to_push_to_there_is_no_pusher_and_no_canary() -> None:
    assert set(nodes("deploy.push=null")) == set(NODES) - {"Pusher", "Canary"}


def test_a_canary_that_is_turned_off_is_not_waited_for() -> None:
    found = nodes("deploy.canary=null")
    assert set(found) == set(NODES) - {"Canary"}
    assert found["RecordBlessing"].upstream == ("Evaluator", "SchemaGen", "Trainer")


def test_canary_without_a_replay_reads_what_the_trainer_recorded_and_the_order_of_its_examples() -> None:
    canary = nodes("deploy.canary.replay=null")["Canary"]
    assert canary.upstream == ("ExampleGen", "Trainer", "Transform")
    assert canary.inputs["model_run"] == (("Trainer", "model_run"),)


def test_conversion_for_devices_comes_between_the_canary_and_what_depends_on_its_verdict() -> None:
    found = nodes("deploy.lite={}")
    assert set(found) == {*NODES, "Lite"}
    assert found["Lite"].upstream == ("Canary", "ExampleGen", "Trainer")
    consumers = ("RecordBlessing", "Pusher")
    assert {found[id_].inputs["canary"] for id_ in consumers} == {(("Lite", "blessing"),)}
    assert nodes("deploy.lite={}", "deploy.canary=null")["Lite"].upstream == ("ExampleGen", "Trainer")
    assert changed(found, nodes("deploy.lite={precision: int8}")) == {"Lite"}


def test_same_config_gives_the_same_digests() -> None:
    assert changed(nodes(), nodes()) == set()


@pytest.mark.parametrize(
    ("override", "ids"),
    [
        ("train.epochs=9", {"Trainer"}),
        ("model.hidden=[7]", {"Trainer"}),
        ("features.fare.normalize=log", {"DataGate", "Transform", "Trainer"}),
        ("label.key=seconds", {"DataGate", "Transform", "Trainer", "Evaluator", "Baseline", "RecordBlessing"}),
        ("evaluate.thresholds.auc.min=0.7", {"Evaluator"}),
        ("evaluate.slices=[kind]", {"Evaluator"}),
        ("evaluate.split=eval", {"Evaluator", "Canary"}),
        ("evaluate.better_than_constant=false", {"Evaluator"}),
        ("deploy.canary.latency_p50_ms=20", {"Canary"}),
        ("deploy.canary.latency_p99_ms=20", {"Canary"}),
        ("deploy.canary.memory_mb=900", {"Canary"}),
        ("deploy.canary.examples=10", {"Canary"}),
        ("deploy.canary.replay.on_difference=warn", {"Canary"}),
        ("data.on_anomaly=warn", {"DataGate", "Trainer"}),
        ("data.shuffle_seed=1", {"ExampleGen"}),
        ("data.source.delimiter=;", {"ExampleGen", "Spans"}),
        ("deploy.push=elsewhere", {"Pusher"}),
        ("pipeline.root=other", {"Baseline", "RecordBlessing", "Pusher"}),
        ("beam.workers=2", set()),
        ("beam.runner=direct", set()),
    ],
)
def test_setting_changes_the_components_that_it_concerns_and_no_others(override: str, ids: set[str]) -> None:
    assert changed(nodes(), nodes(override)) == ids


def test_edited_vocabulary_file_changes_transform_and_trainer(here: Path) -> None:
    before = nodes()
    (here / "kinds.txt").write_text("x\nz\n")
    assert changed(before, nodes()) == {"Transform", "Trainer"}


def test_edited_trained_network_changes_the_trainer_alone(here: Path) -> None:
    (here / "network").mkdir()
    (here / "network" / "saved_model.pb").write_bytes(b"old")
    photo = "features.photo={column: image, height: 8, width: 8}"
    settings = (photo, "model={kind: image, backbone: {saved_model: network}}")
    before = nodes(*settings)
    (here / "network" / "saved_model.pb").write_bytes(b"new")
    assert changed(before, nodes(*settings)) == {"Trainer"}


def test_curated_schema_stands_for_the_inferred_one_and_is_read_each_time(here: Path) -> None:
    (here / "trips.pbtxt").write_text(SCHEMA)
    found = nodes("data.schema=trips.pbtxt")
    assert set(found) == set(NODES)
    assert found["SchemaGen"].inputs == {}
    assert not found["SchemaGen"].cacheable
    assert found["SchemaGen"].exec_properties["schema_file"] == str(here / "trips.pbtxt")
    (here / "trips.pbtxt").write_text(SCHEMA.replace("FLOAT", "INT"))
    assert changed(found, nodes("data.schema=trips.pbtxt")) == {"ExampleGen"}


def test_curated_schema_that_is_none_is_reported(here: Path) -> None:
    (here / "trips.pbtxt").write_text("feature { nam")
    with pytest.raises(DataError, match=r"trips\.pbtxt"):
        nodes("data.schema=trips.pbtxt")


def test_parameters_of_transform_do_not_hold_the_place_of_the_folder(here: Path) -> None:
    custom = json.loads(nodes()["Transform"].exec_properties["custom_config"])
    assert set(custom) == {"config", "sources", "files"}
    assert str(here) not in json.dumps(custom)


def test_search_runs_again_for_what_its_trials_see_alone() -> None:
    tune = "tune={parameters: {train.learning_rate: {min: 0.001, max: 0.1}}}"
    before = nodes(tune)
    assert set(before) == {*NODES, "Tuner"}
    assert before["Trainer"].inputs["hyperparameters"] == (("Tuner", "best_hyperparameters"),)
    assert changed(before, nodes(tune, "evaluate.thresholds={auc: {min: 0.7}}")) == {"Evaluator"}
    assert changed(before, nodes(tune, "tune.seed=1")) == {"Tuner"}
    assert changed(before, nodes(tune, "train.batch_size=64")) == {"Tuner", "Trainer"}


def test_how_checkpoints_are_kept_reaches_the_trainer_and_runs_nothing_again() -> None:
    tune = "tune={parameters: {train.learning_rate: {min: 0.001, max: 0.1}}}"
    changes = ("train.warm_start=true", "train.profile={batches: [5, 9]}", tune)
    before, after = nodes(*changes), nodes(*changes, "train.checkpoint={every_steps: 7, keep: 5}")
    assert changed(before, after) == set()
    custom = json.loads(after["Trainer"].exec_properties["custom_config"])
    assert Job(custom, "").sections.train.checkpoint == CheckpointConfig(every_steps=7, keep=5)
    other = json.loads(before["Trainer"].exec_properties["custom_config"])
    assert work_digest(custom, "/graph") == work_digest(other, "/graph")


def test_a_limit_on_waiting_for_input_is_judged_apart_so_that_the_verdict_stays() -> None:
    profiled = nodes("train.profile={batches: [5, 9]}")
    assert set(profiled) == {*NODES, "ProfileVerdict"}
    assert "ProfileVerdict" not in profiled["Pusher"].upstream
    limited = nodes("train.profile={batches: [5, 9], fail_if_input_bound_above: 0.2}")
    assert set(limited) == {*NODES, "ProfileVerdict", "ProfileGate"}
    assert {name for name, node in limited.items() if "ProfileGate" in node.upstream} == {"RecordBlessing", "Pusher"}
    raised = nodes("train.profile={batches: [5, 9], fail_if_input_bound_above: 0.5}")
    assert changed(limited, raised) == {"ProfileGate"}
    assert {name for name in profiled if profiled[name].digest != limited[name].digest} == set()


def test_training_is_recorded_after_everything_else_so_that_a_killed_run_is_not_taken_for_done() -> None:
    found = nodes(
        "schedule={cron: '0 5 * * *', retrain: new_span}",
        "train.profile={batches: [5, 9], fail_if_input_bound_above: 0.2}",
    )
    ended, behind = set[str](), ["RecordTraining"]
    while behind:
        upstream = set(found[behind.pop()].upstream) - ended
        ended |= upstream
        behind += upstream
    assert ended == set(found) - {"RecordTraining"}

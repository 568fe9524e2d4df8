"""Rollback and approval of models on Kubeflow, through the records that the pods of the next runs read."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command import Finished, headrace
from forks import Forked
from page_tables import tables

from headrace import predict
from headrace.common.checksums import checksum
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.verify.cluster import Cluster, ClusterRun

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: %s/trips.csv}, fingerprint: checksums}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
model: {kind: linear}
train: {epochs: 1, jit: "off"}
evaluate: {better_than_constant: false, metrics: [auc]}
deploy: {push: serving, canary: null}
kubeflow: {image: "registry.example/headrace:1"}
"""
MANUAL = "deploy.approval=manual"
AS_SOMEBODY = ("-c", "user.name=a", "-c", "user.email=b")
PREDICT = "predict={source: {kind: csv, path: %s/new.csv}, output: scored.csv}"
ROWS = 600
"""So that an AUC has an interval: the split that is evaluated needs 40 examples."""


@dataclass
class Story:
    """Runs in a cluster, and commands in between."""

    folder: Path
    cluster: Cluster
    runs: dict[str, ClusterRun] = field(default_factory=dict)
    commands: dict[str, Finished] = field(default_factory=dict)
    listed: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What `headrace models` printed after a command or run: each model by its run."""
    scored: dict[str, bytes] = field(default_factory=dict)
    """The predictions of new data after a run that predicts."""

    @property
    def home(self) -> str:
        return "minio://mlpipeline/v2/artifacts/trips"

    def run(self, name: str, epochs: int, *overrides: str) -> None:
        config = load(self.folder / "trips.yaml", overrides=list(overrides))
        self.runs[name] = self.cluster.run(compile_pipeline(config, folder=self.folder), {"epochs": epochs})
        self._list(name, *overrides)
        scored = self.cluster.path(f"{self.home}/scored.csv")
        self.scored |= {name: scored.read_bytes()} if scored.exists() else {}

    def command(self, name: str, verb: str, *arguments: str) -> None:
        self.commands[name] = self._headrace(verb, *arguments)
        self._list(name, *(each for each in arguments if each == MANUAL))

    def model(self, run: str) -> str:
        return str(self.runs[run].tasks["trainer"].artifacts["model"]["uri"])

    def id(self, run: str) -> str:
        """The run of a model."""
        return self.model(run).removeprefix(f"{self.home}/").split("/")[0]

    def baseline(self, run: str) -> str:
        return str(json.loads(unpack(str(self.runs[run].tasks["baseline"].parameters["baseline"])))["uri"])

    def pushed(self, run: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.runs[run].tasks["pusher"].artifacts["pushed_model"]["metadata"]
        return found

    def _headrace(self, verb: str, *arguments: str) -> Finished:
        return headrace(self.folder, verb, "trips.yaml", *arguments, HEADRACE_STORE=str(self.cluster.store_folder))

    def _list(self, name: str, *overrides: str) -> None:
        with_settings = [word for override in overrides for word in ("--set", override)]
        done = self._headrace("models", "--kubeflow", "--json", *with_settings)
        assert done.code == 0, done.err
        self.listed[name] = {model["run"]: model for model in json.loads(done.out)}


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def forked_pods() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Forked)
        yield


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("models")
    rows = [f"{number}.5,{int(number % 7 > 3)}\n" for number in range(ROWS)]
    (folder / "new.csv").write_text("".join(["fare\n", *(f"{number}.25\n" for number in range(0, ROWS, 20))]))
    (folder / "trips.csv").write_text("".join(["fare,tip\n", *rows]))
    (folder / "trips.yaml").write_text(CONFIG % folder)
    git(folder, "init", "-q")
    git(folder, "add", "trips.yaml")
    git(folder, *AS_SOMEBODY, "commit", "-qm1")
    story = Story(folder, Cluster(folder / "cluster", "minio://mlpipeline/v2/artifacts"))
    with forked_pods():
        story.run("a", 1)
        story.run("b", 2)
        story.command("rolled back", "rollback", "--kubeflow")
        story.run("b again", 2, PREDICT % folder)
        git(folder, *AS_SOMEBODY, "commit", "-qm2", "--allow-empty")
        story.run("c", 3, MANUAL, PREDICT % folder)
        story.run("c again", 3, MANUAL)
        story.command("older", "promote", "--kubeflow", "--to", story.id("b"), "--set", MANUAL)
        story.command("promoted", "promote", "--kubeflow", "--json", "--set", MANUAL)
        story.run("c in service", 3, MANUAL, PREDICT % folder)
        story.command("nothing", "promote", "--kubeflow", "--set", MANUAL)
        story.command("lineage", "lineage", "--kubeflow", "--json")
        story.command("shown", "lineage", story.id("a"), "--kubeflow")
        story.command("forward", "lineage", f"{folder}/trips.csv", "--kubeflow", "--json")
        version = str(json.loads(story.commands["promoted"].out)["version"])
        story.command("compared", "compare", story.id("a"), version, "--kubeflow", "--json")
        story.command("table", "compare", story.id("a"), version, "--kubeflow")
        story.command("page", "compare", story.id("a"), version, "--kubeflow", "--output", "comparison.html")
    return story


def test_rollback_pushes_the_model_before_as_a_whole_new_version(story: Story) -> None:
    done = story.commands["rolled back"]
    assert done.code == 0, done.out + done.err
    first, second = (int(float(story.pushed(run)["pushed_version"])) for run in ("a", "b"))
    model = story.listed["rolled back"][story.id("a")]
    (_, version) = model["versions"]
    assert model["versions"][0] == first < second < version
    assert model["in_service"]
    assert done.lines == [
        f"in service  {story.home}/serving/{version}, the model {story.model('a')}",
        f"withdrawn   {story.model('b')}",
    ]
    served = story.cluster.path(f"{story.home}/serving/{version}")
    assert checksum(served) == checksum(story.cluster.path(story.model("a")) / "Format-Serving")
    assert story.listed["rolled back"][story.id("b")]["withdrawn_at"]


def test_run_after_a_rollback_compares_with_the_model_in_service_and_pushes_nothing(story: Story) -> None:
    assert (story.baseline("b"), story.baseline("b again")) == (story.model("a"), story.model("a"))
    assert "trainer" in story.runs["b again"].cached
    assert story.model("b again") == story.model("b")
    assert story.pushed("b again")["pushed"] == 0
    assert "headrace_withdrawn" in story.pushed("b again")
    assert story.listed["b again"] == story.listed["rolled back"]


def test_blessed_model_awaits_approval_until_it_is_promoted(story: Story) -> None:
    assert story.baseline("c") == story.model("a")
    for run in ("c", "c again"):
        assert story.pushed(run)["pushed"] == 0
        assert "headrace_awaiting" in story.pushed(run)
        waits = {id_: model["awaiting_approval"] for id_, model in story.listed[run].items()}
        assert waits == {story.id("a"): False, story.id("b"): False, story.id("c"): True}
        assert story.listed[run][story.id("a")]["in_service"]


def test_promotion_pushes_the_files_that_the_run_would_have_pushed(story: Story) -> None:
    assert story.commands["promoted"].code == 0, story.commands["promoted"].err
    printed = json.loads(story.commands["promoted"].out)
    assert (printed["run"], printed["path"], printed["withdrawn"]) == (story.id("c"), story.model("c"), [])
    assert printed["folder"] == f"{story.home}/serving/{printed['version']}"
    model = story.listed["promoted"][story.id("c")]
    assert (model["versions"], model["in_service"]) == ([printed["version"]], True)
    assert not model["awaiting_approval"]
    served = story.cluster.path(printed["folder"])
    assert checksum(served) == checksum(story.cluster.path(story.model("c")) / "Format-Serving")


def test_unchanged_run_after_a_promotion_neither_asks_nor_pushes(story: Story) -> None:
    assert story.baseline("c in service") == story.model("a")
    assert story.pushed("c in service")["pushed"] == 0
    assert "headrace_awaiting" not in story.pushed("c in service")
    assert story.listed["c in service"] == story.listed["promoted"]


def test_new_data_is_predicted_by_the_version_in_service_not_by_the_runs_own_model(
    story: Story, tmp_path: Path
) -> None:
    """After "b again", whose model was rolled back, and "c", whose model waits for approval, that is a's model."""
    served = {
        "b again": story.listed["rolled back"][story.id("a")]["versions"][-1],
        "c": story.listed["rolled back"][story.id("a")]["versions"][-1],
        "c in service": json.loads(story.commands["promoted"].out)["version"],
    }
    expected = {}
    for run, version in served.items():
        record = json.loads(unpack(str(story.runs[run].tasks["publish-predictions"].parameters["published"])))
        assert (record["version"], record["rows"], record["later"]) == (str(version), ROWS // 20, None)
        assert record["changed"] is (run != "c")
        path, folder = tmp_path / f"{version}.csv", story.cluster.path(f"{story.home}/serving/{version}")
        predict(str(folder), str(story.folder / "new.csv"), str(path))
        expected[run] = path.read_bytes()
    assert "bulk-predictor" in story.runs["c"].cached
    assert {run: story.scored[run] for run in served} == expected
    assert expected["c"] != expected["c in service"]


def test_lineage_leads_from_the_model_in_service_to_commit_config_code_data_and_artifacts(story: Story) -> None:
    assert story.commands["lineage"].code == 0, story.commands["lineage"].err
    found = json.loads(story.commands["lineage"].out)
    (origin,) = found["origins"]
    commit = git(story.folder, "rev-parse", "HEAD")
    assert (origin["model"]["run"], origin["model"]["commit"], origin["model"]["dirty"]) == (
        story.id("c"),
        commit,
        False,
    )
    config = story.cluster.path(f"{story.home}/{origin['config']}")
    assert origin["config_digest"] == hashlib.sha256(config.read_bytes()).hexdigest()
    assert load(config).deploy.approval == "manual"
    assert origin["parameters"]["epochs"] == 3
    assert origin["card"] == f"cards/{origin['model']['versions'][-1]}/model_card.html"
    data = story.folder / "trips.csv"
    ((span,), ((file,),)) = origin["spans"], [span["files"] for span in origin["spans"]]
    assert (file["path"], file["size"], span["name"]) == (str(data), data.stat().st_size, "")
    assert sum(origin["rows"].values()) == ROWS
    for key in ("examples", "statistics", "schema", "transform_graph", "model"):
        artifact = origin["artifacts"][key]
        folder = story.cluster.path(f"{story.home}/{artifact['path']}")
        assert (artifact["exists"], artifact["contents"]) == (True, checksum(folder)), key
    assert origin["artifacts"]["examples"]["path"].startswith(story.id("a"))  # from the cache
    assert (
        story.cluster.path(f"{story.home}/{origin['artifacts']['evaluation']['path']}") / "evaluation.json"
    ).exists()


def test_model_card_lies_in_the_store_with_each_push_of_a_pod_or_of_a_promotion(story: Story) -> None:
    promoted = json.loads(story.commands["promoted"].out)["version"]
    pushed = {run: str(story.pushed(run)["pushed_version"]) for run in ("a", "b")} | {"c": str(promoted)}
    for run, version in pushed.items():
        folder = story.cluster.path(f"{story.home}/cards/{version}")
        html, markdown = ((folder / f"model_card.{kind}").read_text() for kind in ("html", "md"))
        assert f"Pushed as: {version}" in markdown
        assert story.id(run) in markdown
        assert f"<code>{story.home}/{story.id('a')}/schema-gen/" in html  # b and c took it from the cache
        assert "tip" in html
    assert "epochs: 3" in markdown  # the run's own value
    assert not story.cluster.path(f"{story.home}/pushed").joinpath("model_card.html").exists()


def test_lineage_of_a_run_is_shown_with_uris_and_a_file_leads_to_every_model(story: Story) -> None:
    lines = dict(line.split(maxsplit=1) for line in story.commands["shown"].lines if not line.startswith(" "))
    assert lines["model"] == story.model("a")
    assert lines["schema"].startswith(f"{story.home}/{story.id('a')}/schema-gen/")
    assert lines["packages"].startswith("python 3.")
    assert len(lines["code"]) == 12
    forward = json.loads(story.commands["forward"].out)
    assert forward["kind"] == "file"
    assert [origin["model"]["run"] for origin in forward["origins"]] == [story.id(run) for run in "cba"]


def test_comparison_shows_metrics_settings_data_and_code_of_runs_and_versions(story: Story) -> None:
    assert story.commands["compared"].code == 0, story.commands["compared"].err
    found = json.loads(story.commands["compared"].out)
    assert found["runs"] == [story.id("a"), story.id("c")]
    for number, run in enumerate("ac"):
        uri = story.runs[run].tasks["evaluator"].artifacts["evaluation"]["uri"]
        evaluation = json.loads((story.cluster.path(uri) / "evaluation.json").read_text())
        assert found["metrics"]["auc"][number] == evaluation["metrics"]["auc"]
        assert found["intervals"]["auc"][number] == evaluation["intervals"]["auc"]
        low, high = found["intervals"]["auc"][number]
        assert 0 < low < evaluation["metrics"]["auc"] < high < 1
        assert found["data"]["evaluated on"][number].startswith(f"{evaluation['example_count']:,} of ")
    assert found["settings"]["train.epochs"] == ["1", "3"]  # the runs' own values: both configs have 1
    assert found["settings"]["deploy.approval"] == ["automatic", "manual"]
    assert {"pipeline.name", "label.key"}.isdisjoint(found["settings"])
    assert len(set(found["data"]["fingerprint"])) == 1
    assert found["code"]["commit"] == [git(story.folder, "rev-parse", commit) for commit in ("HEAD~1", "HEAD")]
    rows = [int(values[0]) for name, values in found["data"].items() if name.startswith("rows of")]
    assert sum(rows) == ROWS
    lines = [line.split() for line in story.commands["table"].lines]
    assert ["train.epochs", "1", "3"] in lines
    assert f"{found['metrics']['auc'][1]:.4f}" in next(line for line in lines if line[0] == "auc")


def test_page_of_the_comparison_shows_the_same(story: Story) -> None:
    assert story.commands["page"].code == 0, story.commands["page"].err
    compared = json.loads(story.commands["compared"].out)
    found = tables((story.folder / "comparison.html").read_text(encoding="utf-8"))
    ends = [(value, *compared["intervals"]["auc"][number]) for number, value in enumerate(compared["metrics"]["auc"])]
    assert found["metrics"]["auc"] == [f"{value:.4f} {low:.4f} to {high:.4f}" for value, low, high in ends]
    assert len(found["metrics"]) == len(compared["metrics"])
    for section in ("settings", "data", "code"):
        told = {
            name: ["\N{EN DASH}" if value is None else value for value in values]
            for name, values in compared[section].items()
        }
        assert found[section] == told
    assert len(set(found["code"]["commit"])) == 2


def test_promotions_that_are_refused_change_nothing(story: Story) -> None:
    assert story.commands["older"].code == story.commands["nothing"].code == 1
    assert "was rolled back" in story.commands["older"].err
    assert "headrace rollback --kubeflow --to" in story.commands["older"].err
    assert "no model awaits approval" in story.commands["nothing"].err
    assert story.listed["older"] == story.listed["c again"]
    assert story.listed["nothing"] == story.listed["c in service"]

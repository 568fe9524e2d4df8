"""`headrace models --kubeflow`: models from what runs on Kubeflow left in SeaweedFS, by their own code."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from command import headrace
from compiled_trips import trips
from ended_runs import BLESSED, EVALUATION
from s3_servers import S3Server

from headrace.common.errors import RunError
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import Evaluation, write_evaluation
from headrace.components.lite.verdict import LiteVerdict
from headrace.components.stored_models.blessed_record import Registry
from headrace.components.stored_models.blessing import record_blessing
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.trigger.decision import TrainingData, update
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_models import StoredHome, stored_models

ROOT = "s3://root/runs"
HOME = f"{ROOT}/trips"
CONFIG = trips(f"kubeflow.pipeline_root={ROOT}")


def trained(store: Store, tmp: Path, run: str, evaluation: Evaluation | None, *refusals: str) -> None:
    """What the launcher copies of Trainer, Evaluator and Canary. refusals: the canary's."""
    store.write(f"{HOME}/{run}/trainer/5/model/Format-Serving/saved_model.pb", "graph")
    if evaluation is not None:
        write_evaluation(tmp, evaluation)
        CanaryVerdict(reasons=refusals).write(tmp)
        store.put(tmp / "evaluation.json", f"{HOME}/{run}/evaluator/17/evaluation/evaluation.json")
        store.put(tmp / "verdict.json", f"{HOME}/{run}/canary/18/blessing/verdict.json")


def blessed_and_pushed(store: Store, pod: Path, run: str, at: str, version: str) -> None:
    """As RecordBlessing, RecordTraining and Pusher do it, each in a pod of its own, which the state is copied to."""
    shutil.rmtree(pod, ignore_errors=True)
    home = PodPaths(str(pod)).local(HOME)
    paths = PodPaths(str(pod))
    model = str(home / run / "trainer" / "5" / "model")
    with present({"registry": str(home / "blessed.json")}, paths, store):
        record_blessing(home / "blessed.json", model, datetime.fromisoformat(at).replace(tzinfo=UTC))
    with present({"trained": str(home / "trained.json")}, paths, store):
        statistics = str(home / run / "statistics-gen" / "3" / "statistics")
        data = TrainingData(fingerprint=run, spans=("4", version[-1]), work="w", statistics=statistics)
        update(home / "trained.json", lambda now: now.with_judged(data, blessed=True))
    folder = home / "serving" / "trips" / version
    with present({"push_record": str(home / "pushed.json"), "destination": str(folder.parent)}, paths, store):
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").write_text("graph", encoding="utf-8")
        entry = Registry.read(home / "blessed.json").models[-1]
        PushRecord.read(home / "pushed.json").write(home / "pushed.json", entry, folder)


@pytest.mark.slow
def test_models_are_listed_with_their_versions_verdicts_and_spans(
    store: Store, tmp_path: Path, s3_server: S3Server
) -> None:
    trained(store, tmp_path, "run-a", BLESSED)
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000005")
    trained(store, tmp_path, "run-b", EVALUATION)
    trained(store, tmp_path, "run-c", BLESSED, "it crashed")
    trained(store, tmp_path, "run-d", None)
    trained(store, tmp_path, "run-e", BLESSED)
    lite = LiteVerdict(precision="int8", reasons=("it differs",), size=29_300, difference=0.2)
    store.write(f"{HOME}/run-e/lite/7/blessing/report.json", lite.model_dump_json())
    store.write(f"{HOME}/serving/trips/17/saved_model.pb", "by another program")
    found = {model.run: model for model in stored_models(CONFIG, store, 20)}
    assert {run: model.blessed for run, model in found.items()} == {
        "run-a": True,
        "run-b": False,
        "run-c": False,
        "run-d": None,
        "run-e": False,
        None: None,
    }
    first = found["run-a"]
    assert (first.versions, first.in_service, first.spans) == ((1790000005,), True, ("4", "5"))
    assert (first.metrics, first.uri) == ({"auc": 0.71}, f"{HOME}/run-a/trainer/5/model")
    assert first.blessed_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert found["run-c"].canary == ("it crashed",)
    assert (found["run-e"].lite, found["run-a"].lite) == (lite, None)
    assert (found[None].versions, found[None].in_service) == ((17,), False)

    few = stored_models(CONFIG, store, 1)
    assert "run-a" in [model.run for model in few]  # in service, although the others are newer
    assert len(few) <= 2

    config = yaml.safe_load((Path(__file__).with_name("golden") / "trips.yaml").read_text(encoding="utf-8"))
    config["data"].pop("schema")
    config["features"].pop("kind")
    config["kubeflow"]["pipeline_root"] = ROOT
    (tmp_path / "trips.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = headrace(tmp_path, "models", "trips.yaml", "--kubeflow", **s3_server.environment)
    assert done.code == 0, done.err
    (line,) = (line for line in done.lines if "\trun-a\t" in line)
    assert line.split() == ["1790000005*", "run-a", "yes", "auc", "0.7100", "4", "to", "5", "-", "-"]
    (line,) = (line for line in done.lines if "\trun-e\t" in line)
    assert "no: its LiteRT file differs" in line
    assert "int8, 29.3 kB, differs by at most 0.2" in line
    printed = json.loads(
        headrace(tmp_path, "models", "trips.yaml", "--kubeflow", "--json", **s3_server.environment).out
    )
    assert {one["run"]: one["uri"] for one in printed}["run-b"] == f"{HOME}/run-b/trainer/5/model"


def test_models_that_are_gone_stay_in_the_list_with_their_versions(store: Store, tmp_path: Path) -> None:
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000005")
    blessed_and_pushed(store, tmp_path / "pod", "run-b", "2026-03-02T12:00:00", "1790000006")
    second, first = stored_models(CONFIG, store, 20)
    assert [second.run, first.run] == ["run-b", "run-a"]
    assert (second.in_service, first.in_service, first.trained) == (True, False, None)
    assert (second.versions, first.versions) == ((1790000006,), (1790000005,))


def test_damaged_records_are_named_by_their_uris(store: Store) -> None:
    store.write(f"{HOME}/pushed.json", "{")
    with pytest.raises(RunError, match=rf"^{HOME}/pushed\.json is damaged"):
        stored_models(CONFIG, store, 20)


def test_training_whose_record_is_removed_after_it_was_listed_has_no_spans(tmp_path: Path) -> None:
    store = Store({}, str(tmp_path / "store"))
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000005")
    blessed_and_pushed(store, tmp_path / "pod", "run-b", "2026-03-02T12:00:00", "1790000006")
    home = StoredHome(HOME, "serving/trips", store, tmp_path)
    store.remove(f"{HOME}/trained/{store.children(f'{HOME}/trained')[0]}")
    assert home.spans(20) == {"run-b": ("4", "6")}


def test_an_empty_store_has_no_models(store: Store) -> None:
    assert stored_models(CONFIG, store, 20) == []

"""Runs on Kubeflow that trained a model, read back from SeaweedFS: side by side, and as the cards of pushed models."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import command
import pytest
import yaml
from compiled_trips import TRIPS
from ended_runs import BLESSED
from page_tables import tables
from test_stored_lineage import train
from test_stored_models import CONFIG, HOME, ROOT, blessed_and_pushed, trained

import headrace
from headrace.common.errors import RunError
from headrace.components.evaluation.result import write_evaluation
from headrace.pipeline.kubeflow.model_changes import roll_back
from headrace.pipeline.kubeflow.results_store import volume_store
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_card import write_stored_card
from headrace.pipeline.kubeflow.stored_lineage import stored_lineage
from headrace.pipeline.kubeflow.stored_run import with_parameters

pytestmark = pytest.mark.slow

PUSH = "serving/trips"
NAME = "<b>odd|name</b>"
EVIL = "<script>alert(1)</script>"


def settings(**train: object) -> str:
    """A config as it is compiled, as YAML."""
    config = CONFIG.model_dump(mode="json", exclude_unset=True)
    config["train"] = {**config.get("train", {}), **train}
    config["notify"] = None
    return yaml.safe_dump(config)


def put_config(store: Store, run: str, text: str, commit: str) -> None:
    """Change what the machine that compiled a run knew. The record then has no checksum, as one edited by hand."""
    record = f"{HOME}/{run}/trainer/5/lineage.json"
    content = json.loads(store.text(record))
    content.pop("checksum", None)
    content["compiled"] = {"commit": commit, "dirty": False, "config": text, "code": f"c0de-{commit}"}
    store.write(record, json.dumps(content))
    store.write(f"{HOME}/{run}/trainer/5/config.yaml", text)


@pytest.fixture
def two(store: Store, tmp_path: Path) -> Store:
    """A run of two spans at one commit, and a later one of a third span, which is pushed, at another."""
    train(store, tmp_path, "run-a", (1, 2))
    put_config(store, "run-a", settings(batch_size=64), "aaa")
    train(store, tmp_path, "run-b", (3,), base="run-a")
    put_config(store, "run-b", settings(batch_size=128), "bbb")
    write_evaluation(tmp_path, replace(BLESSED, metrics={"auc": 0.75}, intervals={"auc": (0.7, 0.8)}, remarks=(NAME,)))
    store.put(tmp_path / "evaluation.json", f"{HOME}/run-b/evaluator/17/evaluation/evaluation.json")
    blessed_and_pushed(store, tmp_path / "pod", "run-b", "2026-03-01T12:00:00", "1790000005")
    return store


def test_runs_and_versions_stand_side_by_side(two: Store) -> None:
    found = headrace.compare(CONFIG, "run-a", 1790000005, kubeflow=True)
    assert (found.names, found.runs) == (("run-a", "1790000005"), ("run-a", "run-b"))
    assert found.metrics == {"auc": (0.71, 0.75)}
    assert found.intervals == {"auc": (None, (0.7, 0.8))}
    assert found.settings == {"train.batch_size": ("64", "128")}
    assert found.data["spans"] == ("1 to 2 (2)", "3 (1)")
    assert found.data["rows of train"] == ("7", "7")
    assert len({*found.data["fingerprint"]}) == 2
    assert found.data["evaluated on"] == ("40 of test", "40 of test")
    assert found.code["commit"] == ("aaa", "bbb")
    assert found.code["code"] == ("c0de-aaa", "c0de-bbb")
    assert not [name for name in found.code if name.startswith("package")]  # both ran in one image
    assert two.exists(f"{HOME}/run-a/trainer/5/lineage.json")


def test_page_shows_metrics_and_what_differs_as_text(two: Store, tmp_path: Path) -> None:
    """The names of a feature and of a commit, and a value, are HTML."""
    config = yaml.safe_load(settings(batch_size=128))
    config["features"][NAME] = {"column": EVIL}
    put_config(two, "run-b", yaml.safe_dump(config), EVIL)
    named = (str(TRIPS), "run-a", "1790000005", "--kubeflow", "--set", f"kubeflow.pipeline_root={ROOT}")
    done = command.headrace(command.ROOT, "compare", *named, "--output", str(tmp_path / "page.html"))
    assert done.code == 0, done.out + done.err
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    found = tables(html)
    assert found["metrics"] == {"auc": ["0.7100", "0.7500 0.7000 to 0.8000"]}
    assert found["settings"] == {
        "train.batch_size": ["64", "128"],
        f"features.{NAME}.column": ["\N{EN DASH}", EVIL],
    }
    first, second = found["data"].pop("fingerprint")
    assert first != second
    assert found["data"] == {
        "spans": ["1 to 2 (2)", "3 (1)"],
        "rows of train": ["7", "7"],
        "rows of eval": ["2", "2"],
        "evaluated on": ["40 of test", "40 of test"],
    }
    code = f"c0de-{EVIL}"[:12]
    assert found["code"] == {"commit": ["aaa", EVIL], "code": ["c0de-aaa", code]}
    assert [name for name in (NAME, EVIL, code, "<script") if name in html] == []


def test_names_that_stand_for_nothing_or_for_the_same_are_refused(two: Store) -> None:
    two.write(f"{HOME}/{PUSH}/17/saved_model.pb", "by another program")
    for names, reported in (
        (["run-a"], "at least two.*\n.*run-b, run-a.*headrace models --kubeflow"),
        (["run-a", "run-z"], "run-z is neither a run on Kubeflow.*\n.*run-b"),
        (["run-a", 17], "no run of this pipeline pushed version 17"),
        (["run-a", "run-b", "run-a"], "run-a is named twice; name different runs"),
        (["run-b", 1790000005], "run-b and 1790000005 are the model of one run, run-b; name different runs"),
    ):
        with pytest.raises(RunError, match=reported):
            headrace.compare(CONFIG, *names, kubeflow=True)


def test_model_of_an_earlier_version_has_only_its_metrics(two: Store, tmp_path: Path) -> None:
    trained(two, tmp_path, "run-old", BLESSED)
    found = headrace.compare(CONFIG, "run-old", "run-a", kubeflow=True)
    assert found.metrics["auc"] == (0.71, 0.71)
    assert found.code["commit"] == (None, "aaa")
    assert found.data["spans"][0] is None


@pytest.mark.parametrize(
    ("parameters", "used"),
    [
        ({"epochs": 0}, {"epochs": "auto", "jit": "off"}),
        ({"epochs": 3, "steps_per_epoch": 0}, {"epochs": 3, "jit": "off", "steps_per_epoch": None}),
        ({"window": "4"}, {"epochs": 10, "jit": "off"}),
        ({}, {"epochs": 10, "jit": "off"}),
    ],
)
def test_settings_are_those_that_the_run_used(parameters: dict[str, str | int], used: dict[str, object]) -> None:
    text = with_parameters("train: {epochs: 10, jit: 'off'}\n", parameters)
    assert {name: value for name, value in yaml.safe_load(text)["train"].items() if value is not None} == {
        name: value for name, value in used.items() if value is not None
    }


def test_card_of_a_pushed_model_lies_with_the_push_and_says_what_is_known(two: Store) -> None:
    write_stored_card(HOME, PUSH, two, "run-b/trainer/5/model", "1790000005")
    html, markdown = (two.text(f"{HOME}/cards/1790000005/model_card.{kind}") for kind in ("html", "md"))
    assert NAME not in html + markdown
    for text in (html, markdown.replace("\\", "")):
        for known in ("1790000005", "run-b", "bbb", "0.7500", "train", f"{HOME}/run-b/", "128"):
            assert known in text, known
        assert "of 0 modules" not in text
        assert f"weights of {HOME}/run-a/trainer/5/model" in text
    assert "&lt;b&gt;odd|name&lt;/b&gt;" in html
    limits = "3 of 12 records (25.00%) could not be read", "2 of 11 rows (18.18%) have no label", "data for 2026-02-03"
    for text in (html, markdown.replace("\\", "")):
        assert [limit for limit in limits if limit not in text] == []
    record = two.text(f"{HOME}/run-b/trainer/5/lineage.json")
    assert not [text for text in (html, markdown, record) if "hunter2" in text]
    (origin,) = stored_lineage(CONFIG, two, "1790000005").origins
    assert str(origin.card) == "cards/1790000005/model_card.html"
    (earlier,) = stored_lineage(CONFIG, two, "run-a").origins
    assert earlier.card is None


def test_model_that_a_rollback_put_back_has_a_card_with_its_new_version(two: Store, tmp_path: Path) -> None:
    train(two, tmp_path, "run-c", (3,))
    put_config(two, "run-c", settings(batch_size=256), "ccc")
    for run in ("run-b", "run-c"):
        two.write(f"{HOME}/{run}/trainer/5/model/Format-Serving/saved_model.pb", run)
    blessed_and_pushed(two, tmp_path / "pod", "run-c", "2026-03-02T12:00:00", "1790000006")
    done = roll_back(CONFIG, two, None, datetime(2026, 3, 3, tzinfo=UTC))
    version = done.version.rpartition("/")[2]
    card = two.text(f"{HOME}/cards/{version}/model_card.md").replace("\\", "")
    assert f"Pushed as: 1790000005, {version}\n" in card
    assert "by run run-b" in card
    assert "batch_size: 128" in card
    (origin,) = stored_lineage(CONFIG, two, None).origins
    assert (origin.model.run, str(origin.card)) == ("run-b", f"cards/{version}/model_card.html")


def test_folder_of_a_card_is_not_taken_for_a_stray_record(two: Store, caplog: pytest.LogCaptureFixture) -> None:
    write_stored_card(HOME, PUSH, two, "run-b/trainer/5/model", "1790000005")
    caplog.clear()
    assert next(model.versions for model in headrace.models(CONFIG, kubeflow=True)) == (1790000005,)
    assert "ignored" not in caplog.text


def test_card_on_a_volume_lies_on_the_volume(tmp_path: Path) -> None:
    store = volume_store(str(tmp_path / "volume"), HOME)
    train(store, tmp_path, "run-a", (1,))
    put_config(store, "run-a", settings(), "aaa")
    write_stored_card(HOME, "/models/trips", store, "run-a/trainer/5/model", "7")
    (card,) = (tmp_path / "volume").rglob("model_card.html")
    assert card.parts[-3:-1] == ("cards", "7")
    assert "Pushed as</dt><dd>7<" in card.read_text(encoding="utf-8")


def test_card_that_cannot_be_made_is_a_warning(two: Store, caplog: pytest.LogCaptureFixture) -> None:
    write_stored_card(HOME, PUSH, two, "run-z/trainer/5/model", "1790000005")  # no such model
    record = f"{HOME}/run-b/trainer/5/lineage.json"
    two.write(record, "{")
    write_stored_card(HOME, PUSH, two, "run-b/trainer/5/model", "1790000005")
    assert f"model card cannot be written: {record}" in caplog.text
    assert not two.exists(f"{HOME}/cards/1790000005")

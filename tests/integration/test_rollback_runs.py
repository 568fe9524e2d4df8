"""`headrace models`, `compare`, `lineage` and `rollback` after real runs: two models, a rollback, an unchanged run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import Finished, headrace
from forks import HEADRACE, Forked
from parcels import write_parcels

import headrace as face
from headrace.components.evaluation.result import read_evaluation

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data: {source: {kind: csv, path: "parcels-{SPAN}.csv"}, window: 2}
label: {key: late, kind: binary}
features: {distance: {column: numeric}, hours: {column: numeric}}
model: {kind: dnn, hidden: [4]}
train: {epochs: 1, steps_per_epoch: 20, batch_size: 64, warm_start: true}
evaluate:
  metrics: [auc, binary_crossentropy]
  thresholds: {auc: {not_worse_than_baseline_by: 1.0}}
  better_than_constant: false
deploy: {canary: null}
"""
CHANGED = ("--set", "train.steps_per_epoch=30")


@dataclass(frozen=True)
class Story:
    """Two runs whose models are pushed, a rollback from the second, and the second run again.

    The first reads the spans 1 and 2; the second reads 2 and 3, and starts from the weights of the first.
    """

    folder: Path
    first: Finished
    second: Finished
    back: Finished
    again: Finished
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]
    commit: str


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="session")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("models")
    for span in (1, 2):
        write_parcels(folder / f"parcels-{span}.csv", 200)
    (folder / "parcels.yaml").write_text(CONFIG)
    git(folder, "init", "--quiet")
    git(folder, "add", "parcels.yaml")
    git(folder, "commit", "--quiet", "-m", "First")
    first = headrace(folder, "run", "parcels.yaml")
    (folder / "parcels.yaml").write_text(CONFIG + "# longer\n")
    write_parcels(folder / "parcels-3.csv", 200)
    second = headrace(folder, "run", "parcels.yaml", *CHANGED)
    before = json.loads(headrace(folder, "models", "parcels.yaml", "--json").out)
    back = headrace(folder, "rollback", "parcels.yaml", "--json")
    again = headrace(folder, "run", "parcels.yaml", *CHANGED)
    after = json.loads(headrace(folder, "models", "parcels.yaml", "--json").out)
    return Story(folder, first, second, back, again, before, after, git(folder, "rev-parse", "HEAD"))


def version(done: Finished) -> int:
    return int(str(done.run.node("Pusher").outputs["pushed_model"].properties["pushed_version"]))


def test_models_are_listed_with_what_the_runs_recorded(story: Story) -> None:
    newer, older = story.before
    runs = (story.second, story.first)
    assert [model["run"] for model in story.before] == [done.run.run_id for done in runs]
    assert [model["path"] for model in story.before] == [str(done.uri("Trainer", "model")) for done in runs]
    assert [model["versions"] for model in story.before] == [[version(done)] for done in runs]
    assert [model["metrics"] for model in story.before] == [
        read_evaluation(done.uri("Evaluator", "evaluation")).metrics for done in runs
    ]
    assert (newer["commit"], newer["dirty"]) == (story.commit, True)
    assert (older["commit"], older["dirty"]) == (story.commit, False)
    assert (newer["in_service"], older["in_service"]) == (True, False)
    assert all(model["blessed"] and not model["withdrawn_at"] for model in story.before)


def test_rollback_serves_the_earlier_model_under_the_highest_number(story: Story) -> None:
    assert story.back.code == 0, story.back.err
    served = max((path for path in (story.folder / "serving/parcels").iterdir()), key=lambda path: int(path.name))
    said = json.loads(story.back.out)
    assert (said["version"], said["folder"], said["run"]) == (int(served.name), str(served), story.first.run.run_id)
    assert said["path"] == str(story.first.uri("Trainer", "model"))
    assert said["withdrawn"] == [str(story.second.uri("Trainer", "model"))]
    original = story.first.uri("Trainer", "model") / "Format-Serving"
    files = {path.relative_to(original): path.read_bytes() for path in original.rglob("*") if path.is_file()}
    assert {path.relative_to(served): path.read_bytes() for path in served.rglob("*") if path.is_file()} == files
    newer, older = story.after
    assert (older["versions"], older["in_service"]) == ([version(story.first), int(served.name)], True)
    assert (newer["versions"], newer["in_service"]) == ([version(story.second)], False)
    assert newer["withdrawn_at"]


def test_unchanged_run_after_a_rollback_is_compared_with_the_restored_model_and_not_pushed(story: Story) -> None:
    assert story.again.code == 0, story.again.out + story.again.err
    assert story.again.statuses()["Trainer"] == "cached"
    assert story.again.uri("Trainer", "model") == story.second.uri("Trainer", "model")
    assert story.again.uri("Baseline", "baseline") == story.first.uri("Trainer", "model")
    assert story.again.run.node("Pusher").outputs["pushed_model"].properties["pushed"] == 0
    assert "rolled back" in story.again.out
    assert story.again.ending("pushed") == "nothing"


@contextlib.contextmanager
def damaged(model: Path) -> Iterator[None]:
    """Change a byte of a SavedModel's variables, whose size and name stay."""
    (variables,) = model.glob("variables/*.data*")
    content = variables.read_bytes()
    try:
        variables.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        yield
    finally:
        variables.write_bytes(content)


@pytest.mark.parametrize("named", ["older version", "its folder", "blessed model", "pushed_model of a run"])
def test_model_that_is_not_in_service_predicts_only_with_its_own_files(story: Story, named: str) -> None:
    older = story.folder / "serving/parcels" / str(version(story.second))
    trained = story.second.uri("Trainer", "model")
    pushed = story.second.uri("Pusher", "pushed_model")
    named_and_damaged: dict[str, tuple[str, Path]] = {
        "older version": (older.name, older),
        "its folder": ("serving/../serving/parcels/" + older.name, older),
        "blessed model": (str(trained.relative_to(story.folder)), trained / "Format-Serving"),
        "pushed_model of a run": (str(pushed), pushed),
    }
    model, damage = named_and_damaged[named]
    given = ("predict", "parcels.yaml", "--input", "parcels-3.csv", "--model", model, "--output", "scored.csv")
    restorable = damage.parent == trained  # from the version
    with damaged(damage), damaged(older) if restorable else contextlib.nullcontext():
        refused = headrace(story.folder, *given)
    assert (refused.code, refused.out) == (1, "")
    assert "damaged" in refused.err
    assert "--model" in refused.err
    assert ("rollback CONFIG --to " + older.name in refused.err) is (damage == older)
    assert "Traceback" not in refused.err
    assert not (story.folder / "scored.csv").exists()
    if named == "older version":
        done = headrace(story.folder, *given)
        assert (done.code, len((story.folder / "scored.csv").read_text().splitlines())) == (0, 201), done.err
        (story.folder / "scored.csv").unlink()


def test_table_and_python_show_the_same(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(story.folder)
    models = face.models("parcels.yaml")
    assert [str(model.path) for model in models] == [model["path"] for model in story.after]
    done = headrace(story.folder, "models", "parcels.yaml")
    heading, newer, older = (line.split("\t") for line in done.lines)
    assert heading == ["VERSION", "RUN", "BLESSED", "METRICS", "SPANS", "COMMIT"]
    assert newer[0] == str(version(story.second))
    assert (newer[2], newer[-1]) == ("rolled back", f"{story.commit[:9]}+dirty")
    assert f"auc {models[1].metrics['auc']:.4f}" in older[3]
    assert older[0].endswith("*")


@pytest.mark.parametrize("columns", [300, 100])
def test_table_fits_the_terminal_with_a_line_for_each_model(story: Story, columns: int) -> None:
    ours, theirs = pty.openpty()
    shown = {**os.environ, "COLUMNS": str(columns)}
    with Forked([str(HEADRACE), "models", "parcels.yaml"], cwd=story.folder, env=shown, stdout=theirs) as process:
        os.close(theirs)
        assert process.wait() == 0
    lines = os.read(ours, 1 << 16).decode().splitlines()
    os.close(ours)
    whole = [line.split("\t") for line in headrace(story.folder, "models", "parcels.yaml").lines]
    assert max(map(len, lines)) <= columns
    assert [line.split()[0] for line in lines] == [row[0].split(", ")[0] + "," * (", " in row[0]) for row in whole]
    assert ("…" in "".join(lines)) is (columns == 100)
    if columns == 300:
        assert [re.split("  +", line) for line in lines] == whole


def test_command_refuses_with_the_versions_that_there_are(story: Story) -> None:
    done = headrace(story.folder, "rollback", "parcels.yaml")
    assert (done.code, done.out) == (1, "")
    assert "no model was blessed before" in done.err
    assert str(version(story.second)) in done.err
    assert "Traceback" not in done.err


def test_comparison_shows_metrics_and_only_the_setting_that_differs(story: Story) -> None:
    names = (str(version(story.first)), story.second.run.run_id)
    done = headrace(story.folder, "compare", "parcels.yaml", *names, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    runs = (story.first, story.second)
    assert found["names"] == list(names)
    assert found["runs"] == [one.run.run_id for one in runs]
    measured = [read_evaluation(one.uri("Evaluator", "evaluation")) for one in runs]
    assert found["metrics"] == {
        name: [one.metrics[name] for one in measured] for name in ("auc", "binary_crossentropy")
    }
    assert len(set(found["metrics"]["binary_crossentropy"])) == 2
    assert found["settings"] == {"train.steps_per_epoch": ["20", "30"]}
    assert found["data"]["evaluated on"] == [f"{one.example_count} of {one.split}" for one in measured]
    rows = [int(values[0]) for name, values in found["data"].items() if name.startswith("rows of")]
    assert sum(rows) == 400
    assert len(set(found["data"]["fingerprint"])) == 2
    assert found["data"]["spans"] == ["1 to 2 (2)", "2 to 3 (2)"]
    assert found["code"] == {"commit": [story.commit, f"{story.commit}+dirty"]}
    table = headrace(story.folder, "compare", "parcels.yaml", *names).out
    assert f"{measured[0].metrics['auc']:.4f}" in next(line for line in table.splitlines() if "auc" in line)
    assert "train.steps_per_epoch" in table


def test_comparison_is_written_as_a_page(story: Story) -> None:
    names = ("compare", "parcels.yaml", str(version(story.first)), story.second.run.run_id)
    found = json.loads(headrace(story.folder, *names, "--json").out)
    done = headrace(story.folder, *names, "--output", "comparison.html")
    assert (done.code, done.out) == (0, "comparison.html\n"), done.err
    page = (story.folder / "comparison.html").read_text(encoding="utf-8")
    for value, ends in zip(found["metrics"]["auc"], found["intervals"]["auc"], strict=True):
        assert f">{value:.4f} <small" in page
        assert f"{ends[0]:.4f} to {ends[1]:.4f}" in page
    for text in ("train.steps_per_epoch", *found["data"]["fingerprint"], f"{story.commit}+dirty"):
        assert text in page.replace("<wbr>", "")


def test_page_of_a_comparison_is_refused_before_anything_is_read(story: Story) -> None:
    before = sorted(story.folder.iterdir())
    for options, words in ((("-o", "a.html", "--json"), "--json"), (("-o", "parcels.yaml"), ".html")):
        done = headrace(story.folder, "compare", "parcels.yaml", "1", "2", *options)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
    both = (story.first.run.run_id, story.second.run.run_id)
    done = headrace(story.folder, "compare", "parcels.yaml", *both, "-o", "none/a.html")
    assert done.code == 1
    assert "none/a.html" in done.err
    assert sorted(story.folder.iterdir()) == before


def test_comparison_refuses_what_it_cannot_find_with_the_runs_that_there_are(story: Story) -> None:
    for names in ((), ("20261122-030003", story.first.run.run_id), ("17", story.first.run.run_id)):
        done = headrace(story.folder, "compare", "parcels.yaml", *names)
        assert (done.code, done.out) == (1, "")
        assert story.second.run.run_id in done.err
        assert "Traceback" not in done.err


def test_comparison_of_a_model_with_itself_is_refused(story: Story) -> None:
    run, pushed = story.first.run.run_id, str(version(story.first))
    for names, words in (((run, run), f"{run} is named twice"), ((pushed, run), f"the model of one run, {run}")):
        done = headrace(story.folder, "compare", "parcels.yaml", *names)
        assert (done.code, done.out) == (1, "")
        assert words in done.err


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def followed(story: Story, name: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The origins that the command prints, compared with those that Python returns."""
    done = headrace(story.folder, "lineage", "parcels.yaml", name, "--json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)["origins"]
    monkeypatch.chdir(story.folder)
    returned = face.lineage("parcels.yaml", name).origins
    assert [str(one.model.path) for one in returned] == [one["model"]["path"] for one in found]
    assert [one.code_digest for one in returned] == [one["code_digest"] for one in found]
    return found


def test_pushed_model_leads_back_to_its_commit_config_code_data_and_artifacts(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = followed(story, str(version(story.second)), monkeypatch)
    done = story.second
    assert (found["model"]["commit"], found["model"]["dirty"]) == (story.commit, True)
    config = Path(found["config"])
    assert config.parent.name == done.run.run_id
    assert "steps_per_epoch: 30" in config.read_text(encoding="utf-8")
    assert found["config_digest"] == digest(config)
    files = [story.folder / f"parcels-{span}.csv" for span in (2, 3)]
    assert [span["name"] for span in found["spans"]] == ["2", "3"]
    assert [span["files"] for span in found["spans"]] == [
        [{"path": str(file), "size": file.stat().st_size, "mark": str(file.stat().st_mtime_ns)}] for file in files
    ]
    assert sum(found["rows"].values()) == sum(len(file.read_text().splitlines()) - 1 for file in files)
    written = {
        "examples": "ExampleGen",
        "statistics": "StatisticsGen",
        "schema": "SchemaGen",
        "transform_graph": "Transform",
        "model": "Trainer",
        "evaluation": "Evaluator",
    }
    assert list(found["artifacts"]) == list(written)
    for key, component in written.items():
        kept = done.run.node(component).outputs[key]
        assert found["artifacts"][key]["path"] == kept.uri
        assert found["artifacts"][key]["contents"] == kept.properties["headrace_contents"]
        assert found["artifacts"][key]["exists"]
    assert found["started_from"] == story.first.run.node("Trainer").outputs["model"].uri
    assert "headrace.trainer.run" in found["modules"]
    assert "headrace.components.evaluation.component" not in found["modules"]


def test_span_and_file_lead_forward_to_each_model_also_through_a_warm_start(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [one.run.run_id for one in (story.second, story.first)]
    for name, runs in (("1", both), ("2", both), ("3", both[:1]), ("parcels-3.csv", both[:1]), ("parcels-1.csv", both)):
        assert [one["model"]["run"] for one in followed(story, name, monkeypatch)] == runs
    heading, newer, older = headrace(story.folder, "lineage", "parcels.yaml", "1").lines
    assert heading.split() == ["VERSION", "RUN", "FINGERPRINT", "BLESSED", "COMMIT"]
    assert f"through {both[1]}" in newer
    assert older.split("  ")[0].endswith("*")


def test_lineage_without_a_name_is_of_the_model_in_service(story: Story) -> None:
    done = headrace(story.folder, "lineage", "parcels.yaml")
    values = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.lines}
    assert values["version"].endswith("*")
    assert values["run"].startswith(story.first.run.run_id)
    assert values["commit"] == story.commit
    assert f"auc {story.after[1]['metrics']['auc']:.4f}" in values["metrics"]


def test_lineage_refuses_what_no_model_has_to_do_with(story: Story) -> None:
    done = headrace(story.folder, "lineage", "parcels.yaml", "parcels-9.csv")
    assert (done.code, done.out) == (1, "")
    assert "Spans, newest first: 3, 2, 1" in done.err
    assert "Traceback" not in done.err


def test_each_pushed_model_has_a_card_with_what_was_measured_and_what_it_was_made_from(story: Story) -> None:
    for done, spans, dirty in ((story.first, (1, 2), False), (story.second, (2, 3), True)):
        folder = story.folder / "runs/parcels/runs" / done.run.run_id
        card = (folder / "model_card.md").read_text(encoding="utf-8")
        measured = read_evaluation(done.uri("Evaluator", "evaluation"))
        restored = [json.loads(story.back.out)["version"]] if done is story.first else []
        assert f"Pushed as: {', '.join(map(str, [version(done), *restored]))}\n" in card
        assert f"{measured.example_count} examples of the {measured.split} split" in card
        for name, value in measured.metrics.items():
            assert value is not None
            constant = measured.constant[name]
            (line,) = (line for line in card.splitlines() if line.startswith(f"| {name.replace('_', chr(92) + '_')} |"))
            assert f" {value:.4f} |" in line
            assert f" {constant:.4f} |" in line
        assert f"Commit: {story.commit}{', with tracked files' * dirty}" in card
        assert f"SHA-256 {digest(folder / 'config.yaml')}" in card
        assert all(f"\n| {span} | 1 |" in card for span in spans)
        assert "Predicts late, one of 2 classes: 0, 1." in card
        page = (folder / "model_card.html").read_text(encoding="utf-8")
        assert all(f"{value:.4f}" in page for value in measured.metrics.values())
    runs = {path.parent.name for path in story.folder.glob("runs/parcels/runs/*/model_card.html")}
    assert runs == {story.first.run.run_id, story.second.run.run_id}
    assert "model_card.html" in headrace(story.folder, "lineage", "parcels.yaml").out

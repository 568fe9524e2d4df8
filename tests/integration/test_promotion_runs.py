"""`deploy.approval: manual` in real runs: a run whose model waits, its promotion, and the same run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Finished, headrace
from parcels import write_parcels

import headrace as face

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data: {source: {kind: csv, path: parcels.csv}}
label: {key: late, kind: binary}
features: {distance: {column: numeric}, hours: {column: numeric}}
model: {kind: dnn, hidden: [4]}
train: {epochs: 1, steps_per_epoch: 20, batch_size: 64}
evaluate: {metrics: [auc], better_than_constant: false}
deploy: {canary: null}
"""
MANUAL = ("--set", "deploy.approval=manual")


@dataclass(frozen=True)
class Story:
    """A run whose model waits, what `models` shows of it, its promotion, and an unchanged run.

    waited: `Run.awaiting_approval` before and after the promotion.
    """

    folder: Path
    first: Finished
    served: bool
    table: Finished
    promotion: Finished
    again: Finished
    waited: tuple[bool, bool]


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("promotion")
    write_parcels(folder / "parcels.csv", 400)
    (folder / "parcels.yaml").write_text(CONFIG)
    config = folder / "parcels.yaml"
    first = headrace(folder, "run", "parcels.yaml", *MANUAL)
    served, table = (folder / "serving").exists(), headrace(folder, "models", "parcels.yaml", *MANUAL)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        before = face.runs(config)[0].awaiting_approval
        _, command = first.out.split("waits for approval\n")
        promotion = headrace(folder, *command.splitlines()[0].split()[1:], "--json")
        after = face.runs(config)[0].awaiting_approval
    again = headrace(folder, "run", "parcels.yaml", *MANUAL)
    return Story(folder, first, served, table, promotion, again, (before, after))


def test_run_ends_as_a_success_and_its_model_waits(story: Story) -> None:
    assert story.first.code == 0, story.first.out + story.first.err
    assert story.first.ending("blessing").startswith("blessed")
    assert story.first.ending("pushed") == "nothing: the model waits for approval"
    assert not story.served
    (row,) = story.table.lines[1:]
    assert row.split()[:2] == ["-", story.first.run.run_id]
    assert "awaiting approval" in row
    assert story.waited == (True, False)


def test_command_of_the_summary_pushes_the_model(story: Story) -> None:
    assert story.promotion.code == 0, story.promotion.err
    done = json.loads(story.promotion.out)
    (version,) = (story.folder / "serving" / "parcels").iterdir()
    assert (done["folder"], done["version"]) == (str(version), int(version.name))
    assert (done["path"], done["run"]) == (str(story.first.uri("Trainer", "model")), story.first.run.run_id)
    original = story.first.uri("Trainer", "model") / "Format-Serving"
    files = {path.relative_to(original): path.read_bytes() for path in original.rglob("*") if path.is_file()}
    assert {path.relative_to(version): path.read_bytes() for path in version.rglob("*") if path.is_file()} == files


def test_unchanged_run_reuses_the_promoted_model_and_says_that_it_is_in_service(story: Story) -> None:
    assert story.again.code == 0, story.again.out + story.again.err
    assert story.again.statuses()["Trainer"] == "cached"
    version = json.loads(story.promotion.out)["version"]
    assert story.again.ending("pushed") == f"nothing: the model is in service as serving/parcels/{version}"


def test_promotion_writes_the_card_of_the_version(story: Story) -> None:
    (version,) = (story.folder / "serving" / "parcels").iterdir()
    card = story.folder / "runs/parcels/runs" / story.first.run.run_id / "model_card.md"
    assert version.name in card.read_text()


def test_report_of_the_run_no_longer_asks_for_the_promotion(story: Story) -> None:
    (version,) = (story.folder / "serving" / "parcels").iterdir()
    page = (story.folder / "runs/parcels/runs" / story.first.run.run_id / "report.html").read_text(encoding="utf-8")
    assert ("awaiting approval" in page, "headrace promote" in page) == (False, False)
    assert f"Pushed to <code>{version}" in page


def test_nothing_more_can_be_promoted(story: Story) -> None:
    done = headrace(story.folder, "promote", "parcels.yaml", *MANUAL)
    assert (done.code, done.out) == (1, "")
    assert "no model awaits approval; version" in done.err
    assert "Traceback" not in done.err

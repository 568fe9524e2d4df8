"""Files that were damaged after a run: what the next one does about them, through `headrace run`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Finished, headrace, versions
from parcels import write_parcels

from headrace.components.evaluation.result import read_evaluation
from headrace.components.stored_models.blessed_record import Registry

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data:
  source: {kind: csv, path: parcels.csv}
label: {key: late, kind: binary}
features:
  distance: {column: numeric}
  carrier: {column: vocabulary}
model: {kind: wide_and_deep, hidden: [8]}
train: {epochs: 4, batch_size: 32}
evaluate:
  thresholds: {auc: {min: 0.1, not_worse_than_baseline_by: 0.5}}
  better_than_constant: false
deploy: {keep: 2, canary: null}
"""


@dataclass
class Story:
    """A run; the same with zeros in the model; with zeros in the version in service; nothing new; zeros in the version
    in service and a candidate that is not blessed, twice; another training after zeros in every blessed model and
    version; the same when those models were removed; and that once more, after zeros in its model and its version.
    """

    folder: Path
    first: Finished
    zeroed_model: Finished
    of_model: list[str]
    weights: bytes
    pushed: bytes
    zeroed_version: Finished
    of_version: list[str]
    weights_then: bytes
    pushed_then: bytes
    again: Finished
    not_blessed: tuple[Finished, Finished]
    of_not_blessed: list[str]
    weights_of_newest: bytes
    all_zeroed: Finished
    of_all: list[str]
    removed: Finished
    of_removed: list[str]
    both: Finished
    of_both: list[str]


def zero(variables: Path) -> None:
    """The same size, and not one weight."""
    (data,) = variables.glob("variables.data-*")
    data.write_bytes(bytes(data.stat().st_size))


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("damaged")
    write_parcels(folder / "parcels.csv", 600)
    (folder / "parcels.yaml").write_text(CONFIG)
    first = headrace(folder, "run", "parcels.yaml")
    assert first.code == 0, first.out + first.err
    zero(first.uri("Trainer", "model") / "Format-Serving" / "variables")
    zeroed_model = headrace(folder, "run", "parcels.yaml")
    of_model, pushed = versions(folder), weights(folder / zeroed_model.ending("pushed"))
    trained = weights(zeroed_model.uri("Trainer", "model") / "Format-Serving")
    zero(folder / zeroed_model.ending("pushed") / "variables")
    zeroed_version = headrace(folder, "run", "parcels.yaml")
    of_version, pushed_then = versions(folder), weights(folder / zeroed_version.ending("pushed"))
    trained_then = weights(zeroed_version.uri("Trainer", "model") / "Format-Serving")
    again = headrace(folder, "run", "parcels.yaml")
    not_blessed = []
    for _ in range(2):
        zero(folder / "serving" / "parcels" / max(versions(folder), key=int) / "variables")
        not_blessed.append(
            headrace(folder, "run", "parcels.yaml", "--set", "evaluate.thresholds.binary_crossentropy.max=0.0001")
        )
    of_not_blessed = versions(folder)
    newest = weights(folder / "serving" / "parcels" / max(of_not_blessed, key=int))
    models = [Path(entry.uri) for entry in Registry.read(folder / "runs" / "parcels" / "blessed.json").models]
    for variables in (
        *(model / "Format-Serving" / "variables" for model in models),
        *folder.glob("serving/*/*/variables"),
    ):
        zero(variables)
    other = ("run", "parcels.yaml", "--set", "train.epochs=3")
    all_zeroed, of_all = headrace(folder, *other), versions(folder)
    for model in models:
        shutil.rmtree(model)
    removed = headrace(folder, *other)
    of_removed = versions(folder)
    zero(removed.uri("Trainer", "model") / "Format-Serving" / "variables")
    zero(folder / removed.ending("pushed") / "variables")
    both = headrace(folder, *other)
    return Story(
        folder,
        first,
        zeroed_model,
        of_model,
        trained,
        pushed,
        zeroed_version,
        of_version,
        trained_then,
        pushed_then,
        again,
        (not_blessed[0], not_blessed[1]),
        of_not_blessed,
        newest,
        all_zeroed,
        of_all,
        removed,
        of_removed,
        both,
        versions(folder),
    )


def weights(folder: Path) -> bytes:
    (data,) = (folder / "variables").glob("variables.data-*")
    return data.read_bytes()


def test_damaged_model_is_reported_and_trained_again(story: Story) -> None:
    done = story.zeroed_model
    assert done.code == 0
    assert done.statuses()["Transform"] == "cached"
    assert done.statuses()["Trainer"] == "done"
    model = story.first.uri("Trainer", "model")
    assert re.search(rf"Trainer +{model} is damaged: .*; it is recomputed", done.out)


def test_no_zeros_were_pushed(story: Story) -> None:
    assert any(story.pushed)
    assert story.pushed == story.weights


def test_damaged_version_is_reported_and_a_sound_one_takes_its_place(story: Story) -> None:
    done = story.zeroed_version
    damaged = story.folder / story.zeroed_model.ending("pushed")
    assert re.search(rf"Pusher +{damaged} is damaged: .*; it is recomputed", done.out)
    assert done.ran() == {"Pusher"}
    newest = max(story.of_version, key=int)
    assert done.ending("pushed") == f"serving/parcels/{newest}"
    assert newest not in story.of_model
    assert story.pushed_then == story.weights_then


def test_run_after_that_reuses_everything(story: Story) -> None:
    assert story.again.ran() == set()
    assert "damaged" not in story.again.out


def test_damaged_baseline_is_restored_from_the_version_in_service_and_compared_with(story: Story) -> None:
    done, damaged = story.zeroed_model, story.first.uri("Trainer", "model")
    log = (done.folder / "logs" / "Baseline.log").read_text()
    assert re.search(rf"{damaged} was damaged .*{story.folder / story.first.ending('pushed')}", log)
    before, now = (read_evaluation(one.uri("Evaluator", "evaluation")) for one in (story.first, done))
    assert now.baseline == pytest.approx(before.metrics)


def test_no_candidate_is_blessed_while_its_only_baseline_is_damaged(story: Story) -> None:
    done, damaged = story.all_zeroed, story.again.uri("Trainer", "model")
    assert done.code == 0
    evaluation = read_evaluation(done.uri("Evaluator", "evaluation"))
    assert all(check.passed for check in evaluation.checks)
    assert not evaluation.blessed
    assert f"the blessed model {damaged} is damaged" in done.out
    assert f"Restore the files of {damaged}" in done.out
    assert "damaged" in (done.folder / "report.html").read_text()
    assert story.of_all == story.of_not_blessed


def test_a_damaged_baseline_that_was_removed_blocks_no_candidate(story: Story) -> None:
    done = story.removed
    assert done.code == 0
    assert done.statuses()["Trainer"] == "cached"
    assert read_evaluation(done.uri("Evaluator", "evaluation")).blessed
    assert len(set(story.of_removed) - set(story.of_all)) == 1


def test_damaged_model_and_damaged_version_are_both_named(story: Story) -> None:
    """Nothing is pushed: the new candidate has no baseline that is intact."""
    model, version = story.removed.uri("Trainer", "model"), story.folder / story.removed.ending("pushed")
    assert story.both.code == 0
    assert re.search(rf"Trainer +{model} is damaged", story.both.out)
    assert re.search(rf"Pusher +{version} is damaged", story.both.out)
    assert f"Restore the files of {model}" in story.both.out
    assert story.of_both == story.of_removed


def test_damaged_version_that_nothing_can_replace_is_named(story: Story) -> None:
    newest = story.folder / "serving" / "parcels" / max(story.of_not_blessed, key=int)
    assert re.search(rf"Pusher +{newest} is damaged: .*remove it", story.all_zeroed.out)


def test_only_as_many_versions_stay_as_the_config_keeps(story: Story) -> None:
    assert len(story.of_version) == 2


def test_damaged_version_is_replaced_though_the_candidate_is_not_blessed(story: Story) -> None:
    """Every time: the second run would have taken Pusher's result from the cache."""
    before = max(story.of_version, key=int)
    for done in story.not_blessed:
        assert done.code == 0, done.out + done.err
        pushed = done.ending("pushed")
        assert re.search(rf"version {before}, .*damaged", pushed)
        assert Path(pushed.split()[0]).name != before
        before = Path(pushed.split()[0]).name
    newest = max(story.of_not_blessed, key=int)
    assert newest == before
    assert story.weights_of_newest == story.weights_then

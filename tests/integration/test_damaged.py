"""Files that were damaged after a run: what the next one does about them, through `headrace run`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Finished, headrace, versions
from parcels import write_parcels

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data:
  source: {kind: csv, path: parcels.csv}
label: {key: late, kind: binary}
features:
  distance: {column: numeric}
  carrier: {column: vocabulary}
model: {hidden: [8]}
train: {epochs: 4, batch_size: 32}
deploy: {keep: 2}
"""


@dataclass
class Story:
    """A run; the same with zeros in the model; with zeros in the version in service; and twice that with a candidate
    that is not blessed.
    """

    folder: Path
    first: Finished
    zeroed_model: Finished
    of_model: list[str]
    pushed: bytes
    zeroed_version: Finished
    of_version: list[str]
    pushed_again: bytes
    again: Finished
    not_blessed: tuple[Finished, Finished]
    of_not_blessed: list[str]


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
    zero(folder / zeroed_model.ending("pushed") / "variables")
    zeroed_version = headrace(folder, "run", "parcels.yaml")
    of_version, again = versions(folder), headrace(folder, "run", "parcels.yaml")
    pushed_again, not_blessed = weights(folder / zeroed_version.ending("pushed")), []
    for _ in range(2):
        zero(folder / "serving" / "parcels" / max(versions(folder), key=int) / "variables")
        not_blessed.append(
            headrace(folder, "run", "parcels.yaml", "--set", "evaluate.thresholds.binary_crossentropy.max=0.0001")
        )
    return Story(
        folder,
        first,
        zeroed_model,
        of_model,
        pushed,
        zeroed_version,
        of_version,
        pushed_again,
        again,
        (not_blessed[0], not_blessed[1]),
        versions(folder),
    )


def weights(folder: Path) -> bytes:
    (data,) = (folder / "variables").glob("variables.data-*")
    return data.read_bytes()


def test_damaged_model_is_told_and_trained_again(story: Story) -> None:
    done = story.zeroed_model
    assert done.code == 0
    assert done.statuses()["Transform"] == "cached"
    assert done.statuses()["Trainer"] == "done"
    model = story.first.uri("Trainer", "model")
    assert re.search(rf"Trainer +{model} is damaged: .*; computed again", done.out)


def test_no_zeros_were_pushed(story: Story) -> None:
    assert any(story.pushed)
    assert story.pushed == weights(story.zeroed_model.uri("Trainer", "model") / "Format-Serving")


def test_damaged_version_is_told_and_a_sound_one_takes_its_place(story: Story) -> None:
    done = story.zeroed_version
    damaged = story.folder / story.zeroed_model.ending("pushed")
    assert re.search(rf"Pusher +{damaged} is damaged: .*; computed again", done.out)
    assert done.ran() == {"Pusher"}
    newest = max(story.of_version, key=int)
    assert done.ending("pushed") == f"serving/parcels/{newest}"
    assert newest not in story.of_model
    model = done.uri("Trainer", "model") / "Format-Serving"
    assert story.pushed_again == weights(model)


def test_run_after_that_reuses_everything(story: Story) -> None:
    assert story.again.ran() == set()
    assert "damaged" not in story.again.out


def test_only_as_many_versions_stay_as_the_config_keeps(story: Story) -> None:
    assert len(story.of_version) == 2


def test_damaged_version_is_replaced_though_the_candidate_is_not_blessed(story: Story) -> None:
    """Every time: the second run would have taken Pusher's result from the cache."""
    before = max(story.of_version, key=int)
    for done in story.not_blessed:
        assert done.code == 0, done.out + done.err
        pushed = done.ending("pushed")
        assert f"in place of version {before}, which is damaged" in pushed
        assert Path(pushed.split()[0]).name != before
        before = Path(pushed.split()[0]).name
    newest = max(story.of_not_blessed, key=int)
    assert newest == before
    model = story.again.uri("Trainer", "model") / "Format-Serving"
    assert weights(story.folder / "serving" / "parcels" / newest) == weights(model)

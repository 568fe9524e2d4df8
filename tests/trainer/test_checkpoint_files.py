"""The files of checkpoints: whole or not there, and read only if their bytes are those that were written."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from dying import changes, deaths, full_disks

from headrace.trainer.checkpointing.checkpoints import Checkpoints, TrainingPosition


def weights(number: int) -> np.ndarray:
    return np.full([50, 20], number, np.float32)


def write(checkpoints: Checkpoints, number: int) -> None:
    checkpoints.write(TrainingPosition(batches=number), {"model": [weights(number)], "note": number})


def latest(checkpoints: Checkpoints) -> int:
    """The number of the latest that can be read, all of which must be of that number."""
    found = checkpoints.latest()
    assert found is not None
    number = found.position.batches
    np.testing.assert_array_equal(found.tree["model"][0], weights(number))
    assert found.tree["note"] == number
    return number


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    found = Checkpoints(tmp_path / "work", keep=2)
    for number in (1, 2):
        write(found, number)
    return found


def test_checkpoint_is_on_the_disk_before_it_has_its_name_and_before_an_older_one_goes(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    found = [what.split()[0] for what in changes(lambda: write(checkpoints, 3), tmp_path)]
    assert found[-4:] == ["fsync", "rename", "fsync", "remove"]


def test_kill_at_any_moment_leaves_the_last_checkpoint_or_the_new_one(checkpoints: Checkpoints, tmp_path: Path) -> None:
    shutil.copytree(checkpoints.folder, tmp_path / "before")
    found = []
    for _ in deaths(lambda: write(checkpoints, 3), tmp_path):
        found.append(latest(checkpoints))
        write(checkpoints, 4)
        assert latest(checkpoints) == 4
        assert len(list(checkpoints.folder.iterdir())) <= 3
        shutil.rmtree(checkpoints.folder)
        shutil.copytree(tmp_path / "before", checkpoints.folder)
    assert set(found) == {2, 3}
    print(f"{len(found)} kills")


def test_full_disk_leaves_the_last_checkpoint(checkpoints: Checkpoints, tmp_path: Path) -> None:
    for _ in full_disks(lambda: write(checkpoints, 3), tmp_path):
        assert latest(checkpoints) == 2
        assert len(list(checkpoints.folder.iterdir())) == 2


@pytest.mark.parametrize("damage", ["zeros in the weights", "a bit", "cut", "empty", "zeros"])
def test_older_checkpoint_is_taken_where_the_last_one_is_damaged(
    checkpoints: Checkpoints, damage: str, log: pytest.LogCaptureFixture
) -> None:
    newest = checkpoints.files()[0]
    content = bytearray(newest.read_bytes())
    of_weights = content.find(weights(2).tobytes())
    assert of_weights > 0
    match damage:
        case "zeros in the weights":
            content[of_weights : of_weights + 4000] = bytes(4000)
        case "a bit":
            content[of_weights + 1001] ^= 1
        case "cut":
            del content[len(content) // 2 :]
        case "empty":
            content.clear()
        case _:
            content[:] = bytes(len(content))
    newest.write_bytes(content)
    assert latest(checkpoints) == 1
    assert f"{newest} cannot be read" in log.text

"""Pushing a model: versions that rise, whole or not at all."""

import errno
import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from command import locks_awaited_by, wait_until
from small_models import contents, small_model

from headrace.common.errors import RunError
from headrace.components.stored_models.push import push


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return small_model(tmp_path)


def test_a_version_is_the_time_and_holds_the_whole_model(model: Path, tmp_path: Path) -> None:
    version = push(model, tmp_path / "serving", clock=lambda: 1700000000.9)
    assert version == tmp_path / "serving" / "1700000000"
    assert contents(version) == {"saved_model.pb": b"graph", "variables/variables.index": b"weights"}


@pytest.mark.parametrize("there", ["1700000000", "1800000000"])
def test_a_version_is_greater_than_every_one_before(model: Path, tmp_path: Path, there: str) -> None:
    serving = tmp_path / "serving"
    for name in (there, "3", "notes"):
        (serving / name).mkdir(parents=True)
    for step in (1, 2, 3):
        (model / "saved_model.pb").write_bytes(b"graph %d" % step)
        assert push(model, serving, clock=lambda: 1700000000.0).name == str(int(there) + step)
    assert (serving / "notes").is_dir()


def test_a_model_that_is_the_newest_version_is_not_pushed_again(model: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    first = push(model, serving, clock=lambda: 1700000000.0)
    assert push(model, serving, clock=lambda: 1800000000.0) == first
    assert [path.name for path in serving.iterdir()] == ["1700000000"]


@pytest.mark.parametrize("differs", ["a byte", "a size", "a file more", "a file less"])
def test_a_model_that_differs_from_the_newest_version_is_pushed(model: Path, tmp_path: Path, differs: str) -> None:
    serving = tmp_path / "serving"
    push(model, serving, clock=lambda: 1700000000.0)
    match differs:
        case "a byte":
            (model / "saved_model.pb").write_bytes(b"grapf")
        case "a size":
            (model / "saved_model.pb").write_bytes(b"graphs")
        case "a file more":
            (model / "variables" / "more").touch()
        case _:
            (model / "variables" / "variables.index").unlink()
    assert contents(push(model, serving)) == contents(model)
    assert len(list(serving.iterdir())) == 2


def test_a_model_of_before_is_pushed_again_though_an_older_version_is_the_same(model: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    push(model, serving, clock=lambda: 1700000000.0)
    (model / "saved_model.pb").write_bytes(b"later")
    push(model, serving, clock=lambda: 1700000000.0)
    (model / "saved_model.pb").write_bytes(b"graph")
    assert push(model, serving, clock=lambda: 1700000000.0).name == "1700000002"


def _slow_push(model: Path, serving: Path) -> None:
    def copy(*_: object, **__: object) -> None:
        (serving / "copying").touch()
        time.sleep(60)

    patched: Any = shutil
    patched.copy2 = copy  # the copy that never ends
    original = shutil.copytree
    # It calls itself for a folder, with more arguments, and the folder may come before the file.
    patched.copytree = lambda source, target, *_: original(source, target, copy_function=copy)
    push(model, serving)


def test_a_push_killed_halfway_leaves_no_version_and_the_next_one_clears_it_away(model: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    process = multiprocessing.get_context("fork").Process(target=_slow_push, args=(model, serving))
    process.start()
    assert wait_until(lambda: (serving / "copying").exists() or not process.is_alive())
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    (serving / "copying").unlink()
    left_over = [path.name for path in serving.iterdir()]
    assert len(left_over) == 1
    assert not any(name.isdigit() for name in left_over)
    version = push(model, serving)
    assert [path.name for path in serving.iterdir()] == [version.name]


def test_the_number_of_a_push_that_did_not_end_is_not_taken(model: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    for name in (".pushing-1700000000-17", ".pushing-1700000004", ".removing-1700000009", "1700000001"):
        (serving / name).mkdir(parents=True)
    assert push(model, serving, clock=lambda: 1700000000.0).name == "1700000005"
    assert sorted(path.name for path in serving.iterdir()) == ["1700000001", "1700000005"]


def _push_when_allowed(model: Path, serving: Path, go_on: Path) -> None:
    patched: Any = shutil
    original = shutil.copytree

    def copy(*args: Any) -> None:
        original(*args)
        (serving / "copied").touch()
        assert wait_until(go_on.exists)

    patched.copytree = copy
    push(model, serving, clock=lambda: 1700000000.0)


def test_a_push_waits_for_another_one_and_clears_nothing_of_it_away(model: Path, tmp_path: Path) -> None:
    serving, go_on = tmp_path / "serving", tmp_path / "go on"
    fork = multiprocessing.get_context("fork")
    first = fork.Process(target=_push_when_allowed, args=(model, serving, go_on))
    first.start()
    assert wait_until(lambda: (serving / "copied").exists() or not first.is_alive())
    other = shutil.copytree(model, tmp_path / "other")
    (other / "saved_model.pb").write_bytes(b"another graph")
    second = fork.Process(target=push, args=(other, serving, lambda: 1700000000.0))
    second.start()
    assert wait_until(lambda: locks_awaited_by(second.pid or 0) == 1 or not second.is_alive())
    assert second.is_alive()
    go_on.touch()
    first.join()
    second.join()
    assert (first.exitcode, second.exitcode) == (0, 0)
    assert sorted(path.name for path in serving.iterdir()) == ["1700000000", "1700000001", "copied"]


@pytest.mark.parametrize("place", ["serving", "serving/trips"])
def test_a_destination_that_cannot_be_written_to_is_named_with_its_setting(
    model: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "serving").write_text("a file")
    with pytest.raises(RunError) as error:
        push(model, tmp_path / place)
    assert str(error.value).startswith(f"deploy.push: cannot push to {tmp_path / place}: ")


def test_a_push_that_finds_the_disk_full_leaves_nothing_behind(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = shutil.copy2

    def copy(source: str, target: str) -> None:
        if str(source).endswith("variables.index"):
            raise OSError(errno.ENOSPC, "No space left on device")
        plain(source, target)

    original = shutil.copytree
    monkeypatch.setattr(shutil, "copytree", lambda source, target, *_: original(source, target, copy_function=copy))
    with pytest.raises(RunError, match="No space left on device"):
        push(model, tmp_path / "serving")
    assert list((tmp_path / "serving").iterdir()) == []


def test_a_copy_that_is_not_what_was_copied_becomes_no_version(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = shutil.copytree

    def copy(source: Path, target: Path, *rest: Any, **named: Any) -> None:
        original(source, target, *rest, **named)
        if (index := Path(target, "variables", "variables.index")).exists():
            index.write_bytes(bytes(7))

    monkeypatch.setattr(shutil, "copytree", copy)
    with pytest.raises(RunError, match="is not what"):
        push(model, tmp_path / "serving")
    assert list((tmp_path / "serving").iterdir()) == []


def test_the_newest_versions_stay(model: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    (serving / "notes").mkdir(parents=True)
    for step in range(4):
        (model / "saved_model.pb").write_bytes(b"graph %d" % step)
        push(model, serving, clock=lambda: 1700000000.0, keep=2)
    assert {path.name for path in serving.iterdir()} == {"notes", "1700000002", "1700000003"}
    assert (serving / "1700000003" / "saved_model.pb").read_bytes() == b"graph 3"
    push(model, serving, keep=3)
    assert len(list(serving.iterdir())) == 3

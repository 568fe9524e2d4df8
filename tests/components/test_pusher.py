"""Pushing: versions that rise, whole or not at all."""

import errno
import multiprocessing
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from changed_bytes import assert_each_changed_byte_is_detected
from command import locks_awaited_by, wait_until
from tfx.types import standard_artifacts

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.components.deploy import pusher
from headrace.components.lite.verdict import LiteVerdict
from headrace.components.stored_models.blessed_record import (
    IN_SERVICE,
    LATE,
    REFUSED,
    WITHDRAWN,
    Entry,
    NewestEntry,
    Registry,
)
from headrace.components.stored_models.blessing import changing
from headrace.components.stored_models.push import push
from headrace.components.stored_models.push_record import PushRecord


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model" / "Format-Serving"
    (directory / "variables").mkdir(parents=True)
    (directory / "saved_model.pb").write_bytes(b"graph")
    (directory / "variables" / "variables.index").write_bytes(b"weights")
    return directory


def _files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_version_is_the_time_and_holds_the_whole_model(model: Path, tmp_path: Path) -> None:
    version = push(model, tmp_path / "serving", clock=lambda: 1700000000.9)
    assert version == tmp_path / "serving" / "1700000000"
    assert _files(version) == {"saved_model.pb": b"graph", "variables/variables.index": b"weights"}


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
    assert _files(push(model, serving)) == _files(model)
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


def _execute(
    model: Path,
    serving: Path,
    artifact: Path,
    *,
    blessed: bool,
    listed: bool = True,
    keep: int = 0,
    contents: str | None = None,
    lite: str | None = None,
    registry: Path | None = None,
    refused: bool = False,
) -> standard_artifacts.PushedModel:
    candidate, blessing, entry = (
        standard_artifacts.Model(),
        standard_artifacts.ModelBlessing(),
        standard_artifacts.String(),
    )
    candidate.uri = str(model.parent)
    blessing.set_int_custom_property("blessed", int(blessed))
    entry.uri = str(artifact.with_name("entry"))
    known = NewestEntry(
        uri=str(model.parent),
        blessed_at="2026-03-01",
        contents=contents,
        lite=lite,
        refused=str(model.parent) if refused else None,
    )
    Path(entry.uri).write_text(known.model_dump_json() if listed else "{}", encoding="utf-8")
    entry.read()
    pushed = standard_artifacts.PushedModel()
    pushed.uri = str(artifact)
    inputs = {"model": [candidate], "model_blessing": [blessing], "entry": [entry]}
    properties = {"destination": str(serving), "keep": keep, "push_record": str(artifact.with_name("pushed.json"))}
    properties["registry"] = str(registry or "")
    pusher.Pusher.EXECUTOR_SPEC.executor_class().Do(inputs, {"pushed_model": [pushed]}, properties)
    return pushed


def test_a_blessed_model_is_pushed_and_kept_in_the_artifact(model: Path, tmp_path: Path) -> None:
    pushed = _execute(model, tmp_path / "serving", tmp_path / "pushed", blessed=True)
    (version,) = (tmp_path / "serving").iterdir()
    assert pushed.get_int_custom_property("pushed") == 1
    assert pushed.get_string_custom_property("pushed_destination") == str(version)
    assert pushed.get_string_custom_property("pushed_version") == version.name
    assert _files(tmp_path / "pushed") == _files(version) == _files(model)
    (version / "saved_model.pb").write_bytes(b"another")
    assert (model / "saved_model.pb").read_bytes() == b"graph"


def test_where_no_model_was_ever_blessed_nothing_is_pushed(model: Path, tmp_path: Path) -> None:
    pushed = _execute(model, tmp_path / "serving", tmp_path / "pushed", blessed=False, listed=False)
    assert pushed.get_int_custom_property("pushed") == 0
    assert not pushed.has_custom_property("pushed_version")
    assert not (tmp_path / "serving").exists()


def test_a_model_that_was_taken_back_stays_away_until_another_is_blessed(model: Path, tmp_path: Path) -> None:
    _execute(model, tmp_path / "serving", tmp_path / "pushed", blessed=True)
    (version,) = (tmp_path / "serving").iterdir()
    shutil.rmtree(version)
    _execute(model, tmp_path / "serving", tmp_path / "pushed-2", blessed=False)
    assert list((tmp_path / "serving").iterdir()) == []


def test_a_push_that_was_killed_before_it_was_written_down_is_found_by_the_next(model: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    version = push(model, serving, clock=lambda: 1700000000.0)
    pushed = _execute(model, serving, tmp_path / "pushed", blessed=False)
    assert pushed.get_string_custom_property("pushed_destination") == str(version)
    assert list(serving.iterdir()) == [version]
    assert _files(tmp_path / "pushed") == _files(model)


def test_model_that_a_rollback_withdraws_while_its_pusher_waits_for_the_list_is_not_pushed(
    model: Path, tmp_path: Path
) -> None:
    serving, registry, done = tmp_path / "serving", tmp_path / "blessed.json", []
    entry = Entry(uri=str(model.parent), blessed_at="2026-03-01")
    first = Registry(models=(Entry(uri=str(tmp_path / "first"), blessed_at="2026-02-01"), entry))
    first.write(registry)

    def execute() -> None:
        done.append(_execute(model, serving, tmp_path / "pushed", blessed=True, registry=registry))

    thread = threading.Thread(target=execute)
    with changing(registry):
        thread.start()
        assert wait_until(lambda: locks_awaited_by(os.getpid()) == 1 or not thread.is_alive())
        assert thread.is_alive()
        first.rolled_back_to(str(tmp_path / "first"), "2026-03-02").write(registry)
    thread.join()
    assert not serving.exists()
    assert (done[0].get_int_custom_property("pushed"), done[0].has_custom_property(WITHDRAWN)) == (0, True)
    Registry.read(registry).rolled_back_to(str(model.parent), "2026-03-03").write(registry)
    again = _execute(model, serving, tmp_path / "again", blessed=True, registry=registry)
    assert again.get_int_custom_property("pushed") == 1


def test_model_is_not_pushed_once_another_was_blessed_later(
    model: Path, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    """A run whose Pusher starts late, as on Kubeflow, where runs of one pipeline may overlap. The other may push after
    it, or before, and then has the lower number.
    """
    serving, registry = tmp_path / "serving", tmp_path / "blessed.json"
    first = Entry(uri=str(model.parent), blessed_at="2026-03-01")
    later = Entry(uri=str(tmp_path / "later"), blessed_at="2026-03-02")
    Registry(models=(first, later)).write(registry)
    done = _execute(model, serving, tmp_path / "pushed", blessed=True, registry=registry)
    assert (done.get_int_custom_property("pushed"), serving.exists()) == (0, False)
    assert done.get_string_custom_property(WITHDRAWN).startswith("later was blessed later")
    assert "later was blessed later" in log.text

    waiting, withdrawn = (
        later.model_copy(update={"awaiting_approval": True}),
        later.model_copy(update={"withdrawn_at": "2026-03-03"}),
    )
    for number, other in enumerate((waiting, withdrawn)):
        Registry(models=(first, other)).write(registry)
        again = _execute(model, serving, tmp_path / f"again-{number}", blessed=True, registry=registry)
        assert again.get_int_custom_property("pushed") == 1


def test_model_in_service_that_is_refused_is_noted_as_long_as_servers_load_it(model: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    never = _execute(model, serving, tmp_path / "never", blessed=False, refused=True)
    assert (never.get_int_custom_property("pushed"), never.has_custom_property(REFUSED)) == (0, False)
    _execute(model, serving, tmp_path / "pushed", blessed=True)
    (version,) = serving.iterdir()
    again = _execute(model, serving, tmp_path / "again", blessed=False, refused=True)
    assert again.get_int_custom_property("pushed") == 0
    assert again.get_string_custom_property(REFUSED) == str(version)
    (serving / str(int(version.name) + 1)).mkdir()
    superseded = _execute(model, serving, tmp_path / "superseded", blessed=False, refused=True)
    assert not superseded.has_custom_property(REFUSED)
    shutil.rmtree(serving)
    gone = _execute(model, serving, tmp_path / "gone", blessed=False, refused=True)
    assert not gone.has_custom_property(REFUSED)


def test_a_damaged_version_is_reported_and_another_takes_its_place(
    model: Path, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    serving = tmp_path / "serving"
    _execute(model, serving, tmp_path / "pushed", blessed=True)
    (version,) = serving.iterdir()
    (version / "variables" / "variables.index").write_bytes(bytes(7))
    pushed = _execute(model, serving, tmp_path / "pushed-2", blessed=True)
    assert f"{version} is damaged" in log.text
    assert _files(Path(pushed.get_string_custom_property("pushed_destination"))) == _files(model)


def test_damaged_version_is_replaced_though_the_candidate_is_not_blessed(
    model: Path, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    serving = tmp_path / "serving"
    _execute(model, serving, tmp_path / "pushed", blessed=True)
    for turn in (1, 2):
        newest = max(serving.iterdir())
        (newest / "variables" / "variables.index").write_bytes(b"weightz")
        pushed = _execute(model, serving, tmp_path / f"again-{turn}", blessed=False)
        assert f"{newest} is damaged" in log.text
        assert newest.name in pushed.get_string_custom_property(LATE)
        version = Path(pushed.get_string_custom_property("pushed_destination"))
        assert version == max(serving.iterdir()) != newest
        assert _files(version) == _files(model)
    sound = _execute(model, serving, tmp_path / "sound", blessed=False)
    assert sound.get_int_custom_property("pushed") == 0
    assert sound.get_string_custom_property(IN_SERVICE) == str(version)


def test_version_that_a_person_deleted_is_not_called_in_service(model: Path, tmp_path: Path) -> None:
    serving = tmp_path / "serving"
    _execute(model, serving, tmp_path / "pushed", blessed=True)
    (version,) = serving.iterdir()
    stays = _execute(model, serving, tmp_path / "stays", blessed=False)
    assert stays.get_string_custom_property(IN_SERVICE) == str(version)
    shutil.rmtree(version)
    gone = _execute(model, serving, tmp_path / "gone", blessed=False)
    assert gone.get_int_custom_property("pushed") == 0
    assert not gone.has_custom_property(IN_SERVICE)
    assert [*serving.iterdir()] == []


def test_push_is_recorded_before_its_lite_file_which_the_next_run_completes(model: Path, tmp_path: Path) -> None:
    serving, lite = tmp_path / "serving", tmp_path / "converted"
    lite.mkdir()
    (lite / "model.tflite").write_bytes(b"small")
    LiteVerdict(precision="int8", contents=checksum(lite / "model.tflite"), size=5).write(lite)
    serving.mkdir()
    (serving / "lite").write_text("a file in the way")
    with pytest.raises(RunError, match=r"deploy\.push: cannot write to .*lite") as error:
        _execute(model, serving, tmp_path / "pushed", blessed=True, lite=str(lite))
    (version,) = (path for path in serving.iterdir() if path.name != "lite")
    assert PushRecord.read(tmp_path / "pushed.json").last[str(serving)].version == version.name
    assert f"Version {version.name} is in service, without its `.tflite` file" in str(error.value)
    (serving / "lite").unlink()
    later = _execute(model, serving, tmp_path / "pushed-2", blessed=False, lite=str(lite))
    assert later.get_int_custom_property("pushed") == 0
    assert (serving / "lite" / version.name / "model.tflite").read_bytes() == b"small"
    assert {path.name for path in serving.iterdir()} == {version.name, "lite"}


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_damaged_version_whose_model_is_no_longer_whole_is_named_with_the_way_out(
    model: Path, tmp_path: Path, how: str
) -> None:
    serving = tmp_path / "serving"
    _execute(model, serving, tmp_path / "pushed", blessed=True)
    (version,) = serving.iterdir()
    (version / "saved_model.pb").write_bytes(b"grapf")
    contents = checksum(model.parent)
    if how == "gone":
        shutil.rmtree(model.parent)
    else:
        (model / "saved_model.pb").write_bytes(b"grape")
    with pytest.raises(RunError) as error:
        _execute(model, serving, tmp_path / "pushed-2", blessed=False, contents=contents)
    assert "A DAMAGED MODEL IS IN SERVICE" in str(error.value)
    assert str(version) in str(error.value)
    assert f"{model.parent} is {how}" in str(error.value)


def test_record_of_pushes_with_any_byte_changed_is_named_with_the_way_out(model: Path, tmp_path: Path) -> None:
    _execute(model, tmp_path / "serving", tmp_path / "pushed", blessed=True)
    record = tmp_path / "pushed.json"
    assert_each_changed_byte_is_detected(record, PushRecord.read, "Delete it")


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

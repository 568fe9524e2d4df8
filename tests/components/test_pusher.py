"""The Pusher: which model it pushes, what it records, and what it does about damaged versions."""

import os
import re
import shutil
import threading
from pathlib import Path

import pytest
from changed_bytes import assert_each_changed_byte_is_detected
from command import locks_awaited_by, wait_until
from small_models import contents, small_model
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
    return small_model(tmp_path)


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
    assert contents(tmp_path / "pushed") == contents(version) == contents(model)
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
    assert contents(tmp_path / "pushed") == contents(model)


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
    assert contents(Path(pushed.get_string_custom_property("pushed_destination"))) == contents(model)


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
        assert contents(version) == contents(model)
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
    assert re.search(rf"Version {version.name} is in service, .*`\.tflite`", str(error.value))
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

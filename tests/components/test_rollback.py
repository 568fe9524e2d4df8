"""A rollback: which model is in service after it, what the next candidate is compared with, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dying import deaths, full_disks
from made_up_nights import in_service, listed, night

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.components.deploy.choices import choose_base_model, choose_baseline
from headrace.components.lite.verdict import LiteVerdict
from headrace.components.stored_models.blessed_record import IN_SERVICE, WITHDRAWN, MadeFor, Registry
from headrace.components.stored_models.push_record import PushRecord, note_own_push
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline.folders import locked
from headrace.pipeline.models.destination import ModelChange
from headrace.pipeline.models.listing import list_models
from headrace.pipeline.models.rollback import roll_back


def config_of(home: Path, *, push: bool = True) -> PipelineConfig:
    given = {
        "pipeline": {"name": home.name, "root": str(home.parent)},
        "data": {"source": {"kind": "csv", "path": "trips.csv"}},
        "label": {"key": "fare", "kind": "regression"},
        "features": {"miles": {"column": "numeric"}},
        "deploy": {"push": str(home / "serving") if push else None, "keep": 2},
    }
    return load_with_locations(given).config


def back(home: Path, to: str | None = None) -> ModelChange:
    return roll_back(config_of(home), to, datetime.now(UTC))


def versions(home: Path) -> dict[str, str]:
    """The model in each version, by what its graph holds."""
    there = sorted((home / "serving").iterdir(), key=lambda path: int(path.name))
    return {path.name: (path / "saved_model.pb").read_text() for path in there}


def compared_with(home: Path, candidate: str) -> str | None:
    uri = choose_baseline(Registry.read(home / "blessed.json"), str(home / "artifacts" / candidate / "model")).uri
    return uri and Path(uri).parent.name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three blessed nights, of which two versions are left."""
    home = tmp_path / "trips"
    for name in ("a", "b", "c"):
        night(home, name, blessed=True)
    return home


def test_model_before_is_in_service_under_a_higher_number_and_is_the_next_baseline(home: Path) -> None:
    before = versions(home)
    done = back(home)
    assert list(versions(home).values()) == ["c", "b"]
    assert Path(done.version).name == max(versions(home), key=int) not in before
    assert [Path(uri).parent.name for uri in done.withdrawn] == ["c"]
    assert (in_service(home), listed(home)) == ("b", ["a", "c", "b"])
    assert compared_with(home, "new") == "b"
    data = MadeFor(label="{}", columns={"fare": "float"})
    assert choose_base_model(Registry.read(home / "blessed.json"), "", data) == done.model
    (home / "artifacts" / "b").rename(home / "gone")
    assert compared_with(home, "new") == "a"  # and never with c


def test_converted_file_of_the_restored_model_is_beside_its_new_version(home: Path) -> None:
    lite, registry = home / "artifacts" / "b" / "lite", Registry.read(home / "blessed.json")
    lite.mkdir()
    (lite / "model.tflite").write_bytes(b"b on a device")
    LiteVerdict(precision="int8", contents=checksum(lite / "model.tflite")).write(lite)
    before = registry.find(str(home / "artifacts" / "b" / "model"))
    assert before is not None
    registry.converted(before.uri, str(lite)).write(home / "blessed.json")
    version = Path(back(home).version)
    assert (home / "serving" / "lite" / version.name / "model.tflite").read_bytes() == b"b on a device"


def test_withdrawn_model_that_is_blessed_again_is_neither_listed_nor_pushed(home: Path) -> None:
    back(home)
    before = versions(home)
    for blessed in (True, False):
        pushed = night(home, "c", blessed=blessed)
        assert pushed.get_int_custom_property("pushed") == 0
        assert ("rolled back" in (pushed.get_string_custom_property(WITHDRAWN) or "")) == blessed
        assert (versions(home), listed(home)[-1]) == (before, "b")
    assert night(home, "d", blessed=True).get_int_custom_property("pushed") == 1
    assert (in_service(home), compared_with(home, "e")) == ("d", "d")
    back(home)
    assert in_service(home) == "b"


def test_restored_model_that_is_blessed_again_is_not_pushed_twice_unless_its_version_is_gone(home: Path) -> None:
    done = back(home)
    before = versions(home)
    pushed = night(home, "b", blessed=True)
    assert (pushed.get_int_custom_property("pushed"), versions(home)) == (0, before)
    assert pushed.get_string_custom_property(IN_SERVICE) == done.version
    Path(done.version, "saved_model.pb").write_text("damaged", encoding="utf-8")
    shutil.rmtree(home / "artifacts" / "b" / "pushed", ignore_errors=True)
    assert night(home, "b", blessed=True).get_int_custom_property("pushed") == 1
    assert in_service(home) == "b"
    shutil.rmtree(home / "artifacts" / "b" / "pushed")
    shutil.rmtree(max((home / "serving").iterdir(), key=lambda path: int(path.name)))
    assert night(home, "b", blessed=True).get_int_custom_property("pushed") == 1
    assert in_service(home) == "b"


@pytest.mark.parametrize("at_once", [True, False])
def test_several_rollbacks_end_where_one_rollback_to_that_version_ends(home: Path, at_once: bool) -> None:
    first = PushRecord.read(home / "pushed.json").models[str(home / "serving")]
    (of_a,) = (version for version, uri in first.items() if uri == "artifacts/a/model")
    if at_once:
        back(home, of_a)  # no longer in the folder, as two versions are kept
    else:
        back(home)
        back(home)
    entries = Registry.read(home / "blessed.json").models
    withdrawn = {Path(entry.uri).parent.name for entry in entries if entry.withdrawn_at}
    assert (in_service(home), withdrawn, compared_with(home, "new")) == ("a", {"b", "c"}, "a")
    assert "`--to`" in refusal(home)


def test_rollback_is_undone_by_naming_the_withdrawn_version(home: Path) -> None:
    withdrawn = max(versions(home), key=int)
    back(home)
    done = back(home, withdrawn)
    assert (in_service(home), done.withdrawn, compared_with(home, "new")) == ("c", (), "c")
    back(home)
    assert in_service(home) == "b"


def test_model_that_was_blessed_since_is_withdrawn_by_going_back_to_a_withdrawn_version(home: Path) -> None:
    withdrawn = max(versions(home), key=int)
    back(home)
    assert night(home, "d", blessed=True).get_int_custom_property("pushed") == 1
    done = back(home, withdrawn)
    assert ([Path(uri).parent.name for uri in done.withdrawn], in_service(home)) == (["d"], "c")
    assert night(home, "d", blessed=True).get_int_custom_property("pushed") == 0  # an unchanged run
    assert (in_service(home), compared_with(home, "new")) == ("c", "c")
    back(home)
    assert in_service(home) == "b"


@pytest.mark.parametrize("fault", [deaths, full_disks])
def test_rollback_stopped_anywhere_is_completed_by_the_same_command_or_the_next_run(
    home: Path, tmp_path: Path, fault: Callable[[Callable[[], object], Path], Iterator[int]]
) -> None:
    before, ends = shutil.copytree(home, tmp_path / "before"), set()
    for turn in fault(lambda: back(home), tmp_path):
        ends.add((listed(home)[-1], in_service(home)))
        undone = listed(home)[-1] == "c"
        if turn % 2:
            night(home, "worse", blessed=False)
            assert in_service(home) == ("c" if undone else "b")
        elif (listed(home)[-1], in_service(home)) != ("b", "b"):
            back(home)
            assert in_service(home) == "b"
        shutil.rmtree(home)
        shutil.copytree(before, home)
    assert ends == {("c", "c"), ("b", "c"), ("b", "b")}


def contents(home: Path) -> dict[Path, bytes]:
    """Every file but the locks."""
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and not path.name.startswith(".")}


def refusal(home: Path, to: str | None = None) -> str:
    """The message, of a rollback that changes nothing."""
    before = contents(home)
    with pytest.raises(RunError) as error:
        back(home, to)
    assert contents(home) == before
    return str(error.value)


def test_rollback_without_an_earlier_model_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "trips"
    assert "no model" in refusal(home)
    assert not home.exists()
    night(home, "a", blessed=True)
    assert "no model was blessed before" in refusal(home)


def test_versions_that_cannot_be_restored_are_refused_by_name(home: Path) -> None:
    b, c = sorted(versions(home), key=int)
    assert (text := refusal(home, "17")).startswith("no run here pushed a version 17")
    assert b in text.splitlines()[1]
    assert f"version {c} is in service" in refusal(home, c)
    registry = Registry.read(home / "blessed.json")
    Registry(models=tuple(entry for entry in registry.models if "/b/" not in entry.uri)).write(home / "blessed.json")
    assert f"version {b} is not in the list" in refusal(home, b)
    registry.write(home / "blessed.json")
    (home / "artifacts" / "b").rename(home / "gone")
    shutil.rmtree(home / "serving" / b)
    assert "b/model is gone" in (text := refusal(home, b))
    assert b not in text.splitlines()[1]
    (home / "pushed.json").unlink()
    assert "has no model that was pushed" in refusal(home)
    with pytest.raises(RunError, match="is null"):
        roll_back(config_of(home, push=False), None, datetime.now(UTC))


def test_model_is_named_by_its_run_as_well(home: Path) -> None:
    """On this machine, the folder of a model is named by the run."""
    registry, record = Registry.read(home / "blessed.json"), PushRecord.read(home / "pushed.json")
    names = {str(home / f"artifacts/{one}/model"): str(home / f"artifacts/Trainer/model/r-{one}") for one in "abc"}
    for before, after in names.items():
        Path(after).parent.mkdir(parents=True, exist_ok=True)
        Path(before).rename(after)
    Registry(models=tuple(one.model_copy(update={"uri": names[one.uri]}) for one in registry.models)).write(
        home / "blessed.json"
    )
    there = str(home / "serving")
    models = {there: {name: names[str(home / uri)] for name, uri in record.models[there].items()}}
    last = {there: record.last[there].model_copy(update={"uri": names[str(home / record.last[there].uri)]})}
    changed = record.model_copy(update={"models": models, "last": last})
    (home / "pushed.json").write_text(changed.model_dump_json())
    assert "the model of run r-c is in service" in refusal(home, "r-c")
    for name in ("r-d", "model", "r"):
        assert refusal(home, name).startswith(f"{name} is neither a version ")
    assert Path(back(home, "r-a").model).name == "r-a"
    assert in_service(home) == "a"


def test_model_that_was_pruned_is_restored_from_its_version_in_the_folder(home: Path) -> None:
    b = min(versions(home), key=int)
    shutil.rmtree(home / "artifacts" / "b")
    (home / "serving" / b / "saved_model.pb").write_text("damaged")
    assert "b/model is gone" in refusal(home)
    (home / "serving" / b / "saved_model.pb").write_text("b")
    done = back(home)
    assert (Path(done.model).parent.name, in_service(home), compared_with(home, "new")) == ("b", "b", "b")


def test_rollback_during_a_run_is_refused(home: Path) -> None:
    with locked(home):
        assert "is in progress" in refusal(home)
    back(home)
    assert in_service(home) == "b"


def test_list_tells_versions_apart_and_shows_one_that_nobody_here_pushed(home: Path) -> None:
    back(home)
    (home / "serving" / "9999999999").mkdir()
    models = {model.path.parent.name: model for model in list_models(config_of(home), [])}
    numbers = sorted(map(int, versions_pushed(home)))
    assert [models[name].versions for name in "abc"] == [(), (numbers[1],), (numbers[0],)]
    assert [model.path.name for model in models.values() if model.in_service] == ["9999999999"]
    assert [bool(models[name].withdrawn_at) for name in "abc"] == [False, False, True]


def versions_pushed(home: Path) -> list[str]:
    return [path.name for path in (home / "serving").iterdir() if path.name != "9999999999"]


def test_a_pusher_of_the_users_may_push_another_model_as_the_same_version(home: Path) -> None:
    file, version = home / "pushed.json", home / "own" / "1"
    for name in ("b", "c"):
        model = home / "artifacts" / name / "model"
        shutil.copytree(model, version, dirs_exist_ok=True)
        assert note_own_push(file, home / "blessed.json", [str(model)], version) is None
    assert PushRecord.read(file).model_of(file, version) == str(model)
    assert not PushRecord.read(file).is_damaged(version)
    (version / "more").write_text("")
    assert note_own_push(file, home / "blessed.json", [str(model)], version, reused=True) is None
    assert PushRecord.read(file).is_damaged(version)

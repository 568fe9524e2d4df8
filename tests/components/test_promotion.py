"""Manual approval: what a run leaves to a person, what a promotion puts into service, and what it refuses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dying import deaths, full_disks
from made_up_nights import in_service, night
from tfx.types import standard_artifacts

from headrace.common.errors import RunError
from headrace.components.deploy.choices import choose_base_model, choose_baseline
from headrace.components.stored_models.blessed_record import AUTOMATIC, AWAITING, MANUAL, MadeFor, Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline.folders import locked
from headrace.pipeline.models.destination import ModelChange
from headrace.pipeline.models.listing import list_models
from headrace.pipeline.models.promotion import promote
from headrace.pipeline.models.rollback import roll_back
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.run import Run


def config_of(home: Path, approval: str = MANUAL, serving: str = "serving") -> PipelineConfig:
    given = {
        "pipeline": {"name": home.name, "root": str(home.parent)},
        "data": {"source": {"kind": "csv", "path": "trips.csv"}},
        "label": {"key": "fare", "kind": "regression"},
        "features": {"miles": {"column": "numeric"}},
        "deploy": {"push": str(home / serving), "keep": 2, "approval": approval},
    }
    return load_with_locations(given).config


def waiting_night(home: Path, name: str, *, blessed: bool = True) -> standard_artifacts.PushedModel:
    return night(home, name, blessed=blessed, approval=MANUAL)


def runs_of(home: Path) -> list[Run]:
    """A run for each night, with the night's name for its id."""
    found = []
    for number, folder in enumerate(sorted((home / "artifacts").glob("*"))):
        model = ArtifactRecord("Model", str(folder / "model"), {})
        node = NodeRecord("Trainer", status=Status.DONE, outputs={"model": model})
        record = RunRecord(folder.name, home.name, "c.yaml", number, status=Status.DONE, nodes=[node])
        found.append(Run(RunFolder(home / "runs" / folder.name, record)))
    return found


def promoted(home: Path, wanted: str | None = None, *, allow_older: bool = False) -> ModelChange:
    return promote(config_of(home), runs_of(home), wanted, datetime.now(UTC), allow_older=allow_older)


def back(home: Path, to: str | None = None) -> None:
    roll_back(config_of(home), to, datetime.now(UTC))


def awaiting(home: Path, approval: str = MANUAL) -> list[str]:
    """The nights whose models are listed as awaiting approval."""
    models = list_models(config_of(home, approval), [])
    return sorted(model.path.parent.name for model in models if model.awaiting_approval)


def versions(home: Path) -> list[str]:
    """What each version holds, oldest first."""
    there = sorted((home / "serving").iterdir(), key=lambda path: int(path.name))
    return [(path / "saved_model.pb").read_text() for path in there]


def names_and_bytes(serving: Path) -> list[dict[str, bytes]]:
    """The files of each version, oldest first."""
    there = sorted(serving.iterdir(), key=lambda path: int(path.name))
    return [{str(file.relative_to(one)): file.read_bytes() for file in one.rglob("*.*")} for one in there]


def compared_with(home: Path, candidate: str) -> str | None:
    uri = choose_baseline(Registry.read(home / "blessed.json"), str(home / "artifacts" / candidate / "model")).uri
    return uri and Path(uri).parent.name


def warm_start(home: Path) -> str | None:
    found = choose_base_model(Registry.read(home / "blessed.json"), "", MadeFor(label="{}", columns={"fare": "float"}))
    return found and Path(found).parent.name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A model in service, and two blessed ones that await approval."""
    home = tmp_path / "trips"
    night(home, "a", blessed=True)
    for name in ("b", "c"):
        waiting_night(home, name)
    return home


def test_blessed_models_wait_and_neither_serve_nor_stand_for_the_model_in_service(home: Path) -> None:
    assert (versions(home), awaiting(home)) == (["a"], ["b", "c"])
    for name in ("b", "c", "new"):
        assert compared_with(home, name) == "a"
    assert warm_start(home) == "a"
    before = (home / "blessed.json").read_bytes(), (home / "pushed.json").read_bytes()
    pushed = waiting_night(home, "c")
    assert pushed.get_int_custom_property("pushed") == 0
    assert pushed.get_string_custom_property(AWAITING) == str(home / "serving")
    waiting_night(home, "worse", blessed=False)
    assert (versions(home), awaiting(home)) == (["a"], ["b", "c"])
    assert ((home / "blessed.json").read_bytes(), (home / "pushed.json").read_bytes()) == before


def test_first_model_of_a_pipeline_waits_too(tmp_path: Path) -> None:
    home = tmp_path / "trips"
    assert waiting_night(home, "a").get_string_custom_property(AWAITING) == str(home / "serving")
    assert not (home / "serving").exists()
    assert (awaiting(home), compared_with(home, "b"), warm_start(home)) == (["a"], None, None)
    done = promoted(home)
    assert (in_service(home), Path(done.version).parent, awaiting(home)) == ("a", home / "serving", [])
    assert compared_with(home, "b") == warm_start(home) == "a"


def test_promotion_leaves_what_the_push_of_its_run_would_have_left(home: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin" / "trips"
    for name in ("a", "b"):
        night(twin, name, blessed=True)
    done = promoted(home, "b")
    assert (in_service(home), Path(done.model).parent.name, done.withdrawn) == ("b", "b", ())
    assert names_and_bytes(home / "serving") == names_and_bytes(twin / "serving")
    records = [PushRecord.read(each / "pushed.json") for each in (home, twin)]
    last, other = (record.last[str(each / "serving")] for record, each in zip(records, (home, twin), strict=True))
    assert (last.uri, last.contents) == (other.uri, other.contents)
    assert last.version == Path(done.version).name
    assert compared_with(home, "new") == compared_with(twin, "new") == "b"
    assert compared_with(home, "b") == compared_with(twin, "b") == "a"
    assert warm_start(home) == "b"
    pushed = waiting_night(home, "b")
    assert not pushed.get_int_custom_property("pushed")
    assert not pushed.get_string_custom_property(AWAITING)
    assert (versions(home), awaiting(home)) == (["a", "b"], ["c"])


def test_newest_is_promoted_by_default_and_an_older_one_only_if_that_is_asked_for(home: Path) -> None:
    promoted(home)
    assert (in_service(home), awaiting(home)) == ("c", [])
    assert "older than the model in service" in refusal(home, "b")
    done = promoted(home, "b", allow_older=True)
    assert [Path(uri).parent.name for uri in done.withdrawn] == ["c"]
    assert (in_service(home), compared_with(home, "new"), awaiting(home)) == ("b", "b", [])
    assert waiting_night(home, "c").get_int_custom_property("pushed") == 0
    assert in_service(home) == "b"


def test_model_that_waits_changes_nothing_about_the_baseline_of_the_one_in_service(home: Path) -> None:
    for name in ("b", "c"):
        promoted(home, name)
    assert (in_service(home), compared_with(home, "c")) == ("c", "a")  # as in its run, when b was not yet approved
    waiting_night(home, "d")
    assert (awaiting(home), compared_with(home, "c"), compared_with(home, "d")) == (["d"], "a", "c")


def test_rollback_goes_back_to_what_was_in_service_and_lets_the_others_wait(home: Path) -> None:
    promoted(home, "c")
    waiting_night(home, "d")
    back(home)
    assert (in_service(home), compared_with(home, "new")) == ("a", "a")  # and not b, which nobody approved
    assert awaiting(home) == ["b", "d"]
    assert "was rolled back" in refusal(home, "c")
    promoted(home, "d")
    assert (in_service(home), awaiting(home)) == ("d", [])
    back(home)
    assert in_service(home) == "a"


def test_model_of_before_that_is_blessed_again_waits_again(home: Path) -> None:
    promoted(home, "c")
    assert "older" in refusal(home, "a")
    waiting_night(home, "a")
    assert (in_service(home), awaiting(home), compared_with(home, "new")) == ("c", ["a"], "c")
    promoted(home)
    assert (in_service(home), compared_with(home, "new"), compared_with(home, "a")) == ("a", "a", "c")


def test_approval_for_one_folder_pushes_to_no_other(home: Path) -> None:
    promoted(home)
    night(home, "worse", blessed=False, approval=MANUAL, serving_at="production")
    assert not (home / "production").exists()
    models = list_models(config_of(home, serving="production"), [])
    assert [model.path.parent.name for model in models if model.awaiting_approval] == ["c"]


@pytest.mark.parametrize("approval", [MANUAL, AUTOMATIC])
def test_change_of_the_setting_pushes_only_what_is_blessed_under_it(home: Path, approval: str) -> None:
    night(home, "worse", blessed=False, approval=approval)
    assert in_service(home) == "a"
    night(home, "c", blessed=True, approval=approval)
    assert in_service(home) == ("a" if approval == MANUAL else "c")
    assert awaiting(home, approval) == (["b", "c"] if approval == MANUAL else [])


def test_damaged_version_is_replaced_without_asking(home: Path) -> None:
    served = Path(promoted(home, "b").version)
    (served / "saved_model.pb").write_text("x")
    assert waiting_night(home, "worse", blessed=False).get_int_custom_property("pushed") == 1
    assert (in_service(home), awaiting(home)) == ("b", ["c"])


@pytest.mark.parametrize("fault", [deaths, full_disks])
def test_promotion_stopped_anywhere_is_completed_by_the_same_command_or_the_next_run(
    home: Path, tmp_path: Path, fault: Callable[[Callable[[], object], Path], Iterator[int]]
) -> None:
    promoted(home, "b")
    before, ends = shutil.copytree(home, tmp_path / "before"), set()
    for turn in fault(lambda: promoted(home), tmp_path):
        undone, noted = approved(home) == "b", last_pushed(home) == "c"
        ends.add((approved(home), in_service(home), last_pushed(home)))
        if turn % 2:
            waiting_night(home, "worse", blessed=False)
            assert (in_service(home), awaiting(home)) == (("b", ["c"]) if undone else ("c", []))
        elif not noted:
            promoted(home)
            assert (in_service(home), awaiting(home)) == ("c", [])
        assert last_pushed(home) == in_service(home) == compared_with(home, "new")
        assert not list((home / "serving").glob(".*"))
        shutil.rmtree(home)
        shutil.copytree(before, home)
    assert ends | {("c", "c", "c")} == {("b", "b", "b"), ("c", "b", "b"), ("c", "c", "b"), ("c", "c", "c")}


def approved(home: Path) -> str:
    """The newest model that does not await approval."""
    newest = Registry.read(home / "blessed.json").newest
    assert newest is not None
    return Path(newest.uri).parent.name


def last_pushed(home: Path) -> str:
    return Path(PushRecord.read(home / "pushed.json").last[str(home / "serving")].uri).parent.name


def refusal(home: Path, wanted: str | None = None) -> str:
    """The message of a promotion that changes nothing."""
    before = contents(home)
    with pytest.raises(RunError) as error:
        promoted(home, wanted)
    assert contents(home) == before
    return str(error.value)


def contents(home: Path) -> dict[Path, bytes]:
    """Every file but the locks."""
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and not path.name.startswith(".")}


def test_what_cannot_be_promoted_is_refused_with_the_reason_and_what_can(home: Path, tmp_path: Path) -> None:
    waiting_night(home, "worse", blessed=False)
    assert "worse is not in the list" in refusal(home, "worse")
    assert (text := refusal(home, "17")).startswith("17 is neither a run ")
    assert text.splitlines()[1] == "  Runs whose models await approval: c, b."
    (version,) = (path.name for path in (home / "serving").iterdir())
    for name in ("a", version):
        assert re.search(rf"{name} is in service .*as version {version}", refusal(home, name))
    (home / "artifacts" / "b" / "model").rename(tmp_path / "pruned")
    assert "b/model is gone, so it cannot be promoted" in refusal(home, "b")
    assert awaiting(home) == ["c"]
    assert refusal(home, "17").endswith("await approval: c.")
    (home / "artifacts" / "c" / "model" / "Format-Serving" / "saved_model.pb").write_text("x")
    assert "c/model is damaged" in refusal(home)


def test_nothing_to_promote_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "trips"
    assert "no model in" in refusal(home)
    assert not home.exists()
    night(home, "a", blessed=True)
    assert refusal(home).startswith("no model awaits approval; version")
    nowhere = config_of(home).model_copy(update={"deploy": config_of(home).deploy.model_copy(update={"push": None})})
    with pytest.raises(RunError, match="is null"):
        promote(nowhere, [], None, datetime.now(UTC))


def test_promotion_during_a_run_is_refused(home: Path) -> None:
    with locked(home):
        assert "is in progress" in refusal(home)
    promoted(home)
    assert in_service(home) == "c"

"""The check of the data that a run does not repeat: what it depends on, and when it is repeated all the same."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest
from edits import edit

from headrace.common.checksums import with_checksum, without_checksum
from headrace.common.errors import ConfigError
from headrace.common.storage.files import FileState
from headrace.components.sources.files import SourceFiles
from headrace.components.spans.source_state import source_state
from headrace.configs.loading.loader import LoadedConfig, load
from headrace.configs.rules.rule import settings_of
from headrace.configs.schema.sources import SOURCES, CsvSource, SourceBase
from headrace.pipeline import checked_data
from headrace.pipeline.api import load_to_run
from headrace.pipeline.checked_data import UNREAD, data_key, notes_of, remember_checked
from headrace.pipeline.code.digest import read_again
from headrace.pipeline.folders import Folders
from headrace.pipeline.validate import check_columns

CONFIG: dict[str, Any] = {
    "pipeline": {"name": "trips"},
    "data": {"source": {"kind": "csv", "path": "trips.csv"}, "schema": "schema.pbtxt"},
    "label": {"key": "tip", "kind": "binary"},
    "features": {"fare": {"column": "numeric"}, "kind": {"column": "vocabulary", "file": "kinds.txt"}},
}
HOOKS = ("state", "find", "patterns", "check_splits")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{row % 40}.5,{'ab'[row % 2]},{int(row % 40 > 20)}\n" for row in range(400)]
    (tmp_path / "trips.csv").write_text("".join(["fare,kind,tip\n", *rows]), encoding="utf-8")
    (tmp_path / "kinds.txt").write_text("a\nb\n", encoding="utf-8")
    features = ("fare", "FLOAT"), ("kind", "BYTES"), ("tip", "INT")
    schema = "".join(f'feature {{ name: "{name}" type: {type_} }}\n' for name, type_ in features)
    (tmp_path / "schema.pbtxt").write_text(schema, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked(**overrides: Any) -> LoadedConfig:
    """A check as a run makes it, and what the run stores afterwards."""
    loaded = load_to_run(CONFIG, None, [(name.replace("__", "."), value) for name, value in overrides.items()])
    if loaded.data_key is not None:
        remember_checked(loaded.config, loaded.data_key, loaded.data_notes)
    return loaded


def touch(folder: Path) -> None:
    os.utime(folder / "trips.csv", ns=(1, 1))


def damage(folder: Path) -> None:
    file = folder / "runs/trips/checked.json"
    file.write_bytes(file.read_bytes().replace(b"key", b"kex"))


def test_the_same_data_is_checked_once(folder: Path) -> None:
    assert [checked().data_checked for _ in range(3)] == [False, True, True]
    assert Folders.of(checked().config).checked.is_relative_to(folder)


@pytest.mark.parametrize(
    "change",
    [
        edit("trips.csv", "0.5,a,0", "1.5,a,0"),
        edit("kinds.txt", "b", "c"),
        edit("schema.pbtxt", "FLOAT", "INT"),
        touch,
        damage,
        lambda folder: (folder / "runs/trips/checked.json").unlink(),
    ],
)
def test_whatever_may_change_what_it_finds_repeats_the_check(folder: Path, change: Callable[[Path], None]) -> None:
    assert [checked().data_checked for _ in range(2)] == [False, True]
    change(folder)
    loaded = load_to_run_or_none()
    assert loaded is None or not loaded.data_checked


def test_a_request_that_is_logged_repeats_the_check(folder: Path) -> None:
    (folder / "log.csv").write_text("fare,kind\n1.5,a\n")
    skew = {"gates__skew": {"source": {"kind": "csv", "path": "log*.csv"}}}
    assert [checked(**skew).data_checked for _ in range(2)] == [False, True]
    (folder / "log2.csv").write_text("fare,kind\n2.5,b\n")
    assert [checked(**skew).data_checked for _ in range(2)] == [False, True]
    function = {"gates__skew": {"source": {"kind": "python", "function": "gateway.requests"}}}
    (folder / "gateway.py").write_text("def requests():\n    yield {'fare': 1.5, 'kind': 'a'}\n")
    assert [checked(**function).data_checked for _ in range(2)] == [False, False]


def load_to_run_or_none() -> LoadedConfig | None:
    try:
        return load_to_run(CONFIG, None, ())
    except ConfigError:
        return None


class Unreadable:
    """A section of which nothing can be used."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the check of the data reads {name} of a section that its key leaves out")

    def __bool__(self) -> bool:
        raise AssertionError("the check of the data reads a section that its key leaves out")


UNREADABLE: dict[str, Any] = dict.fromkeys(UNREAD, Unreadable())


@pytest.mark.parametrize(
    "more",
    [
        {},
        {
            "evaluate": {"slices": ["kind"]},
            "predict": {"source": {"kind": "csv", "path": "trips.csv"}, "output": "o.csv"},
        },
        {
            "gates": {
                "skew": {"source": {"kind": "csv", "path": "log.csv"}},
                "freshness": {"max_days": 3, "column": "kind"},
            }
        },
        {"model": {"kind": "dnn", "hidden": [4]}, "schedule": {"cron": "0 3 * * *"}},
        {
            "label": {"kind": "multitask", "tasks": {"tip": {"kind": "binary"}, "fare": {"kind": "regression"}}},
            "features": {"kind": {"column": "vocabulary"}},
        },
    ],
)
def test_it_reads_nothing_of_the_sections_that_its_key_leaves_out(folder: Path, more: dict[str, Any]) -> None:
    (folder / "log.csv").write_text("fare,kind\n1.5,a\n", encoding="utf-8")
    config = load({**CONFIG, **more})
    found = check_columns(config)
    assert check_columns(config.model_copy(update=UNREADABLE)) == found
    with pytest.raises(AssertionError, match="leaves out"):
        print(config.model_copy(update=UNREADABLE).train.epochs)


@pytest.mark.parametrize(
    "override",
    [
        {"train__epochs": 3},
        {"train__optimizer": "sgd"},
        {"deploy__push": "elsewhere/{name}"},
        {"beam__runner": "direct"},
    ],
)
@pytest.mark.usefixtures("folder")
def test_an_edit_of_a_section_that_it_does_not_read_does_not_repeat_it(override: dict[str, Any]) -> None:
    assert not checked().data_checked
    assert checked(**override).data_checked


@pytest.mark.parametrize(
    "override", [{"model": {"kind": "dnn", "hidden": [4]}}, {"data__source__null_values": ["", "-"]}]
)
@pytest.mark.usefixtures("folder")
def test_another_config_is_checked(override: dict[str, Any]) -> None:
    assert [checked().data_checked for _ in range(2)] == [False, True]
    assert [checked(**override).data_checked for _ in range(2)] == [False, True]


def test_a_column_that_disappears_is_reported_although_the_data_was_checked_before(folder: Path) -> None:
    checked()
    edit("trips.csv", "fare,kind,tip", "fair,kind,tip")(folder)
    with pytest.raises(ConfigError, match=r'features\.fare.*"fare" is not a column'):
        checked()


def test_an_edit_of_the_check_or_of_a_function_that_the_config_names_checks_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "stricter.py").write_text("import headrace.pipeline.validate\n", encoding="utf-8")
    (folder / "mine.py").write_text("def twice(raw):\n    return 2 * raw['fare']\n", encoding="utf-8")
    monkeypatch.setattr(checked_data, "CHECK", "stricter")
    feature = {"column": "custom", "function": "mine.twice", "keys": ["fare"]}

    def key() -> str | None:
        read_again()
        return data_key(load({**CONFIG, "features": {**CONFIG["features"], "more": feature}}))

    keys = [key()]
    edit("mine.py", "2 *", "3 *")(folder)
    keys.append(key())
    edit("stricter.py", "import", "limit = 3\nimport")(folder)
    keys.append(key())
    assert len({*keys} - {None}) == 3
    (folder / "stricter.py").unlink()
    assert key() is None


def test_what_a_run_would_accept_is_noted_in_every_run_and_checked_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "".join(f"{row}.5,{'ab'[row % 2]},{row // 2 % 2}\n" for row in range(400))
    (folder / "trips.csv").write_text(f"fare,kind,tip\n{rows}", encoding="utf-8")
    noted = []
    for expected in (False, True, True):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert checked(evaluate__slices=["fare"]).data_checked == expected
        noted.append(caplog.messages)
    assert "evaluate.slices" in noted[0][0]
    assert "400 different" in noted[0][0]
    assert noted == [noted[0]] * 3
    assert checked().data_notes == ()


def test_a_check_that_an_earlier_version_remembered_is_made_again(folder: Path) -> None:
    file = Folders.of(checked().config).checked
    last = json.loads(without_checksum(file.read_bytes()))
    del last["notes"]
    file.write_bytes(with_checksum(json.dumps(last)).encode())
    assert [checked().data_checked for _ in range(2)] == [False, True]


@pytest.mark.usefixtures("folder")
def test_data_whose_times_say_nothing_is_always_checked() -> None:
    assert not any(checked(data__fingerprint="checksums").data_checked for _ in range(2))
    loaded = checked(data__fingerprint="checksums")
    assert loaded.data_key is None
    assert notes_of(loaded.config, "") is None


def test_only_sources_whose_readers_have_no_say_in_it_are_found_by_their_paths() -> None:
    kinds = SOURCES.kinds.values()
    by_paths = [kind for kind in kinds if issubclass(kind, SourceBase) and kind.found_by_paths]
    assert {*map(readers_kind, by_paths)} >= {"csv", "jsonl", "tfrecord"}
    for kind in by_paths:
        own = [base for base in kind.load_implementation().__mro__ if base is not SourceFiles]
        assert not [hook for hook in HOOKS for base in own if hook in vars(base)], kind


def test_a_kind_with_a_reader_of_its_own_is_asked_where_its_data_is(tmp_path: Path) -> None:
    class Archive(CsvSource):
        implementation: ClassVar[str] = f"{__name__}.ArchiveReader"

    class Renamed(CsvSource):
        """With the reader of CSV."""

    given = {"kind": "csv", "path": str(tmp_path / "none.csv")}
    assert source_state(Archive.model_validate(given)) == [FileState("archive", 1, "1")]
    assert Renamed.found_by_paths


class ArchiveReader:
    """Of a source that is in no file."""

    @classmethod
    def state(cls, _source: CsvSource) -> list[FileState]:
        return [FileState("archive", 1, "1")]


def readers_kind(kind: Any) -> str:
    return str(get_args(kind.model_fields["kind"].annotation)[0])


def test_a_repeated_note_of_several_columns_still_names_all_their_settings(folder: Path) -> None:
    (folder / "trips.csv").write_text("fare,kind,tip\n" + "1,a,0\n1,a,1\n" * 100, encoding="utf-8")
    first, again = checked(), checked()
    assert again.data_checked
    (note,) = first.data_notes
    assert settings_of(note) == settings_of(again.data_notes[0]) == (("features", "fare"), ("features", "kind"))

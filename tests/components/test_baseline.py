"""The history of blessed models: what a candidate is compared with."""

import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from changed_bytes import assert_each_changed_byte_is_detected
from hypothesis import given
from hypothesis import strategies as st
from messages import says
from tfx.types import Artifact, standard_artifacts

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.components.deploy.baseline import Baseline, RecordBlessing
from headrace.components.deploy.choices import choose_baseline
from headrace.components.stored_models.blessed_record import DAMAGED, WHY, MadeFor, NewestEntry, Registry
from headrace.components.stored_models.blessing import record_blessing
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.stored_models.usable import why_unusable

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def _model(tmp_path: Path, name: str) -> str:
    path = tmp_path / name
    path.mkdir(exist_ok=True)
    return str(path)


def _baseline(path: Path, candidate: str) -> str | None:
    return choose_baseline(Registry.read(path), candidate)[0]


def test_without_a_file_there_is_no_baseline_and_the_first_blessing_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "blessed.json"
    assert _baseline(path, "/a") is None
    record_blessing(path, "/a", NOW)
    (entry,) = json.loads(path.read_text())["models"]
    assert (entry["uri"], entry["blessed_at"], entry["compared_with"]) == ("/a", "2026-03-01T12:00:00+00:00", None)
    assert {each.name for each in path.parent.iterdir()} == {"blessed.json", ".blessed.json.lock"}


def test_a_new_candidate_is_compared_with_the_newest_that_is_still_there(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "blessed.json"
    first, second = _model(tmp_path, "first"), _model(tmp_path, "second")
    record_blessing(path, first, NOW)
    record_blessing(path, second, NOW)
    assert _baseline(path, "/new") == second
    Path(second).rmdir()
    assert _baseline(path, "/new") == first
    assert f"the blessed model {second} is gone" in log.text
    Path(first).rmdir()
    assert _baseline(path, "/new") is None


def test_newest_model_is_compared_as_it_was_then_and_every_other_one_with_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "blessed.json"
    first, second, third = (_model(tmp_path, name) for name in ("first", "second", "third"))
    for uri in (first, second, third):
        record_blessing(path, uri, NOW)
    assert [_baseline(path, uri) for uri in (first, second, third)] == [third, third, second]


def test_model_blessed_again_after_another_is_the_newest_again(tmp_path: Path) -> None:
    path = tmp_path / "blessed.json"
    first, second = _model(tmp_path, "first"), _model(tmp_path, "second")
    for uri in (first, second, first):
        record_blessing(path, uri, NOW)
    found = Registry.read(path)
    assert [(each.uri, each.compared_with) for each in found.models] == [(second, first), (first, second)]
    assert (_baseline(path, first), _baseline(path, second), _baseline(path, "/new")) == (second, first, first)


def test_blessing_the_newest_model_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "blessed.json"
    record_blessing(path, "/a", NOW)
    record_blessing(path, "/b", NOW)
    before = path.read_bytes()
    record_blessing(path, "/b", datetime(2027, 1, 1, tzinfo=UTC))
    assert path.read_bytes() == before


def test_models_below_the_folder_of_the_file_are_found_after_a_move(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "runs" / "trips", _model(tmp_path, "elsewhere")
    (home / "artifacts" / "3").mkdir(parents=True)
    path = home / "blessed.json"
    record_blessing(path, elsewhere, NOW)
    record_blessing(path, str(home / "artifacts" / "3"), NOW)
    written = json.loads(path.read_text())["models"]
    assert [(each["uri"], each["compared_with"]) for each in written] == [
        (elsewhere, None),
        ("artifacts/3", elsewhere),
    ]
    moved = (tmp_path / "runs").rename(tmp_path / "runs2") / "trips"
    assert _baseline(moved / "blessed.json", "/new") == str(moved / "artifacts" / "3")


@given(st.lists(st.sampled_from("abcdef"), max_size=12), st.sampled_from("abcdef"))
def test_an_unchanged_second_run_finds_the_baseline_of_the_first(history: list[str], candidate: str) -> None:
    """Every run: choose a baseline, and bless the candidate, as the pipeline does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "blessed.json")

        def run(model: str) -> tuple[str, ...]:
            baselines = Registry.read(path).predecessors(f"/{model}")
            record_blessing(path, f"/{model}", NOW)
            return baselines

        for model in history:
            run(model)
        before = [entry.uri for entry in Registry.read(path).models]
        assert before == [f"/{model}" for model in reversed(dict.fromkeys(reversed(history)))]
        first, once = run(candidate), Registry.read(path)
        second, twice = run(candidate), Registry.read(path)
        assert (first, once) == (second, twice)
        assert f"/{candidate}" not in first
        if before and before[-1] != f"/{candidate}":
            assert first[0] == before[-1]


def test_list_with_any_byte_changed_is_named_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "blessed.json"
    for number in range(3):
        record_blessing(
            path, str(tmp_path / f"é {number}"), NOW, MadeFor(label='{"kind": "binary"}', columns={"fare": "FLOAT"})
        )
    whole, known = path.read_bytes(), Registry.read(path)
    assert whole.count(b"binary") == 3
    path.write_bytes(whole.replace(b"binary", b"cinary", 1))
    with pytest.raises(RunError, match=r"blessed\.json: .* damaged"):
        Registry.read(path)
    path.write_bytes(whole)
    assert_each_changed_byte_is_detected(path, Registry.read, "delete it")
    old = json.loads(whole)
    del old["checksum"]  # as earlier versions wrote it
    path.write_text(json.dumps(old))
    assert Registry.read(path) == known


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"models": [{"uri": "a"}]}', '{"models": [{"uri": 3, "blessed_at": ""}]}']
)
def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    path = tmp_path / "blessed.json"
    path.write_text(text)
    with pytest.raises(RunError) as error:
        Registry.read(path)
    assert str(error.value).startswith(f"{path}: the list of blessed models ")
    assert "delete it" in str(error.value)


def _schema(tmp_path: Path, text: str = 'feature { name: "fare" type: FLOAT }') -> standard_artifacts.Schema:
    schema = standard_artifacts.Schema()
    schema.uri = str(tmp_path)
    (tmp_path / "schema.pbtxt").write_text(text)
    return schema


def _lists(tmp_path: Path) -> dict[str, str]:
    return {"registry": str(tmp_path / "blessed.json"), "push_record": str(tmp_path / "pushed.json")}


def _run_baseline(tmp_path: Path, model: str) -> standard_artifacts.Model:
    candidate, baseline = standard_artifacts.Model(), standard_artifacts.Model()
    candidate.uri, baseline.uri = model, str(tmp_path / "artifacts" / "baseline")
    outputs = {"baseline": [baseline]}
    executor = Baseline.EXECUTOR_SPEC.executor_class()
    inputs = {"model": [candidate], "schema": [_schema(tmp_path)]}
    executor.Do(inputs, outputs, {**_lists(tmp_path), "label": "{}"})
    return outputs["baseline"][0]


def _run_record(
    tmp_path: Path, model: str, *, blessed: bool, statistics: str = ""
) -> tuple[NewestEntry, standard_artifacts.Model]:
    candidate, blessing = standard_artifacts.Model(), standard_artifacts.ModelBlessing()
    entry, newest = standard_artifacts.String(), standard_artifacts.Model()
    candidate.uri, entry.uri, newest.uri = model, str(tmp_path / "value"), str(tmp_path / "artifacts" / "newest")
    blessing.set_int_custom_property("blessed", int(blessed))
    executor = RecordBlessing.EXECUTOR_SPEC.executor_class()
    inputs: dict[str, list[Artifact]] = {"model": [candidate], "blessing": [blessing], "schema": [_schema(tmp_path)]}
    if statistics:
        inputs["statistics"] = [standard_artifacts.ExampleStatistics()]
        inputs["statistics"][0].uri = statistics
    properties = {**_lists(tmp_path), "label": "{}", "columns": '["fare"]'}
    outputs = {"entry": [entry], "newest": [newest]}
    executor.Do(inputs, outputs, properties)
    return NewestEntry.model_validate_json(Path(entry.uri).read_text(encoding="utf-8")), outputs["newest"][0]


def test_the_components_pass_the_baseline_on_from_run_to_run(tmp_path: Path) -> None:
    first, second, third = (_model(tmp_path, name) for name in ("first", "second", "third"))
    none = _run_baseline(tmp_path, first)
    assert none.get_int_custom_property("exists") == 0
    assert not list(Path(none.uri).iterdir())
    entry, newest = _run_record(tmp_path, first, blessed=True)
    assert (entry.uri, entry.compared_with, newest.uri) == ("first", None, first)
    assert _run_record(tmp_path, second, blessed=False)[0] == entry
    found = _run_baseline(tmp_path, third)
    assert (found.uri, found.get_int_custom_property("exists")) == (first, 1)
    entry, newest = _run_record(tmp_path, third, blessed=True)
    assert (entry.uri, entry.compared_with, newest.uri) == ("third", "first", third)


def test_the_statistics_of_a_blessed_models_data_are_on_record_and_move_with_the_folder(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    model = _model(here, "model")
    entry, _ = _run_record(here, model, blessed=True, statistics=str(here / "artifacts" / "statistics"))
    assert entry.statistics == "artifacts/statistics"
    here.rename(there)
    newest = Registry.read(there / "blessed.json").newest
    assert newest is not None
    assert newest.statistics == str(there / "artifacts" / "statistics")


def test_damaged_model_is_not_a_baseline(tmp_path: Path) -> None:
    older, newer = _model(tmp_path, "older"), _model(tmp_path, "newer")
    variables = Path(newer, "Format-Serving", "variables")
    variables.mkdir(parents=True)
    (variables.parent / "saved_model.pb").write_bytes(b"graph")
    (variables / "data").write_bytes(b"weights")
    _run_record(tmp_path, older, blessed=True)
    _run_record(tmp_path, newer, blessed=True)
    assert _run_baseline(tmp_path, "/candidate").uri == newer
    (variables / "data").write_bytes(bytes(7))
    assert _run_baseline(tmp_path, "/candidate").uri == older


def _weighted(tmp_path: Path, name: str) -> Path:
    """A model with files; the one that holds its weights."""
    serving = Path(_model(tmp_path, name), "Format-Serving")
    (serving / "variables").mkdir(parents=True)
    (serving / "saved_model.pb").write_bytes(b"graph")
    weights = serving / "variables" / "data"
    weights.write_bytes(name.encode())
    return weights


def _push(tmp_path: Path, name: str, number: str = "17") -> Path:
    """A copy of a blessed model's served part, noted as pushed."""
    version = Path(shutil.copytree(tmp_path / name / "Format-Serving", tmp_path / "serving" / number))
    record_of_pushes, entry = tmp_path / "pushed.json", Registry.read(tmp_path / "blessed.json").newest
    assert entry is not None
    PushRecord.read(record_of_pushes).write(record_of_pushes, entry, version)
    return version


def test_no_candidate_passes_a_comparison_with_a_damaged_model_that_nothing_stands_in_for(tmp_path: Path) -> None:
    weights = _weighted(tmp_path, "blessed")
    _run_record(tmp_path, str(tmp_path / "blessed"), blessed=True)
    weights.write_bytes(bytes(7))
    none = _run_baseline(tmp_path, "/candidate")
    assert none.get_int_custom_property("exists") == 0
    text = Path(none.uri, DAMAGED).read_text(encoding="utf-8")
    assert f"the blessed model {tmp_path / 'blessed'} is damaged" in text
    assert "remove that folder" in text
    shutil.rmtree(tmp_path / "blessed")
    shutil.rmtree(none.uri)
    assert not Path(_run_baseline(tmp_path, "/candidate").uri, DAMAGED).exists()


def test_damage_to_its_predecessor_takes_no_blessing_from_the_newest_model(tmp_path: Path) -> None:
    weights, newer = _weighted(tmp_path, "older"), _weighted(tmp_path, "newer").parents[2]
    for uri in (tmp_path / "older", newer):
        _run_record(tmp_path, str(uri), blessed=True)
    weights.write_bytes(bytes(5))
    assert not Path(_run_baseline(tmp_path, str(newer)).uri, DAMAGED).exists()


def test_damaged_model_for_other_data_blocks_no_candidate(tmp_path: Path) -> None:
    weights = _weighted(tmp_path, "blessed")
    path, uri = tmp_path / "blessed.json", str(tmp_path / "blessed")
    record_blessing(path, uri, NOW, MadeFor(label="houses", columns={}), checksum(Path(uri)))
    weights.write_bytes(bytes(7))
    chosen = choose_baseline(Registry.read(path), "/candidate", TAXI)
    assert (chosen.uri, chosen.damaged) == (None, "")


@pytest.mark.parametrize("what", ["zeros", "gone", "cut", "more"])
def test_damaged_model_is_restored_from_the_copy_that_was_pushed(
    tmp_path: Path, what: str, log: pytest.LogCaptureFixture
) -> None:
    weights = _weighted(tmp_path, "blessed")
    _run_record(tmp_path, str(tmp_path / "blessed"), blessed=True)
    version, sound = _push(tmp_path, "blessed"), checksum(tmp_path / "blessed")
    damage: dict[str, Callable[[], object]] = {
        "zeros": lambda: weights.write_bytes(bytes(7)),
        "gone": weights.unlink,
        "cut": lambda: os.truncate(weights, 3),
        "more": lambda: weights.with_name("more").write_bytes(b"x"),
    }
    damage[what]()
    found = _run_baseline(tmp_path, "/candidate")
    assert (found.uri, found.get_int_custom_property("exists")) == (str(tmp_path / "blessed"), 1)
    assert checksum(tmp_path / "blessed") == sound
    assert f"restored from {version}" in log.text


def test_damaged_model_is_restored_from_a_version_that_others_followed(tmp_path: Path) -> None:
    older = _weighted(tmp_path, "older")
    for name, number in (("older", "17"), ("newer", "18")):
        if name == "newer":
            _weighted(tmp_path, name)
        _run_record(tmp_path, str(tmp_path / name), blessed=True)
        _push(tmp_path, name, number)
    entry = Registry.read(tmp_path / "blessed.json").find(str(tmp_path / "older"))
    older.write_bytes(bytes(5))
    assert why_unusable(str(tmp_path / "older"), entry, None, tmp_path / "pushed.json") is None
    assert older.read_bytes() == b"older"


def test_pushed_copy_of_another_model_or_a_damaged_one_restores_nothing(tmp_path: Path) -> None:
    weights = _weighted(tmp_path, "blessed")
    _run_record(tmp_path, str(tmp_path / "blessed"), blessed=True)
    version = _push(tmp_path, "blessed")
    for file in (weights, version / "variables" / "data"):
        file.write_bytes(bytes(7))
    assert _run_baseline(tmp_path, "/candidate").get_int_custom_property("exists") == 0
    assert weights.read_bytes() == bytes(7)


def test_damaged_model_is_not_offered_to_the_pusher(tmp_path: Path) -> None:
    weights, candidate = _weighted(tmp_path, "blessed"), _model(tmp_path, "candidate")
    _run_record(tmp_path, str(tmp_path / "blessed"), blessed=True)
    weights.write_bytes(bytes(7))
    candidate_model, blessing = standard_artifacts.Model(), standard_artifacts.ModelBlessing()
    entry, newest = standard_artifacts.String(), standard_artifacts.Model()
    candidate_model.uri, entry.uri, newest.uri = candidate, str(tmp_path / "value"), str(tmp_path / "none")
    blessing.set_int_custom_property("blessed", 0)
    RecordBlessing.EXECUTOR_SPEC.executor_class().Do(
        {"model": [candidate_model], "blessing": [blessing], "schema": [_schema(tmp_path)]},
        {"entry": [entry], "newest": [newest]},
        {**_lists(tmp_path), "label": "{}", "columns": '["fare"]'},
    )
    assert Path(entry.uri).read_text(encoding="utf-8") == "{}"
    assert not list(Path(newest.uri).iterdir())


def _record_many(path: Path, name: str) -> None:
    for number in range(20):
        record_blessing(path, f"/{name}{number}", NOW)


def test_no_blessing_is_lost_when_two_runs_share_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "blessed.json"
    fork = multiprocessing.get_context("fork")
    runs = [fork.Process(target=_record_many, args=(path, name)) for name in "ab"]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert {entry.uri for entry in Registry.read(path).models} == {f"/{name}{n}" for name in "ab" for n in range(20)}


def test_that_all_blessed_models_are_gone_is_written_for_the_evaluator_each_time(tmp_path: Path) -> None:
    first, second, third = (_model(tmp_path, name) for name in ("first", "second", "third"))
    for uri in (first, second):
        _run_record(tmp_path, uri, blessed=True)
        Path(uri).rmdir()
    for _ in range(2):
        none = _run_baseline(tmp_path, third)
        assert none.get_int_custom_property("exists") == 0
        assert Path(none.uri, WHY).read_text(encoding="utf-8") == f"the blessed model {second} is gone"
        _run_record(tmp_path, third, blessed=True)


TAXI = MadeFor(label="tips", columns={"fare": "float", "hour": "int"})


@pytest.mark.parametrize(
    ("data", "compared"),
    [
        (TAXI, True),
        (MadeFor(label="tips", columns={"fare": "float", "hour": "int", "more": "string"}), True),
        (MadeFor(label="tolls", columns=TAXI.columns), False),
        (MadeFor(label="tips", columns={"fare": "float"}), False),
        (MadeFor(label="tips", columns={"fare": "int", "hour": "int"}), False),
    ],
)
def test_only_a_model_made_for_such_data_is_compared_with(tmp_path: Path, data: MadeFor, compared: bool) -> None:
    path, blessed = tmp_path / "blessed.json", _model(tmp_path, "blessed")
    record_blessing(path, blessed, NOW, TAXI)
    chosen = choose_baseline(Registry.read(path), "/candidate", data)
    assert chosen.uri == (blessed if compared else None)
    assert not chosen.damaged
    assert says(chosen.why_not, "" if compared else f"the blessed model {blessed} …another label")
    assert bool(chosen.why_not) is not compared


def test_an_older_model_made_for_such_data_is_found_behind_a_newer_one_that_is_not(tmp_path: Path) -> None:
    path = tmp_path / "blessed.json"
    older, newer = _model(tmp_path, "older"), _model(tmp_path, "newer")
    record_blessing(path, older, NOW, TAXI)
    record_blessing(path, newer, NOW, MadeFor(label="houses", columns={}))
    assert choose_baseline(Registry.read(path), "/candidate", TAXI)[0] == older

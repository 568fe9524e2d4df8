"""The history of blessed models: what a candidate is compared with."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tfx.types import standard_artifacts

from components.baseline import Baseline, RecordBlessing, choose, record
from components.registry import Entry, Registry
from configs.errors import RunError

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def _model(tmp_path: Path, name: str) -> str:
    path = tmp_path / name
    path.mkdir(exist_ok=True)
    return str(path)


def test_without_a_file_there_is_no_baseline_and_the_first_blessing_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "blessed.json"
    assert choose(Registry.read(path), "a") is None
    record(path, "a", None, NOW)
    assert json.loads(path.read_text()) == {
        "models": [{"uri": "a", "blessed_at": "2026-03-01T12:00:00+00:00", "compared_with": None}]
    }
    assert [each.name for each in path.parent.iterdir()] == ["blessed.json"]


def test_a_new_candidate_is_compared_with_the_newest_that_is_still_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "blessed.json"
    first, second = _model(tmp_path, "first"), _model(tmp_path, "second")
    record(path, first, None, NOW)
    record(path, second, first, NOW)
    assert choose(Registry.read(path), "new") == second
    Path(second).rmdir()
    assert choose(Registry.read(path), "new") == first
    assert f"the blessed model {second} is gone" in capsys.readouterr().out
    Path(first).rmdir()
    assert choose(Registry.read(path), "new") is None


def test_a_candidate_that_was_blessed_is_compared_as_it_was_then(tmp_path: Path) -> None:
    path = tmp_path / "blessed.json"
    first, second, third = (_model(tmp_path, name) for name in ("first", "second", "third"))
    for uri, compared_with in ((first, None), (second, first), (third, second)):
        record(path, uri, compared_with, NOW)
    registry = Registry.read(path)
    assert [choose(registry, uri) for uri in (first, second, third)] == [None, first, second]


def test_blessing_a_model_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "blessed.json"
    record(path, "a", None, NOW)
    record(path, "b", "a", NOW)
    before = path.read_bytes()
    record(path, "a", "b", datetime(2027, 1, 1, tzinfo=UTC))
    assert path.read_bytes() == before


@given(st.lists(st.sampled_from("abcdef"), max_size=12), st.sampled_from("abcdef"))
def test_an_unchanged_second_run_finds_the_baseline_of_the_first(history: list[str], candidate: str) -> None:
    """Every run: choose a baseline, and bless the candidate, as the pipeline does."""

    def run(registry: Registry, model: str) -> tuple[Registry, str | None]:
        baseline = next(iter(registry.predecessors(model)), None)
        if registry.find(model) is None:
            registry = registry.with_newest(Entry(uri=model, blessed_at="", compared_with=baseline))
        return registry, baseline

    registry = Registry()
    for model in history:
        registry, _ = run(registry, model)
    uris = [entry.uri for entry in registry.models]
    assert uris == list(dict.fromkeys(history))
    registry, first = run(registry, candidate)
    again, second = run(registry, candidate)
    assert (second, again) == (first, registry)
    assert candidate not in registry.predecessors(candidate)
    if candidate not in history:
        assert first == (uris[-1] if uris else None)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"models": [{"uri": "a"}]}', '{"models": [{"uri": 3, "blessed_at": ""}]}']
)
def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    path = tmp_path / "blessed.json"
    path.write_text(text)
    with pytest.raises(RunError) as error:
        Registry.read(path)
    assert str(error.value).startswith(f"{path}: the list of blessed models cannot be read: ")
    assert "Mend the file, or delete it" in str(error.value)


def _run_baseline(tmp_path: Path, model: str) -> standard_artifacts.Model:
    candidate, baseline = standard_artifacts.Model(), standard_artifacts.Model()
    candidate.uri, baseline.uri = model, str(tmp_path / "artifacts" / "baseline")
    outputs = {"baseline": [baseline]}
    executor = Baseline.EXECUTOR_SPEC.executor_class()
    executor.Do({"model": [candidate]}, outputs, {"registry": str(tmp_path / "blessed.json")})
    return outputs["baseline"][0]


def _run_record(tmp_path: Path, model: str, *, blessed: bool, baseline: str) -> str:
    candidate, blessing, entry = (
        standard_artifacts.Model(),
        standard_artifacts.ModelBlessing(),
        standard_artifacts.String(),
    )
    candidate.uri, entry.uri = model, str(tmp_path / "value")
    blessing.set_int_custom_property("blessed", int(blessed))
    blessing.set_string_custom_property("baseline_model", baseline)
    executor = RecordBlessing.EXECUTOR_SPEC.executor_class()
    inputs = {"model": [candidate], "blessing": [blessing]}
    executor.Do(inputs, {"entry": [entry]}, {"registry": str(tmp_path / "blessed.json")})
    return json.loads(Path(entry.uri).read_text()).get("compared_with", "not blessed")


def test_the_components_pass_the_baseline_on_from_run_to_run(tmp_path: Path) -> None:
    first, second, third = (_model(tmp_path, name) for name in ("first", "second", "third"))
    none = _run_baseline(tmp_path, first)
    assert none.get_int_custom_property("exists") == 0
    assert not list(Path(none.uri).iterdir())
    assert _run_record(tmp_path, first, blessed=True, baseline="") is None
    assert _run_record(tmp_path, second, blessed=False, baseline=first) == "not blessed"
    found = _run_baseline(tmp_path, third)
    assert (found.uri, found.get_int_custom_property("exists")) == (first, 1)
    assert _run_record(tmp_path, third, blessed=True, baseline=first) == first

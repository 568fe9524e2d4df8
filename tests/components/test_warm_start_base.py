"""Which model a training begins with, so that an unchanged run finds the base of the first time."""

import json
from pathlib import Path

import pytest

from headrace.components.deploy.choices import choose_base_model
from headrace.components.spans.split_spans import RoleOfSpans
from headrace.components.stored_models.blessed_record import Entry, MadeFor, Registry
from headrace.trainer.weights.sidecar import TrainingOrigin

DATA = MadeFor(label="l", columns={"a": "INT", "b": "INT"})


def model(folder: Path, name: str, work: str | None = None, base: str | None = None) -> str:
    """A Model artifact that says where it comes from."""
    (folder / name / "Format-Serving").mkdir(parents=True)
    if work is not None:
        TrainingOrigin(work, base).write(folder / name / "Format-Serving")
    return str(folder / name)


def registry(*uris: str, made_for: MadeFor = DATA) -> Registry:
    return Registry(models=tuple(Entry(uri=uri, blessed_at="2026-01-01", made_for=made_for) for uri in uris))


def test_latest_blessed_model_is_the_base_of_other_work(tmp_path: Path) -> None:
    old, new = model(tmp_path, "old", "w1"), model(tmp_path, "new", "w2", str(tmp_path / "old"))
    assert choose_base_model(registry(old, new), "w3", DATA) == new
    assert choose_base_model(registry(), "w3", DATA) is None
    assert choose_base_model(registry(old, model(tmp_path, "silent")), "w3", DATA) == str(tmp_path / "silent")


def test_a_model_that_may_have_learned_from_what_is_held_out_is_not_the_base(tmp_path: Path) -> None:
    old, new = model(tmp_path, "old", "w1"), model(tmp_path, "new", "w2")
    entries = [
        Entry(uri=uri, blessed_at="2026-01-01", made_for=DATA.model_copy(update={"trained_on": spans}))
        for uri, spans in ((old, (1, 2, 3)), (new, (4, 5, 6)))
    ]
    for test, expected in ((7, new), (6, old), (4, old), (3, None)):
        roles = RoleOfSpans({"train": {str(test - 1): test - 1}, "test": {str(test): test}})
        assert choose_base_model(Registry(models=tuple(entries)), "w", DATA, None, roles) == expected
        assert choose_base_model(Registry(models=tuple(entries)), "w", DATA) == new


def test_unchanged_work_finds_what_it_began_with_the_first_time(tmp_path: Path) -> None:
    first = model(tmp_path, "first", "w1", None)
    assert choose_base_model(registry(first), "w1", DATA) is None
    second = model(tmp_path, "second", "w2", first)
    assert choose_base_model(registry(first, second), "w2", DATA) == first
    assert (
        choose_base_model(registry(first, second), "w1", DATA) == second
    )  # a change, and back: that is a new training


@pytest.mark.parametrize("field", ["base", "work"])
def test_origin_of_another_form_is_none(tmp_path: Path, field: str) -> None:
    uri = model(tmp_path, "one", work="w")
    (path,) = Path(uri).rglob("origin.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), field: 5}))
    assert choose_base_model(registry(uri), "w", DATA) == uri
    assert TrainingOrigin.read(path.parents[1]) is None


def test_model_that_is_gone_or_for_other_data_is_passed_over(tmp_path: Path) -> None:
    old = model(tmp_path, "old", "w1")
    assert choose_base_model(registry(old, str(tmp_path / "gone")), "w2", DATA) == old
    foreign = MadeFor(label="other", columns={"a": "INT"})
    assert choose_base_model(registry(old, made_for=foreign), "w2", DATA) is None
    gone = model(tmp_path, "orphan", "w2", str(tmp_path / "gone"))
    assert choose_base_model(registry(gone), "w2", DATA) is None

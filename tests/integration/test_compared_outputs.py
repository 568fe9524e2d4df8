"""What the kill campaign finds in the outputs of two runs, and what it leaves out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from compared_outputs import compared

from headrace.components.canary.verdict import FILE_NAME, CanaryVerdict, OddAnswer, SignatureVerdict

VARIABLES = "Trainer/model/Format-Serving/variables/variables.index"
SPANS = {
    "spans": [
        {"number": 20457, "files": [{"path": "{folder}/days/1.csv", "size": 4103, "mark": "17959"}], "name": "1"}
    ],
    "missing": [],
    "fingerprint": "30cb",
}
DATA = {
    "gates": [
        {"gate": "gates.rows", "rows": [{"what": "1", "measure": "rows", "value": "400", "limit": "at least 100"}]},
        {
            "gate": "gates.drift.blessed",
            "on_anomaly": "warn",
            "rows": [{"what": "fare", "measure": "Jensen-Shannon divergence", "value": "0.67", "limit": "0.1"}],
            "failed": 1,
            "judged": 6,
        },
    ]
}
ENTRY: dict[str, Any] = {
    "uri": "artifacts/Trainer/model/20261128-230929",
    "blessed_at": "2026-11-28",
    "awaiting_approval": False,
}


def exported(folder: Path, kernel: float) -> Path:
    """A SavedModel with two variables, whose `variables.index` is returned."""
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.set_weights([np.array([[kernel], [2.0]], np.float32), np.array([0.5], np.float32)])
    model.export(folder, verbose=False)
    return folder / "variables" / "variables.index"


def test_a_weight_that_differs_in_its_last_bit_is_found(tmp_path: Path) -> None:
    first, same, altered = (
        compared(tmp_path, exported(tmp_path / name, kernel), VARIABLES)
        for name, kernel in (("first", 1.0), ("same", 1.0), ("altered", 1.0 + 2**-23))
    )
    assert first == same
    assert first != altered
    data = tmp_path / "first" / "variables" / "variables.data-00000-of-00001"
    assert compared(tmp_path, data, VARIABLES.replace("index", data.suffix[1:])) is None


def verdict(folder: Path, **altered: Any) -> object:
    signature = {"name": "serving_default", "examples": 71, "difference": 0.0, "p50_ms": 5.6, "p99_ms": 71.5}
    mine = {name: value for name, value in altered.items() if name in SignatureVerdict.model_fields}
    rest = {name: value for name, value in altered.items() if name not in mine}
    given: dict[str, Any] = {"split": "test", "load_seconds": 7.3, "memory_bytes": 398, "warmup_requests": 4} | rest
    CanaryVerdict(**given, signatures=(SignatureVerdict(**(signature | mine)),)).write(folder)
    return compared(folder, folder / FILE_NAME, f"Canary/blessing/{FILE_NAME}")


@pytest.mark.parametrize(
    "altered",
    [{"split": "eval"}, {"reasons": ("it crashed",)}, {"difference": 1e-6}, {"examples": 70}, {"skipped": "x"}],
)
def test_an_altered_verdict_of_the_canary_is_found_and_other_times_are_not(
    tmp_path: Path, altered: dict[str, Any]
) -> None:
    found = verdict(tmp_path)
    assert found == verdict(tmp_path, load_seconds=9.1, memory_bytes=400, p50_ms=3.0, p99_ms=4.0)
    assert found != verdict(tmp_path, **altered)


def test_only_rows_and_words_of_an_odd_request_may_differ(tmp_path: Path) -> None:
    many = OddAnswer(what="10,000 rows", outcome="answered")
    wrong = OddAnswer(what="wrong types", outcome="refused", detail="Key: kind, Index: 0.")
    found = verdict(tmp_path, odd=(many, wrong))
    slower = many.model_copy(update={"what": "9,216 rows"})
    assert found == verdict(tmp_path, odd=(slower, wrong.model_copy(update={"detail": "Key: fare, Index: 1."})))
    for altered in ({"outcome": "crashed"}, {"what": "huge strings"}):
        assert found != verdict(tmp_path, odd=(many, wrong.model_copy(update=altered)))


def of_json(folder: Path, name: str, content: Any) -> object:
    file = folder / "value"
    file.write_text(json.dumps(content).replace("{folder}", str(folder)), encoding="utf-8")
    return compared(folder, file, name)


@pytest.mark.parametrize(
    ("name", "content", "change", "found"),
    [
        ("Spans/spans/", SPANS, lambda each: each["spans"][0]["files"][0].update(mark="18000"), False),
        ("Spans/spans/", SPANS, lambda each: each["spans"][0]["files"][0].update(size=4104), True),
        ("Spans/spans/", SPANS, lambda each: each["missing"].append("2"), True),
        ("ServingLog/log/", SPANS, lambda each: each["spans"][0].update(name="2"), True),
        ("ServingLog/log/", SPANS, lambda each: each["spans"][0]["files"][0].update(path="{folder}/2.csv"), True),
        ("DataVerdict/verdict/", DATA, lambda each: each["gates"][0]["rows"][0].update(value="399"), True),
        ("DataVerdict/verdict/", DATA, lambda each: each["gates"][1]["rows"][0].update(value="0.1"), False),
        ("DataVerdict/verdict/", DATA, lambda each: each["gates"][1].update(on_anomaly="stop"), True),
        ("RecordBlessing/entry/", ENTRY, lambda each: each.update(uri=ENTRY["uri"].replace("230929", "9")), True),
        ("RecordBlessing/entry/", ENTRY, lambda each: each.update(uri=ENTRY["uri"].replace("0929", "0930")), False),
        ("RecordBlessing/entry/", ENTRY, lambda each: each.update(awaiting_approval=True), True),
    ],
)
def test_what_json_says_is_compared_apart_from_times_and_ids_of_runs(
    tmp_path: Path, name: str, content: Any, change: Callable[[Any], None], found: bool
) -> None:
    (tmp_path / "killed").mkdir()
    other = json.loads(json.dumps(content))
    assert of_json(tmp_path, name, content) == of_json(tmp_path / "killed", name, other)
    change(other)
    assert (of_json(tmp_path, name, content) != of_json(tmp_path / "killed", name, other)) is found

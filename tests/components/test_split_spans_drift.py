"""Drift and freshness of a newest span by its split: the one that `data.split_spans` holds it out for, else `train`, of
which it may have no rows if each split has files of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from span_runs import DAYS, Examples, config, days, generate, rows_of, write
from tfx.types import standard_artifacts

from headrace.components.gates.data_verdict import ArrivedData, judge
from headrace.components.gates.verdict import GateVerdict
from headrace.components.spans.find import find_spans
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.trigger.decision import TrainingData, TrainingRecord
from headrace.components.trigger.drift import decide_by_drift
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.gates import GatesConfig
from headrace.configs.schema.schedule import DriftConfig
from headrace.configs.schema.sources import CsvSource

NEWEST = "2026-01-04"
GATES = GatesConfig.model_validate({"drift": {"blessed": {}, "earlier_spans": {}}})


@pytest.fixture
def examples(folder: Path, held_out: Mapping[str, int]) -> Examples:
    """Four days of the same words, of which three in four rows of the newest have another one."""
    days("2026-01-01", "2026-01-02", "2026-01-03")
    file = write(f"in/{NEWEST}.csv", 3000)
    head, *rows = file.read_text().splitlines()
    changed = [f"{row.partition(',')[0]},new" for row in rows[:30]]
    file.write_text("\n".join([head, *changed, *rows[30:]]) + "\n")
    return generate(folder, data_of(held_out))


def data_of(held_out: Mapping[str, int]) -> DataConfig:
    return config(DAYS, splits={"train": 8, "eval": 1, "test": 1}, window=4, split_spans=held_out)


def words(examples: Examples, split: str, span: str = "") -> pd.Series[str]:
    return pd.Series([word.decode() for word in rows_of(examples, "word", span)[split]], name="word")


def distance(now: pd.Series[str], before: pd.Series[str]) -> float:
    """The largest difference of the share of any word."""
    shares = [words.value_counts(normalize=True) for words in (now, before)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().max())


def blessed_statistics(folder: Path, train: pd.Series[str]) -> str:
    """As StatisticsGen writes those of a blessed model's data."""
    (folder / "Split-train").mkdir(parents=True)
    found = tfdv.generate_statistics_from_dataframe(train.to_frame())
    (folder / "Split-train/FeatureStats.pb").write_bytes(found.SerializeToString())
    return str(folder)


def schema_of(folder: Path, statistics: str) -> standard_artifacts.Schema:
    schema = standard_artifacts.Schema()
    schema.uri = str(folder)
    inferred = tfdv.infer_schema(tfdv.load_stats_binary(f"{statistics}/Split-train/FeatureStats.pb"))
    (folder / "schema.pbtxt").write_text(text_format.MessageToString(inferred))
    return schema


def judged(
    folder: Path, examples: Examples, schema: standard_artifacts.Schema, data: DataConfig, statistics: str
) -> tuple[GateVerdict, ...]:
    """The verdicts of `drift.blessed` and `drift.earlier_spans`. statistics: those of the blessed model's data."""
    listed = folder / "blessed.json"
    Registry(models=(Entry(uri="m", blessed_at="2026-01-04", statistics=statistics),)).write(listed)
    unused = standard_artifacts.ExampleStatistics()
    arrived = ArrivedData(examples, unused, schema, find_spans(data), NEWEST, "", "")
    return judge(GATES, arrived, ["word"], str(listed)).gates


def measured(verdict: GateVerdict) -> float:
    (row,) = (row for row in verdict.rows if row.measure == "L-infinity distance")
    return float(row.value)


@pytest.mark.parametrize(
    ("held_out", "split"),
    [({"test": 1}, "test"), ({"test": 1, "eval": 1}, "eval"), ({}, "train")],
)
def test_newest_span_is_compared_by_the_split_that_holds_it(
    folder: Path, held_out: Mapping[str, int], split: str, examples: Examples
) -> None:
    earlier = [words(examples, "train", f"2026-01-0{day}") for day in (1, 2, 3)]
    before, now = pd.concat(earlier), words(examples, split, NEWEST)
    statistics = blessed_statistics(folder / "blessed", before)
    expected = distance(now, before)
    schema, unused = schema_of(folder, statistics), standard_artifacts.ExampleStatistics()
    verdicts = judged(folder, examples, schema, data_of(held_out), statistics)
    assert [one.note for one in verdicts] == ["", ""]
    assert [measured(one) for one in verdicts] == pytest.approx([expected] * 2, rel=1e-3)

    last = TrainingData(fingerprint="f", spans=("2026-01-03",), work="w", statistics=statistics)
    for limit, go in ((expected * 0.9, "yes"), (expected * 1.1, "no")):
        decision = decide_by_drift(
            name=NEWEST,
            examples=examples,
            statistics=unused,
            schema=schema,
            trained=TrainingRecord(blessed=last),
            limits=DriftConfig(categorical=limit),
            columns=["word"],
            store="",
            code="",
        )
        assert (decision.go, f"word: L-infinity {expected:.3g}, " in decision.why) == (go, True)


@pytest.mark.parametrize("newest", [("train", "test"), ("test",)])
def test_files_of_each_split_are_compared_by_train_and_a_span_without_any_is_not_judged(
    folder: Path, newest: tuple[str, ...]
) -> None:
    for number, split in enumerate(("train", "test")):
        for day in (1, 2, 3):
            written(split, f"2026-01-0{day}", 10_000 * number + 1000 * day)
        if split in newest:
            written(split, NEWEST, 10_000 * number + 4000, word="new" if split == "train" else "newer")
    (folder / "train/2026-01-02.csv").unlink()
    paths = {split: f"{split}/{{YYYY}}-{{MM}}-{{DD}}.csv" for split in ("train", "test")}
    data = DataConfig(source=CsvSource.model_validate({"kind": "csv", "path": paths}), window=4)
    examples = generate(folder, data)
    before = pd.concat([words(examples, "train", f"2026-01-0{day}") for day in (1, 3)])
    statistics = blessed_statistics(folder / "blessed", before)
    verdicts = judged(folder, examples, schema_of(folder, statistics), data, statistics)
    if "train" in newest:
        expected = distance(words(examples, "train", NEWEST), before)
        assert expected == 1
        assert [one.note for one in verdicts] == ["", ""]
        assert [measured(one) for one in verdicts] == pytest.approx([expected] * 2, rel=1e-3)
    else:
        assert ["no examples in the split train" in one.note for one in verdicts] == [True] * len(verdicts)
        assert [one.judged for one in verdicts] == [0, 0]
    newest_day = NEWEST if "train" in newest else "2026-01-03"
    assert fresh(examples, data) == f"{newest_day}: newest span {newest_day}"
    assert fresh(examples, data, column="at", format="%Y-%m-%d") == f"at: newest value {newest_day} 00:00:00"


def written(split: str, day: str, first: int, **values: str) -> None:
    """The file of a day, with dates in the column `at`, those of the test split later than any other."""
    at = day if split == "train" else "2026-02-01"
    write(f"{split}/{day}.csv", first, 40, "id,word,at", at=at, **values)


def fresh(examples: Examples, data: DataConfig, **gate: str) -> str:
    """By what `gates.freshness` judges."""
    gates = GatesConfig.model_validate({"freshness": {"max_days": 9, **gate}})
    unused = standard_artifacts.ExampleStatistics()
    arrived = ArrivedData(examples, unused, standard_artifacts.Schema(), find_spans(data), NEWEST, "", "")
    ((row,),) = (one.rows for one in judge(gates, arrived, [], "").gates)
    return f"{row.what}: {row.before}"

"""The sections of the page, against independent figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from headrace.components.stored_models.blessed_record import LATE
from headrace.pipeline.report.formatting import MINUS, NONE, figure
from headrace.pipeline.report.statistics import read_statistics
from headrace.pipeline.results.record import Status

TIMES = "\N{MULTIPLICATION SIGN}"
EVIL = "<script>alert(1)</script>"
EVIL_VALUE = '"><img src=x onerror=alert(2)>'
Run = Any  # what the fixtures of conftest.py give


def test_columns_show_what_pandas_computes(whole: Run, frame: pd.DataFrame) -> None:
    table, train = whole.report().table("Column", "Type"), frame[:300]
    for column in ("trip_miles", "hour", EVIL):
        (row,) = (cells for name, cells in table.items() if name.startswith(column))
        for heading, value in (
            ("Min", train[column].min()),
            ("Median", train[column].median()),
            ("Mean", train[column].mean()),
            ("Max", train[column].max()),
        ):
            shown = float(row[heading].replace(MINUS, "-").replace(",", ""))
            assert shown == pytest.approx(value, rel=6e-4 if heading != "Median" else 0.05, abs=0.02)
    missing = train["trip_miles"].isna().mean()
    assert table["trip_miles"]["Missing"] == f"{missing * 100:.0f}%"
    assert table["big_tipper label"]["Type"] == "int"
    company = " ".join(table["company"].values())
    assert f"{train['company'].nunique()} distinct" in company
    share = (train["company"] == "Blue Ribbon").mean()
    assert f"Blue Ribbon ({share * 100:.0f}%)" in company
    assert [name.split()[0] for name in table][:3] == ["trip_miles", "hour", "company"]  # as in the data
    assert f"{EVIL} not used" in table


def test_shares_of_a_column_of_several_values_are_shares_of_its_values(run: Run) -> None:
    import tensorflow_data_validation as tfdv

    words = [["gamma", "gamma", "beta"], ["beta", "alpha", "gamma", "delta"], ["gamma"], None]
    written = tfdv.generate_statistics_from_dataframe(pd.DataFrame({"words": words})).SerializeToString()
    (split := run.output("StatisticsGen", "statistics") / "Split-train").mkdir()
    (split / "FeatureStats.pb").write_bytes(written)
    shown = run.report().table("Column", "Type")["words not used"]
    assert shown["Missing"] == "25%"
    assert "4 distinct, most often gamma (50%), beta (25%), " in " ".join(shown.values())
    assert "12%) of the values present" in " ".join(shown.values())


def test_bars_of_large_numbers_are_distinguished(tmp_path: Path) -> None:
    import tensorflow_data_validation as tfdv

    seconds = 1_700_000_000 + np.arange(500)
    written = tfdv.generate_statistics_from_dataframe(pd.DataFrame({"when": seconds, "x": seconds / 7e9}))
    (tmp_path / "Split-train").mkdir()
    (tmp_path / "Split-train" / "FeatureStats.pb").write_bytes(written.SerializeToString())
    for column, scale in zip(read_statistics(tmp_path)["train"].columns.values(), (1, 7e9), strict=True):
        labels = [bar.label.replace(",", "").replace(MINUS, "-").split(" to ") for bar in column.histogram]
        edges = [(float(low), float(high)) for low, high in labels]
        widths = np.array([high - low for low, high in edges]) * scale
        np.testing.assert_allclose(widths, 499 / len(edges), atol=2)
        assert edges[0][0] * scale == pytest.approx(1_700_000_000, abs=2)
        assert [high for _, high in edges[:-1]] == [low for low, _ in edges[1:]]


@pytest.mark.parametrize("values", [1_700_000_000 + np.arange(400) / 40, -87.6 - np.arange(400) / 1e8])
def test_float64_columns_are_shown_with_the_digits_that_float32_loses(tmp_path: Path, values: Any) -> None:
    import tensorflow_data_validation as tfdv

    frame = pd.DataFrame({"x": values.astype(np.float32), "x:float64": values.view(np.int64)})
    (tmp_path / "Split-train").mkdir()
    written = tfdv.generate_statistics_from_dataframe(frame).SerializeToString()
    (tmp_path / "Split-train" / "FeatureStats.pb").write_bytes(written)
    (column,) = read_statistics(tmp_path, ["x"])["train"].columns.values()
    numbers = column.numbers
    assert (column.name, column.type) == ("x", "float64")
    assert numbers is not None
    found = (numbers.minimum, numbers.mean, numbers.maximum, numbers.median)
    near = abs(values[0]) * 1e-11
    assert found[:3] == pytest.approx((values.min(), values.mean(), values.max()), abs=near, rel=0)
    assert found[3] == pytest.approx(np.median(values), abs=np.ptp(values) / 50, rel=0)
    assert figure(numbers.minimum, numbers.digits) != figure(numbers.mean, numbers.digits)
    assert sum(bar.count for bar in column.histogram) == pytest.approx(400, abs=1)
    assert len({bar.label for bar in column.histogram}) == len(column.histogram) == 10


def test_buckets_of_float64_columns_are_equally_wide_in_the_numbers(tmp_path: Path) -> None:
    import tensorflow_data_validation as tfdv

    values = {"wide": np.linspace(1, 100, 991), "from_zero": np.linspace(0, 0.9, 991)}
    columns = {name: column.astype(np.float32) for name, column in values.items()}
    bits = {f"{name}:float64": column.view(np.int64) for name, column in values.items()}
    (tmp_path / "Split-train").mkdir()
    written = tfdv.generate_statistics_from_dataframe(pd.DataFrame({**columns, **bits})).SerializeToString()
    (tmp_path / "Split-train" / "FeatureStats.pb").write_bytes(written)
    found = read_statistics(tmp_path, [*values])["train"].columns
    assert [*found] == [*values]
    for name, column in found.items():
        assert column.numbers is not None
        assert column.numbers.mean == pytest.approx(values[name].mean(), rel=1e-6)
        edges = [[float(edge) for edge in bar.label.split(" to ")] for bar in column.histogram]
        np.testing.assert_allclose([high - low for low, high in edges], np.ptp(values[name]) / 10, rtol=1e-4)
        np.testing.assert_allclose([bar.count for bar in column.histogram], 99, atol=2)


def test_float64_columns_of_both_signs_are_shown_as_float32(tmp_path: Path) -> None:
    import tensorflow_data_validation as tfdv

    values = np.linspace(-2, 3, 400)
    frame = pd.DataFrame({"x": values.astype(np.float32), "x:float64": values.view(np.int64)})
    (tmp_path / "Split-train").mkdir()
    written = tfdv.generate_statistics_from_dataframe(frame).SerializeToString()
    (tmp_path / "Split-train" / "FeatureStats.pb").write_bytes(written)
    (column,) = read_statistics(tmp_path, ["x"])["train"].columns.values()
    assert column.type == "float64"
    assert column.numbers is not None
    assert (column.numbers.minimum, column.numbers.maximum) == (-2, 3)
    assert column.numbers.mean == pytest.approx(0.5, abs=1e-6)


def test_histogram_counts_every_value_that_is_present(statistics: Path, frame: pd.DataFrame) -> None:
    train = read_statistics(statistics)["train"]
    miles = train.columns["trip_miles"]
    assert sum(bar.count for bar in miles.histogram) == pytest.approx(frame[:300]["trip_miles"].notna().sum())
    hours = train.columns["hour"].histogram
    assert [bar.label for bar in hours] == ["0", "1", "2", "3", "4", "5"]
    expected = frame[:300]["hour"].value_counts().sort_index()
    assert [bar.count for bar in hours] == pytest.approx(list(expected), abs=3)
    companies = frame[:300]["company"].value_counts()
    assert [(bar.label, bar.count) for bar in train.columns["company"].top] == list(companies.items())


def test_splits_show_rows_share_files_and_size(whole: Run) -> None:
    table = whole.report().table("Split")
    assert table["train"] == {"Split": "train", "Rows": "300", "Share": "75%", "Files": "1", "Size": "2.5 kB"}
    assert table["eval"]["Share"] == "25%"


def test_metrics_stand_beside_baseline_change_and_bounds(whole: Run) -> None:
    page = whole.report()
    table = page.table("Metric")
    assert list(table) == ["auc", "binary_crossentropy", "precision"]
    auc = table["auc"]
    assert (auc["Model"], auc["Baseline"], auc["Change"]) == ("0.9123", "0.9300", f"{MINUS}0.0177")
    assert auc["Must be"] == "✓ passed at least 0.85 ✗ missed at least 0.9200 (baseline: 0.9300)"
    assert table["binary_crossentropy"]["Must be"] == (
        "✓ passed below 0.6234, what the best constant prediction reaches"
    )
    assert (table["precision"]["Model"], table["precision"]["Change"]) == (NONE, NONE)
    worse = [
        attributes["class"]
        for tag, attributes in page.tags
        if tag == "td" and "worse" in (attributes.get("class") or "")
    ]
    better = [
        attributes for tag, attributes in page.tags if tag == "td" and "better" in (attributes.get("class") or "")
    ]
    assert (len(worse), len(better)) == (1, 1)  # a lower cross-entropy is the better one


def test_verdict_names_missed_bound_and_every_other_reason(whole: Run) -> None:
    text = whole.report().all_text()
    assert "✗ Not blessed" in text
    assert "auc 0.9123 must be at least 0.9200 (baseline: 0.9300) missed" in text
    assert "the predictions are not numbers" in text
    assert "Nothing was pushed" in text


def test_pushed_model_of_an_earlier_run_is_not_shown_as_this_runs(whole: Run) -> None:
    late = "the model blessed at 2026-11-21"
    (pushed,) = (node.outputs["pushed_model"] for node in whole.record.nodes if node.id == "Pusher")
    pushed.properties.update({"pushed": 1, "pushed_destination": "serving/7", LATE: late})
    assert f"Pushed to serving/7 ({late})" in whole.report().all_text()


def test_slices_stand_worst_first_and_undefined_last(whole: Run) -> None:
    page = whole.report()
    table = page.table("hour")
    assert list(table) == ["2", "0", "1"]
    assert table["2"]["Examples"] == "55"
    assert table["2"]["auc"] == "0.7100"
    assert table["1"]["auc"] == NONE
    assert list(page.table(f"company {TIMES} hour")) == ["a, hour = b, 1"]
    few = [attributes for tag, attributes in page.tags if tag == "tr" and attributes.get("class") == "few"]
    assert len(few) == 2


def test_epochs_stand_in_a_table_and_as_dots_and_the_best_is_marked(whole: Run) -> None:
    page = whole.report()
    table = page.table("Epoch")
    assert list(table) == ["1", "2 best", "3"]
    assert table["3"]["loss"] == f"{1 / 3:.4f}"
    assert table["3"]["Examples per second"] == "3,000"
    assert sum(tag == "circle" for tag, _ in page.tags) == 3 * 4 + 2 + 3 + 3  # epochs; and of the evaluation
    assert page.all_text().count("best: 2") == 2 + 1  # each chart, and the tile
    assert "12,345" in page.all_text()
    assert "Remark: the eval loss was still falling; raise train.epochs ." in page.all_text()
    assert "predicts the same for all of these examples reaches at best binary_crossentropy 0.6234, auc 0.5000." in (
        page.all_text()
    )
    assert "Remark: the eval split has only 100 examples; see data.splits ." in page.all_text()
    assert {"train.epochs", "data.splits"} <= {*page.text}  # each a text of its own, in <code>


def test_features_name_kind_columns_and_place_in_the_model(whole: Run) -> None:
    table = whole.report().table("Feature")
    assert table["firm"] == {
        "Feature": "firm",
        "Kind": "hashed",
        "Reads": "company",
        "Computed as": "8 hash buckets",
        "In the model": "embedding",
    }
    assert table["both"]["Reads"] == "hour, company"
    assert table["both"]["In the model"] == "wide"
    assert table["trip_miles"]["In the model"] == "number"


@pytest.mark.parametrize(
    ("settings", "chosen", "kind", "part"),
    [
        ({}, "tabm: auto, for 300 examples", "tabm", "embedding"),
        ({}, "wide_and_deep: auto, for 300,000 examples", "wide_and_deep", "embedding + wide"),
        (
            {"kind": "auto"},
            "tabm, frequencies: 16, of 5 candidates, in 46 s: lowest",
            "tabm",
            "embedding",
        ),
        ({"kind": "auto"}, "linear, of 5 candidates, in 46 s: lowest", "linear", "wide"),
        ({"kind": "auto"}, "trees, of 5 candidates, in 46 s: lowest", "trees", "category"),
        ({"kind": "dcn"}, None, "dcn", "embedding"),
    ],
)
def test_features_have_their_parts_in_the_kind_that_was_trained(
    whole: Run, settings: dict[str, str], chosen: str | None, kind: str, part: str
) -> None:
    config = yaml.safe_load((whole.folder / "config.yaml").read_text())
    del config["features"]["both"]  # a cross, with which the default is always wide_and_deep
    (whole.folder / "config.yaml").write_text(yaml.safe_dump({**config, "model": settings}))
    training = whole.artifacts / "Trainer" / "model_run" / "1" / "training.json"
    found = {"chosen": {"model": chosen}} if chosen else {}
    training.write_text(json.dumps(json.loads(training.read_text()) | found))
    page = whole.report()
    assert f"label big_tipper (binary), model {kind} ." in page.all_text()
    assert page.table("Feature")["hour"]["In the model"] == part


def test_before_a_training_the_features_section_says_what_the_default_model_depends_on(run: Run) -> None:
    assert "model wide_and_deep ." in run.report().all_text()
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    del config["features"]["both"]
    (run.folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert "model tabm, or wide_and_deep for more than 100,000 training examples ." in run.report().all_text()


def test_timings_place_each_component_on_the_axis(whole: Run) -> None:
    whole.record.nodes[1].status = Status.CACHED
    page = whole.report()
    table = page.table("Component")
    assert list(table) == ["ExampleGen", "StatisticsGen", "DataGate", "Trainer", "Evaluator", "Pusher"]
    assert table["StatisticsGen"]["Status"] == "= cached"
    assert table["Trainer"]["Time"] == "0.5 s"
    bars = [
        attributes["style"] for tag, attributes in page.tags if tag == "i" and "left" in (attributes["style"] or "")
    ]
    assert "left:15.00%;width:2.50%" in bars  # Trainer: the fourth second of twenty, for half a second


def test_anomalies_stand_in_a_table(whole: Run) -> None:
    assert whole.report().table("Column", "Split")["company"]["What was found"] == EVIL_VALUE

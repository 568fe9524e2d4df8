"""A run folder as a run leaves it, with statistics that TensorFlow Data Validation computed, and the page read back."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from headrace.components.evaluation.result import (
    Agreement,
    Curves,
    ErrorBand,
    Evaluation,
    Explanation,
    FeatureImportance,
    PartialDependence,
    SliceMetrics,
    ThresholdCheck,
    WorstExample,
    WorstExamples,
    write_evaluation,
)
from headrace.pipeline.report import write_report
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status

START = 1_700_000_000.0
EVIL = "<script>alert(1)</script>"
EVIL_VALUE = '"><img src=x onerror=alert(2)>'
VOID = {"meta", "br", "wbr", "img", "link", "input"}


class Page(HTMLParser):
    """Tags in order, tables as rows of text by their accessible name, and the text under each id."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.text: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        names = [tag for tag, _ in self.open]
        if "style" in names or "title" in names:
            return
        self.text.append(data)
        if "td" in names or "th" in names:
            self.tables[-1][-1][-1] += data

    def table(self, first: str, second: str = "") -> dict[str, dict[str, str]]:
        """{row's heading: {column's heading: text}} of the table with that first heading (and second)."""
        for table in self.tables:
            headings = [cell.strip() for cell in table[0]]
            if headings[0] == first and second in ("", headings[1]):
                rows = ([" ".join(cell.split()) for cell in row] for row in table[1:])
                return {row[0]: dict(zip(headings, row, strict=False)) for row in rows}
        raise KeyError(first)

    def all_text(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(3)
    rows = 400
    return pd.DataFrame(
        {
            "trip_miles": np.where(random.random(rows) < 0.1, np.nan, random.gamma(2.0, 3.0, rows)),
            "hour": random.integers(0, 6, rows),
            "company": random.choice(["Blue Ribbon", EVIL_VALUE, "Chicago Carriage"], rows, p=[0.6, 0.3, 0.1]),
            EVIL: random.normal(size=rows),
            "big_tipper": random.integers(0, 2, rows),
        }
    )


@pytest.fixture(scope="session")
def statistics(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What TensorFlow Data Validation itself computes, as StatisticsGen lays it down."""
    import tensorflow_data_validation as tfdv

    directory = tmp_path_factory.mktemp("statistics")
    for name, part in (("train", frame[:300]), ("eval", frame[300:])):
        (directory / f"Split-{name}").mkdir()
        written = tfdv.generate_statistics_from_dataframe(part.reset_index(drop=True)).SerializeToString()
        (directory / f"Split-{name}" / "FeatureStats.pb").write_bytes(written)
    return directory


CONFIG = {
    "pipeline": {"name": "taxi"},
    "data": {"source": {"kind": "csv", "path": "x.csv"}, "splits": {"train": 3, "eval": 1}},
    "label": {"key": "big_tipper", "kind": "binary"},
    "features": {
        "trip_miles": {"column": "numeric"},
        "hour": {"column": "identity", "num_buckets": 6},
        "firm": {"column": "hashed", "key": "company", "hash_buckets": 8, "wide": False},
        "both": {"column": "crossed", "keys": ["hour", "company"], "hash_buckets": 50},
    },
    "evaluate": {
        "slices": ["hour", ["hour", "company"]],
        "thresholds": {"auc": {"min": 0.85, "not_worse_than_baseline_by": 0.01}},
    },
}
TRAINING = {
    "epochs": [
        {
            "epoch": n,
            "seconds": 1.5 / n,
            "examples_per_second": 1000.0 * n,
            "metrics": {"loss": 1 / n, "auc": 0.9 - 0.1 / n, "val_loss": 0.5 + 0.1 * abs(n - 2), "val_auc": 0.8},
        }
        for n in (1, 2, 3)
    ],
    "best_epoch": 2,
    "stopped_early": True,
    "parameters": 12345,
    "examples": {"train": 300, "eval": 100},
    "input": "memory: it fits",
    "remarks": ["the eval loss was still falling; raise `train.epochs`"],
}
EVALUATION = Evaluation(
    split="eval",
    example_count=100,
    unlabelled=2,
    metrics={"binary_crossentropy": 0.41, "auc": 0.9123, "precision": None},
    baseline={"binary_crossentropy": 0.45, "auc": 0.93, "precision": 0.5},
    slices=(
        SliceMetrics("hour = 0", {"auc": 0.95, "binary_crossentropy": 0.4}, 40, {"auc": 0.94}),
        SliceMetrics("hour = 1", {"auc": None, "binary_crossentropy": 0.2}, 5, None),
        SliceMetrics("hour = 2", {"auc": 0.71, "binary_crossentropy": 0.6}, 55, {"auc": 0.75}),
        SliceMetrics("company = a, hour = b, hour = 1", {"auc": 0.6, "binary_crossentropy": 0.6}, 9, None),
    ),
    checks=(
        ThresholdCheck("auc", "min", 0.85, 0.9123, None, passed=True),
        ThresholdCheck("auc", "not_worse_than_baseline_by", 0.92, 0.9123, 0.93, passed=False),
        ThresholdCheck("binary_crossentropy", "better_than_constant", 0.6234, 0.41, None, passed=True),
    ),
    blessed=False,
    reasons=("the predictions are not numbers",),
    curves=Curves(roc=((0, 0), (0.2, 0.7), (1, 1)), calibration=((0.1, 0.12, 50), (0.8, 0.7, 50))),
    constant={"binary_crossentropy": 0.6234, "auc": 0.5},
    remarks=("the eval split has only 100 examples; see `data.splits`",),
    worst=WorstExamples(
        (EVIL, "company", "hour"),
        (
            WorstExample("1", "0", 4.5, None, ("0.25", EVIL_VALUE, None)),
            WorstExample("0", "1", 3.25, None, ("x" * 200 + "\u202e", "", "3")),
        ),
        more=4,
    ),
    agreement=Agreement(
        100,
        (0.0, 5.0, 10.0),
        ((0, 0, 60.0), (1, 1, 30.0), (1, 0, 10.0)),
        0.0,
        tuple(ErrorBand(float(at), (-2.0, -1.0, 0.5, 1.0, 2.0)) for at in (1, 5, 9)),
    ),
    explanation=Explanation(
        "binary_crossentropy",
        100,
        5,
        (
            FeatureImportance("company", 0.5, 0.01),
            FeatureImportance("hour", 0.25, 0.02),
            *(FeatureImportance(f"{EVIL}{number}", -0.001 * number, 0.001) for number in range(20)),
        ),
        (
            PartialDependence("hour", (0.0, 3.0, 5.0), ((0.25,), (0.5,), (0.375,)), (1,)),
            PartialDependence("company", ("Blue Ribbon", EVIL_VALUE), ((0.125,), (0.625,)), (1,)),
        ),
    ),
)


class Run:
    """A run's folder, filled as a run fills it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "taxi" / "runs" / "r-1"
        (self.folder / "logs").mkdir(parents=True)
        self.artifacts = root / "taxi" / "artifacts"
        self.record = RunRecord("r-1", "taxi", "configs/taxi.yaml", START, START + 20, Status.DONE)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))

    def output(self, node: str, key: str, properties: dict[str, str | int | float] | None = None) -> Path:
        """Add a component that is done, with one output."""
        directory = self.artifacts / node / key / "1"
        directory.mkdir(parents=True)
        begin = START + len(self.record.nodes)
        upstream = [self.record.nodes[-1].id] if self.record.nodes else []
        artifact = ArtifactRecord("T", str(directory), properties or {})
        self.record.nodes.append(
            NodeRecord(node, upstream, Status.DONE, begin, begin + 0.5, 400, 400, outputs={key: artifact})
        )
        return directory

    def report(self) -> Page:
        self.record.write(self.folder)
        return self.read(write_report(self.folder))

    def read(self, page: Path) -> Page:
        return Page(page.read_text(encoding="utf-8"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def whole(run: Run, statistics: Path) -> Run:
    """A run that came to its end."""
    examples = run.output("ExampleGen", "examples", {"rows": '{"train": 300, "eval": 100}', "plan": "one shard each"})
    for split in ("train", "eval"):
        (examples / f"Split-{split}").mkdir()
        (examples / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz").write_bytes(bytes(2500))
    shutil.copytree(statistics, run.output("StatisticsGen", "statistics"), dirs_exist_ok=True)
    anomalies = [{"split": "eval", "column": "company", "rule": "new value", "what": EVIL_VALUE}]
    (run.output("DataGate", "verdict") / "value").write_text(json.dumps({"anomalies": anomalies}))
    (run.output("Trainer", "model_run") / "training.json").write_text(json.dumps(TRAINING))
    write_evaluation(run.output("Evaluator", "evaluation"), EVALUATION)
    run.output("Pusher", "pushed_model", {"pushed": 0})
    return run

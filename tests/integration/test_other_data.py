"""Other data, other columns, other labels: only the config says so. And data that is not what it should be."""

from __future__ import annotations

import html
import json
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from command import Finished, headrace, versions

from headrace.components.evaluation.result import read_evaluation

pytestmark = pytest.mark.slow

WINES = """\
pipeline: {name: weine}
data:
  source: {kind: csv, path: weine.csv, delimiter: ";", null_values: ["", "k.A."]}
  schema: weine.pbtxt
label: {key: Güte, kind: multiclass, classes: [schlecht, ordentlich, großartig]}
features:
  alkohol: {column: numeric, key: "Alkohol (%)"}
  traube: {column: vocabulary, key: Rebsorte}
  lage: {column: hashed, hash_buckets: 8}
  jahrgang: {column: bucketized, boundaries: [2005, 2015], key: Jahrgang}
  traube_lage: {column: crossed, keys: [traube, lage], hash_buckets: 16}
train: {epochs: 6, batch_size: 64, learning_rate: 0.01}
evaluate:
  slices: [Rebsorte]
  thresholds: {accuracy: {min: 0.6}}
deploy: {push: serving}
"""

SCHEMA = """\
feature { name: "Alkohol (%)" type: FLOAT presence { min_count: 1 } float_domain { min: 5 max: 16 } }
feature { name: "Rebsorte" type: BYTES domain: "Rebsorten" presence { min_count: 1 } }
feature { name: "lage" type: BYTES presence { min_count: 1 } }
feature { name: "Jahrgang" type: INT presence { min_count: 1 } }
feature { name: "Güte" type: BYTES presence { min_count: 1 min_fraction: 1 } }
string_domain { name: "Rebsorten" value: "Riesling" value: "Müller-Thurgau" value: "Dornfelder" }
"""

HOUSES = """\
pipeline: {name: houses}
data:
  source: {kind: csv, path: "houses-*.csv"}
label: {key: price, kind: regression}
features:
  area: {column: numeric}
  rooms: {column: identity, num_buckets: 8}
  town: {column: vocabulary, min_frequency: 2}
model: {kind: dnn, hidden: [32]}
train: {epochs: 30, batch_size: 32, learning_rate: 0.02, early_stopping: {patience: 10}}
evaluate: {slices: [town], thresholds: {squared_correlation: {min: 0.5}}}
deploy: {push: serving}
"""


def write_wines(path: Path, rows: int = 1200) -> None:
    chance = random.Random(3)
    lines = ["Rebsorte;Alkohol (%);lage;Jahrgang;Güte"]
    for number in range(rows):
        grape = chance.choice(["Riesling", "Müller-Thurgau", "Dornfelder"])
        percent = chance.uniform(8, 15)
        # Two rows are against the schema: a grape it does not know, and a strength beyond its range.
        shown = {100: "Möhre"}.get(number, grape)
        strength = "k.A." if number % 10 == 3 else f"{99.5 if number == 200 else percent:.2f}"
        quality = ["schlecht", "ordentlich", "großartig"][int(percent > 11) + int(grape == "Riesling")]
        lines.append(f'{shown};{strength};"Hang ""{number % 5}""; Süd";{chance.randint(2000, 2020)};{quality}')
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")


HOUSE_FILES = 10


def write_houses(folder: Path, rows: int = 900) -> None:
    chance = random.Random(5)
    lines: list[str] = []
    for _ in range(rows):
        area, rooms, town = chance.uniform(20, 200), chance.randint(1, 6), chance.choice(["Ulm", "Köln", "Bonn", ""])
        price = area / 50 + rooms / 4 + (town == "Köln") + chance.gauss(0, 0.1)
        lines.append(f"{1700000000.5 + 7 * len(lines)},{area:.2f},{rooms},{town},{price:.4f}")
    for number in range(HOUSE_FILES):
        part = lines[number * rows // HOUSE_FILES : (number + 1) * rows // HOUSE_FILES]
        (folder / f"houses-{number}.csv").write_text("\n".join(["sold,area,rooms,town,price", *part]) + "\n")
    (folder / "houses-again.csv").symlink_to("houses-0.csv")


@dataclass(frozen=True)
class Story:
    """A run that was stopped by the data, and the one after it."""

    folder: Path
    stopped: Finished
    done: Finished

    @cached_property
    def loaded(self) -> Any:
        (version,) = versions(self.folder)
        return tf.saved_model.load(str(self.folder / "serving" / version))

    def signature(self, name: str) -> Callable[..., dict[str, tf.Tensor]]:
        return self.loaded.signatures[name]


@pytest.fixture(scope="session")
def wines(new_folder: Callable[[str], Path]) -> Story:
    """With a curated schema that two values break: stopped, then only warned."""
    folder = new_folder("wines")
    write_wines(folder / "weine.csv")
    (folder / "weine.yaml").write_text(WINES, encoding="utf-8")
    (folder / "weine.pbtxt").write_text(SCHEMA, encoding="utf-8")
    stopped = headrace(folder, "run", "weine.yaml")
    return Story(folder, stopped, headrace(folder, "run", "weine.yaml", "--set", "data.on_anomaly=warn"))


@pytest.fixture(scope="session")
def houses(new_folder: Callable[[str], Path]) -> Story:
    """With a row too short in a file that the check before a run does not read: stopped, then mended."""
    folder = new_folder("houses")
    write_houses(folder)
    (folder / "houses.yaml").write_text(HOUSES)
    ninth = folder / "houses-8.csv"
    sound = ninth.read_text()
    lines = sound.splitlines()
    lines[41] = lines[41].rpartition(",")[0]
    ninth.write_text("\n".join(lines) + "\n")
    stopped = headrace(folder, "run", "houses.yaml")
    ninth.write_text(sound)
    return Story(folder, stopped, headrace(folder, "run", "houses.yaml"))


def test_anomalies_against_the_schema_stop_the_run_and_are_named(wines: Story) -> None:
    done = wines.stopped
    assert done.code == 1
    assert done.statuses()["DataGate"] == "failed"
    assert done.statuses()["Transform"] == "skipped"
    (grape,) = [line for line in done.lines if "column 'Rebsorte'" in line]
    assert "split train" in grape
    assert "Möhre" in grape
    (strength,) = [line for line in done.lines if "column 'Alkohol (%)'" in line]
    assert "99.5" in strength
    assert "`data.on_anomaly: warn`" in done.out
    assert "Traceback" not in done.out + done.err
    assert versions(wines.folder) != []  # of the second run


def test_gate_that_stops_leaves_its_verdict_which_the_report_and_ml_metadata_have(wines: Story) -> None:
    done = wines.stopped
    (gate,) = [node for node in done.run.nodes if node.id == "DataGate"]
    verdict = json.loads((Path(gate.outputs["verdict"].uri)).read_text(encoding="utf-8"))
    assert (verdict["action"], verdict["stopped"]) == ("stop", True)
    assert {anomaly["column"] for anomaly in verdict["anomalies"]} == {"Rebsorte", "Alkohol (%)"}
    page = (wines.folder / done.ending("report")).read_text()
    assert all(anomaly["what"] in html.unescape(page) for anomaly in verdict["anomalies"])
    with sqlite3.connect(wines.folder / "runs" / "weine" / "metadata.sqlite") as metadata:
        stored = metadata.execute("SELECT state FROM Artifact WHERE uri = ?", [gate.outputs["verdict"].uri]).fetchall()
    assert len(stored) == 1


def test_anomalies_only_warn_where_the_config_says_so(wines: Story) -> None:
    done = wines.done
    assert (done.code, done.err) == (0, "")
    assert {node for node, status in done.statuses().items() if status == "cached"} == {
        "ExampleGen", "StatisticsGen", "ExampleValidator",
    }  # fmt: skip
    assert "Möhre" in Path(done.run.node("DataGate").log or "").read_text(encoding="utf-8")
    (said,) = [line for line in done.lines if line.startswith("data ") and "Möhre" in line]
    assert "'Rebsorte', split train" in said
    assert "Möhre" in (wines.folder / done.ending("report")).read_text()


def test_multiclass_label_of_unicode_strings_trains_and_is_judged(wines: Story) -> None:
    assert wines.done.ending("blessing").startswith("blessed: accuracy is 0.")


def test_multiclass_model_serves_raw_rows_by_names_that_signatures_take(wines: Story) -> None:
    function = wines.signature("serving_raw")
    given = function.structured_input_signature[1]  # type: ignore[attr-defined]
    assert set(given) == {"Alkohol____", "Rebsorte", "Jahrgang", "lage"}
    predictions = function(
        Alkohol____=tf.constant([14.9, 8.2, float("nan")]),
        Rebsorte=tf.constant(["Riesling", "Dornfelder", ""]),
        Jahrgang=tf.constant([2010, 2001, np.iinfo(np.int64).min], tf.int64),
        lage=tf.constant(['Hang "1"; Süd', 'Hang "2"; Süd', ""]),
    )["predictions"]
    assert predictions.shape == (3, 3)
    np.testing.assert_allclose(np.sum(predictions, axis=1), 1, rtol=1e-5)
    assert np.argmax(predictions, axis=1)[:2].tolist() == [2, 0]


def test_bad_row_stops_the_run_with_its_file_and_line(houses: Story) -> None:
    done = houses.stopped
    assert done.code == 1
    assert done.statuses()["ExampleGen"] == "failed"
    assert "houses-8.csv:42: " in done.out
    assert "Traceback" not in done.out + done.err
    assert not list((houses.folder / "runs" / "houses" / "artifacts" / "ExampleGen").glob("*/2"))


def test_mended_data_is_read_again_and_the_regression_trains(houses: Story) -> None:
    done = houses.done
    assert (done.code, done.err) == (0, "")
    assert done.run.node("ExampleGen").rows_out == 900
    assert done.ending("blessing").startswith("blessed: squared_correlation is 0.")


def test_regression_model_predicts_near_the_truth(houses: Story) -> None:
    predictions = houses.signature("serving_raw")(
        area=tf.constant([50.0, 150.0]), rooms=tf.constant([2, 5], tf.int64), town=tf.constant(["Ulm", "Köln"])
    )["predictions"]
    np.testing.assert_allclose(np.ravel(predictions), [1.5, 5.25], atol=0.8)


def test_a_column_that_loses_digits_and_a_file_with_two_names_are_said_at_the_end_and_in_the_report(
    houses: Story,
) -> None:
    said = [line for line in houses.done.lines if line.startswith("data ")]
    (coarse,) = (line for line in said if "float32" in line)
    assert "'sold'" in coarse
    assert "17000" in coarse
    assert "data.types.sold" in coarse
    (linked,) = (line for line in said if "houses-again.csv" in line)
    assert "houses-0.csv" in linked
    report = (houses.folder / houses.done.ending("report")).read_text(encoding="utf-8")
    assert "&#39;sold&#39; loses digits" in report
    assert "houses-again.csv" in report
    rows = json.loads(str(houses.done.run.node("ExampleGen").outputs["examples"].properties["rows"]))
    assert sum(rows.values()) == 900


def test_the_slices_count_every_example_those_without_a_value_too(houses: Story) -> None:
    found = read_evaluation(houses.folder / houses.done.run.node("Evaluator").outputs["evaluation"].uri)
    assert {each.name for each in found.slices} == {f"town = {town}" for town in ("Bonn", "Köln", "Ulm", "(missing)")}
    assert sum(each.example_count for each in found.slices) == found.example_count


def test_a_list_under_a_numeric_feature_stops_the_run_with_the_ways_out(new_folder: Callable[[str], Path]) -> None:
    folder = new_folder("lists")
    rows = [
        {"area": [float(i), 2.0] if 60_000 < i < 60_100 else [1.0], "rooms": i % 7, "town": "Ulm", "price": i / 7}
        for i in range(80_000)  # the lists are between the lines that the check before a run looks at
    ]
    (folder / "houses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "houses.yaml").write_text(HOUSES.replace('csv, path: "houses-*.csv"', 'jsonl, path: "houses.jsonl"'))
    done = headrace(folder, "run", "houses.yaml")
    assert done.code == 1
    assert done.statuses()["DataGate"] == "failed"
    assert done.statuses()["Transform"] == "skipped"
    (line,) = {line.partition("Multiple values")[2] for line in done.lines if "Multiple values" in line}
    for words in ("features.area", "multivalued", "vector"):
        assert words in line

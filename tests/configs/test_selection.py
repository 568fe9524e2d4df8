"""`auto` and patterns under `features:`: what they stand for, where mistakes are reported, and that it is pinned."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from messages import says

from headrace.common.checksums import with_checksum
from headrace.common.errors import ConfigError
from headrace.configs.json_schema import editor_schema
from headrace.configs.loading.loader import LoadedConfig, load, load_with_locations
from headrace.configs.loading.pinned_selection import Selected
from headrace.pipeline.cli import cli

ROWS = 60
THREE = """\
data: {source: {kind: csv, path: shop.csv}}
label: {key: y, kind: auto}
features: {"*": auto}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("abc")
    return tmp_path


def write(kinds: str) -> None:
    """Sixty rows: two numbers, a category of these values, an integer code, an id and a label."""
    rows = [f"{n * 0.7:.1f},{n * n % 17 * 1.5},{kinds[n % len(kinds)]},{n % 4},u{n},{n % 2}" for n in range(ROWS)]
    Path("shop.csv").write_text("\n".join(["x_price,x_size,kind,zip,id,y", *rows, ""]), encoding="utf-8")


def loaded(text: str) -> LoadedConfig:
    Path("shop.yaml").write_text(text, encoding="utf-8")
    return load_with_locations("shop.yaml")


def features(text: str) -> Mapping[str, Any]:
    found = loaded(text).config.declared_features
    return {name: feature.model_dump(exclude_defaults=True) for name, feature in found.items()}


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return [f"{problem.where}: {problem.what}" for problem in caught.value.problems]


ALL = {
    "x_price": {"column": "numeric"},
    "x_size": {"column": "numeric"},
    "kind": {"column": "vocabulary", "values": ("a", "b", "c")},
    "zip": {"column": "vocabulary", "values": (0, 1, 2, 3)},
}


def test_three_lines_are_a_config() -> None:
    assert features(THREE) == ALL
    config = loaded(THREE).config
    assert (config.pipeline.name, config.label.kind, config.label.class_values) == ("shop", "binary", (0, 1))


def test_a_pipeline_of_null_is_named_after_the_file_too() -> None:
    assert loaded("pipeline:\n" + THREE).config.pipeline.name == "shop"
    assert loaded("pipeline: {root: elsewhere, name: other}\n" + THREE).config.pipeline.name == "other"


def test_a_feature_that_is_written_and_a_more_precise_pattern_come_first() -> None:
    entries = '"*": auto, "x*": {column: bucketized, buckets: 5}, x_size: {column: numeric, normalize: log}, kind: auto'
    assert features(THREE.replace('"*": auto', entries)) == {
        "zip": ALL["zip"],
        "x_price": {"column": "bucketized", "buckets": 5},
        "x_size": {"column": "numeric", "normalize": "log"},
        "kind": ALL["kind"],
    }


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ("{column: auto, types: float}", {"x_price", "x_size"}),
        ("{column: auto, types: [int, string]}", {"kind", "zip"}),
        ('{column: auto, except: ["x*", zip]}', {"kind"}),
        ("{column: numeric, types: [int, float]}", {"x_price", "x_size", "zip"}),
        ("{column: hashed, hash_buckets: 8, except: [id]}", {"x_price", "x_size", "kind", "zip"}),
    ],
)
def test_types_and_exceptions_choose_among_the_columns(entry: str, names: set[str]) -> None:
    assert features(THREE.replace('"*": auto', f'"*": {entry}')).keys() == names


def test_auto_takes_no_logarithm_of_a_column_that_is_declared_float64() -> None:
    rows = [f"{1 + n % 25 / 8 if n < 57 else 300.125},{n % 2}" for n in range(ROWS)]
    Path("shop.csv").write_text("\n".join(["x_price,y", *rows, ""]), encoding="utf-8")
    assert features(THREE) == {"x_price": {"column": "numeric", "normalize": "log"}}
    assert features(THREE.replace("shop.csv}", "shop.csv}, types: {x_price: float64}")) == {
        "x_price": {"column": "numeric"}
    }


def times(label: str = "{n % 2}") -> None:
    """Milliseconds since 1970 within a minute, as fractions of seconds, of which float32 keeps no digit."""
    rows = [f"{1_700_000_000 + n + 0.25},{n * 0.7:.1f}," + label.format(n=n % 2) for n in range(ROWS)]
    Path("shop.csv").write_text("\n".join(["lat,x_price,y", *rows, ""]), encoding="utf-8")


def test_auto_declares_float64_where_digits_would_be_lost() -> None:
    times("{n}")
    found = loaded(THREE)
    assert dict(found.config.data.types) == {"lat": "float64"}
    assert found.config.float64_columns == ("lat",)
    found.pin_selection()
    write("abc")
    assert dict(loaded(THREE).config.data.types) == {"lat": "float64"}


@pytest.mark.parametrize(
    ("before", "after", "types"),
    [
        ("shop.csv}", "shop.csv}, types: {lat: float}", {"lat": "float"}),
        ("shop.csv}", "shop.csv}, types: {x_price: float64}", {"lat": "float64", "x_price": "float64"}),
        ('"*": auto', "lat: auto", {"lat": "float64"}),
        ('"*": auto', '"*": {column: numeric}', {}),
        ('"*": auto', '"*": auto, again: {column: numeric, key: lat, normalize: log}', {}),
    ],
)
def test_what_is_written_about_a_column_counts(before: str, after: str, types: dict[str, str]) -> None:
    times("{n}")
    assert dict(loaded(THREE.replace(before, after)).config.data.types) == types


@pytest.mark.parametrize(
    ("before", "after", "types", "column"),
    [
        ("", "", {"zip": "int"}, "vocabulary"),
        ("shop.csv}", "shop.csv}, types: {zip: float}", {"zip": "float"}, "numeric"),
        ('"*": auto', '"*": auto, near: {column: bucketized, key: zip, buckets: 4}', {}, "numeric"),
    ],
)
def test_codes_with_gaps_are_declared_as_integers_unless_their_type_is_used(
    before: str, after: str, types: dict[str, str], column: str
) -> None:
    rows = [f"{'' if n % 7 == 0 else f'{12_340 + n % 5}.0'},{n % 2}" for n in range(ROWS)]
    Path("shop.csv").write_text("\n".join(["zip,y", *rows, ""]), encoding="utf-8")
    config = loaded(THREE.replace(before, after)).config
    assert dict(config.data.types) == types
    assert config.declared_features["zip"].column == column


def test_fractions_that_are_classes_are_declared_as_texts() -> None:
    times("{n}.5")
    config = loaded(THREE).config
    assert config.data.types["y"] == "string"
    assert config.label.class_values == ("0.5", "1.5")


def test_a_pin_of_an_earlier_version_declares_nothing() -> None:
    times("{n}")
    loaded(THREE).pin_selection()
    pinned = Path("runs/shop/features.json")
    old = json.loads(pinned.read_text(encoding="utf-8"))
    record = Selected.model_validate({name: value for name, value in old.items() if name in Selected.model_fields})
    pinned.write_text(with_checksum(record.model_dump_json(exclude={"types"})), encoding="utf-8")
    assert dict(loaded(THREE).config.data.types) == {}


def test_columns_that_weigh_or_split_rows_are_no_features() -> None:
    values = "split_column: kind, split_values: {train: [a], eval: [b], test: [c]}"
    text = THREE.replace("shop.csv}", "shop.csv}, " + values).replace("kind: auto", "kind: auto, weight: x_size")
    assert features(text).keys() == {"x_price", "zip"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("key: y", "key: yy", "shop.yaml:2: label.key: column 'yy': …did you mean \"y\"?"),
        ("key: y", "key: id", "shop.yaml:2: label.key: column 'id': cannot be the label"),
        ("shop.csv", "nope.csv", "shop.yaml:1: data.source.path: no file matches"),
        ('"*": auto', '"q*": auto', "shop.yaml:3: features.q*: stands for no column"),
        ('"*": auto', '"*": {column: auto, types: number}', 'shop.yaml:3: features.*.types: "number" is not a type'),
        ('"*": auto', '"*": {column: auto, except: 7}', "shop.yaml:3: features.*.except: must be a name"),
        ('"*": auto', '"*": {column: auto, buckets: 7}', "shop.yaml:3: features.*.buckets: is not a setting of `auto`"),
        ('"*": auto', '"x*": {column: numeric, key: a}', "shop.yaml:3: features.x*.key: a pattern names the columns"),
        ('"*": auto', '"x*": {column: numeric, normalise: log}', "shop.yaml:3: features.x*.normalise: "),
    ],
)
def test_a_mistake_is_reported_once_in_its_line(before: str, after: str, expected: str) -> None:
    (found,) = mistakes(THREE.replace(before, after))
    assert says(found, expected)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("id: {kind: auto}", "shop.yaml:2: label.tasks.id: column 'id': cannot be the label"),
        ("of: {key: id, kind: auto}", "shop.yaml:2: label.tasks.of.key: column 'id': cannot be the label"),
        ("nope: {kind: auto}", "shop.yaml:2: label.tasks.nope: column 'nope': is not a column"),
    ],
)
def test_a_label_that_cannot_be_predicted_is_reported_at_its_task(task: str, expected: str) -> None:
    label = "label: {kind: multitask, tasks: {y: {kind: regression}, " + task + "}}"
    (found,) = mistakes(re.sub("label: .*", label, THREE))
    assert says(found, expected)


def test_mistakes_in_other_sections_are_reported_beside_it() -> None:
    found = mistakes(THREE.replace('"*": auto', '"x*": {column: numeric, key: a}') + "train: {epochs: x}\n")
    assert [each.split(": ")[1] for each in found] == ["features.x*.key", "train.epochs"]


def without_a_label() -> None:
    text = Path("shop.csv").read_text(encoding="utf-8")
    Path("shop.csv").write_text(text.replace(",u5,1", ",u5,"), encoding="utf-8")


@pytest.mark.parametrize(("written", "missing"), [("", "drop"), (", missing: refuse", "refuse")])
def test_what_is_written_beside_auto_stays(written: str, missing: str) -> None:
    without_a_label()
    assert loaded(THREE.replace("kind: auto", f"kind: auto{written}")).config.label.missing == missing


def test_what_is_written_beside_the_auto_of_a_task_stays() -> None:
    without_a_label()
    tasks = "{kind: multitask, tasks: {y: {kind: auto, missing: refuse}, x_size: {kind: auto}}}"
    label = loaded(THREE.replace("{key: y, kind: auto}", tasks)).config.label
    assert {name: (part.kind, part.missing) for name, part in label.parts.items()} == {
        "y": ("binary", "refuse"),
        "x_size": ("regression", "refuse"),
    }


def test_what_is_pinned_holds_until_what_is_written_changes() -> None:
    loaded(THREE).pin_selection()
    write("abcd")
    assert features(THREE) == ALL
    found = features(THREE.replace('"*": auto', '"*": {column: auto, except: [zip]}'))
    assert found["kind"]["values"] == ("a", "b", "c", "d")
    Path("runs/shop/features.json").unlink()
    assert features(THREE)["kind"]["values"] == ("a", "b", "c", "d")


def test_nothing_is_pinned_by_looking() -> None:
    loaded(THREE)
    assert not Path("runs").exists()


def test_a_damaged_pin_is_reported_with_the_way_out() -> None:
    loaded(THREE).pin_selection()
    pinned = Path("runs/shop/features.json")
    text = pinned.read_text(encoding="utf-8")
    pinned.write_text(text.replace("numeric", "hashed", 1), encoding="utf-8")
    (found,) = mistakes(THREE)
    assert "runs/shop/features.json" in found
    assert "delete it" in found


def test_python_objects_may_have_them_too() -> None:
    settings = {"pipeline": {"name": "shop"}, "data": {"source": {"kind": "csv", "path": "shop.csv"}}}
    config = load({**settings, "label": {"key": "y", "kind": "auto"}, "features": {"*": "auto"}})
    assert config.declared_features.keys() == ALL.keys()


@pytest.mark.parametrize(
    ("features", "valid"),
    [
        ({"*": "auto"}, True),
        ({"x": "auto"}, True),
        ({"x*": {"column": "numeric", "types": ["int"], "except": "x1", "normalize": "log"}}, True),
        ({"x": {"column": "numeric"}}, True),
        ({"x*": {"column": "numberic"}}, False),
        ({"*": {"column": "auto", "types": "number"}}, False),
        ({"x": {"column": "numeric", "types": "int"}}, False),
        ({"x": "automatic"}, False),
    ],
)
def test_editors_accept_what_the_loader_accepts(features: Any, valid: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    config = {"data": {"source": {"kind": "csv", "path": "x.csv"}}, "label": {"key": "y", "kind": "auto"}}
    errors = [*jsonschema.Draft202012Validator(editor_schema()).iter_errors({**config, "features": features})]
    assert (not errors) == valid, json.dumps([error.message for error in errors])


def test_the_kind_of_model_suits_the_number_of_rows_unless_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(THREE).config.model.kind == "tabm"
    assert loaded(THREE + "model: {hidden: [8]}\n").config.model.kind == "table"
    assert (
        loaded(
            THREE + "tune: {max_trials: 2, parameters: {train.learning_rate: {choices: [0.1, 0.2]}}}\n"
        ).config.model.kind
        == "table"
    )
    crossed = THREE.replace('"*": auto', '"*": auto, both: {column: crossed, keys: [kind, zip], hash_buckets: 9}')
    assert loaded(crossed).config.model.kind == "table"
    monkeypatch.setattr("headrace.components.inference.models.FEW_ROWS", ROWS - 1)
    assert loaded(THREE).config.model.kind == "wide_and_deep"


def test_a_label_of_free_texts_gets_the_model_that_writes_them_if_it_is_asked_for() -> None:
    texts = [(f"the house number {n} has windows and a red door", f"das Haus {n} hat Fenster") for n in range(60)]
    rows = [f"{english},{german}" for english, german in texts]
    Path("shop.csv").write_text("\n".join(["english,y", *rows, ""]), encoding="utf-8")
    config = loaded(THREE.replace("kind: auto", "kind: text")).config
    assert config.model.kind == "encoder_decoder"
    assert config.declared_features["english"].column == "text"
    (message,) = mistakes(THREE)
    assert "60 different values in 60 rows" in message
    assert "`label.kind: text`" in message


def test_the_kind_of_model_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(THREE).pin_selection()
    monkeypatch.setattr("headrace.components.inference.models.FEW_ROWS", ROWS - 1)
    assert loaded(THREE).config.model.kind == "tabm"
    assert loaded(THREE + "model: {kind: dnn}\n").config.model.kind == "dnn"
    assert loaded(THREE).config.model.kind == "tabm"


def test_a_model_that_is_written_in_the_first_run_does_not_change_the_choice() -> None:
    loaded(THREE + "model: {kind: dnn}\n").pin_selection()
    again = loaded(THREE)
    assert again.selection is not None
    assert again.selection.pinned
    assert again.config.model.kind == "tabm"


def unreadable(file: str) -> None:
    """Rows with a map and a list of lists, which no feature can hold."""
    rows = [{"x": n * 0.7, "kind": "abc"[n % 3], "boxes": [[n, 1]], "same": 1, "y": n % 2} for n in range(ROWS)]
    if file.endswith(".jsonl"):
        Path(file).write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    else:
        tags = pa.array([[("k", n)] for n in range(ROWS)], pa.map_(pa.string(), pa.int64()))
        pq.write_table(pa.Table.from_pylist(rows).append_column("tags", tags), file)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_columns_that_no_feature_can_hold_are_left_out_with_the_reason(kind: str) -> None:
    unreadable(f"t.{kind}")
    text = THREE.replace("kind: csv, path: shop.csv", f"kind: {kind}, path: t.{kind}")
    assert [*features(text)] == ["x", "kind"]
    found = loaded(text)
    assert found.selection is not None
    left_out = found.selection.selected.left_out
    assert left_out.keys() == {"boxes", "same"} | ({"tags"} if kind == "parquet" else set())
    assert "list" in left_out["boxes"]
    assert found.config.data.columns == "used"
    shown = CliRunner().invoke(cli, ["validate", "shop.yaml"])
    assert shown.exit_code == 0, shown.output
    assert "data.columns: used\n" in shown.stdout
    assert re.search(r"^left out: boxes: .*list", shown.stdout, re.MULTILINE)
    assert "left out: same: the same value in all rows: 1\n" in shown.stdout
    found.pin_selection()
    assert loaded(text).config == found.config


@pytest.mark.parametrize(("kind", "function"), [("python", "rows"), ("arrays", "table")])
def test_so_are_those_of_what_a_function_returns(
    kind: str, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable("t.parquet")
    code = "import pyarrow.parquet\ndef table():\n    return pyarrow.parquet.read_table('t.parquet')\n"
    name = f"odd_{kind}"
    (tmp_path / f"{name}.py").write_text(f"{code}def rows():\n    yield table()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    text = THREE.replace("kind: csv, path: shop.csv", f"kind: {kind}, function: {name}.{function}")
    found = loaded(text)
    assert [*found.config.declared_features] == ["x", "kind"]
    assert found.selection is not None
    assert found.selection.selected.left_out.keys() == {"boxes", "same", "tags"}
    refused = mistakes(text.replace(f"{function}}}", f"{function}}}, columns: all"))
    assert re.search(r"^shop.yaml:1: data.source: .*'(tags|boxes)'.*\n.*`data.columns` to `used`", refused[0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("path: t.parquet}", "path: t.parquet}, columns: all"),
        ("path: t.parquet}", "path: t.parquet}, columns: [x, tags, y]"),
        ('{"*": auto}', '{"t*": {column: numeric}, "*": auto}'),
        ('{"*": auto}', '{tags: {column: numeric}, "*": auto}'),
        ("key: y", "key: tags"),
    ],
)
def test_a_column_that_no_feature_can_hold_is_an_error_where_it_is_asked_for(before: str, after: str) -> None:
    unreadable("t.parquet")
    text = THREE.replace("kind: csv, path: shop.csv", "kind: parquet, path: t.parquet")
    assert any(re.search("'(tags|boxes)'.*(map|list)", one) for one in mistakes(text.replace(before, after)))


def test_where_only_used_columns_are_read_the_others_may_be_of_any_type() -> None:
    unreadable("t.parquet")
    text = THREE.replace("kind: csv, path: shop.csv}", "kind: parquet, path: t.parquet}, columns: used")
    assert [*features(text)] == ["x", "kind"]

"""Paths, folders and URLs that `headrace init` is given, as sources, and the names of pipelines that follow."""

from __future__ import annotations

import gzip
import re
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headrace.common.errors import RunError
from headrace.configs.loading.loader import load
from headrace.configs.schema.sources import CsvSource, ImagesSource
from headrace.configs.schema.sources.endings import source_from
from headrace.pipeline.init.source import given_source, pipeline_name
from headrace.pipeline.init.write import write
from headrace.pipeline.predict.scoring import source_of


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("trips.csv", {"kind": "csv", "path": "trips.csv"}),
        ("trips.csv.gz", {"kind": "csv", "path": "trips.csv.gz"}),
        ("trips.tsv", {"kind": "csv", "path": "trips.tsv"}),
        ("trips.parquet", {"kind": "parquet", "path": "trips.parquet"}),
        ("trips.avro", {"kind": "avro", "path": "trips.avro"}),
        ("trips.xlsx", {"kind": "excel", "path": "trips.xlsx"}),
        ("trips.npz", {"kind": "arrays", "path": "trips.npz"}),
        ("trips.tfrecords", {"kind": "tfrecord", "path": "trips.tfrecords"}),
        ("trips.jsonl", {"kind": "jsonl", "path": "trips.jsonl"}),
        ("trips.ndjson", {"kind": "jsonl", "path": "trips.ndjson"}),
    ],
)
def test_the_ending_of_a_file_names_its_kind(
    file: str, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).touch()
    if ".csv" in file or ".tsv" in file:
        with (gzip.open if file.endswith("gz") else open)(file, "wt") as text:
            text.write("a,b\n1,2\n" if ".csv" in file else "a\tb\n1\t2\n")
    assert given_source(file) == expected


@pytest.mark.parametrize("name", ["trips.txt", "trips.xlsx.gz", "trips.parquet.gz", "trips.gz"])
def test_other_endings_are_refused_with_those_that_are_known(name: str) -> None:
    with pytest.raises(RunError, match=rf"{re.escape(name)}: .*\.csv, .*\.ods.*\.gz"):
        given_source(name)


def test_predictions_know_the_same_endings() -> None:
    read = source_of("new/trips.tsv.gz", None)
    assert isinstance(read, CsvSource)
    assert (read.path, read.delimiter) == ("new/trips.tsv.gz", "\t")
    assert source_of("trips.xls", CsvSource(kind="csv", path="a.csv")).kind == "excel"


def test_a_kind_that_needs_more_than_a_path_says_what() -> None:
    with pytest.raises(RunError, match=r"kind sql .* needs url\. .*`data\.source: \{kind: sql"):
        source_from({"kind": "sql", "table": "trips"})
    with pytest.raises(RunError, match="delimiter and quote are both"):
        source_from({"kind": "csv", "path": "trips.csv", "delimiter": '"'})


@pytest.mark.parametrize(("text", "kind"), [(' \n[{"a": 1}]', "json"), ('{"a": 1}\n{"a": 2}\n', "jsonl")])
@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_the_start_of_a_json_file_tells_arrays_from_lines(text: str, kind: str, ending: str, tmp_path: Path) -> None:
    with (gzip.open if ending.endswith("gz") else open)(tmp_path / f"x.{ending}", "wt") as file:
        file.write(text)
    path = str(tmp_path / f"x.{ending}")
    assert given_source(path) == {"kind": kind, "path": path}
    assert given_source(str(tmp_path)) == {"kind": kind, "path": str(tmp_path / f"*.{ending}")}
    assert source_of(path, None).kind == kind


def test_a_folder_stands_for_its_files_of_one_kind(tmp_path: Path) -> None:
    for day in "12":
        (tmp_path / f"{day}.jsonl").write_text('{"a": 1}\n')
    assert given_source(str(tmp_path)) == {"kind": "jsonl", "path": f"{tmp_path}/*.jsonl"}
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(RunError, match=r"several kinds \(\.csv, \.jsonl\)"):
        given_source(str(tmp_path))


def split_files(folder: Path, **headers: str) -> None:
    for name, header in headers.items():
        width = header.count(",") + 1
        rows = [",".join(str(row // (column + 1) % 2) for column in range(width)) for row in range(60)]
        (folder / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


def test_files_named_after_splits_are_the_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    split_files(tmp_path, titanic_train="a,y", valid="y,a", **{"Test-set": "a,y"})
    source = given_source("titanic_train.csv", others=["valid.csv", "Test-set.csv"])
    paths = {"train": "titanic_train.csv", "eval": "valid.csv", "test": "Test-set.csv"}
    assert source == {"kind": "csv", "path": paths}
    assert pipeline_name(source) == "titanic"
    draft = write(tmp_path / "t.yaml", "t", source, ("y",), lambda labels: f"headrace init {labels[0]}")
    assert draft.source["path"] == paths
    config = load(yaml.safe_load((tmp_path / "t.yaml").read_text(encoding="utf-8")))
    assert list(config.data.splits) == ["train", "eval", "test"]
    assert list(config.data.hashed_splits) == ["train"]


def test_a_folder_of_splits_stands_for_them_and_its_other_files_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "houses"
    folder.mkdir()
    split_files(folder, train="a,y", test="a,y", sample_submission="y")
    source = given_source(str(folder))
    assert source == {"kind": "csv", "path": {split: f"{folder}/{split}.csv" for split in ("train", "test")}}
    assert pipeline_name(source) == "houses"


def test_a_test_file_without_the_label_is_left_out(tmp_path: Path) -> None:
    split_files(tmp_path, train="a,y", test="a")
    given = {split: f"{tmp_path}/{split}.csv" for split in ("train", "test")}
    source = given_source(given["train"], others=[given["test"]])
    draft = write(tmp_path / "t.yaml", "t", source, ("y",), lambda labels: f"headrace init {labels[0]}")
    assert draft.source == {"kind": "csv", "path": given["train"]}
    assert draft.unlabelled == {"test": given["test"]}
    assert "# Left out, without the label, test:" in (tmp_path / "t.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (("train.csv", "more.csv"), "more.csv: of several files, "),
        (("test.csv", "eval.csv"), "is named `train`"),
        (("train.csv", "test.jsonl"), "test.jsonl is of another kind"),
    ],
)
def test_files_that_name_no_splits_are_refused(tmp_path: Path, names: tuple[str, str], what: str) -> None:
    first, other = (str(tmp_path / name) for name in names)
    with pytest.raises(RunError, match=what):
        given_source(first, others=[other])


def pets(folder: Path, *folders: str, size: tuple[int, int] = (9, 7), mode: str = "RGB") -> Path:
    """Ten images in each folder below the folder `my: pets`."""
    for number, name in enumerate(folders):
        own = folder / "my: pets" / name
        own.mkdir(parents=True)
        for image in range(10):
            Image.new(mode, size, 20 * number + image).save(own / f"{image}.JPG")
    return folder / "my: pets"


@pytest.mark.parametrize(
    ("size", "mode", "settings", "filters"),
    [
        ((9, 7), "RGB", {"height": 7, "width": 9}, [32, 64]),
        ((40, 32), "L", {"height": 32, "width": 40, "channels": 1}, [32, 64, 128]),
        ((640, 480), "RGB", {"height": 128, "width": 128}, [32, 64, 128, 256]),
    ],
)
def test_a_folder_of_images_becomes_a_config(
    tmp_path: Path, size: tuple[int, int], mode: str, settings: dict[str, int], filters: list[int]
) -> None:
    folder, file = pets(tmp_path, "cats", "dogs", size=size, mode=mode), tmp_path / "pets.yaml"
    draft = write(file, "pets", given_source(str(folder)), (), lambda labels: f"init pets --label {','.join(labels)}")
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# Written by `init pets --label label`\n")
    config = yaml.safe_load(text)
    assert config["data"]["source"] == {"kind": "images", "path": str(folder)}
    assert config["label"] == {"key": "label", "kind": "binary", "classes": ["cats", "dogs"]}
    assert config["features"] == {"image": {"column": "image", **settings}}
    assert (config["model"]["kind"], config["model"]["filters"]) == ("image", filters)
    assert [*draft.left_out] == ["height", "width", "channel"]
    assert load(file).data.source == ImagesSource(kind="images", path=str(folder))


def test_auto_takes_images_and_a_model_for_them(tmp_path: Path) -> None:
    folder, file = pets(tmp_path, "cats", "dogs"), tmp_path / "pets.yaml"
    source = {"kind": "images", "path": str(folder)}
    label, features = {"key": "label", "kind": "auto"}, {"*": "auto"}
    file.write_text(yaml.safe_dump({"data": {"source": source}, "label": label, "features": features}))
    config = load(file)
    assert [*config.declared_features] == ["image"]
    assert (config.declared_features["image"].model_dump()["width"], config.model.kind) == (9, "image")


def test_folders_of_splits_hold_the_folders_of_classes(tmp_path: Path) -> None:
    folder = pets(tmp_path, "train/cats", "train/dogs", "val/cats", "val/dogs")
    paths = {"train": f"{folder}/train", "eval": f"{folder}/val"}
    assert given_source(str(folder)) == {"kind": "images", "path": paths}


@pytest.mark.parametrize(
    ("folders", "path"),
    [
        (["good", "bad"], "{}/*/*.txt"),
        (["train/good", "train/bad", "test/good"], {"train": "{}/train/*/*.txt", "test": "{}/test/*/*.txt"}),
    ],
)
def test_folders_of_texts_are_classes(tmp_path: Path, folders: list[str], path: Any) -> None:
    for name in folders:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "1.txt").write_text("a text")
    paths = {split: own.format(tmp_path) for split, own in path.items()} if isinstance(path, dict) else None
    expected = {"kind": "text", "path": paths or path.format(tmp_path), "unit": "file", "labels": "folders"}
    assert given_source(f"{tmp_path}/") == expected


def test_texts_beside_class_folders_are_left_out_with_a_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("good/1", "bad/1", "README"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text("a text")
    with caplog.at_level("WARNING", logger="headrace"):
        assert given_source(str(tmp_path))["path"] == f"{tmp_path}/*/*.txt"
    (note,) = caplog.messages
    assert "README.txt" in note
    assert "left out" in note


@pytest.mark.parametrize(("name", "what"), [("1.png", "docs/images.md"), ("1.txt", "next word")])
def test_files_outside_of_class_folders_have_no_label(tmp_path: Path, name: str, what: str) -> None:
    Image.new("RGB", (9, 7)).save(tmp_path / "1.png")
    (tmp_path / "1.png").rename(tmp_path / name)
    with pytest.raises(RunError, match=rf"{name}, which is in no folder .*{what}"):
        given_source(str(tmp_path))


def test_a_dotted_path_is_a_generator_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop_rows.py").write_text("def orders():\n    yield {}\n")
    expected = {"kind": "python", "function": "shop_rows.orders"}
    assert given_source("shop_rows.orders") == expected
    assert pipeline_name(expected) == "shop-rows"
    with pytest.raises(RunError, match=r"shop_rows\.rows.*orders"):
        given_source("shop_rows.rows")
    with pytest.raises(RunError, match=r"such as shop_rows\.rows"):
        given_source("shop_rows.py")
    with pytest.raises(RunError, match=r"with dots: shop_rows\.orders"):
        given_source("shop_rows:orders")


def test_a_query_takes_the_place_of_a_table() -> None:
    source = given_source("sqlite:///data/shop.db", query="select 1")
    assert source == {"kind": "sql", "url": "sqlite:///data/shop.db", "query": "select 1"}
    assert pipeline_name(source) == "shop"
    with pytest.raises(RunError, match="not both"):
        given_source("sqlite:///shop.db", "t", query="select 1")
    with pytest.raises(RunError, match="--query is for databases"):
        given_source("x.csv", query="select 1")


def test_databases_need_a_table_and_files_have_none() -> None:
    assert given_source("sqlite:///x.db", "t") == {"kind": "sql", "url": "sqlite:///x.db", "table": "t"}
    with pytest.raises(RunError, match="--table"):
        given_source("sqlite:///x.db")
    with pytest.raises(RunError, match="--table is for databases"):
        given_source("x.csv", "t")
    with pytest.raises(RunError, match=re.escape("sqlite:///data/x.db, with --table")):
        given_source("data/x.db")
    with pytest.raises(RunError, match="not that of a known kind"):
        given_source("x.docx")


@given(st.text(string.printable, min_size=1))
def test_names_of_pipelines_are_valid(path: str) -> None:
    name = pipeline_name({"path": path})
    assert load({"pipeline": {"name": name}, **REST}).pipeline.name == name


REST: dict[str, Any] = {
    "data": {"source": {"kind": "csv", "path": "x.csv"}},
    "label": {"key": "y", "kind": "binary"},
    "features": {"x": {"column": "numeric"}},
}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/trips-{YYYY}-*.csv.gz", "trips"),
        ("s3://bucket/Sales 2026/*.parquet", "sales-2026"),
        ("pkg://tfx/data/simple/data.csv", "data"),
        ("Verkäufe/Kündigungen 2026.csv", "kundigungen-2026"),
        ("Meßwerte.parquet", "messwerte"),
        ("Événements/東京.jsonl", "evenements"),
        *((f"tables/c{ending}", "c") for ending in (".csv", ".tsv", ".csv.gz", ".parquet", ".json", ".avro", ".xlsx")),
        ("c.tsv", "c"),
        ("tables/7.csv", "7"),
        ("trips/v{VERSION}.csv", "trips"),
        ("trips/d*.csv", "trips"),
    ],
)
def test_a_pipeline_is_named_after_its_data(path: str, name: str) -> None:
    assert pipeline_name({"path": path}) == name

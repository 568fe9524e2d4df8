"""Prepared TensorFlow Datasets, against tfds' own reading of them."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from beam_runs import WITH_BEAM, same_with_beam
from decoded_examples import decoded

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples.tfexample.encode import encode
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import TfdsSource

PLAIN = ("id", "flag", "half", "label", "text", "image", "numbers", "words", "vector", "large")
NESTED = ("matrix", "inner", "boxes", "packed", "ragged")


class TinyHeadrace(tfds.core.GeneratorBasedBuilder):
    """Two splits, in a version that each test asks for."""

    VERSION = tfds.core.Version("1.0.0")
    code_path = None  # there are no checksums of downloads to look for beside this file

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features
        return tfds.core.DatasetInfo(
            builder=self,
            features=features.FeaturesDict(
                {
                    "id": np.int64,
                    "flag": np.bool_,
                    "half": np.float64,
                    "label": features.ClassLabel(names=["no", "yes"]),
                    "text": features.Text(),
                    "image": features.Image(shape=(4, 4, 3), encoding_format="png"),
                    "numbers": features.Sequence(np.int32),
                    "words": features.Sequence(features.Text()),
                    "vector": features.Tensor(shape=(3,), dtype=np.float32),
                    "large": np.uint64,
                    "matrix": features.Tensor(shape=(2, 2), dtype=np.float32),
                    "inner": {"x": np.int64},
                    "boxes": features.Sequence({"y": np.int64}),
                    "packed": features.Tensor(shape=(3,), dtype=np.int32, encoding="zlib"),
                    "ragged": features.Sequence(features.Sequence(np.int64)),
                }
            ),
        )

    def _split_generators(self, dl_manager: object) -> dict[str, Any]:
        del dl_manager
        return {"train": self._generate_examples(40), "test": self._generate_examples(10)}

    def _generate_examples(self, rows: int) -> Any:
        for row in range(rows):
            yield (
                row,
                {
                    "id": row,
                    "flag": bool(row % 2),
                    "half": row / 2,
                    "label": row % 2,
                    "text": f"é {row}",
                    "image": np.full((4, 4, 3), row, np.uint8),
                    "numbers": list(range(row % 3)),
                    "words": ["wörd", ""] * (row % 2),
                    "vector": [row, 1, 2],
                    "large": 2**64 - 1 - row,
                    "matrix": [[1, 2], [3, 4]],
                    "inner": {"x": row},
                    "boxes": [{"y": 1}] * (row % 2),
                    "packed": [1, 2, 3],
                    "ragged": [[1], [2, 3]],
                },
            )


def prepare(data_dir: Path, *versions: str) -> None:
    for version in versions:
        TinyHeadrace.VERSION = tfds.core.Version(version)
        TinyHeadrace(data_dir=str(data_dir)).download_and_prepare()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tfds")
    prepare(folder, "1.2.0", "1.10.0", "2.0.0")
    return folder


def source(data_dir: Path, name: str = "tiny_headrace", **more: object) -> TfdsSource:
    return TfdsSource.model_validate({"kind": "tfds", "name": name, "data_dir": str(data_dir), **more})


def read(
    given: TfdsSource, columns: tuple[str, ...] | None = PLAIN, *, skip: bool = False, **declared: Any
) -> tuple[dict, list]:
    opened = open_source(given, options=ReadOptions(columns, skip_bad=skip))
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, declared) for part in parts), ScanResult())
    kinds = {**scan.kinds, **declared}
    batches = [batch for part in parts for batch in opened.batches(part, kinds)]
    rows = [decoded(record) for batch in batches for record in encode(batch).to_pylist()]
    assert sum(scan.rows.values()) == len(rows)
    return kinds, rows


def test_the_examples_are_those_that_tfds_reads(prepared: Path) -> None:
    kinds, rows = read(source(prepared))
    assert kinds == {
        "id": "int",
        "flag": "int",
        "half": "float",
        "label": "int",
        "text": "string",
        "image": "bytes",
        "numbers": "int list",
        "words": "string list",
        "vector": "float list",
        "large": "string",
    }
    builder = tfds.builder_from_directory(prepared / "tiny_headrace" / "2.0.0")
    skipping = {"image": tfds.decode.SkipDecoding()}
    expected = []
    for split in ("train", "test"):
        for own in tfds.as_numpy(builder.as_dataset(split, decoders=skipping, shuffle_files=False)):
            row = {name: np.atleast_1d(np.asarray(own[name])).tolist() for name in PLAIN}
            expected.append({**row, "large": [str(own["large"]).encode()]})
    assert rows == expected
    assert tf.io.decode_png(rows[7]["image"][0]).numpy().tolist() == np.full((4, 4, 3), rows[7]["id"][0]).tolist()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("tiny_headrace", "2.0.0"),
        ("tiny_headrace:1.*.*", "1.10.0"),
        ("tiny_headrace:*.*.*", "2.0.0"),
        ("tiny_headrace:1.2.*", "1.2.0"),
        ("tiny_headrace:1.2.0", "1.2.0"),
    ],
)
def test_the_newest_version_that_fits_is_read_and_reported(
    prepared: Path, name: str, version: str, log: pytest.LogCaptureFixture
) -> None:
    config = DataConfig(source=source(prepared, name))
    paths = find_spans(config).spans[0].paths
    folder = prepared / "tiny_headrace" / version
    records = [f"tiny_headrace-{split}.tfrecord-00000-of-00001" for split in ("test", "train")]
    assert paths == sorted(str(folder / own) for own in ("dataset_info.json", "features.json", *records))
    open_source(config.source, paths, ReadOptions(("id",))).parts(serial_map)
    assert f"tiny_headrace {version}, in {folder}" in log.text


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (
            "tiny_headrace:3.*.*",
            "no version of 'tiny_headrace' matches '3\\.\\*\\.\\*'(.|\n)*There are 1.2.0, 1.10.0, 2.0.0",
        ),
        ("mnist", "dataset 'mnist' is not prepared(.|\n)*tiny_headrace"),
        ("tiny_headrace/small", "no config 'small'"),
    ],
)
def test_what_is_not_there_is_reported_with_what_is(prepared: Path, name: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        find_spans(DataConfig(source=source(prepared, name)))


def test_an_empty_folder_says_how_to_prepare(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tfds\.load"):
        find_spans(DataConfig(source=source(tmp_path)))


def test_configs_are_chosen_by_name(prepared: Path, tmp_path: Path) -> None:
    for config in ("a", "b"):
        shutil.copytree(prepared / "tiny_headrace" / "1.2.0", tmp_path / "tiny_headrace" / config / "1.2.0")
    with pytest.raises(DataError, match=r"multiple configs(.|\n)*tiny_headrace/a; .* a, b"):
        find_spans(DataConfig(source=source(tmp_path)))
    assert len(read(source(tmp_path, "tiny_headrace/b:1.*.*"), ("id",))[1]) == 50


def test_slices_are_those_of_tfds(prepared: Path) -> None:
    slices = ("train[:10%]+test[5:]", "train[-3:]")
    _, rows = read(source(prepared, slices=slices), ("id", "image"))
    builder = tfds.builder_from_directory(prepared / "tiny_headrace" / "2.0.0")
    expected = [int(own["id"]) for name in slices for own in tfds.as_numpy(builder.as_dataset(name))]
    assert [row["id"][0] for row in rows] == expected
    paths = find_spans(DataConfig(source=source(prepared, slices=("test",)))).spans[0].paths
    assert not any("-train." in path for path in paths)


@pytest.mark.parametrize(
    ("slices", "what"),
    [
        (("nosuch",), "no split 'nosuch'(.|\n)*train, test"),
        (("train[:10%",), "is not a slice"),
        (("train[5:3]",), "no examples"),
        (("train[:60%]", "train[50%:]"), "overlap"),
        (("train[99:]",), "is not a slice"),
    ],
)
def test_slices_that_cannot_be_are_refused(prepared: Path, slices: tuple[str, ...], what: str) -> None:
    given = source(prepared, slices=slices)
    with pytest.raises(DataError, match=what):
        _ = find_spans(DataConfig(source=given)), read(given)


def test_slices_are_splits(prepared: Path, tmp_path: Path) -> None:
    given = source(prepared, slices={"train": "train", "eval": ("test[:40%]",), "test": "test[40%:]"})
    data = DataConfig(source=given, columns=("id", "label"))
    assert ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map).rows == {
        "train": 40,
        "eval": 4,
        "test": 6,
    }
    overlapping = data.model_copy(update={"source": source(prepared, slices={"train": "all", "test": "test"})})
    with pytest.raises(DataError, match="overlap"):
        ingest(overlapping, find_spans(overlapping), tmp_path / "out", lambda _work: serial_map)


@pytest.mark.parametrize("name", NESTED)
def test_a_feature_that_is_not_a_column_is_named(prepared: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"column '{name}'"):
        read(source(prepared), ("id", name))


def test_the_names_of_the_features_need_no_tfds(prepared: Path) -> None:
    assert sorted(open_source(source(prepared)).columns()) == sorted([*PLAIN, *NESTED])


def test_missing_package_is_reported_with_the_command_that_installs_it(
    prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(DataError, match=r'pip install "headrace\[tfds\]"'):
        open_source(source(prepared))


def test_a_value_that_is_not_of_its_declared_type_is_named_or_skipped(prepared: Path) -> None:
    with pytest.raises(DataError, match=r"'text': record 0 .* as int"):
        read(source(prepared, slices=("test",)), ("text",), text="int")
    assert read(source(prepared, slices=("test",)), ("text",), skip=True, text="int")[1] == []


def copy_of(prepared: Path, tmp_path: Path) -> Path:
    shutil.copytree(prepared / "tiny_headrace" / "2.0.0", tmp_path / "tiny_headrace" / "2.0.0")
    return tmp_path / "tiny_headrace" / "2.0.0"


@pytest.mark.parametrize("damage", ["cut", "flipped", "lost", "emptied"])
def test_damaged_records_are_noticed(prepared: Path, tmp_path: Path, damage: str) -> None:
    path = copy_of(prepared, tmp_path) / "tiny_headrace-train.tfrecord-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    left = {"cut": len(content) // 2, "emptied": 0}.get(damage, len(content))
    path.write_bytes(content[:left])
    if damage == "lost":
        path.unlink()
    with pytest.raises(DataError) as caught:
        read(source(tmp_path))
    assert caught.value.file == str(path)


def test_a_dataset_without_its_features_is_named(prepared: Path, tmp_path: Path) -> None:
    (copy_of(prepared, tmp_path) / "features.json").unlink()
    with pytest.raises(DataError, match=r"features\.json: .* not exist"):
        open_source(source(tmp_path)).columns()


def test_a_preparation_that_was_cut_off_is_not_taken(prepared: Path, tmp_path: Path) -> None:
    folder = copy_of(prepared, tmp_path)
    folder.rename(folder.with_name("2.0.0.incompleteABCDEF"))
    with pytest.raises(DataError, match="dataset 'tiny_headrace' is not prepared"):
        find_spans(DataConfig(source=source(tmp_path)))


def test_example_gen_writes_all_examples(prepared: Path, tmp_path: Path) -> None:
    config = DataConfig(source=source(prepared, "tiny_headrace:1.*.*"), columns=PLAIN, shards=2)
    found = ingest(config, find_spans(config), tmp_path / "out", lambda _work: serial_map)
    assert sum(found.rows.values()) == 50
    files = sorted(map(str, (tmp_path / "out").rglob("*.gz")))
    rows = [decoded(record.numpy()) for record in tf.data.TFRecordDataset(files, "GZIP")]
    assert sorted(row["id"][0] for row in rows) == sorted([*range(40), *range(10)])
    assert {json.dumps(sorted(row)) for row in rows} == {json.dumps(sorted(PLAIN))}
    assert io.BytesIO(rows[0]["image"][0]).read(4) == b"\x89PNG"


@pytest.mark.parametrize("beam", WITH_BEAM)
def test_a_dataset_gives_the_same_with_beam_and_without(prepared: Path, tmp_path: Path, beam: BeamConfig) -> None:
    config = DataConfig(source=source(prepared, "tiny_headrace:1.*.*"), columns=PLAIN, shards=2)
    same_with_beam(config, tmp_path, direct=beam)

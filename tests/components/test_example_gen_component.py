"""ExampleGen as a component, on the taxi data: against stock CsvExampleGen, and through every reader of the field."""

import csv
import hashlib
import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import beam_here
import pytest
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions
from tfx.components.example_gen.csv_example_gen import executor as stock_executor
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx.utils import proto_utils
from tfx_bsl.tfxio import tf_example_record

from headrace.common.errors import DataError, RunError
from headrace.common.storage.paths import resolve
from headrace.components.example_gen import beam_map, component
from headrace.components.example_gen.beam_map import BeamMap, SignedPickles, local_threads
from headrace.components.example_gen.component import ExampleGen, Executor
from headrace.components.example_gen.ingest import ingest
from headrace.components.example_gen.shards import layout as layout_module
from headrace.components.examples import parts as parts_module
from headrace.components.sources import serial_map
from headrace.components.spans.component import Spans
from headrace.components.spans.find import find_spans
from headrace.components.spans.manifest import SpanManifest, check_unchanged
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import CsvSource

TAXI = "pkg://tfx/examples/chicago_taxi_pipeline/data/big_tipper_label/*.csv"
ROWS = 15_002


def generate(
    folder: Path, path: str = TAXI, beam_args: tuple[str, ...] = (), **data: Any
) -> standard_artifacts.Examples:
    """The artifact that ExampleGen makes of the files of `path`."""
    config = DataConfig(source=CsvSource(kind="csv", path=path), **data)
    folder.mkdir(parents=True, exist_ok=True)
    spans, examples = standard_artifacts.String(), standard_artifacts.Examples()
    spans.uri, examples.uri = str(folder / "spans"), str(folder / "examples")
    spans.write(find_spans(config).to_json())
    context = Executor.Context(make_beam_pipeline_fn=lambda: beam_here.pipeline(*beam_args))
    Executor(context).Do({"spans": [spans]}, {"examples": [examples]}, {"data": config.model_dump_json(by_alias=True)})
    return examples


def shards(examples: standard_artifacts.Examples, split: str) -> list[str]:
    return sorted(map(str, Path(examples.uri, f"Split-{split}").iterdir()))


def records(files: list[str]) -> list[bytes]:
    return [record.numpy() for record in tf.data.TFRecordDataset(files, compression_type="GZIP")]


def canonical(record: bytes) -> bytes:
    """The record with features in order, and a missing value, which stock writes as an empty list, without a kind."""
    example = tf.train.Example.FromString(record)
    for feature in example.features.feature.values():
        kind = feature.WhichOneof("kind")
        if kind and not getattr(feature, kind).value:
            feature.ClearField(kind)
    return example.SerializeToString(deterministic=True)


def digests(folder: str) -> dict[str, str]:
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def large(folder: Path, copies: int = 3) -> str:
    """The taxi data a few times over, every row with another timestamp and a text that needs quotes."""
    (file,) = resolve(TAXI)
    header, *rows = list(csv.reader(io.StringIO(Path(file).read_text(encoding="utf-8"))))
    at, company = header.index("trip_start_timestamp"), header.index("company")
    folder.mkdir()
    for copy in range(copies):
        with open(folder / f"{copy}.csv", "w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out)
            writer.writerow(header)
            for number, row in enumerate(rows):
                changed = {at: str(int(row[at]) + 900 * copy), company: f'{number % 7}, "{row[company]}"\nInc.'}
                writer.writerow([changed.get(place, value) for place, value in enumerate(row)])
    return str(folder / "*.csv")


@pytest.fixture(scope="module")
def taxi(tmp_path_factory: pytest.TempPathFactory) -> standard_artifacts.Examples:
    return generate(tmp_path_factory.mktemp("taxi"))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "SMALLEST_PART", 1 << 20)
    monkeypatch.setattr(parts_module, "LARGEST_PART", 1 << 20)
    monkeypatch.setattr(layout_module, "PARTITION_BYTES", 1 << 20)


def test_the_taxi_examples_are_those_of_stock_csv_example_gen(
    taxi: standard_artifacts.Examples, tmp_path: Path
) -> None:
    (file,) = resolve(TAXI)
    stock = standard_artifacts.Examples()
    stock.uri = str(tmp_path / "stock")
    context = stock_executor.Executor.Context(make_beam_pipeline_fn=beam_here.pipeline)
    stock_executor.Executor(context).Do(
        {},
        {"examples": [stock]},
        {
            "input_base": str(Path(file).parent),
            "input_config": proto_utils.proto_to_json(
                example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern="*.csv")])
            ),
            "output_config": proto_utils.proto_to_json(example_gen_pb2.Output()),
            "output_data_format": example_gen_pb2.FORMAT_TF_EXAMPLE,
        },
    )
    ours = [record for split in ("train", "eval", "test") for record in records(shards(taxi, split))]
    theirs = records(shards(stock, "all"))
    assert len(ours) == ROWS
    assert sorted(ours) == sorted(map(canonical, theirs))


def test_the_artifact_says_what_is_in_it(taxi: standard_artifacts.Examples) -> None:
    rows = json.loads(taxi.get_string_custom_property("rows"))
    assert artifact_utils.decode_split_names(taxi.split_names) == ["train", "eval", "test"] == list(rows)
    assert rows == {split: len(records(shards(taxi, split))) for split in rows}
    assert sum(rows.values()) == ROWS
    assert rows["train"] / ROWS == pytest.approx(0.8, abs=0.01)
    assert json.loads(taxi.get_string_custom_property("types"))["payment_type"] == "string"
    assert "wrote train 1 x" in taxi.get_string_custom_property("plan")
    assert taxi.get_string_custom_property("payload_format") == "FORMAT_TF_EXAMPLE"
    assert [Path(file).name for file in shards(taxi, "eval")] == ["data_tfrecord-00000-of-00001.gz"]


def gzip_members(file: str) -> int:
    return Path(file).read_bytes().count(b"\x1f\x8b\x08\x00\x00\x00\x00\x00")


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_every_reader_of_the_field_reads_shards_made_of_several_pieces(
    tmp_path: Path, small_parts: None, compression: str
) -> None:
    examples = generate(tmp_path, large(tmp_path / "in"), shards=2, compression=compression)
    files = shards(examples, "train")
    expected = json.loads(examples.get_string_custom_property("rows"))["train"]
    ending = ".gz" if compression == "gzip" else ""
    assert [Path(file).name for file in files] == [f"data_tfrecord-0000{i}-of-00002{ending}" for i in (0, 1)]
    assert max(map(gzip_members, files)) > 2 or compression == "none"
    options = tf.io.TFRecordOptions(compression_type="GZIP" if compression == "gzip" else "")
    assert sum(1 for file in files for _ in tf.compat.v1.io.tf_record_iterator(file, options)) == expected
    counts: list[int] = []
    for source in (
        "Beam" >> beam.io.ReadFromTFRecord(f"{examples.uri}/Split-train/*") | "One" >> beam.Map(lambda _: 1),
        "TFXIO" >> tf_example_record.TFExampleRecord(f"{examples.uri}/Split-train/*").BeamSource()
        | "Rows" >> beam.Map(lambda batch: batch.num_rows),
    ):
        with beam_here.pipeline() as pipeline:
            out = tmp_path / str(len(counts))
            _ = (
                pipeline
                | source
                | beam.CombineGlobally(sum)
                | beam.Map(str)
                | beam.io.WriteToText(str(out), "", shard_name_template="")
            )
        counts.append(int(out.read_text()))
    assert counts == [expected, expected]


def test_shards_are_the_same_bytes_for_any_workers_and_any_run(
    tmp_path: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = large(tmp_path / "in")
    threads = ("--direct_num_workers=2", "--direct_running_mode=multi_threading")
    once = digests(generate(tmp_path / "a", path, shards=3).uri)
    assert len(once) == 9
    assert digests(generate(tmp_path / "b", path, shards=3).uri) == once
    assert digests(generate(tmp_path / "c", path, threads, shards=3).uri) == once
    monkeypatch.setattr(component, "FORK_BYTES", 0)
    assert digests(generate(tmp_path / "d", path, threads, shards=3).uri) == once


def test_shards_of_a_split_differ_in_size_by_less_than_a_tenth(tmp_path: Path) -> None:
    examples = generate(tmp_path, shards=10)
    for split in ("train", "eval", "test"):
        sizes = [Path(file).stat().st_size for file in shards(examples, split)]
        assert len(sizes) == 10
        assert min(sizes) > 0.9 * max(sizes)


def test_more_shards_than_rows_leaves_readable_empty_shards(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a\n" + "".join(f"{i}\n" for i in range(60)))
    examples = generate(tmp_path / "out", str(tmp_path / "f.csv"), shards=30)
    files = [file for split in ("train", "eval", "test") for file in shards(examples, split)]
    assert len(files) == 90
    values = [tf.train.Example.FromString(r).features.feature["a"].int64_list.value[0] for r in records(files)]
    assert sorted(values) == list(range(60))


def test_a_missing_value_is_a_feature_without_a_kind(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("i,f,s,none\n" + "".join(f"{i},{i}.5,s{i},\n" for i in range(50)) + ",,,\n" * 1)
    examples = generate(tmp_path / "out", str(tmp_path / "f.csv"), splits={"train": 1, "eval": 1})
    found = [
        tf.train.Example.FromString(r).features.feature for s in ("train", "eval") for r in records(shards(examples, s))
    ]
    (missing,) = [feature for feature in found if not feature["s"].bytes_list.value]
    assert {name: missing[name].WhichOneof("kind") for name in missing} == dict.fromkeys(("i", "f", "s", "none"))


def test_rows_of_one_key_share_a_split(tmp_path: Path) -> None:
    examples = generate(tmp_path, split_key="company")
    splits = [
        {
            tuple(tf.train.Example.FromString(r).features.feature["company"].bytes_list.value)
            for r in records(shards(examples, s))
        }
        for s in ("train", "eval", "test")
    ]
    assert {values for a, b in ((0, 1), (0, 2), (1, 2)) for values in splits[a] & splits[b]} == {()}  # are in no group


def test_an_error_in_one_of_many_parts_crosses_beam_with_its_place(tmp_path: Path, small_parts: None) -> None:
    path = large(tmp_path / "in")
    with open(tmp_path / "in" / "1.csv", "a", encoding="utf-8") as file:
        file.write("1,2,3\n")
    with open(tmp_path / "in" / "2.csv", "a", encoding="utf-8") as file:
        file.write("1,2\n")
    with pytest.raises(DataError, match="3 fields") as caught:
        generate(tmp_path / "out", path)
    assert (Path(str(caught.value.file)).name, caught.value.line) == ("1.csv", 2 * ROWS + 2)
    assert not list((tmp_path / "out" / "examples").iterdir())


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("a\n1\n")
    manifest = SpanManifest.of([str(file)])
    check_unchanged(manifest.spans[0], checksums=False)
    file.write_text("a\n1\n2\n")
    assert SpanManifest.of([str(file)]).fingerprint != manifest.fingerprint
    with pytest.raises(DataError, match="changed during the run"):
        check_unchanged(manifest.spans[0], checksums=False)


def test_the_manifest_survives_its_artifact(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv"):
        (tmp_path / name).write_text("a\n1\n")
    manifest = find_spans(DataConfig(source=CsvSource(kind="csv", path=str(tmp_path / "*.csv"))))
    reported = json.loads(manifest.to_json())
    assert [Path(file["path"]).name for file in reported["spans"][0]["files"]] == ["a.csv", "b.csv"]
    assert reported["fingerprint"] == manifest.fingerprint
    assert SpanManifest.from_json(manifest.to_json()) == manifest


def test_a_file_that_changes_before_it_is_read_leaves_no_examples(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a\n" + "1\n2\n3\n" * 50)
    manifest = SpanManifest.of([str(path)])
    path.write_text("a\n" + "1\n2\n3\n4\n" * 50)
    config = DataConfig(source=CsvSource(kind="csv", path=str(path)))
    with pytest.raises(DataError, match="changed during the run"):
        ingest(config, manifest, tmp_path / "out", lambda _work: serial_map)
    assert not list((tmp_path / "out").iterdir())


def test_an_edit_to_the_schema_changes_the_parameters(tmp_path: Path) -> None:
    spans = Spans(data=DataConfig(source=CsvSource(kind="csv", path=TAXI)).model_dump_json()).outputs["spans"]
    data = DataConfig.model_validate({"source": {"kind": "csv", "path": TAXI}, "schema": str(tmp_path / "s.pbtxt")})
    digests_ = []
    for text in ("", 'feature {name: "fare" type: FLOAT}'):
        (tmp_path / "s.pbtxt").write_text(text)
        digests_.append(ExampleGen(spans, data.model_dump_json(by_alias=True)).exec_properties["schema_digest"])
    assert digests_[0] != digests_[1]


def test_the_components_connect() -> None:
    data = DataConfig(source=CsvSource(kind="csv", path=TAXI)).model_dump_json(by_alias=True)
    spans = Spans(data=data)
    examples = ExampleGen(spans=spans.outputs["spans"], data=data)
    assert examples.id == "ExampleGen"
    assert examples.outputs["examples"].type is standard_artifacts.Examples


def parallel_map_of(work: Path, *args: str) -> BeamMap:
    def pipeline() -> beam.Pipeline:
        return beam.Pipeline(options=PipelineOptions(args))

    return BeamMap(pipeline, work, local_threads(pipeline))


@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner"])
def test_tasks_give_their_results_in_order_through_threads_and_through_beam(tmp_path: Path, runner: str) -> None:
    args = [f"--runner={runner}", "--direct_num_workers=3", "--direct_running_mode=multi_threading"]
    parallel_map = parallel_map_of(tmp_path, *args)
    assert parallel_map.takes_small_work == (runner == "FnApiRunner")
    assert parallel_map("Squares", lambda number: number**2, range(20)) == [number**2 for number in range(20)]


@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner"])
def test_the_error_of_the_first_task_in_order_is_raised(tmp_path: Path, runner: str) -> None:
    def fail(number: int) -> None:
        if number in {7, 12}:
            raise DataError(f"task {number}")

    args = [f"--runner={runner}", "--direct_num_workers=3", "--direct_running_mode=multi_threading"]
    parallel_map = parallel_map_of(tmp_path, *args)
    with pytest.raises(DataError, match="task 7"):
        parallel_map("Fail", fail, range(20))


def test_result_that_no_worker_of_the_run_wrote_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where workers write to a volume, others may put files into its folders."""
    monkeypatch.chdir(tmp_path)

    class Foreign:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.system, ("touch loaded",))

    def swapped(path: Path, seal: SignedPickles) -> object:
        path.write_bytes(bytes(32) + pickle.dumps(Foreign()))
        return read(path, seal)

    read = beam_map._result
    monkeypatch.setattr(beam_map, "_result", swapped)
    parallel_map = parallel_map_of(tmp_path, "--runner=BundleBasedDirectRunner")
    with pytest.raises(RunError, match=r"Squares/0 was not written by a Beam worker"):
        parallel_map("Squares", lambda number: number**2, range(3))
    assert not Path("loaded").exists()


def test_results_of_two_tasks_cannot_change_places(tmp_path: Path) -> None:
    seal = SignedPickles(b"key")
    for name in ("0", "1"):
        seal.write(tmp_path / name, f"result {name}")
    assert seal.read(tmp_path / "1") == "result 1"
    (tmp_path / "1").write_bytes((tmp_path / "0").read_bytes())
    with pytest.raises(RunError, match="1 was not written"):
        seal.read(tmp_path / "1")

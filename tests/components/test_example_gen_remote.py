"""ExampleGen from an object store: what it writes, and what it does when the objects change."""

import gzip
import hashlib
import json
from pathlib import Path

import beam_here
import pytest
from stores import Bucket
from tfx.types import standard_artifacts

from headrace.common.errors import DataError
from headrace.common.storage.files import resolve
from headrace.components.example_gen.component import Executor
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples import parts as parts_module
from headrace.components.sources import open_source, serial_map
from headrace.components.spans.find import find_spans
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import CsvSource

HEAD = "id,text,number\n"


def rows(first: int, count: int = 4000) -> str:
    return HEAD + "".join(f'{i},"text, {i}\nmore",{i / 2}\n' for i in range(first, first + count))


FILES = {"a.csv": rows(0).encode(), "b/c.csv.gz": gzip.compress(rows(4000).encode()), "b/d.csv": rows(8000).encode()}


def config(path: str, **data: object) -> DataConfig:
    return DataConfig.model_validate({"source": {"kind": "csv", "path": path}, **data})


def written(folder: Path, path: str, **data: object) -> tuple[dict[str, str], standard_artifacts.Examples]:
    """The digests of the shards that ExampleGen makes of the files of `path`, and their artifact."""
    folder.mkdir()
    spans, examples = standard_artifacts.String(), standard_artifacts.Examples()
    spans.uri, examples.uri = str(folder / "spans"), str(folder / "examples")
    spans.write(find_spans(config(path, **data)).to_json())
    context = Executor.Context(make_beam_pipeline_fn=beam_here.pipeline)
    parameters = {"data": config(path, **data).model_dump_json(by_alias=True)}
    Executor(context).Do({"spans": [spans]}, {"examples": [examples]}, parameters)
    files = sorted(file for file in Path(examples.uri).rglob("*") if file.is_file())
    return {
        str(file.relative_to(examples.uri)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }, examples


@pytest.fixture
def local(tmp_path: Path) -> str:
    for name, content in FILES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(tmp_path / "in" / "**" / "*.csv*")


@pytest.mark.parametrize("part", [1 << 24, 20_000])
def test_shards_from_an_object_store_are_those_from_local_files(
    bucket: Bucket, local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(parts_module, "SMALLEST_PART", part)
    monkeypatch.setattr(parts_module, "LARGEST_PART", part)
    for name, content in FILES.items():
        bucket.put(name, content)
    expected, _ = written(tmp_path / "local", local, shards=3)
    found, examples = written(tmp_path / "remote", f"{bucket.url}/**/*.csv*", shards=3)
    assert found == expected
    assert sum(json.loads(examples.get_string_custom_property("rows")).values()) == 12_000


def test_checksums_are_the_same_wherever_the_files_lie(s3_bucket: Bucket, local: str) -> None:
    for name, content in FILES.items():
        s3_bucket.put(name, content)
    marks = [
        [file.mark for file in find_spans(config(path, fingerprint="checksums")).spans[0].files]
        for path in (local, f"{s3_bucket.url}/**/*.csv*")
    ]
    assert marks[0] == marks[1] == [hashlib.sha256(content).hexdigest() for content in FILES.values()]


def test_spans_are_found_in_an_object_store(s3_bucket: Bucket) -> None:
    for day in ("2026-11-19", "2026-11-20"):
        s3_bucket.put(f"{day}/a.csv", rows(0, 10))
    manifest = find_spans(config(f"{s3_bucket.url}/{{YYYY}}-{{MM}}-{{DD}}/*.csv", window="all"))
    assert [(span.name, span.paths) for span in manifest.spans] == [
        (day, [f"{s3_bucket.url}/{day}/a.csv"]) for day in ("2026-11-19", "2026-11-20")
    ]


@pytest.mark.parametrize(
    ("content", "reported"), [(rows(1), "the file changed during the run"), (None, "the object does not exist")]
)
def test_an_object_that_changes_before_it_is_read_leaves_no_examples(
    bucket: Bucket, tmp_path: Path, content: str | None, reported: str
) -> None:
    path = bucket.put("a.csv", rows(0))
    manifest = SpanManifest.of(resolve(path))
    if content is None:
        bucket.remove("a.csv")
    else:
        bucket.put("a.csv", content)
    with pytest.raises(DataError, match=reported) as caught:
        ingest(config(path), manifest, tmp_path / "out", lambda _work: serial_map)
    assert caught.value.file == path
    assert not list((tmp_path / "out").rglob("*"))


def test_a_mistake_in_an_object_is_reported_with_its_line(bucket: Bucket, tmp_path: Path) -> None:
    path = bucket.put("a.csv", rows(0) + "7,x\n")
    with pytest.raises(DataError, match="2 fields") as caught:
        ingest(config(path), SpanManifest.of([path]), tmp_path / "out", lambda _work: serial_map)
    assert (caught.value.file, caught.value.line) == (path, 8002)


def test_a_header_is_read_from_the_start_of_a_large_object(bucket: Bucket) -> None:
    path = bucket.put("a.csv", rows(0, 100_000))
    assert open_source(CsvSource(kind="csv", path=path)).columns() == ["id", "text", "number"]

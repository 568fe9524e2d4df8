"""What a run predicts, and the file that it puts the predictions into, here and in a pod of Kubeflow.

BulkPredictor itself is tested with a pushed model in tests/integration/test_predict_runs.py.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_metadata.proto import metadata_store_pb2 as mlmd

from headrace.common.checksums import checksum
from headrace.common.errors import DataError, RunError
from headrace.components.bulk_predictor.publishing import find_model_in_service, list_new_data, publish_predictions
from headrace.components.bulk_predictor.record import ROWS, SKIPPED, PublishedPredictions
from headrace.components.spans.manifest import SpanManifest
from headrace.components.spans.patterns import match_files, path_of_span
from headrace.components.stored_models.blessed_record import EXISTS, MadeFor, Registry
from headrace.components.stored_models.blessing import record_blessing
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.schema.data import DataConfig
from headrace.pipeline.kubeflow.pod.invocation import state_paths
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.local.light import LightArtifact
from headrace.pipeline.local.wire import StoredArtifact


def artifact(path: Path) -> LightArtifact:
    return LightArtifact(StoredArtifact(mlmd.Artifact(uri=str(path)), mlmd.ArtifactType()))


def text(path: Path, value: str = "") -> LightArtifact:
    made = artifact(path)
    made.value = value
    return made


class Publication:
    """The inputs and outputs of PublishPredictions in a folder."""

    def __init__(self, folder: Path, content: bytes | None = b"id,prediction\n7,1\n", span: int = 0) -> None:
        self.folder = folder
        (folder / "artifact").mkdir(exist_ok=True)
        (folder / "new.csv").write_text("id\n7\n")
        if content is not None:
            (folder / "artifact" / "predictions.csv").write_bytes(content)
        self.predictions = artifact(folder / "artifact")
        self.predictions.set_int_custom_property(ROWS, 1)
        self.predictions.set_int_custom_property(SKIPPED, 2)
        manifest = SpanManifest.of([str(folder / "new.csv")])
        spans = tuple(type(one)(span, one.files, str(span) if span else "") for one in manifest.spans)
        self.spans = text(folder / "spans", SpanManifest(spans).to_json())

    def publish(self, to: Path | str, version: str | None = None, home: Path | None = None) -> PublishedPredictions:
        """home: the pipeline's folder, in which models are pushed to `serving`."""
        published, by = text(self.folder / "published"), text(self.folder / "by", version or "")
        pushes = (str(home / "pushed.json"), str(home / "serving")) if home else ()
        given = (self.predictions, artifact(Path("/model")), self.spans, published, str(to))
        publish_predictions(*given, None if version is None else by, *pushes)
        return PublishedPredictions.model_validate_json(published.value)


def test_the_file_appears_under_its_name_with_a_record_of_who_wrote_it(tmp_path: Path) -> None:
    one = Publication(tmp_path)
    done = one.publish(tmp_path / "scored" / "out.csv", "1795634827")
    assert (tmp_path / "scored" / "out.csv").read_bytes() == b"id,prediction\n7,1\n"
    assert [path.name for path in (tmp_path / "scored").iterdir()] == ["out.csv"]
    assert done == PublishedPredictions(
        output=f"{tmp_path}/scored/out.csv", rows=1, skipped=2, version="1795634827", model="/model", changed=True
    )
    assert done.words == "1 rows by version 1795634827, 2 unreadable ones left out"


@pytest.mark.parametrize("by", ["17", "16", ""])
def test_predictions_never_replace_those_of_a_version_that_came_into_service_later(tmp_path: Path, by: str) -> None:
    """As where two runs on Kubeflow end together, and the one that was overtaken predicts for longer."""
    one, home, out = Publication(tmp_path), Blessed(tmp_path / "home", 2).home, tmp_path / "out.csv"
    assert one.publish(out, by, home).changed  # nothing there could be of a later version
    out.write_bytes(b"id,prediction\n7,0\n")
    done = one.publish(out, by, home)
    assert (done.changed, done.later) == ((True, None) if by == "17" else (False, "17"))
    assert out.read_bytes() == (b"id,prediction\n7,1\n" if by == "17" else b"id,prediction\n7,0\n")
    assert ("version 17 came into service meanwhile" in done.words) is (by != "17")


@pytest.mark.parametrize("version", ["", None])
def test_a_model_that_is_not_pushed_has_no_version(tmp_path: Path, version: str | None) -> None:
    done = Publication(tmp_path).publish(tmp_path / "out.csv", version)
    assert done.version is None
    assert "newest blessed model" in done.words


def test_a_file_that_has_these_predictions_is_left_alone_and_any_other_is_replaced(tmp_path: Path) -> None:
    one, out = Publication(tmp_path), tmp_path / "out.csv"
    assert one.publish(out).changed
    before = out.stat()
    assert not one.publish(out).changed
    assert (out.stat().st_ino, out.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    out.write_bytes(b"id,prediction\n7,0\n")  # of the same size
    assert one.publish(out).changed
    assert out.read_bytes() == b"id,prediction\n7,1\n"


def test_without_a_model_nothing_is_written_and_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("before")
    done = Publication(tmp_path, content=None).publish(tmp_path / "out.csv")
    assert (done.output, "no model is blessed yet" in done.words) == (None, True)
    assert (tmp_path / "out.csv").read_text() == "before"


def test_the_newest_span_is_in_the_name(tmp_path: Path) -> None:
    done = Publication(tmp_path, span=42).publish(tmp_path / "{SPAN:4}.csv")
    assert (done.output, done.spans) == (f"{tmp_path}/0042.csv", ("42",))


@pytest.mark.parametrize(("taken", "words"), [("new.csv", "one of the files"), ("artifact", "it is a folder")])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, taken: str, words: str) -> None:
    with pytest.raises(RunError, match=words) as caught:
        Publication(tmp_path).publish(tmp_path / taken)
    assert f"predict.output: {tmp_path / taken}" in str(caught.value)


@given(st.dates(dt.date(1970, 1, 1)), st.integers(0, 10**9))
def test_the_path_of_a_span_is_one_that_is_found_as_this_span(day: dt.date, number: int) -> None:
    for pattern, span in (("a/{YYYY}/{MM}-{DD}.csv", (day - dt.date(1970, 1, 1)).days), ("a/{SPAN:3}.csv", number)):
        (found,) = match_files(pattern, [path_of_span(pattern, span)])
        assert found.span == span


class Blessed:
    """A pipeline's folder with blessed models, the first of which is pushed."""

    def __init__(self, folder: Path, models: int) -> None:
        folder.mkdir(exist_ok=True)
        self.home, self.serving = folder, folder / "serving"
        for number in range(models):
            self.bless(number)
        if models:
            entry = Registry.read(folder / "blessed.json").models[0]
            (self.serving / "17").mkdir(parents=True)
            PushRecord().write(folder / "pushed.json", entry, self.serving / "17")

    def bless(self, number: int) -> None:
        model = self.home / f"model-{number}"
        (model / "Format-Serving").mkdir(parents=True)
        (model / "Format-Serving" / "saved_model.pb").write_text(f"{number}")
        now = dt.datetime(2026, 11, 20 + number, tzinfo=dt.UTC)
        label = MadeFor(label="{}", columns={})
        record_blessing(self.home / "blessed.json", str(model), now, label, checksum(model))

    def find(self, *, pushes: bool = True, after_push: bool = False) -> tuple[str, str]:
        """The name of the model's folder, and its version; empty if there is none."""
        newest, version = artifact(self.home / "newest"), text(self.home / "version")
        paths = str(self.home / "blessed.json"), str(self.home / "pushed.json")
        pushed = artifact(self.home / "pushed") if after_push else None
        find_model_in_service(newest, version, *paths, str(self.serving) if pushes else "", pushed)
        return Path(newest.uri).name if newest.get_int_custom_property(EXISTS) else "", version.value


@pytest.mark.parametrize("after_push", [False, True])
def test_the_model_in_service_is_the_one_pushed_last_even_if_another_was_blessed_since(
    tmp_path: Path, *, after_push: bool
) -> None:
    one = Blessed(tmp_path, 2)
    assert one.find(after_push=after_push) == ("model-0", "17")
    rolled_back = Registry.read(tmp_path / "blessed.json").rolled_back_to(f"{tmp_path}/model-0", "2026-11-22T00:00:00Z")
    rolled_back.write(tmp_path / "blessed.json")
    assert one.find(after_push=after_push) == ("model-0", "17")


def test_a_run_without_a_blessed_model_predicts_nothing_and_goes_on(tmp_path: Path) -> None:
    one = Blessed(tmp_path, 0)
    assert one.find(after_push=True) == ("", "")
    waiting = MadeFor(label="{}", columns={})
    record_blessing(tmp_path / "blessed.json", "/m", dt.datetime.now(dt.UTC), waiting, awaits_approval=True)
    assert one.find(after_push=True) == ("", "")


def test_a_run_does_not_predict_with_a_damaged_model_in_service(tmp_path: Path) -> None:
    one = Blessed(tmp_path, 1)
    (tmp_path / "model-0" / "Format-Serving" / "saved_model.pb").write_text("1")
    with pytest.raises(RunError, match="model-0 is damaged") as caught:
        one.find(after_push=True)
    assert "predict.only" not in str(caught.value)


def test_a_pod_finds_the_last_push_where_another_sees_the_storage_at_another_path(tmp_path: Path) -> None:
    one = Blessed(tmp_path / "there", 2)
    one.home = one.home.rename(tmp_path / "here")
    one.serving = one.home / "serving"
    assert one.find() == ("model-0", "17")


def test_where_nothing_is_pushed_the_newest_blessed_model_predicts(tmp_path: Path) -> None:
    assert Blessed(tmp_path, 2).find(pushes=False) == ("model-1", "")


def test_without_a_usable_model_a_pipeline_that_only_predicts_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no model is blessed yet") as caught:
        Blessed(tmp_path / "none", 0).find()
    assert "without `predict.only`" in str(caught.value)
    damaged = Blessed(tmp_path / "one", 1)
    (tmp_path / "one" / "model-0" / "Format-Serving" / "saved_model.pb").write_text("1")
    with pytest.raises(RunError, match="model-0 is damaged"):
        damaged.find()
    (tmp_path / "one" / "blessed.json").unlink()
    with pytest.raises(RunError, match="version 17 is not in the list"):
        damaged.find()


def list_days(folder: Path, as_of: str, days: list[str]) -> list[str]:
    for day in days:
        (folder / f"{day}.csv").write_text("id\n1\n")
    source = {"kind": "csv", "path": f"{folder}/{{YYYY}}-{{MM}}-{{DD}}.csv"}
    data = DataConfig.model_validate({"source": source, "window": 2}).model_dump_json(by_alias=True)
    spans = text(folder / "spans")
    list_new_data(spans, data, as_of=text(folder / "as_of", as_of))
    return [span.name for span in SpanManifest.from_json(spans.value).spans]


@pytest.mark.parametrize(
    ("as_of", "listed"),
    [
        ("2026-11-21", ["2026-11-20", "2026-11-21"]),
        ("2026-11-20", ["2026-11-19", "2026-11-20"]),
        ("", ["2026-11-21", "2026-11-22"]),
    ],
)
def test_days_after_that_of_the_run_are_not_predicted(tmp_path: Path, as_of: str, listed: list[str]) -> None:
    assert list_days(tmp_path, as_of, ["2026-11-19", "2026-11-20", "2026-11-21", "2026-11-22"]) == listed


def test_a_run_before_the_first_day_of_new_data_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2026-11-18"):
        list_days(tmp_path, "2026-11-18", ["2026-11-19"])


def test_a_pod_without_a_disk_of_its_own_leaves_the_file_in_the_object_store(tmp_path: Path) -> None:
    """Two pods, one after the other, each with an empty disk; the second has nothing to do."""
    store = Store({}, str(tmp_path / "store"))
    uri = "minio://mlpipeline/taxi/scored/out.csv"
    for pod, changed in (("first", True), ("second", False)):
        paths = PodPaths(str(tmp_path / pod))
        to = str(paths.local(uri))
        assert state_paths({"publish_to": to}).predictions == Path(to)
        (tmp_path / f"{pod}-work").mkdir()
        one = Publication(tmp_path / f"{pod}-work")
        with present({"publish_to": to}, paths, store):
            assert one.publish(to).changed is changed
        assert store.text(uri) == "id,prediction\n7,1\n"
        written = store.listing(uri.rpartition("/")[0])
        assert list(written) == ["out.csv"]

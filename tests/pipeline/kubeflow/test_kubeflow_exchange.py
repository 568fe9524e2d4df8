"""Artifacts on their way through Kubeflow: paths, properties, and state that the launcher does not copy."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from s3_servers import S3Server
from tfx.types import standard_artifacts

from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.pipeline.kubeflow.pod.exchange import Exchange, set_properties, to_metadata
from headrace.pipeline.kubeflow.pod.invocation import REFERENCE, Invocation, Port, pack, unpack
from headrace.pipeline.kubeflow.pod.parameters import with_parameters
from headrace.pipeline.kubeflow.pod.paths import PodPaths, home_of
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store

HOME = "s3://bucket/trips"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/?#"), min_size=1).filter(lambda text: text.strip("."))


@given(
    st.sampled_from(["gs", "s3", "minio"]), st.lists(NAMES, min_size=1), st.sampled_from(["", "/pod"]), st.booleans()
)
def test_uris_come_back_from_their_paths(scheme: str, parts: list[str], root: str, shared: bool) -> None:
    paths = PodPaths(root, "/volume" if shared else "")
    uri = f"{scheme}://{'/'.join(parts)}"
    assert paths.remote(paths.local(uri)) == uri


def test_paths_are_those_of_the_launcher() -> None:
    assert str(PodPaths().local("gs://bucket/a/b")) == "/gcs/bucket/a/b"
    assert str(PodPaths("", "/headrace").local("minio://bucket/a")) == "/headrace/minio/bucket/a"
    assert PodPaths().remote("/tmp/a") is None
    with pytest.raises(ValueError, match="not in an object store"):
        PodPaths().local("hdfs://bucket/a")


def test_home_is_the_folder_that_all_runs_share() -> None:
    assert home_of("minio://b/v2/artifacts/taxi/run-1/trainer/salt/model") == "minio://b/v2/artifacts/taxi"


def test_properties_survive_metadata_that_has_doubles_only() -> None:
    examples = standard_artifacts.Examples()
    examples.span = 12
    examples.split_names = '["train", "eval"]'
    examples.set_int_custom_property("span", 12)
    examples.set_string_custom_property("rows", '{"train": 3}')
    examples.set_string_custom_property("location", "/minio/b/x")
    reported = to_metadata(examples, lambda text: text.replace("/minio/", "minio://"))
    assert reported["location"] == "minio://b/x"
    doubles = {name: float(value) if isinstance(value, int) else value for name, value in reported.items()}
    back = standard_artifacts.Examples()
    set_properties(back, {**doubles, "display_name": "examples", "store_session_info": "{}"})
    assert (back.span, back.split_names) == (12, examples.split_names)
    assert back.get_int_custom_property("span") == 12
    assert back.get_string_custom_property("rows") == '{"train": 3}'
    assert not back.has_custom_property("display_name")


def exchange(folder: Path, mount: str, raw: Mapping[str, Any] | None = None) -> Exchange:
    """An exchange for a component that makes examples out of examples and a baseline. raw: the input's artifact."""
    best = "" if raw else f"{HOME}/old/t/s/model"
    raw = raw or {"name": "7", "metadata": {"span": 4.0}}
    examples, model = (f"tfx.types.standard_artifacts:{name}" for name in ("Examples", "Model"))
    invocation = Invocation(
        id="Some",
        kind="some",
        executor="some:Executor",
        exec_properties={},
        inputs={"raw": Port(examples), "best": Port(model, REFERENCE)},
        outputs={"examples": Port(examples)},
        beam={},
        storage="reference" if mount else "staged",
        mount=mount,
        store={},
    )
    reported = {
        "inputs": {
            "artifacts": {"raw": {"artifacts": [{**raw, "uri": f"{HOME}/old/t/s/raw"}]}},
            "parameterValues": {"best": json.dumps({"uri": best, "why": ""})},
        },
        "outputs": {
            "artifacts": {"examples": {"artifacts": [{"name": "examples", "uri": f"{HOME}/run/t/s/examples"}]}},
            "outputFile": "/s3/bucket/trips/run/t/s/output_metadata.json",
        },
    }
    (folder / "scratch").mkdir()
    return Exchange(invocation, reported, PodPaths(str(folder), mount), folder / "scratch")


@pytest.mark.parametrize("mount", ["", "/volume"])
def test_artifacts_lie_below_the_volume_where_there_is_one_and_keep_their_uris(tmp_path: Path, mount: str) -> None:
    there, store = exchange(tmp_path, mount), Store({}, str(tmp_path / "store"))
    (tmp_path / "weights").write_text("w")
    store.put(tmp_path / "weights", f"{HOME}/old/t/s/model/weights")
    inputs = there.inputs(store)
    base = f"{tmp_path}{mount}/s3/bucket/trips"
    assert (inputs["raw"][0].uri, inputs["raw"][0].id, inputs["raw"][0].span) == (f"{base}/old/t/s/raw", 7, 4)
    assert inputs["best"][0].uri == f"{base}/old/t/s/model"
    assert inputs["best"][0].get_int_custom_property("exists") == 1
    assert (Path(inputs["best"][0].uri) / "weights").exists() == (not mount)  # on a volume it lies there already
    assert (str(there.home), there.output_uris()) == (base, {"examples": f"{base}/run/t/s/examples"})
    made = standard_artifacts.Examples()
    made.set_string_custom_property("from", f"{base}/old/t/s/raw")
    there.write({"examples": [made]})
    reported = json.loads((tmp_path / "s3/bucket/trips/run/t/s/output_metadata.json").read_text())
    (artifact,) = reported["artifacts"]["examples"]["artifacts"]
    assert artifact["uri"] == f"{HOME}/run/t/s/examples"
    assert artifact["metadata"].pop("headrace_made_from") == '{"old/t/s/raw": {}}'
    assert artifact["metadata"] == {"from": f"{HOME}/old/t/s/raw"}
    # A launcher of a Kubeflow without ML Metadata fails if an output is not there at the path that it has for it.
    assert (tmp_path / "s3/bucket/trips/run/t/s/examples").is_dir()


def test_an_artifact_that_has_an_id_beside_its_name_is_taken_by_its_uri(tmp_path: Path) -> None:
    """As the driver of a Kubeflow without ML Metadata tells of it."""
    raw = {"name": "examples", "artifactId": "0c9f", "type": {"schemaTitle": "Examples"}, "metadata": {"span": 4.0}}
    there = exchange(tmp_path, "", raw)
    (artifact,) = there.inputs(Store({}, str(tmp_path / "store")))["raw"]
    assert (artifact.uri, artifact.id, artifact.span) == (f"{tmp_path}/s3/bucket/trips/old/t/s/raw", 0, 4)


@given(st.text() | st.text(min_size=1).map(lambda text: text * 70_000))
def test_texts_survive_as_arguments_long_ones_too(text: str) -> None:
    argument = pack(text, "text")
    assert len(argument) < 131_072
    assert unpack(argument) == text


def test_a_text_too_long_for_an_argument_is_refused() -> None:
    noise = "".join(random.Random(1).choices("0123456789abcdef", k=400_000))
    with pytest.raises(RunError, match=r"Spans: spans takes 3\d\d,\d{3} characters"):
        pack(noise, "Spans: spans")


def test_a_baseline_that_is_gone_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"the blessed model s3://bucket/trips/old/t/s/model is gone"):
        exchange(tmp_path, "").inputs(Store({}, str(tmp_path / "store")))


def test_what_an_earlier_try_left_on_a_volume_is_removed(tmp_path: Path) -> None:
    half = tmp_path / "volume/s3/bucket/trips/run/t/s/examples/half"
    half.mkdir(parents=True)
    exchange(tmp_path, "/volume").output_uris()
    assert not half.exists()


def test_run_parameters_change_the_settings_that_they_name() -> None:
    data = json.dumps({"source": {"kind": "csv", "path": "a.csv"}, "window": 1, "spans": None})
    changed = with_parameters("Spans", {"data": data}, {"spans": "3..9", "window": "all", "epochs": 4})
    assert json.loads(changed["data"])["spans"] == [3, 9]
    assert json.loads(changed["data"])["window"] == "all"
    assert (
        json.loads(with_parameters("Spans", {"data": data}, {"spans": "2026-11-20"})["data"])["spans"] == "2026-11-20"
    )
    assert with_parameters("Trainer", {"data": data}, {"spans": "3"}) == {"data": data}
    with pytest.raises(RunError, match="the run's parameter spans is 'tomorrow'"):
        with_parameters("Spans", {"data": data}, {"spans": "tomorrow"})


# The object store


@pytest.fixture(scope="module")
def s3(s3_server: S3Server) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, s3_server.bucket("bucket"):
        s3_server.enter(patch)
        yield s3_server.url


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return Store({}, str(tmp_path / "store"))
    return Store({"endpoint": request.getfixturevalue("s3")})


def test_files_come_back_as_they_went_whatever_they_are_called(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "assets").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "assets" / "data.gz").write_bytes(b"not gzip at all")
    (folder / "saved_model.pb").write_bytes(bytes(range(256)) * 1000)
    uri = f"minio://bucket/{tmp_path.name}/model"
    store.put_all(folder, uri)
    assert store.get_all(uri, tmp_path / "back") == 2
    assert (tmp_path / "back" / "assets" / "data.gz").read_bytes() == b"not gzip at all"
    assert (tmp_path / "back" / "saved_model.pb").read_bytes() == (folder / "saved_model.pb").read_bytes()
    assert store.children(uri) == ["assets", "saved_model.pb"]
    assert store.exists(uri)


def test_what_is_not_there_is_not_found(store: Store, tmp_path: Path) -> None:
    uri = f"s3://bucket/{tmp_path.name}/nothing"
    assert not store.exists(uri)
    assert not store.get(uri, tmp_path / "file")
    assert store.get_all(uri, tmp_path / "folder") == 0
    assert store.children(uri) == []


def test_registry_comes_into_the_pod_and_goes_back_when_changed(store: Store, tmp_path: Path) -> None:
    home = f"minio://bucket/{tmp_path.name}/taxi"
    first, second = PodPaths(str(tmp_path / "pod-1")), PodPaths(str(tmp_path / "pod-2"))
    properties = {"registry": str(first.local(f"{home}/blessed.json"))}
    (tmp_path / "weights").write_text("w")
    store.put(tmp_path / "weights", f"{home}/run/trainer/salt/model/weights")
    with present(properties, first, store):
        models = (
            Entry(uri=str(first.local(f"{home}/{name}")), blessed_at=f"2026-11-0{day}T12:00:00+00:00")
            for day, name in enumerate(("gone", "run/trainer/salt/model"), 1)
        )
        Registry(models=tuple(models)).write(Path(properties["registry"]))
    with present({"registry": str(second.local(f"{home}/blessed.json"))}, second, store):
        found = Registry.read(second.local(f"{home}/blessed.json")).models
        assert [Path(entry.uri).is_dir() for entry in found] == [False, True]
        assert second.remote(found[1].uri) == f"{home}/run/trainer/salt/model"


def test_registry_stays_as_it_was_when_the_component_fails(store: Store, tmp_path: Path) -> None:
    paths = PodPaths(str(tmp_path / "pod"))
    uri = f"minio://bucket/{tmp_path.name}/taxi/blessed.json"

    def fail() -> None:
        with present({"registry": str(paths.local(uri))}, paths, store):
            Registry(models=(Entry(uri="/a", blessed_at="now"),)).write(paths.local(uri))
            raise RunError("no")

    with pytest.raises(RunError, match="no"):
        fail()
    assert not store.exists(uri)


def test_pushed_versions_are_known_to_the_next_push_and_new_ones_go_out(store: Store, tmp_path: Path) -> None:
    paths = PodPaths(str(tmp_path / "pod"))
    uri = f"minio://bucket/{tmp_path.name}/serving"
    for version in ("7", "10"):
        (tmp_path / "model").write_text(version)
        store.put(tmp_path / "model", f"{uri}/{version}/saved_model.pb")
    folder = paths.local(uri)
    properties = {"destination": str(folder)}
    with present(properties, paths, store):
        assert sorted(path.name for path in folder.iterdir()) == ["10", "7"]
        assert [path.read_text() for path in folder.rglob("saved_model.pb")] == ["10"]  # to see whether it is the same
        (folder / "11").mkdir()
        (folder / "11" / "saved_model.pb").write_text("new")
    assert store.children(uri) == ["10", "11", "7"]
    assert store.get(f"{uri}/11/saved_model.pb", tmp_path / "got")
    assert (tmp_path / "got").read_text() == "new"

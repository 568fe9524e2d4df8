"""`headrace rollback` and `promote` with `--kubeflow`, in object stores and on a volume: what they leave there."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from command import headrace
from compiled_trips import trips
from ended_runs import BLESSED, EVALUATION
from model_registry import model_registry
from s3_servers import S3Server
from staged_nights import ObjectStore, object_store
from test_stored_models import HOME, ROOT, blessed_and_pushed, trained
from tfx.types import standard_artifacts

from headrace.common.errors import RunError
from headrace.components.deploy.choices import choose_baseline
from headrace.components.deploy.pusher import Pusher
from headrace.components.stored_models.blessed_record import WITHDRAWN, NewestEntry, Registry, inside
from headrace.components.stored_models.blessing import record_blessing
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.model_changes import promote, roll_back
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.records import PUSHES
from headrace.pipeline.kubeflow.pod.state import GRAPH, present
from headrace.pipeline.kubeflow.results_store import volume_store
from headrace.pipeline.kubeflow.store import Store, open_store
from headrace.pipeline.kubeflow.stored_models import stored_models

CONFIG = trips(f"kubeflow.pipeline_root={ROOT}")
SECRET = "Bearer x9Yz8Wv7Ut6Sr5Qp4x9Yz8Wv7Ut6Sr5Qp4"


def nights(store: Store, tmp: Path) -> None:
    """Three blessed models, each pushed."""
    for number, run in enumerate(("run-a", "run-b", "run-c")):
        trained(store, tmp, run, BLESSED)
        model = f"{HOME}/{run}/trainer/5/model/Format-Serving"
        store.write(f"{model}/saved_model.pb", run)
        store.write(f"{model}/variables/data", f"weights of {run}")
        blessed_and_pushed(store, tmp / "pod", run, f"2026-03-0{number + 1}T12:00:00", f"179000000{number}")


def served(store: Store) -> dict[str, dict[str, str]]:
    """The files of each version that has the file that servers wait for."""
    found = {name: store.files(f"{HOME}/serving/trips/{name}") for name in store.children(f"{HOME}/serving/trips")}
    return {
        version: {name: store.text(f"{HOME}/serving/trips/{version}/{name}") for name in files}
        for version, files in found.items()
        if GRAPH in files
    }


def in_service(store: Store) -> str | None:
    return next(model.run for model in stored_models(CONFIG, store, 20) if model.in_service)


def listed(store: Store, pod: Path) -> Registry:
    """As the next pod finds them."""
    paths = PodPaths(str(pod))
    path = paths.local(f"{HOME}/blessed.json")
    with present({"registry": str(path)}, paths, store):
        return Registry.read(path)


def runs_of(registry: Registry, *, withdrawn: bool) -> list[str]:
    return [Path(one.uri).parts[-4] for one in registry.models if bool(one.withdrawn_at) == withdrawn]


@pytest.mark.slow
def test_rolled_back_version_is_complete_recorded_and_registered(
    store: Store, tmp_path: Path, s3_server: S3Server
) -> None:
    nights(store, tmp_path)
    config = yaml.safe_load((Path(__file__).with_name("golden") / "trips.yaml").read_text(encoding="utf-8"))
    config["data"].pop("schema")
    config["features"].pop("kind")
    config["kubeflow"]["pipeline_root"] = ROOT
    with model_registry(token=SECRET) as registry:
        config["deploy"] = {**config.get("deploy", {}), "registry": {"kubeflow": {"url": registry.url}}}
        config["deploy"]["registry"]["kubeflow"]["authorization_env"] = "REGISTRY_TOKEN"
        (tmp_path / "trips.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        environment = {**s3_server.environment, "REGISTRY_TOKEN": SECRET}
        done = headrace(tmp_path, "rollback", "trips.yaml", "--kubeflow", **environment)
        assert done.code == 0, done.err
        states = registry.texts("trips", "headrace.state")
    new = max(served(store), key=int)
    model = f"{HOME}/run-b/trainer/5/model"
    assert done.lines == [
        f"in service  {HOME}/serving/trips/{new}, the model {model}",
        f"withdrawn   {HOME}/run-c/trainer/5/model",
    ]
    assert served(store)[new] == {"saved_model.pb": "run-b", "variables/data": "weights of run-b"}
    assert (states["1790000002"], states[new]) == ("withdrawn", "in_service")
    last = PUSHES.read(f"{HOME}/pushed.json", store).last["serving/trips"]
    assert (last.version, last.uri) == (new, "run-b/trainer/5/model")
    after = listed(store, tmp_path / "next")
    candidate = str(tmp_path / "next/s3/root/runs/trips/run-d/trainer/5/model")
    baseline = choose_baseline(after, candidate).uri
    assert baseline is not None
    assert Path(baseline).parts[-4] == "run-b"

    again = headrace(tmp_path, "rollback", "trips.yaml", "--kubeflow", "--to", "run-c", **s3_server.environment)
    assert again.code == 0, again.err
    assert in_service(store) == "run-c"
    assert runs_of(listed(store, tmp_path / "undone"), withdrawn=True) == []
    refused = headrace(tmp_path, "rollback", "trips.yaml", "--kubeflow", "--to", "17", **s3_server.environment)
    assert refused.code == 1
    assert f"pushed a version 17 to {HOME}/serving/trips" in refused.err
    assert "1790000001" in refused.err


@pytest.mark.slow
def test_a_model_is_downloaded_once(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(store, tmp_path)
    fetched, get_all = list[str](), Store.get_all

    def counted(self: Store, uri: str, folder: Path) -> int:
        fetched.append(uri)
        return get_all(self, uri, folder)

    monkeypatch.setattr(Store, "get_all", counted)
    roll_back(CONFIG, store, None, datetime(2026, 3, 4, tzinfo=UTC))
    assert [uri for uri in fetched if "/trainer/" in uri] == [f"{HOME}/run-b/trainer/5/model"]


@pytest.mark.slow
def test_run_that_read_the_list_before_a_rollback_does_not_undo_it(store: Store, tmp_path: Path) -> None:
    nights(store, tmp_path)
    before = store.text(f"{HOME}/blessed.json")
    roll_back(CONFIG, store, None, datetime(2026, 3, 4, tzinfo=UTC))
    store.write(f"{HOME}/blessed.json", before)
    paths = PodPaths(str(tmp_path / "pod"))
    path = paths.local(f"{HOME}/blessed.json")
    with present({"registry": str(path)}, paths, store):
        model = path.parent / "run-d" / "trainer" / "5" / "model"
        record_blessing(path, str(model), datetime(2026, 3, 5, tzinfo=UTC))
    after = listed(store, tmp_path / "next")
    assert runs_of(after, withdrawn=True) == ["run-c"]
    assert runs_of(after, withdrawn=False) == ["run-a", "run-b", "run-d"]


def push(store: Store, pod: Path, entry: str, *, blessed: bool = True) -> standard_artifacts.PushedModel:
    """The Pusher in a pod of its own. entry: what RecordBlessing gave it; blessed: whether the run's own model is."""
    paths = PodPaths(str(pod))
    home = paths.local(HOME)
    model, blessing, given, pushed = (
        standard_artifacts.Model(),
        standard_artifacts.ModelBlessing(),
        standard_artifacts.String(),
        standard_artifacts.PushedModel(),
    )
    model.uri, given.uri, pushed.uri = str(home / NewestEntry.model_validate_json(entry).uri), f"{pod}/e", f"{pod}/p"
    store.get_all(f"{HOME}/{inside(home, model.uri)}", Path(model.uri))
    blessing.set_int_custom_property("blessed", int(blessed))
    Path(given.uri).write_text(entry, encoding="utf-8")
    given.read()
    properties = {
        "destination": str(home / "serving" / "trips"),
        "keep": 0,
        "push_record": str(home / "pushed.json"),
        "registry": str(home / "blessed.json"),
    }
    with present(properties, paths, store):
        Pusher.EXECUTOR_SPEC.executor_class().Do(
            {"model": [model], "model_blessing": [blessing], "entry": [given]}, {"pushed_model": [pushed]}, properties
        )
    return pushed


@pytest.mark.slow
def test_model_that_was_withdrawn_between_its_blessing_and_its_push_is_not_pushed(store: Store, tmp_path: Path) -> None:
    nights(store, tmp_path)
    trained(store, tmp_path, "run-d", BLESSED)
    paths = PodPaths(str(tmp_path / "record"))
    path = paths.local(f"{HOME}/blessed.json")
    with present({"registry": str(path)}, paths, store):
        record_blessing(path, str(path.parent / "run-d/trainer/5/model"), datetime(2026, 3, 4, tzinfo=UTC))
        (listed,) = (one for one in Registry.read(path).models if "run-d" in one.uri)
    entry = listed.with_paths(lambda uri: inside(path.parent, uri)).model_dump_json()  # as RecordBlessing outputs it
    done = roll_back(CONFIG, store, None, datetime(2026, 3, 5, tzinfo=UTC))
    assert done.withdrawn == tuple(f"{HOME}/{run}/trainer/5/model" for run in ("run-c", "run-d"))
    before = served(store)
    pushed = push(store, tmp_path / "pusher", entry)
    assert (pushed.get_int_custom_property("pushed"), pushed.has_custom_property(WITHDRAWN)) == (0, True)
    assert (served(store), in_service(store)) == (before, "run-b")


def down_after(writes: int) -> Callable[[str, str], str | None]:
    """What the server answers in place of its own answer: 503 to each request that writes, after so many."""
    count = itertools.count()

    def before(method: str, _path: str) -> str | None:
        return "503 Service Unavailable" if method in {"PUT", "POST"} and next(count) >= writes else None

    return before


@pytest.mark.slow  # the store is asked again and again, with pauses
@pytest.mark.parametrize("writes", [4, 10, 16], ids=["in the list", "in the version", "before the record"])
def test_rollback_that_an_outage_broke_off_is_completed_by_the_same_command(
    s3_server: S3Server, tmp_path: Path, writes: int
) -> None:
    server: ObjectStore
    with s3_server.bucket("root"), object_store(s3_server) as server:
        store = open_store({})
        nights(store, tmp_path)
        server.proxy.before = down_after(writes)
        with pytest.raises(OSError, match=r"503|SERVICE"):
            roll_back(CONFIG, store.promptly(), None, datetime.now(UTC))
        server.proxy.before = lambda _method, _path: None
        for files in served(store).values():
            assert files.keys() == {"saved_model.pb"} or files["variables/data"] == "weights of run-b"
        with contextlib.suppress(RunError):  # of the last, which lacks the record alone
            roll_back(CONFIG, store, None, datetime.now(UTC))
        newest = max(served(store), key=int)
        assert served(store)[newest] == {"saved_model.pb": "run-b", "variables/data": "weights of run-b"}
        assert in_service(store) == "run-b"
        assert runs_of(listed(store, tmp_path / "next"), withdrawn=True) == ["run-c"]


def test_a_destination_of_runs_on_this_machine_is_refused(store: Store) -> None:
    with pytest.raises(RunError, match=r"deploy\.push: s3://served/models .*this machine"):
        roll_back(trips("deploy.push=s3://served/models"), store, None, datetime.now(UTC))


def on_volume(volume: Path, *overrides: str) -> PipelineConfig:
    """Of a pipeline whose runs on Kubeflow leave their artifacts on a volume that is mounted here."""
    return trips(
        f"kubeflow.pipeline_root={ROOT}",
        "kubeflow.storage=reference",
        f"kubeflow.volume={{claim: artifacts, path: '{volume}'}}",
        *overrides,
    )


def test_rollback_on_a_mounted_volume_leaves_what_its_pods_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    volume = tmp_path / "volume"
    config = on_volume(volume)
    store = volume_store(str(volume), HOME)
    for number, run in enumerate(("run-a", "run-b")):
        trained(store, tmp_path, run, BLESSED)
        store.write(f"{HOME}/{run}/trainer/5/model/Format-Serving/saved_model.pb", run)
        pushed_on_volume(volume, run, number)
    done = roll_back(config, store, None, datetime.now(UTC))
    assert (done.run, done.withdrawn) == ("run-a", (f"{HOME}/run-b/trainer/5/model",))
    home = PodPaths(mount=str(volume)).local(HOME)
    version = home / "serving" / "trips" / done.version.rpartition("/")[2]
    assert (version / "saved_model.pb").read_text() == "run-a"
    record, newest = PushRecord.read(home / "pushed.json"), Registry.read(home / "blessed.json").newest
    assert newest is not None
    last = record.of(home / "pushed.json", newest, version.parent)
    assert last is not None
    assert last.version == version.name


def test_promotion_on_a_mounted_volume_pushes_the_model_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    volume = tmp_path / "volume"
    config = on_volume(volume, "deploy.approval=manual")
    store, home = volume_store(str(volume), HOME), PodPaths(mount=str(volume)).local(HOME)
    with pytest.raises(RunError, match=r"no model in .* has been blessed yet"):
        promote(config, store, None, datetime.now(UTC))
    assert not home.exists()
    for run in ("run-a", "run-b", "run-c"):
        trained(store, tmp_path, run, BLESSED if run != "run-c" else EVALUATION)
        store.write(f"{HOME}/{run}/trainer/5/model/Format-Serving/saved_model.pb", run)
    pushed_on_volume(volume, "run-a", 0)
    model = home / "run-b" / "trainer" / "5" / "model"
    record_blessing(home / "blessed.json", str(model), datetime(2026, 3, 2, tzinfo=UTC), awaits_approval=True)
    for wanted, why in (("run-c", "is not blessed"), ("run-x", "run-b"), ("run-a", "in service")):
        with pytest.raises(RunError, match=why):
            promote(config, store, wanted, datetime.now(UTC))
    done = promote(config, store, None, datetime.now(UTC))
    assert (done.run, done.withdrawn) == ("run-b", ())
    version = home / "serving" / "trips" / done.version.rpartition("/")[2]
    assert (version / "saved_model.pb").read_text() == "run-b"
    with pytest.raises(RunError, match="no model awaits approval"):
        promote(config, store, None, datetime.now(UTC))


def pushed_on_volume(volume: Path, run: str, number: int) -> None:
    """What RecordBlessing and Pusher leave on a volume."""
    home = PodPaths(mount=str(volume)).local(HOME)
    record_blessing(
        home / "blessed.json", str(home / run / "trainer" / "5" / "model"), datetime(2026, 3, number + 1, tzinfo=UTC)
    )
    folder = home / "serving" / "trips" / f"179000000{number}"
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_text(run)
    newest = Registry.read(home / "blessed.json").models[-1]
    PushRecord.read(home / "pushed.json").write(home / "pushed.json", newest, folder)

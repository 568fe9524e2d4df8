"""`headrace follow-logs`: a folder that follows the logs in a real S3 server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from s3_servers import S3Server

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.store import Store, StoredObject
from headrace.pipeline.kubeflow.store_settings import launcher_settings
from headrace.pipeline.tensorboard.follow import PARTIAL, Follower, LogScan, follow, select
from headrace.pipeline.verbs.tensorboard import follow_logs

EVENTS = "events.out.tfevents.1.host"
MUCH = 1_000_000


@pytest.fixture(scope="module")
def server(s3_server: S3Server) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, s3_server.bucket("bucket"):
        s3_server.enter(patch)
        yield s3_server.url


@pytest.fixture
def store(server: str) -> Store:
    return Store({"endpoint": server})


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"s3://bucket/{tmp_path.name}"


@pytest.fixture
def put(store: Store, root: str, tmp_path: Path) -> Callable[..., str]:
    """Put a file of a training of the pipeline `taxi` there; its URI."""

    def put(run: str, name: str = f"train/{EVENTS}", text: str = "log", task: str = "trainer/7") -> str:
        (tmp_path / "file").write_text(text)
        uri = f"{root}/taxi/{run}/{task}/model_run/{name}"
        store.put(tmp_path / "file", uri)
        return uri

    return put


def there(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_logs_and_nothing_else_are_copied_and_what_is_there_is_not_copied_again(
    store: Store, root: str, put: Callable[..., str], tmp_path: Path
) -> None:
    put("run-1", text="curve")
    put("run-1", f"eval/{EVENTS}", "other")
    put("run-1", "train/plugins/profile/1/host.xplane.pb", "profile")
    put("run-1", "training.json", "{}")
    folder = tmp_path / "logs"
    first = Follower(store, root, folder, MUCH).scan()
    expected = {
        f"taxi/run-1/train/{EVENTS}": "curve",
        f"taxi/run-1/eval/{EVENTS}": "other",
        "taxi/run-1/train/plugins/profile/1/host.xplane.pb": "profile",
    }
    assert there(folder) == expected
    assert first == LogScan(copied=3, size=17, removed=0, files=3, left_out=0)
    numbers = {path: path.stat().st_ino for path in folder.rglob("*") if path.is_file()}
    after_restart = Follower(store, root, folder, MUCH)
    assert after_restart.scan() == LogScan(0, 0, 0, 3, 0)
    assert {path: path.stat().st_ino for path in folder.rglob("*") if path.is_file()} == numbers


def test_new_changed_and_removed_logs_are_followed(
    store: Store, root: str, put: Callable[..., str], tmp_path: Path
) -> None:
    gone, folder = put("run-1"), tmp_path / "logs"
    put("run-2", text="short")
    follower = Follower(store, root, folder, MUCH)
    follower.scan()
    store.remove(gone)
    put("run-2", text="now longer")
    put("run-3", text="new")
    assert follower.scan() == LogScan(copied=2, size=13, removed=1, files=2, left_out=0)
    assert there(folder) == {f"taxi/run-2/train/{EVENTS}": "now longer", f"taxi/run-3/train/{EVENTS}": "new"}
    assert not (folder / "taxi/run-1").exists()


def test_a_file_that_goes_while_it_is_looked_for_is_left_out(
    store: Store, root: str, put: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, folder = put("run-1"), tmp_path / "logs"
    put("run-2")
    listing = store.listing(root)
    store.remove(gone)
    monkeypatch.setattr(store, "listing", lambda _: listing)
    assert Follower(store, root, folder, MUCH).scan() == LogScan(1, 3, 0, 1, 0)
    assert list(there(folder)) == [f"taxi/run-2/train/{EVENTS}"]


def test_a_file_that_came_half_is_never_shown(
    store: Store, root: str, put: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("run-1", text="the whole of it")
    folder, get = tmp_path / "logs", store.get
    seen: list[dict[str, str]] = []

    def half(_: str, path: Path) -> bool:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the wh", encoding="utf-8")
        seen.append(there(folder))
        if len(seen) == 1:
            raise OSError("connection lost")
        return True

    monkeypatch.setattr(store, "get", half)
    follower = Follower(store, root, folder, MUCH)
    with pytest.raises(OSError, match="connection lost"):
        follower.scan()
    assert follower.scan() == LogScan(0, 0, 0, 0, 0)
    assert [set(files) for files in seen] == [{f"{PARTIAL}/copy"}] * 2  # where TensorBoard sees no log
    assert there(folder) == {}
    (folder / PARTIAL).mkdir(exist_ok=True)
    (folder / PARTIAL / "copy").write_text("of a follower that was killed")
    monkeypatch.setattr(store, "get", get)
    Follower(store, root, folder, MUCH).scan()
    assert there(folder) == {f"taxi/run-1/train/{EVENTS}": "the whole of it"}


def test_what_tensorboard_computes_of_a_profile_goes_with_it_and_when_it_grows_too_large(
    store: Store, root: str, put: Callable[..., str], tmp_path: Path
) -> None:
    profile, folder = put("run-1", "train/plugins/profile/1/host.xplane.pb", "profile"), tmp_path / "logs"
    put("run-2", "train/plugins/profile/2/host.xplane.pb", "profile")
    follower = Follower(store, root, folder, 100)
    follower.scan()
    for run, text in (("1", "short"), ("2", "short")):
        (folder / f"taxi/run-{run}/train/plugins/profile/{run}/host.SSTABLE").write_text(text)
    assert follower.scan().removed == 0
    assert len(there(folder)) == 4
    store.remove(profile)
    assert follower.scan() == LogScan(0, 0, 1, 1, 0)
    assert {path.name for path in (folder / "taxi").iterdir()} == {"run-2"}
    made = folder / "taxi/run-2/train/plugins/profile/2/host.SSTABLE"
    made.write_text("x" * 26)
    follower.scan()
    assert not made.exists()
    assert list(there(folder)) == ["taxi/run-2/train/plugins/profile/2/host.xplane.pb"]


def listed(**trainings: tuple[int, float]) -> dict[str, StoredObject]:
    return {
        f"taxi/{run}/trainer/7/model_run/train/{EVENTS}": StoredObject(*reported) for run, reported in trainings.items()
    }


def test_the_newest_trainings_that_fit_are_shown_whole() -> None:
    listing = listed(old=(40, 1.0), huge=(900, 2.0), older=(10, 0.5), new=(50, 3.0))
    listing[f"taxi/old/trainer/7/model_run/eval/{EVENTS}"] = StoredObject(20, 1.0)
    wanted, left_out = select(listing, 100)
    assert sorted(wanted) == [f"taxi/{run}/train/{EVENTS}" for run in ("new", "older")]
    assert left_out == 2
    assert select(listing, 1020)[1] == 0


def test_trainings_of_one_run_are_distinguished_and_a_root_within_a_pipeline_does_too() -> None:
    twice = {
        f"taxi/run/{task}/model_run/train/{EVENTS}": StoredObject(1, 1.0)
        for task in ("trainer/7", "trainer/8", "trainer-2/9")
    }
    assert sorted(select(twice, MUCH)[0]) == [
        f"taxi/run/{task}/train/{EVENTS}" for task in ("trainer-2/9", "trainer/7", "trainer/8")
    ]
    assert list(select({f"run/trainer/7/model_run/train/{EVENTS}": StoredObject(1, 1.0)}, MUCH)[0]) == [
        f"run/train/{EVENTS}"
    ]
    assert list(select({f"trainer/7/model_run/train/{EVENTS}": StoredObject(1, 1.0)}, MUCH)[0]) == [
        f"trainer/7/train/{EVENTS}"
    ]
    assert list(select({f"elsewhere/{EVENTS}": StoredObject(1, 1.0)}, MUCH)[0]) == [f"elsewhere/{EVENTS}"]


def test_no_name_in_the_store_leads_out_of_the_folder() -> None:
    names = ("../x", "a/../../x", "/x", "a//x", ".", PARTIAL)
    assert select({f"{name}/{EVENTS}": StoredObject(1, 1.0) for name in names}, MUCH) == ({}, 0)


def test_a_store_that_fails_is_reported_once_and_asked_again_with_a_pause_as_long_as_the_look(tmp_path: Path) -> None:
    change = LogScan(1, 3_000_000, 0, 1, 2)
    answers: list[LogScan | OSError] = [OSError("no route"), OSError("no route"), change, LogScan(0, 0, 0, 1, 2)]
    times = iter([0.0, 1, 1, 1, 2, 6, 6, 1000])
    reported: list[str] = []
    pauses: list[float | None] = []

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return not answers

    def look() -> LogScan:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    follow(look, 5, Ended(), reported.append, lambda: next(times))
    assert reported == [
        "the store cannot be read; trying again: no route",
        "copied 1 file (3.0 MB), removed 0; 1 in the folder; trainings that did not fit: 2",
    ]
    assert pauses == [9, 5, 36, 600]


# Kubeflow's own settings


def settings(folder: Path, providers: str, root: str = "") -> tuple[str, dict[str, str]]:
    (folder / "providers").write_text(providers)
    (folder / "defaultPipelineRoot").write_text(root)
    return launcher_settings(folder, None)


def test_an_installation_that_says_nothing_has_its_own_store(tmp_path: Path) -> None:
    expected = ("minio://mlpipeline/v2/artifacts", {"endpoint": "http://seaweedfs.kubeflow:9000"})
    assert launcher_settings(tmp_path, None) == launcher_settings(None, None) == expected
    assert launcher_settings(None, "s3://bucket/root") == ("s3://bucket/root", {})


def test_the_store_of_the_root_is_found_as_the_launcher_finds_it(tmp_path: Path) -> None:
    override = "{bucketName: b, keyPrefix: a/, endpoint: 'near:9000', disableSSL: true, credentials: {fromEnv: true}}"
    text = f"s3: {{default: {{endpoint: far.example, region: eu-1, credentials: {{}}}}, Overrides: [{override}]}}"
    assert settings(tmp_path, text, "s3://b/a") == ("s3://b/a", {"endpoint": "http://near:9000", "region": "eu-1"})
    assert settings(tmp_path, text, "s3://b/ab")[1] == {"endpoint": "https://far.example", "region": "eu-1"}
    assert settings(tmp_path, text, "s3://c?region=x&endpoint=d:1&disableSSL=true") == (
        "s3://c",
        {"endpoint": "http://d:1", "region": "x"},
    )
    aws = "s3: {default: {endpoint: s3.amazonaws.com, region: eu-1, disableSSL: false, credentials: {fromEnv: true}}}"
    assert settings(tmp_path, aws, "s3://b/a") == ("s3://b/a", {"region": "eu-1"})


@pytest.mark.parametrize("text", ["s3: [", "s3: {default: 7}", "s3: {Overrides: [{keyPrefix: a}]}", "a list"])
def test_settings_that_cannot_be_read_are_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(RunError, match="providers is not what Kubeflow's launcher reads"):
        settings(tmp_path, text, "s3://b/a")


def test_a_folder_that_holds_files_of_that_name_is_not_an_obstacle(
    store: Store, root: str, put: Callable[..., str], tmp_path: Path
) -> None:
    put("run-1", EVENTS)
    put("run-1", f"{EVENTS}/{EVENTS}")
    put("run-2")
    folder = tmp_path / "logs"
    assert Follower(store, root, folder, MUCH).scan().files == 2
    assert f"taxi/run-2/train/{EVENTS}" in there(folder)
    assert not list((folder / PARTIAL).iterdir())


@pytest.mark.slow
def test_a_store_that_is_away_is_called_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.pipeline.kubeflow.store.ATTEMPTS", 2)
    away = ("--root", "s3://bucket/x", "--endpoint", "http://127.0.0.1:1", "--once")
    done = CliRunner(env={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}).invoke(
        follow_logs, [str(tmp_path), *away]
    )
    assert done.exit_code == 1
    assert done.stderr.startswith("the object store: ")
    assert "NETWORK_CONNECTION" in done.stderr

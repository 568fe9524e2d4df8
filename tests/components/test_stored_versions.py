"""Pushes into an object store from this machine: whole or not at all, and what the copies here follow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from forks import Forked
from made_up_nights import night
from s3_proxy import S3Proxy, s3_proxy
from s3_servers import S3Server
from stores import Bucket

from headrace.common import store_lock
from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.common.store_lock import Timing
from headrace.components.deploy.choices import choose_baseline
from headrace.components.deploy.lite_files import push_lite
from headrace.components.lite.verdict import MODEL_FILE, REPORT_FILE, LiteVerdict
from headrace.components.stored_models.blessed_record import IN_SERVICE, Entry, Registry
from headrace.components.stored_models.push import push, refresh
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.stored_models.stored_versions import copy_of, shown, uri_of
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline.models.listing import list_models
from headrace.pipeline.models.promotion import promote
from headrace.pipeline.models.rollback import roll_back
from headrace.pipeline.predict.models import choose_model

URI = "s3://served/models/trips"
SERVED = "pushed/s3:/served/models/trips"
"""The folder that stands for it, below that of a pipeline."""
FILES = {"saved_model.pb", "variables/data", "variables/variables.index"}
WRITES = {"PUT", "POST", "DELETE"}
CHANGES = 40
"""More requests than a push takes that change something."""


class Served(NamedTuple):
    """The bucket that servers read, through a proxy."""

    bucket: Any
    proxy: S3Proxy

    @property
    def versions(self) -> dict[str, dict[str, bytes]]:
        """What a server loads: the files of each version that has a graph, oldest first."""
        found: dict[str, dict[str, bytes]] = {}
        for one in self.bucket.objects.filter(Prefix="models/trips/"):
            version, _, name = one.key.removeprefix("models/trips/").partition("/")
            if version.isdecimal() and name and not name.endswith("/"):
                found.setdefault(version, {})[name] = one.get()["Body"].read()
        order = sorted(found, key=int)
        return {version: found[version] for version in order if "saved_model.pb" in found[version]}

    @property
    def others(self) -> set[str]:
        """The objects that are in no such version."""
        keys = {one.key.removeprefix("models/trips/") for one in self.bucket.objects.filter(Prefix="models/trips/")}
        files = {key for key in keys if key and not key.endswith("/")}
        return files - {f"{version}/{name}" for version, names in self.versions.items() for name in names}


@pytest.fixture
def served(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    s3_server.enter(monkeypatch)
    monkeypatch.setattr(store_lock, "USUAL", Timing(poll=0.02, lease=0.1))  # nobody else is alive
    with s3_proxy(s3_server.url) as proxy, s3_server.bucket("served") as bucket:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield Served(bucket, proxy)


def model_of(folder: Path, text: str) -> Path:
    (folder / "variables").mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(f"{text} {name}")
    return folder


def holding(text: str) -> dict[str, bytes]:
    return {name: f"{text} {name}".encode() for name in FILES}


def test_a_folder_stands_for_its_uri_and_others_for_none(tmp_path: Path) -> None:
    for uri in ("s3://b/models/taxi", "gs://b/a", "minio://b/x.y"):
        assert uri_of(copy_of(f"{uri}/", tmp_path) / "17") == f"{uri}/17"
    assert copy_of(URI, tmp_path) == tmp_path / SERVED
    for path in ("/srv/pushed/s3/b/taxi", "/srv/s3:/b/taxi", "/srv/pushed", "/srv/pushed/hdfs:/b/taxi", "serving/taxi"):
        assert uri_of(path) is None
        assert shown(path) == path


def test_a_version_is_the_whole_model_and_the_same_model_is_not_pushed_again(served: Served, tmp_path: Path) -> None:
    there, model = copy_of(URI, tmp_path / "home"), model_of(tmp_path / "a", "a")
    assert push(model, there, lambda: 17.0) == there / "17"
    assert served.versions == {"17": holding("a")}
    served.proxy.asked.clear()
    assert push(model, there, lambda: 18.0) == there / "17"
    changed = {path for method, path in served.proxy.asked if method in WRITES and not path.endswith("/")}
    assert {path.partition("lock-")[0] for path in changed} == {"/served/models/trips/.headrace-push-"}
    push(model_of(tmp_path / "b", "b"), there, lambda: 17.0, keep=2)
    assert push(model_of(tmp_path / "c", "c"), there, lambda: 17.0, keep=2) == there / "19"
    assert served.versions == {"18": holding("b"), "19": holding("c")}
    assert served.others == set()
    assert sorted(path.name for path in there.iterdir()) == ["18", "19"]


def test_google_cloud_storage_gets_and_loses_whole_versions_too(gcs_bucket: Bucket, tmp_path: Path) -> None:
    uri = f"{gcs_bucket.url}/models"
    here, elsewhere = copy_of(uri, tmp_path / "here"), copy_of(uri, tmp_path / "elsewhere")
    for number, text in enumerate("abc", 17):
        assert push(model_of(tmp_path / text, text), here, lambda: 17.0, keep=2) == here / str(number)
    refresh(elsewhere)
    assert sorted(path.name for path in elsewhere.iterdir()) == ["18", "19"]
    assert {name: (elsewhere / "19" / name).read_bytes() for name in FILES} == holding("c")
    folder = gcs_bucket.url.removeprefix("gs://bucket/")
    with urllib.request.urlopen(f"{gcs_bucket.server}/storage/v1/b/bucket/o?prefix={folder}/") as answer:
        keys = {one["name"].removeprefix(f"{folder}/models/") for one in json.load(answer)["items"]}
    assert {key for key in keys if key and not key.endswith("/")} == {
        f"{version}/{name}" for version in (18, 19) for name in FILES
    }


def test_the_graph_appears_when_all_other_files_are_there(served: Served, tmp_path: Path) -> None:
    found = list[set[str]]()

    def before(method: str, path: str) -> None:
        if method in WRITES and path == "/served/models/trips/17/saved_model.pb":
            found.append({one.key for one in served.bucket.objects.filter(Prefix="models/trips/17/")})

    served.proxy.before = before
    push(model_of(tmp_path / "a", "a"), copy_of(URI, tmp_path), lambda: 17.0)
    assert found == [{f"models/trips/17/{name}" for name in FILES - {"saved_model.pb"}}]


def test_a_store_that_refuses_in_the_middle_keeps_the_old_version_and_the_next_push_completes(
    served: Served, tmp_path: Path
) -> None:
    there, old, new = copy_of(URI, tmp_path), model_of(tmp_path / "old", "old"), model_of(tmp_path / "new", "new")
    push(old, there, lambda: 1.0)
    reports = list[str]()
    for passes in range(CHANGES):
        count = 0

        def refuse(method: str, _path: str, passes: int = passes) -> str | None:
            nonlocal count
            count += method in WRITES
            return "403 Forbidden" if method in WRITES and count > passes else None

        served.proxy.before = refuse
        try:
            push(new, there, lambda: 2.0)
        except RunError as error:
            reports.append(str(error))
        else:
            break
        assert [*served.versions.values()] in ([holding("old")], [holding("old"), holding("new")])
    assert len(reports) > len(FILES)
    for report in reports:
        assert report.startswith(f"deploy.push: cannot push to {URI}: ")
        assert "access is denied" in report
    served.proxy.before = lambda _method, _path: None
    push(new, there, lambda: 2.0)
    assert [*served.versions.values()] == [holding("old"), holding("new")]
    assert served.others == set()


PUSH = """
import sys
from pathlib import Path
from headrace.components.stored_models.push import push

push(Path(sys.argv[1]), Path(sys.argv[2]), lambda: 2.0)
"""


def killed_at(served: Served, number: int, model: Path, there: Path) -> bool:
    """Push in a process that is killed at that changing request; whether it came to it."""
    count, killed = 0, False
    program = there.parent / "program.py"
    program.write_text(PUSH)
    process = Forked([sys.executable, str(program), str(model), str(there)])

    def before(method: str, _path: str) -> str | None:
        nonlocal count, killed
        count += method in WRITES
        if method in WRITES and count > number:
            killed = True
            os.kill(process.pid, signal.SIGKILL)
            return "503 Slow Down"
        return None

    served.proxy.before = before
    assert process.wait() == (-signal.SIGKILL if killed else 0)
    served.proxy.before = lambda _method, _path: None
    return killed


@pytest.mark.slow
def test_a_kill_at_any_request_leaves_whole_versions_and_the_next_push_one_of_the_model(
    served: Served, tmp_path: Path
) -> None:
    old, new = model_of(tmp_path / "old", "old"), model_of(tmp_path / "new", "new")
    for number in range(CHANGES):
        there = copy_of(URI, tmp_path / str(number))
        push(old, there, lambda: 1.0)
        killed = killed_at(served, number, new, there)
        assert [*served.versions.values()] in ([holding("old")], [holding("old"), holding("new")])
        push(new, there, lambda: 3.0)
        assert [*served.versions.values()] == [holding("old"), holding("new")]
        assert served.others == set()
        assert {path.name for path in there.iterdir()} == served.versions.keys()
        served.bucket.objects.delete()
        if not killed:
            break
    assert number > len(FILES)


def test_versions_of_another_machine_are_counted_and_its_newest_is_fetched(served: Served, tmp_path: Path) -> None:
    here, elsewhere = copy_of(URI, tmp_path / "here"), copy_of(URI, tmp_path / "elsewhere")
    push(model_of(tmp_path / "a", "a"), here, lambda: 17.0)
    push(model_of(tmp_path / "b", "b"), elsewhere, lambda: 18.0)
    refresh(here)
    assert {path.name: path.read_text() for path in (here / "18").iterdir() if path.is_file()} == {
        "saved_model.pb": "b saved_model.pb"
    }
    assert push(model_of(tmp_path / "c", "c"), here, lambda: 10.0) == here / "19"
    assert [*served.versions.values()] == [holding("a"), holding("b"), holding("c")]


def test_a_version_that_somebody_removed_is_gone_here_too(served: Served, tmp_path: Path) -> None:
    there = copy_of(URI, tmp_path)
    push(model_of(tmp_path / "a", "a"), there, lambda: 17.0)
    push(model_of(tmp_path / "b", "b"), there, lambda: 18.0)
    served.bucket.objects.filter(Prefix="models/trips/18/").delete()
    refresh(there)
    assert [path.name for path in there.iterdir()] == ["17"]


def test_names_that_lead_out_of_the_folder_are_not_written(served: Served, tmp_path: Path) -> None:
    for name in ("saved_model.pb", "outside", "odd"):
        served.bucket.put_object(Key=f"models/trips/17/{name}", Body=b"x")
    start = "/served/models/trips/17/"
    served.proxy.shown = {
        f"{start}outside": "models/trips/17/../../../../../../outside",
        f"{start}odd": "models/trips/17/./odd",
    }
    there = copy_of(URI, tmp_path / "home")
    refresh(there)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == {
        f"home/{SERVED}/17/saved_model.pb"
    }


def test_a_bucket_that_does_not_exist_is_an_error_and_no_empty_folder(served: Served, tmp_path: Path) -> None:
    there = copy_of("s3://misspelled/models/trips", tmp_path)
    (there / "17").mkdir(parents=True)
    with pytest.raises(RunError, match=r"deploy\.push: .*s3://misspelled.*(does not exist|no bucket|not exist)"):
        refresh(there)
    assert (there / "17").is_dir()


def config_of(home: Path, approval: str = "automatic") -> PipelineConfig:
    given = {
        "pipeline": {"name": home.name, "root": str(home.parent)},
        "data": {"source": {"kind": "csv", "path": "trips.csv"}},
        "label": {"key": "fare", "kind": "regression"},
        "features": {"miles": {"column": "numeric"}},
        "deploy": {"push": "s3://served/models/{name}", "approval": approval},
    }
    return load_with_locations(given).config


def graphs(served: Served) -> list[str]:
    return [files["saved_model.pb"].decode() for files in served.versions.values()]


def test_nights_push_compare_and_roll_back_in_an_object_store(served: Served, tmp_path: Path) -> None:
    home = tmp_path / "trips"
    for name in ("a", "b"):
        pushed = night(home, name, blessed=True, serving_at=SERVED)
    assert uri_of(pushed.get_string_custom_property("pushed_destination")) == f"{URI}/{[*served.versions][-1]}"
    assert graphs(served) == ["a", "b"]
    stays = night(home, "c", blessed=False, serving_at=SERVED)
    assert stays.get_int_custom_property("pushed") == 0
    assert shown(stays.get_string_custom_property(IN_SERVICE)) == f"{URI}/{[*served.versions][-1]}"
    done = roll_back(config_of(home), None, datetime.now(UTC))
    assert uri_of(done.version) == f"{URI}/{[*served.versions][-1]}"
    assert graphs(served) == ["a", "b", "a"]
    models = list_models(config_of(home), [])
    assert {model.path.parent.name: (len(model.versions), model.in_service) for model in models} == {
        "a": (2, True),
        "b": (1, False),
    }
    baseline = choose_baseline(Registry.read(home / "blessed.json"), str(home / "artifacts/d/model")).uri
    assert baseline == str(home / "artifacts/a/model")
    assert (choose_model(config_of(home), None).folder / "saved_model.pb").read_text() == "a"


def test_a_model_that_awaits_approval_is_promoted_into_an_object_store(served: Served, tmp_path: Path) -> None:
    home = tmp_path / "trips"
    night(home, "a", blessed=True, approval="manual", serving_at=SERVED)
    assert graphs(served) == []
    done = promote(config_of(home, "manual"), [], None, datetime.now(UTC))
    assert (graphs(served), uri_of(done.version)) == (["a"], f"{URI}/{[*served.versions][-1]}")


def damage_copy(served: Served, version: Path) -> None:
    del served
    (version / "saved_model.pb").write_text("A")


def damage_version(served: Served, version: Path) -> None:
    served.bucket.put_object(Key=f"models/trips/{version.name}/saved_model.pb", Body=b"damaged")


@pytest.mark.parametrize(("damage", "expected"), [(damage_copy, ["a"]), (damage_version, ["damaged", "a"])])
def test_a_damaged_version_is_replaced_and_a_damaged_copy_fetched_again(
    served: Served, tmp_path: Path, damage: Callable[[Served, Path], None], expected: list[str]
) -> None:
    home = tmp_path / "trips"
    night(home, "a", blessed=True, serving_at=SERVED)
    (version,) = (home / SERVED).iterdir()
    damage(served, version)
    night(home, "b", blessed=False, serving_at=SERVED)
    assert graphs(served) == expected
    newest = max((home / SERVED).iterdir(), key=lambda path: int(path.name))
    assert (newest / "saved_model.pb").read_text() == "a"
    assert PushRecord.read(home / "pushed.json").damaged_version(home / SERVED) is None


def lite_of(home: Path, name: str) -> Entry:
    folder = home / name
    folder.mkdir(parents=True)
    (folder / MODEL_FILE).write_text(name)
    LiteVerdict(precision="int8", contents=checksum(folder / MODEL_FILE), size=len(name)).write(folder)
    return Entry(uri="model", blessed_at="2026-03-01", lite=name)


def test_a_lite_file_is_put_beside_its_version_and_removed_with_it(served: Served, tmp_path: Path) -> None:
    home = tmp_path / "trips"
    there, first, second = copy_of(URI, home), lite_of(home, "first"), lite_of(home, "other")
    refused = list[str]()

    def refuse(method: str, path: str) -> str | None:
        refused.extend([path] if method == "PUT" and path.endswith(MODEL_FILE) else [])
        return "403 Forbidden" if refused else None

    version = push(model_of(tmp_path / "a", "a"), there, lambda: 17.0)
    served.proxy.before = refuse
    with pytest.raises(RunError, match=rf"deploy\.push: cannot write to {URI}/lite"):
        push_lite(home, first, version)
    served.proxy.before = lambda _method, _path: None
    for entry in (first, second, second):  # of one size
        push_lite(home, entry, version)
        name = str(entry.lite)
        assert served.bucket.Object(f"models/trips/lite/17/{MODEL_FILE}").get()["Body"].read().decode() == name
        assert (there / "lite/17" / MODEL_FILE).read_text() == name
        assert served.others == {f"lite/17/{MODEL_FILE}", f"lite/17/{REPORT_FILE}"}
    for text in ("b", "c"):
        newest = push(model_of(tmp_path / text, text), there, lambda: 17.0, keep=2)
    push_lite(home, Entry(uri="model", blessed_at="2026-03-02"), newest)
    assert (served.others, [*served.versions]) == (set(), ["18", "19"])


def test_a_lite_file_of_another_machine_stays(served: Served, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours" / "trips", tmp_path / "theirs" / "trips"
    earlier = push(model_of(tmp_path / "a", "a"), copy_of(URI, ours), lambda: 17.0)
    version = push(model_of(tmp_path / "b", "b"), copy_of(URI, theirs), lambda: 18.0)
    push_lite(theirs, lite_of(theirs, "second"), version)
    push_lite(ours, lite_of(ours, "first"), earlier)
    files = {f"lite/{number}/{name}" for number in (17, 18) for name in (MODEL_FILE, REPORT_FILE)}
    assert served.others == files


FULL = """\
import resource, signal, sys
from pathlib import Path
from headrace.components.stored_models.push import push
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
push(Path(sys.argv[1]), Path(sys.argv[2]), lambda: 17.0)
"""
"""A push on a disk that takes no file of more than 1,000 bytes."""


def test_a_disk_that_is_full_here_is_not_taken_for_a_fault_of_the_store(served: Served, tmp_path: Path) -> None:
    model, there = model_of(tmp_path / "large", "large" * 1000), copy_of(URI, tmp_path)
    done = subprocess.run([sys.executable, "-c", FULL, model, there], capture_output=True, text=True, check=False)
    said = done.stderr.strip().splitlines()
    assert done.returncode == 1
    assert f"deploy.push: cannot push to {there}: " in said[-2]
    assert said[-1].startswith("  Make the folder writable")
    assert (served.versions, served.others, [*there.iterdir()]) == ({}, set(), [])


def test_a_version_of_another_machine_predicts_once_it_is_fetched(served: Served, tmp_path: Path) -> None:
    home = tmp_path / "trips"
    push(model_of(tmp_path / "theirs", "theirs"), copy_of(URI, tmp_path / "elsewhere"), lambda: 17.0)
    night(home, "a", blessed=True, serving_at=SERVED)
    chosen = choose_model(config_of(home), "17")
    assert {str(path.relative_to(chosen.folder)) for path in chosen.folder.rglob("*") if path.is_file()} == FILES

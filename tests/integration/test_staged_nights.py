"""Nights on Kubeflow with staged artifacts: each reads its own day, whatever happened in the night before."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf
from command import headrace
from s3_servers import S3Server
from staged_nights import ANALYZED, ROOT, ROWS, Night, Nights, ObjectStore, Program, name, object_store, pods, trips

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.verify.compare import folders

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("pods")]
__all__ = ["pods"]
KEPT = "/trips/spans/"
"""Stands in the path of each object that is kept of spans."""


@pytest.fixture(scope="module")
def server(s3_server: S3Server) -> Iterator[ObjectStore]:
    with object_store(s3_server) as server:
        yield server


@pytest.fixture(scope="module")
def nights(server: ObjectStore, pods: None, tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return Nights(server, tmp_path_factory.mktemp("nights"))


@pytest.fixture(scope="module")
def ten(nights: Nights) -> list[Night]:
    """The first ten nights of a window of ten days, the last two up to Transform."""
    made = []
    for day in range(1, 11):
        nights.server.put_day(day)
        made.append(nights.run(ANALYZED if day >= 9 else ("spans", "example-gen")))
    return made


@pytest.fixture(scope="module")
def whole(nights: Nights, ten: list[Night]) -> Night:
    """The last of the windows, read at once by a pipeline that has kept nothing."""
    assert ten
    return nights.run(ANALYZED, root="s3://runs/elsewhere")


@pytest.fixture
def new_day(nights: Nights, ten: list[Night]) -> Iterator[Callable[[], int]]:
    """Has the data of the next day, and gives its number."""

    def put() -> int:
        days = len(nights.server.client.list_objects_v2(Bucket="lake")["Contents"])
        nights.server.put_day(days + 1)
        return days + 1

    assert ten
    yield put
    nights.server.proxy.before = lambda _method, _path: None


def test_each_of_ten_nights_fetches_the_raw_data_of_its_own_day_alone(ten: list[Night]) -> None:
    assert [night.read for night in ten] == [{name(day)} for day in range(1, 11)]
    assert [night.properties("example-gen", "examples")["read"] for night in ten] == [
        f"read now: {name(day)}" for day in range(1, 11)
    ]


def test_tenth_night_analyzes_its_own_day_alone(ten: list[Night]) -> None:
    assert "Computed 3 of 30 parts" in ten[9].log("statistics-gen")
    assert f"Analyzed now: {name(10)}; cached: 9 spans" in ten[9].log("transform")


def test_tenth_night_gives_what_reading_the_whole_window_gives(ten: list[Night], whole: Night) -> None:
    assert whole.read == {name(day) for day in range(1, 11)}
    compare = functools.partial(_line, ten[9], whole)
    assert "byte for byte" in compare("example-gen", "examples", "Examples")
    assert "byte for byte" in compare("statistics-gen", "statistics", "ExampleStatistics")
    assert "byte for byte" in compare("schema-gen", "schema", "Schema")
    assert "node for node" in compare("transform", "transform_graph", "TransformGraph")
    assert "byte for byte" in compare("transform", "transformed_examples", "Examples")


def _line(ours: Night, theirs: Night, task: str, output: str, type_: str) -> str:
    line = folders(task, output, type_, ours.folder(task, output), theirs.folder(task, output))
    assert line.same, str(line)
    return line.what


def test_rows_of_a_night_are_those_of_its_window(ten: list[Night]) -> None:
    files = sorted(map(str, ten[9].folder("example-gen", "examples").glob("Split-*/*")))
    records = tf.data.TFRecordDataset(files, "GZIP")
    examples = [tf.train.Example.FromString(record.numpy()).features.feature for record in records]
    found = sorted((one["fare"].float_list.value[0], one["kind"].bytes_list.value[0].decode()) for one in examples)
    days = [trips(day) for day in range(1, 11)]
    wanted = sorted(pair for day in days for pair in zip(day["fare"], day["kind"], strict=True))
    assert len(found) == 10 * ROWS
    assert [kind for _, kind in found] == [kind for _, kind in wanted]
    assert [fare for fare, _ in found] == pytest.approx([fare for fare, _ in wanted])


def test_a_night_fetches_the_kept_days_and_keeps_the_new_one(ten: list[Night]) -> None:
    of_a_span = 6  # columns, scan, what is said of the shards, and a shard of each of three splits
    assert ten[9].moved("example-gen")[::2] == (9 * of_a_span, of_a_span)
    assert ten[9].moved("statistics-gen")[::2] == (9 * 3, 3)
    fetched, _, kept, _ = ten[9].moved("transform")
    assert fetched == 9 * kept > 0


def test_a_night_without_news_is_taken_from_kubeflows_cache(nights: Nights, ten: list[Night]) -> None:
    """So nothing of what is kept is part of its keys."""
    assert ten
    again = nights.run(remembering=True)
    assert again.run.cached == {"example-gen"}


def test_two_runs_at_once_leave_all_of_their_day(nights: Nights, new_day: Callable[[], int]) -> None:
    day = name(new_day())
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(nights.run, where=f"cluster-{number}") for number in range(2)]
        one, other = (night.result() for night in both)
    assert one.read | other.read == {day}
    assert "byte for byte" in _line(one, other, "example-gen", "examples", "Examples")
    after = nights.run()
    assert not after.read
    assert "byte for byte" in _line(after, one, "example-gen", "examples", "Examples")


def test_a_night_after_a_kill_in_the_middle_of_an_upload_is_right(nights: Nights, new_day: Callable[[], int]) -> None:
    day = name(new_day())
    for nth in (2, 9, 20):  # while the columns are written, what was seen in the span, the shards
        nights.server.proxy.before = killing(nth)
        with pytest.raises(RunError):
            nights.run()
    nights.server.proxy.before = lambda _method, _path: None
    night = nights.run()
    assert night.read == {day}
    assert "damaged" not in night.log("example-gen")
    whole = nights.run(root="s3://runs/after-kills")
    assert "byte for byte" in _line(night, whole, "example-gen", "examples", "Examples")
    assert not nights.run().read


def killing(nth: int) -> Callable[[str, str], str | None]:
    """Kills the pod at its n-th request that writes what is kept; an even one is carried out all the same."""
    count = itertools.count(1)

    def before(method: str, path: str) -> str | None:
        if method in ("PUT", "POST") and KEPT in path and next(count) == nth:
            Program.kill_newest()
            return None if nth % 2 == 0 else "503 Slow Down"
        return None

    return before


def test_damaged_day_is_reported_read_again_and_kept_again(nights: Nights, new_day: Callable[[], int]) -> None:
    before = nights.run()
    keys = json.loads(before.properties("example-gen", "examples")["spans"])
    rotten = sorted(keys)[4]
    client, folder = nights.server.client, f"v2/artifacts{KEPT}{keys[rotten]}"
    listed = json.loads(client.get_object(Bucket="runs", Key=f"{folder}/shards.json")["Body"].read())
    shard = next(one["object"] for inside, one in listed.items() if inside.startswith("Split-train/"))
    content = bytearray(client.get_object(Bucket="runs", Key=f"{folder}/shards/{shard}")["Body"].read())
    content[len(content) // 2] ^= 1
    client.put_object(Bucket="runs", Key=f"{folder}/shards/{shard}", Body=bytes(content))
    night = nights.run()
    assert night.read == {rotten}
    (reported,) = [line for line in night.log("example-gen").splitlines() if line.startswith("spans: s3://")]
    assert f"{keys[rotten]}/shards/{shard}" in reported
    assert "damaged" in reported
    assert "byte for byte" in _line(night, before, "example-gen", "examples", "Examples")
    day = name(new_day())
    assert nights.run().read == {day}


def test_a_store_that_refuses_what_is_kept_costs_time_and_no_night(nights: Nights, new_day: Callable[[], int]) -> None:
    day = new_day()
    nights.server.proxy.before = lambda _, path: "403 Forbidden" if KEPT in path else None
    night = nights.run()
    assert night.read == {name(day - number) for number in range(10)}
    assert "continues without it" in night.log("example-gen")
    nights.server.proxy.before = lambda _method, _path: None
    assert nights.run().read == {name(day)}


def test_what_left_the_window_goes_and_the_next_night_reads_its_day_alone(
    nights: Nights, new_day: Callable[[], int]
) -> None:
    last = nights.run()
    keys = set(json.loads(last.properties("example-gen", "examples")["spans"]).values())
    written = {key.split("/")[4] for key in nights.server.names("trips/spans/") if key.endswith("/shards.json")}
    assert keys < written
    prune = ("prune", "trips.yaml", "--root", ROOT, "--keep", "1")
    done = headrace(nights.folder, *prune)
    assert done.code == 0, done.out + done.err
    assert {key.split("/")[4] for key in nights.server.names("trips/spans/")} > written  # all is of today
    nights.server.age(days=2)
    tried = headrace(nights.folder, *prune, "--dry-run")
    done = headrace(nights.folder, *prune)
    assert done.code == 0, done.out + done.err
    gone = {line.rpartition("/")[2] for line in tried.lines if line.startswith("would remove")}
    left = {key.split("/")[4] for key in nights.server.names("trips/spans/") if key.endswith("/shards.json")}
    assert left == keys
    assert written - keys <= gone
    day = name(new_day())
    assert nights.run().read == {day}


def test_prune_refuses_a_root_in_no_object_store(nights: Nights, ten: list[Night]) -> None:
    assert ten
    done = headrace(nights.folder, "prune", "trips.yaml", "--root", "/somewhere")
    assert done.code == 1
    assert "--root /somewhere" in done.err
    assert "s3://" in done.err

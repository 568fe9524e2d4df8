"""What models learned from, in an object store. (Of runs that end at the same time: `test_kubeflow_blessings.py`.)"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from s3_proxy import s3_proxy
from s3_servers import S3Server

from headrace.common.errors import RunError
from headrace.components.trigger.decision import TrainingData, TrainingRecord, update
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store

HOME = "minio://root/trips"


def found(store: Store, pod: Path) -> TrainingRecord:
    """As the next pod finds it, with paths from the pipeline's folder on."""
    places = PodPaths(str(pod))
    path = places.local(f"{HOME}/trained.json")
    with present({"trained": str(path)}, places, store):
        return TrainingRecord.parsed(path.read_bytes()) if path.exists() else TrainingRecord()


def change(store: Store, pod: Path, how: Callable[[TrainingRecord], TrainingRecord]) -> None:
    places = PodPaths(str(pod))
    path = places.local(f"{HOME}/trained.json")
    with present({"trained": str(path)}, places, store):
        update(path, how)


def data(span: str, work: str = "w") -> TrainingData:
    return TrainingData(fingerprint=f"f{span}", spans=(span,), work=work, statistics=f"run-{span}/statistics")


def judge(store: Store, pod: Path, span: str, *, blessed: bool = False) -> None:
    place = PodPaths(str(pod)).local(HOME)
    own = data(span).model_copy(update={"statistics": str(place / f"run-{span}/statistics")})
    change(store, pod, lambda now: now.with_judged(own, blessed=blessed))


@pytest.mark.slow
def test_what_is_known_is_what_the_runs_found_one_after_the_other(store: Store, tmp_path: Path) -> None:
    expected = TrainingRecord()
    steps = [("1", True), ("2", False), ("passed", None), ("9", True), ("10", False), ("8", False), ("passed", None)]
    for number, (span, blessed) in enumerate(steps):
        if blessed is None:
            change(
                store,
                tmp_path / f"{number}",
                partial(TrainingRecord.with_passed, fingerprint=f"p{number}", limits="{}"),
            )
            expected = expected.with_passed(f"p{number}", "{}")
        else:
            judge(store, tmp_path / f"{number}", span, blessed=blessed)
            expected = expected.with_judged(data(span), blessed=blessed)
        assert found(store, tmp_path / f"next-{number}") == expected
    assert expected.newest == data("10")  # of whose data the run of span 8 knew nothing
    content = json.loads(store.text(f"{HOME}/trained.json"))
    assert [content[name]["spans"] for name in ("judged", "blessed", "newest")] == [["8"], ["9"], ["10"]]


def test_record_that_another_run_wrote_over_is_whole_again_on_reading(store: Store, tmp_path: Path) -> None:
    judge(store, tmp_path / "1", "1", blessed=True)
    old = store.text(f"{HOME}/trained.json")
    judge(store, tmp_path / "2", "2")
    store.write(f"{HOME}/trained.json", old)
    assert found(store, tmp_path / "3") == TrainingRecord().with_judged(data("1"), blessed=True).with_judged(
        data("2"), blessed=False
    )


def test_record_that_was_copied_from_a_volume_is_taken_over(store: Store, tmp_path: Path) -> None:
    before = TrainingRecord().with_judged(data("1"), blessed=True).with_passed("f", "{}")
    store.write(f"{HOME}/trained.json", before.text())
    assert found(store, tmp_path / "1") == before
    assert not store.children(f"{HOME}/trained")
    judge(store, tmp_path / "2", "2")
    store.remove(f"{HOME}/trained.json")
    assert found(store, tmp_path / "3") == before.with_judged(data("2"), blessed=False)


def test_damaged_record_is_named_and_a_strange_object_is_passed_over(
    store: Store, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    judge(store, tmp_path / "1", "1")
    store.write(f"{HOME}/trained/notes.txt", "?")
    store.write(f"{HOME}/trained/folder/inside.json", "?")
    assert found(store, tmp_path / "2").judged == data("1")
    said = log.text
    assert f"{HOME}/trained/notes.txt is not the record of a training" in said
    assert f"{HOME}/trained/folder is not the record of a training" in said
    (name,) = (name for name in store.children(f"{HOME}/trained") if "-judged-" in name)
    record = store.text(f"{HOME}/trained/{name}")
    store.remove(f"{HOME}/trained.json")
    for damaged in ("{", record.replace('"f1"', '"f2"')):
        store.write(f"{HOME}/trained/{name}", damaged)
        with pytest.raises(RunError, match=rf"{HOME}/trained/{re.escape(name)}: .* is damaged"):
            found(store, tmp_path / "3")


@pytest.mark.parametrize("path", ["../../other/statistics", "/etc", "run/../../../x"])
def test_record_that_leads_out_of_the_pipelines_folder_is_refused(store: Store, tmp_path: Path, path: str) -> None:
    odd = data("1").model_copy(update={"statistics": path})
    store.write(f"{HOME}/trained.json", TrainingRecord(judged=odd, blessed=odd).model_dump_json())
    with pytest.raises(RunError, match=rf"{HOME}/trained.json.* not below"):
        found(store, tmp_path / "1")


def test_file_that_leads_out_of_a_folder_is_not_fetched(
    s3_server: S3Server, store: Store, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    """S3 takes any name for an object; the server of the tests refuses these."""
    odd = {"b": "../../escaped", "c": "/rooted", "d": "a/./b"}
    for name in ("whole", *odd):
        store.write(f"{HOME}/statistics/{name}", "content")
    with s3_proxy(s3_server.url) as proxy:
        folder = f"{HOME.removeprefix('minio://root/')}/statistics"
        proxy.shown = {f"/root/{folder}/{name}": f"{folder}/{other}" for name, other in odd.items()}
        assert Store({"endpoint": proxy.url}).get_all(f"{HOME}/statistics", tmp_path / "1/2/statistics") == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["whole"]
    assert f"{HOME}/statistics/../../escaped is ignored" in log.text

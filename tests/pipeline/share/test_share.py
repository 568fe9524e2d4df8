"""What the shared folder holds, against the logs and configs it was made from."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from headrace.common.errors import RunError
from headrace.pipeline.share.find import find
from headrace.pipeline.share.folder import write_share
from headrace.pipeline.share.settings import differing, distinguish, flattened
from headrace.pipeline.verbs.share import share
from headrace.pipeline.versions import installed
from headrace.trainer.trials import Search, Trial

EVIL = "</script><script>alert(1)</script>"
EVIL_VALUE = "\"><img src=x onerror=alert(2)> it's"
CONFIG = """\
pipeline: {{name: taxi, root: {root}}}
data: {{source: {{kind: csv, path: trips.csv}}}}
label: {{key: tip, kind: binary}}
features: {{fare: {{column: numeric}}}}
"""
Two = Callable[[], list[Path]]


def written(target: Path, *runs: Path, **given: Any) -> dict[str, Any]:
    """The data on the page, as its script reads it."""
    page = write_share([find(run) for run in runs], target, **{"name": "Taxi", **given}).read_text()
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    assert data == json.loads((target / "share.json").read_text())
    return data


def independent(directory: Path) -> dict[tuple[str, str], list[tuple[int, float, np.ndarray]]]:
    """What TensorFlow itself reads: (log, tag) to (step, wall time, tensor)."""
    found: dict[tuple[str, str], list[tuple[int, float, np.ndarray]]] = {}
    for file in sorted(directory.rglob("events.out.tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                reported = (event.step, event.wall_time, tf.make_ndarray(value.tensor))
                found.setdefault((file.parent.name, value.tag), []).append(reported)
    return found


def test_the_page_holds_the_numbers_of_the_logs(two: Two, tmp_path: Path) -> None:
    data = written(tmp_path / "page", *two())
    assert [run["run"] for run in data["runs"]] == ["20260101-000000", "20260102-000000"]
    for path, run in zip(two(), data["runs"], strict=True):
        logs = independent(path.parents[1] / "artifacts" / "Trainer" / "model_run" / path.name)
        for one in run["scalars"]:
            steps, times, values = zip(*logs.pop((one["split"], one["tag"])), strict=True)
            assert (one["steps"], one["times"]) == (list(steps), list(times))
            assert one["values"] == [float(value) for value in values]
        for one in run["histograms"]:
            for reported, (step, _, expected) in zip(one["steps"], logs.pop((one["split"], one["tag"])), strict=True):
                assert reported["step"] == step
                assert reported["counts"] == expected[:, 2].tolist()
                np.testing.assert_allclose(reported["edges"], [*expected[:, 0], expected[-1, 1]], rtol=1e-5)
        assert logs == {}
    assert {(one["split"], one["tag"]) for one in data["runs"][0]["scalars"]} == {
        ("train", "epoch_loss"), ("train", "epoch_auc"), ("train", f"epoch_{EVIL}"),
        ("validation", "epoch_loss"), ("validation", "epoch_auc"),
    }  # fmt: skip


def test_metrics_and_settings_are_those_of_the_runs(two: Two, tmp_path: Path) -> None:
    first, second = written(tmp_path / "page", *two())["runs"]
    assert first["evaluation"]["metrics"] == {"auc": 0.9, "binary_crossentropy": 0.4, "precision": None}
    assert first["evaluation"]["slices"][0] == {
        "by": "hour", "value": "1", "label": "1", "examples": 40, "metrics": {"auc": 0.8, "binary_crossentropy": 0.5},
        "intervals": {},
    }  # fmt: skip
    companies = [one for one in first["evaluation"]["slices"] if one["by"] == "company"]
    assert [(one["value"], one["label"]) for one in companies][:2] == [(EVIL_VALUE, EVIL_VALUE), ("", "(empty)")]
    differences = {name for name, value in first["settings"].items() if second["settings"].get(name) != value}
    assert differences == {"model.hidden", "train.learning_rate"}
    assert second["settings"]["model.hidden"] == "[32]"
    assert first["settings"]["train.batch_size"] == "auto"  # a default


def test_logs_and_profiles_lie_beside_unless_unwanted(two: Two, tmp_path: Path) -> None:
    written(tmp_path / "page", *two())
    for number, path in enumerate(two(), 1):
        there = path.parents[1] / "artifacts" / "Trainer" / "model_run" / path.name
        copied = tmp_path / "page" / "logs" / f"run-{number}"
        files = {file.relative_to(there) for file in there.glob("*/**/*") if file.is_file()}
        assert {file.relative_to(copied) for file in copied.rglob("*") if file.is_file()} == files
        assert len(files) == 3
        assert all((copied / file).read_bytes() == (there / file).read_bytes() for file in files)
    written(tmp_path / "without", *two(), logs=False)
    assert sorted(file.name for file in (tmp_path / "without").iterdir()) == ["index.html", "share.json"]


def test_the_page_says_what_may_run_and_names_no_other_place(two: Two, tmp_path: Path) -> None:
    written(tmp_path / "page", *two(), name=EVIL, description=EVIL_VALUE)
    page = (tmp_path / "page" / "index.html").read_text()
    assert EVIL not in page
    assert EVIL_VALUE not in page
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}'".replace("'", "&#39;") in page
    assert set(re.findall(r"https?://[^\s\"'<)]+", page)) == {"http://www.w3.org/2000/svg"}
    for name, version in installed().items():
        assert f"{name}=={version}\n" in page


def test_what_setuptools_holds_for_itself_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name in (("site-packages", "alpha_one-1.5"), ("setuptools/_vendor", "beta-2.0")):
        (tmp_path / folder / f"{name}.dist-info").mkdir(parents=True)
        monkeypatch.syspath_prepend(tmp_path / folder)
    found = installed()
    assert found["alpha-one"] == "1.5"
    assert "beta" not in found


def test_a_value_that_is_not_a_number_is_a_gap(pipeline: Any, tmp_path: Path) -> None:
    losses = [1.0, float("nan"), float("inf"), 0.25]
    run = pipeline.add("r-1", logs=[{"loss": loss} for loss in losses], evaluated=False)
    (curve,) = written(tmp_path / "page", run)["runs"][0]["scalars"]
    assert curve["values"] == [1.0, None, None, 0.25]


def test_time_counts_from_the_begin_of_the_training_and_not_while_it_was_interrupted(
    pipeline: Any, tmp_path: Path
) -> None:
    """All epochs are logged at one moment, as those before a checkpoint are by a training that resumes from it."""
    run = pipeline.add("r-1", seconds=[10.0, 2.5, 2.5], evaluated=False)
    logs = next(pipeline.home.rglob("training.json")).parent
    with tf.summary.create_file_writer(str(logs / "mine")).as_default():
        tf.summary.scalar("rate", 0.1, 100)
    reported = written(tmp_path / "page", run)["runs"][0]
    of_epochs = [one for one in reported["scalars"] if one["tag"].startswith("epoch_")]
    assert [one["elapsed"] for one in of_epochs] == [[10.0, 12.5, 15.0]] * 5
    (mine,) = [one for one in reported["scalars"] if one["tag"] == "rate"]
    assert mine["elapsed"] == pytest.approx([15.0 + mine["times"][0] - of_epochs[0]["times"][-1]], abs=0.1)
    assert reported["timed"]
    bare = written(tmp_path / "bare", pipeline.add("r-2", evaluated=False))["runs"][0]
    assert not bare["timed"]
    first = min(one["times"][0] for one in bare["scalars"])
    assert [one["elapsed"] for one in bare["scalars"]] == [
        pytest.approx([time - first for time in one["times"]], abs=0.001) for one in bare["scalars"]
    ]


def test_a_log_that_was_cut_off_is_read_as_far_as_it_goes(pipeline: Any, tmp_path: Path) -> None:
    run = pipeline.add("r-1", logs=[{"loss": 1.0}, {"loss": 0.5}], evaluated=False)
    (file,) = pipeline.home.rglob("events.out.tfevents*")
    file.write_bytes(file.read_bytes()[:-7])  # into the last histograms
    reported = written(tmp_path / "page", run)["runs"][0]
    assert reported["scalars"][0]["values"] == [1.0, 0.5]
    assert [len(one["steps"]) for one in reported["histograms"]] == [1, 1, 1, 1]


SECRETS: dict[str, Any] = {
    "password": "hunter2hunter2",
    "url": "postgresql://me:opensesame@db/trips",
    "key": "AKIAABCDEFGHIJKLMNOP",
    "hub": "hf_" + "a1B2" * 9,
    "pin": {"secret": 31415926, "token": {"of": ["gone-1", "gone-2"], "kept": True}},
    "nested": [{"api_key": "0123-4567-89"}, "-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----"],
}


def test_no_credential_leaves_with_the_page(pipeline: Any, tmp_path: Path) -> None:
    model = {"kind": "mine.models.build", "options": {**SECRETS, "tokens": "512", "monkey": "bars"}}
    features = {"token": {"column": "hashed", "hash_buckets": 7}}
    run = pipeline.add("r-1", {"model": model, "features": features})
    reported = written(tmp_path / "page", run, description="see https://me:opensesame@example.org")
    everything = "".join(file.read_text() for file in (tmp_path / "page").glob("*.*"))
    for secret in ("hunter2", "opensesame", SECRETS["key"], SECRETS["hub"], "0123-4567", "MIIabc", "31415926", "gone-"):
        assert secret not in everything
    settings = reported["runs"][0]["settings"]
    assert settings["model.options.url"] == "postgresql://me:***@db/trips"
    assert (settings["model.options.tokens"], settings["model.options.monkey"]) == ("512", "bars")
    assert settings["model.options.pin.token.kept"] == "true"
    assert "opensesame" in (run / "config.yaml").read_text()


def test_a_run_is_found_by_its_folder_its_pipeline_and_its_config(pipeline: Any, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run in"):
        find(tmp_path)
    first = pipeline.add("20260101-000000")
    pipeline.add("20260102-000000", trained=False)
    assert find(first).path == first
    assert find(pipeline.home).path == first  # the latest that came to a training
    assert find(pipeline.home / "runs").path == first
    config = tmp_path / "taxi.yaml"
    config.write_text(CONFIG.format(root=pipeline.root))
    assert find(config).path == first
    with pytest.raises(RunError, match=r"the run is done .*no training"):
        find(first.parent / "20260102-000000")


def test_latest_run_is_the_one_that_started_last_whatever_its_name(pipeline: Any) -> None:
    pipeline.add("20261025-025959", started=1_800_000_000)  # local time, before the clocks go back by an hour
    pipeline.add("20261025-020100-2", started=1_800_000_061)
    latest = pipeline.add("20261025-020100-10", started=1_800_000_062)
    assert find(pipeline.home).path == latest


def test_of_several_runs_those_without_a_training_are_left_out_and_named(pipeline: Any, tmp_path: Path) -> None:
    first, second, third = (
        str(pipeline.add(f"2026010{day}-000000", trained=day == 2, evaluated=False)) for day in (1, 2, 3)
    )
    ended = CliRunner().invoke(share, [first, second, third, "-o", str(tmp_path / "page")])
    assert ended.exit_code == 0
    for left in (first, third):
        assert f"{left}: the run is done " in ended.stderr
    reported = json.loads((tmp_path / "page" / "share.json").read_text())
    assert [run["run"] for run in reported["runs"]] == ["20260102-000000"]
    assert reported["left_out"] == ["taxi 20260101-000000 (done)", "taxi 20260103-000000 (done)"]
    words = "no training: taxi 20260101-000000 (done), taxi 20260103-000000 (done)"
    assert words in (tmp_path / "page" / "index.html").read_text()

    refused = CliRunner().invoke(share, [first, third, "-o", str(tmp_path / "none")])
    assert refused.exit_code == 1
    assert refused.output.count("has no training to share") == 2
    assert not (tmp_path / "none").exists()
    mistaken = CliRunner().invoke(share, [second, str(tmp_path / "nowhere"), "-o", str(tmp_path / "none")])
    assert mistaken.exit_code == 1


def test_a_page_is_replaced_and_what_else_lies_there_stays(two: Two, tmp_path: Path) -> None:
    written(tmp_path / "page", *two())
    (tmp_path / "page" / "CNAME").write_text("taxi.example")
    written(tmp_path / "page", two()[0])
    assert sorted(path.name for path in (tmp_path / "page").iterdir()) == ["CNAME", "index.html", "logs", "share.json"]
    assert [path.name for path in (tmp_path / "page" / "logs").iterdir()] == ["run-1"]
    written(tmp_path / "page", two()[0], logs=False)
    assert not (tmp_path / "page" / "logs").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


@pytest.mark.parametrize(("name", "text"), [("thesis.txt", "all of it"), ("share.json", "{}"), ("share.json", "[1]")])
def test_a_folder_that_is_not_ours_is_left_alone(two: Two, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text(text)
    with pytest.raises(RunError, match=r"mine already exists .*`headrace share`"):
        write_share([find(two()[0])], tmp_path / "mine", name="Taxi")
    assert [(path.name, path.read_text()) for path in (tmp_path / "mine").iterdir()] == [(name, text)]


def test_the_page_may_go_into_the_working_folder(two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ended = CliRunner().invoke(share, [str(two()[0]), "-o", "."])
    assert (ended.exit_code, ended.output) == (0, "index.html\n")
    assert sorted(path.name for path in Path().iterdir()) == ["index.html", "logs", "share.json"]


def test_a_run_given_twice_is_shown_once(two: Two, tmp_path: Path) -> None:
    assert len(written(tmp_path / "page", two()[0], two()[0])["runs"]) == 1


def test_what_a_search_found_replaces_the_value_in_the_config(pipeline: Any, tmp_path: Path) -> None:
    trials = (
        Trial(1, {"train.learning_rate": 0.02}, 3, 1.0, 0.5),
        Trial(2, {"train.learning_rate": 0.03}, 3, 1.0, 0.4),
    )
    run = pipeline.add("r-1", search=Search("random", "loss", False, trials))
    reported = written(tmp_path / "page", run)["runs"][0]
    assert (reported["settings"]["train.learning_rate"], reported["tuned"]) == (
        "0.001",
        {"train.learning_rate": "0.03"},
    )
    assert "0.03 (tuned)" in (tmp_path / "page" / "index.html").read_text()


def test_the_command_prints_the_page(two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(share, [str(two()[0]), "--name", "Tips & rides"])
    assert (ended.exit_code, ended.output) == (0, "shared/tips-rides/index.html\n")
    ended = CliRunner().invoke(share, [str(two()[0]), "--to", "ftp://there", "-o", "other"])
    assert ended.exit_code == 1
    assert "write gs://bucket/path or s3://bucket/path" in ended.output
    assert not (tmp_path / "other").exists()


def test_a_page_of_another_name_is_not_replaced(two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = {
        name: CliRunner().invoke(share, [str(two()[0]), "--name", name]) for name in ("日本", "Ελλάδα", "v1.0", "V1-0")
    }
    assert [one.output for one in written.values()] == [
        "shared/日本/index.html\n", "shared/ελλάδα/index.html\n", "shared/v1.0/index.html\n", "shared/v1-0/index.html\n"
    ]  # fmt: skip
    ended = CliRunner().invoke(share, [str(two()[0]), "--name", "V1 0"])
    assert ended.exit_code == 1
    assert 'shared/v1-0 holds the page "V1-0"; name another output folder' in ended.output


def test_differences_keep_the_order_of_the_config_and_distinguish_the_runs() -> None:
    first = flattened({"data": {"path": "a"}, "model": {"hidden": [1], "kind": "dnn"}, "train": {"epochs": 1}})
    second = flattened(
        {"data": {"path": "b"}, "model": {"hidden": [2], "depth": 3, "kind": "dnn"}, "train": {"epochs": 2}}
    )
    found = differing([first, second])
    assert [(row.name, row.values) for row in found] == [
        ("data.path", ("a", "b")),
        ("model.hidden", ("[1]", "[2]")),
        ("model.depth", (None, "3")),
        ("train.epochs", ("1", "2")),
    ]
    assert distinguish(found, 0) == "hidden [1], epochs 1, …"
    assert distinguish(found, 1) == "hidden [2], depth 3, …"


def test_runs_that_differ_in_one_setting_are_labeled_with_it_alone() -> None:
    settings = [{"train.seed": str(n), "train.batch_size": "256" if n == 9 else "1024"} for n in range(12)]
    found = [distinguish(differing(settings), number) for number in range(12)]
    assert found == [f"seed {n}, batch_size 256" if n == 9 else f"seed {n}" for n in range(12)]
    twins = [{"train.seed": "1"}, {"train.seed": "1"}, {"train.seed": "2"}]
    assert [distinguish(differing(twins), number) for number in range(3)] == ["seed 1", "seed 1", "seed 2"]


def test_settings_shown_for_a_run_are_those_that_the_others_lack() -> None:
    grid = [(1, "none", 4), (2, "none", 4), (2, "memory", 4), (2, "memory", 5)]
    settings = [
        flattened({"train": {"epochs": epochs, "input": {"cache": cache, "threads": threads}}})
        for epochs, cache, threads in grid
    ]
    found = [distinguish(differing(settings), number) for number in range(4)]
    assert found == [
        "epochs 1",
        "cache none, epochs 2",
        "cache memory, threads 4",
        "threads 5",
    ]

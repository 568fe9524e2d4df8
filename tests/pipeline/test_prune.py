"""What old runs leave, and what of it goes: never what a kept run, a blessed model or the next run needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.trigger.decision import TrainingData, TrainingRecord
from headrace.pipeline.cli import cli
from headrace.pipeline.folders import Folders, locked
from headrace.pipeline.local.prune import PrunePlan, plan_prune, remove
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status

LATER = 10.0**9
OLD = 1000.0
"""When everything was written; run number n began at n seconds after it."""


class Home:
    """A pipeline's folder with runs that the tests make up."""

    def __init__(self, path: Path) -> None:
        self.folders = Folders(path)
        self.folders.runs.mkdir(parents=True)
        self.folders.artifacts.mkdir()

    def artifact(self, node: str, run: str, *, value: bool = False) -> Path:
        folder = self.folders.artifacts / node / "out" / run
        folder.mkdir(parents=True)
        (folder / "value").write_text(f"{node} {run}")
        return folder / "value" if value else folder

    def span(self, key: str, *seen: str) -> None:
        for name in (key, *seen):
            (self.folders.spans / name).mkdir(parents=True, exist_ok=True)
            (self.folders.spans / name / "scan.json").write_text("{}")
        reported = {"rows": {}, "plan": "", "files": {}, "seen": seen}
        (self.folders.spans / key / "ingested.json").write_text(json.dumps(reported))

    def run(
        self,
        number: int,
        made: tuple[Path, ...] = (),
        status: Status = Status.DONE,
        ended: str | None = None,
        spans: tuple[str, ...] = (),
    ) -> str:
        """A run that has these artifacts, whoever made them; its id."""
        about: dict[str, str | int | float] = {"spans": json.dumps({key: key for key in spans})} if spans else {}
        nodes = [
            NodeRecord(f"N{place}", status=Status.DONE, outputs={"out": ArtifactRecord("T", str(path), about)})
            for place, path in enumerate(made)
        ]
        name = f"r{number}"
        record = RunRecord(name, "trips", "c.yaml", OLD + number, status=status, ended=ended, nodes=nodes)
        folder = self.folders.runs / name
        (folder / "logs").mkdir(parents=True)
        record.write(folder)
        return name

    def aged(self) -> None:
        """As if all was written long ago."""
        for path in self.folders.home.rglob("*"):
            os.utime(path, (OLD, OLD))

    def plan(self, keep: int, older_than: float = LATER) -> PrunePlan:
        self.aged()
        return plan_prune(self.folders, keep, older_than)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "runs" / "trips")


def names(paths: object) -> list[str]:
    assert isinstance(paths, list)
    return [path.name for path in paths]


def test_runs_older_than_the_newest_that_made_a_model_go_with_what_they_made(home: Home) -> None:
    made = [home.artifact("Trainer", home_run) for home_run in ("r1", "r2", "r3")]
    for number, path in enumerate(made, 1):
        home.run(number, (path,))
    found = home.plan(keep=2)
    assert (names(found.runs), found.artifacts) == (["r1"], [made[0]])
    remove(home.folders, found)
    assert sorted(path.name for path in home.folders.runs.iterdir()) == ["r2", "r3"]
    assert [path.exists() for path in made] == [False, True, True]
    assert not home.plan(keep=2).folders


def test_runs_that_made_no_model_do_not_count(home: Home) -> None:
    home.run(1)
    home.run(2, status=Status.FAILED)
    home.run(3)
    home.run(4, status=Status.FAILED)
    home.run(5, status=Status.INTERRUPTED)
    home.run(6, ended="no new span")
    assert names(home.plan(keep=2).runs) == []
    assert names(home.plan(keep=1).runs) == ["r1", "r2"]


def test_what_a_kept_run_reused_stays_whichever_run_made_it(home: Home) -> None:
    schema, trained = home.artifact("SchemaGen", "r1", value=True), home.artifact("Trainer", "r1")
    home.run(1, (schema, trained))
    home.run(2, (schema, home.artifact("Trainer", "r2")))
    found = home.plan(keep=1)
    assert (names(found.runs), found.artifacts) == (["r1"], [trained])
    remove(home.folders, found)
    assert schema.read_text() == "SchemaGen r1"
    assert not home.plan(keep=1).folders


def test_the_newest_blessed_models_and_their_baselines_stay(home: Home) -> None:
    models = [home.artifact("Trainer", f"r{number}") for number in range(1, 6)]
    for number, model in enumerate(models, 1):
        home.run(number, (model,))
    entries = [Entry(uri=str(models[0]), blessed_at=""), Entry(uri=str(models[1]), blessed_at="")]
    newest = Entry(uri=str(models[2]), blessed_at="", compared_with=str(models[1]))
    Registry(models=(*entries, newest)).write(home.folders.registry)
    assert home.plan(keep=1).artifacts == [models[0], models[3]]
    assert home.plan(keep=2).artifacts == [models[0]]


def test_as_many_of_the_newest_blessed_models_stay_as_runs_that_made_one(home: Home) -> None:
    models = [home.artifact("Trainer", f"r{number}") for number in range(1, 7)]
    for number, model in enumerate(models, 1):
        home.run(number, (model,))
    Registry(models=tuple(Entry(uri=str(model), blessed_at="") for model in models[:4])).write(home.folders.registry)
    assert home.plan(keep=1).artifacts == [models[0], models[1], models[2], models[4]]
    assert home.plan(keep=2).artifacts == [models[0], models[1]]


def test_the_run_of_the_newest_blessed_model_stays_whole(home: Home) -> None:
    models = [home.artifact("Trainer", f"r{number}") for number in range(1, 5)]
    metrics = [home.artifact("Evaluator", f"r{number}") for number in range(1, 5)]
    for number, made in enumerate(zip(models, metrics, strict=True), 1):
        home.run(number, made)
    blessed = [Entry(uri=str(model), blessed_at="") for model in models[:2]]
    Registry(models=tuple(blessed)).write(home.folders.registry)
    found = home.plan(keep=1)
    assert names(found.runs) == ["r1", "r3"]
    assert found.artifacts == [metrics[0], metrics[2], models[0], models[2]]


def test_models_that_await_approval_stay_with_their_runs_until_a_newer_one_is_promoted(home: Home) -> None:
    models = [home.artifact("Trainer", f"r{number}") for number in range(1, 6)]
    for number, model in enumerate(models, 1):
        home.run(number, (model,))
    first, second, third = (Entry(uri=str(model), blessed_at=str(at)) for at, model in enumerate(models[:3], 1))
    asked = {"awaiting_approval": True}
    passed_over, waiting = first.model_copy(update=asked), third.model_copy(update=asked)
    Registry(models=(passed_over, second, waiting)).write(home.folders.registry)
    found = home.plan(keep=1)
    assert names(found.runs) == ["r1", "r4"]
    assert found.artifacts == [models[0], models[3]]


def test_a_place_that_models_were_pushed_to_counts_until_it_is_removed(home: Home, tmp_path: Path) -> None:
    models = [home.artifact("Trainer", f"r{number}") for number in range(1, 6)]
    for number, model in enumerate(models, 1):
        home.run(number, (model,))
    entries = [Entry(uri=str(model), blessed_at=str(at)) for at, model in enumerate(models[:4], 1)]
    Registry(models=tuple(entries)).write(home.folders.registry)
    places = [tmp_path / name / "7" for name in ("former", "profile", "current")]
    for entry, version in zip(entries, places, strict=False):
        version.mkdir(parents=True)
        PushRecord.read(home.folders.push_record).write(home.folders.push_record, entry, version)
    shutil.rmtree(places[0])  # the former folder, as a whole
    shutil.rmtree(places[2])  # what is in `deploy.push` now was withdrawn by hand
    home.aged()
    found = plan_prune(home.folders, 1, LATER, tmp_path / "current")
    assert names(found.runs) == ["r1"]
    assert found.artifacts == [models[0]]


def test_the_statistics_that_drift_is_measured_from_stay(home: Home) -> None:
    statistics = home.artifact("StatisticsGen", "r1")
    home.run(1, (statistics,))
    home.run(2)
    data = TrainingData(fingerprint="", spans=("1",), work="", statistics=str(statistics))
    TrainingRecord(blessed=data).write(home.folders.trained)
    assert home.plan(keep=1).artifacts == []
    home.folders.trained.unlink()
    assert home.plan(keep=1).artifacts == [statistics]
    entry = Entry(uri=str(home.artifact("Trainer", "r2")), blessed_at="", statistics=str(statistics))
    Registry(models=(entry,)).write(home.folders.registry)
    assert home.plan(keep=1).artifacts == []


def test_what_is_known_of_models_and_pushes_stays_whatever_goes(home: Home) -> None:
    made = [home.artifact("Trainer", name) for name in ("r1", "r2")]
    for number, path in enumerate(made, 1):
        home.run(number, (path,))
    home.span("old")
    Registry(models=(Entry(uri=str(made[1]), blessed_at=""),)).write(home.folders.registry)
    data = TrainingData(fingerprint="f", spans=("1",), work="w", statistics=str(made[1]))
    TrainingRecord().with_judged(data, blessed=True).write(home.folders.trained)
    state = [home.folders.registry, home.folders.trained, home.folders.push_record, home.folders.metadata]
    state += [home.folders.home / name for name in ("lock", ".blessed.json.lock", "serving/1772366400/saved_model.pb")]
    state += [home.folders.spans / "seen.json"]
    for path in state[2:]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    before = {path: path.read_bytes() for path in state}
    found = home.plan(keep=1)
    assert {path.name for path in found.folders} == {"r1", "old"}
    remove(home.folders, found)
    assert {path: path.read_bytes() for path in state} == before


def test_spans_of_kept_runs_stay_with_what_was_seen_in_them(home: Home) -> None:
    home.span("gone", "gone columns", "gone scan")
    home.span("both", "columns", "scan")
    home.span("new", "columns", "new scan")
    home.run(1, (home.artifact("ExampleGen", "r1"),), spans=("gone", "both"))
    home.run(2, (home.artifact("ExampleGen", "r2"),), spans=("both", "new"))
    assert names(home.plan(keep=1).spans) == ["gone", "gone columns", "gone scan"]


def test_a_span_and_a_checkpoint_that_were_written_since_stay(home: Home) -> None:
    for folder in (home.folders.spans, home.folders.checkpoints):
        for name in ("old", "new"):
            (folder / name / "in").mkdir(parents=True)
            (folder / name / "in" / "file").write_text("")
    home.run(1)
    home.run(2)
    home.aged()
    for folder in (home.folders.spans, home.folders.checkpoints):
        os.utime(folder / "new" / "in" / "file", (OLD + 2, OLD + 2))
    found = plan_prune(home.folders, 1, LATER)
    assert (names(found.spans), names(found.checkpoints)) == (["old"], ["old"])


def test_younger_runs_stay_though_they_are_many(home: Home) -> None:
    for number in range(1, 5):
        home.run(number)
    assert names(home.plan(keep=1, older_than=OLD + 3).runs) == ["r1", "r2"]


def test_a_kept_run_whose_record_cannot_be_read_stops_it_and_an_old_one_goes(home: Home) -> None:
    home.run(1)
    home.run(2)
    (home.folders.runs / "r1" / "run.json").write_text("{")
    assert names(home.plan(keep=1).runs) == []  # a single model: all is kept
    home.run(3)
    assert names(home.plan(keep=1).runs) == ["r1", "r2"]
    (home.folders.runs / "begun").mkdir()
    assert names(plan_prune(home.folders, 1, LATER).runs) == ["r1", "r2"]
    (home.folders.runs / "odd").mkdir()
    (home.folders.runs / "odd" / "run.json").write_text("{")
    with pytest.raises(RunError, match=r"odd: .*run\.json"):
        plan_prune(home.folders, 1, LATER)


def test_a_file_with_a_name_elsewhere_frees_nothing(home: Home) -> None:
    old, shared = home.artifact("A", "r1"), home.artifact("B", "r1")
    (old / "big").write_bytes(bytes(100_000))
    (shared / "shared").write_bytes(bytes(300_000))
    kept = home.artifact("A", "r2")
    os.link(shared / "shared", kept / "shared")
    os.link(old / "big", shared / "big")
    home.run(1, (old, shared))
    home.run(2, (kept,))
    before = {path: path.lstat().st_blocks for path in home.folders.home.rglob("*")}
    found = home.plan(keep=1)
    assert 100_000 <= found.freed < 150_000
    remove(home.folders, found)
    assert (kept / "shared").stat().st_size == 300_000
    assert len(before) > len(list(home.folders.home.rglob("*")))


@pytest.mark.slow
@given(st.data())
def test_nothing_that_a_kept_run_names_ever_goes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    home = Home(tmp_path_factory.mktemp("home") / "trips")
    every: list[Path] = []
    count = data.draw(st.integers(1, 6))
    for number in range(1, count + 1):
        every += [home.artifact(node, f"r{number}") for node in data.draw(st.sets(st.sampled_from("ABC")))]
        used = tuple(data.draw(st.lists(st.sampled_from(every), unique=True)) if every else ())
        home.run(number, used, data.draw(st.sampled_from([Status.DONE, Status.FAILED])))
    keep = data.draw(st.integers(1, 4))
    found = home.plan(keep)
    remove(home.folders, found)
    assert sum(run.made_a_model for run in found.kept) >= min(keep, sum(run.made_a_model for run in home.plan(99).kept))
    for run in home.plan(99).kept:
        assert run.record is not None
        assert all(Path(uri).is_dir() for uri in run.uris())
    assert not home.plan(keep).folders


CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""


def command(*arguments: str) -> tuple[int, list[str]]:
    Path("trips.yaml").write_text(CONFIG, encoding="utf-8")
    done = CliRunner().invoke(cli, ["prune", "trips.yaml", *arguments])
    return done.exit_code, done.output.splitlines()


def test_the_command_says_what_would_go_and_then_what_went(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home.folders.home.parents[1])
    for number in (1, 2, 3):
        made = home.artifact("Trainer", f"r{number}")
        (made / "weights").write_bytes(bytes(1_000_000))
        home.run(number, (made,))
    home.aged()
    code, lines = command()
    assert (code, len(lines)) == (0, 1)
    assert lines[0].startswith("nothing to remove: all 3 runs ")
    code, lines = command("--keep", "1", "--dry-run")
    base = "would remove runs/trips"
    artifacts = [f"{base}/artifacts/Trainer/out/{name}" for name in ("r1", "r2")]
    assert (code, lines[:-1]) == (0, [*artifacts, f"{base}/runs/r1", f"{base}/runs/r2"])
    said = "2 of 3 runs (r1 to r2), 2 artifacts, 0 stored spans, 0 checkpoints: "
    assert lines[-1].startswith(f"{said}would free 2.0 MB")
    assert command("--keep", "1") == (0, [lines[-1].replace("would free", "freed")])
    assert sorted(path.name for path in home.folders.runs.iterdir()) == ["r3"]
    code, lines = command()
    assert (code, [line.startswith("nothing to remove: ") for line in lines]) == (0, [True])


def test_nothing_is_removed_while_a_run_continues(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home.folders.home.parents[1])
    home.run(1)
    home.run(2)
    script = "import sys, time; from pathlib import Path; from headrace.pipeline.folders import locked\n"
    script += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(home.folders.home)],
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None
    other.stdout.readline()
    code, lines = command("--keep", "1")
    other.kill()
    other.wait()
    assert code == 1
    assert lines[0].startswith("another run of this pipeline")
    with locked(home.folders.home):
        assert len(list(home.folders.runs.iterdir())) == 2


def test_before_the_first_run_there_is_nothing_to_prune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, lines = command()
    assert code == 1
    assert "no run" in lines[0]

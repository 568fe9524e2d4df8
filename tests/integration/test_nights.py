"""Nights of a rolling window over daily files: the second one reads the new day and nothing else, and its model is
refused; a later one has a model that is blessed again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, Finished, headrace

from headrace.common.storage.paths import resolve

pytestmark = pytest.mark.slow

Listing = list[dict[str, Any]]

DAYS = [f"2026-11-{day:02d}" for day in (28, 29, 30)] + ["2026-12-01", "2026-12-02"]
ROWS = 3000
UNREACHABLE = ("--set", "evaluate.thresholds.auc.min=1")
"""What no model of this data reaches."""
NOTIFY = """
notify:
  log: {kind: command, command: [tee, -a, events.jsonl], on: [not_blessed, pushed]}
"""


@dataclass(frozen=True)
class Nights:
    """Runs over three days: the first ones, then with a new one, again, and with an old one changed. The models of
    the second and the third are refused.

    models: what `headrace models` lists after each of the first two and the last.
    """

    folder: Path
    first: Finished
    next: Finished
    again: Finished
    changed: Finished
    models: tuple[Listing, Listing, Listing]

    @property
    def notices(self) -> list[dict[str, Any]]:
        """The events that the receiver got."""
        text = (self.folder / "events.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.replace("}{", "}\n{").splitlines()]

    @staticmethod
    def log(done: Finished, node: str) -> str:
        return (done.folder / "logs" / f"{node}.log").read_text()


@pytest.fixture(scope="module")
def nights(new_folder: Callable[[str], Path]) -> Nights:
    folder = new_folder("nights")
    text = (ROOT / "configs" / "taxi.yaml").read_text()
    for old, new in {
        r"path: pkg.*": "path: trips/{YYYY}-{MM}-{DD}.csv",
        r"splits: ": "window: 3\n  splits: ",
        r"epochs: 10": "epochs: 5",
        r"\n  thresholds:\n.*": "",
        r"deploy: \{": "deploy: {canary: null, ",
    }.items():
        text, count = re.subn(old, new, text)
        assert count == 1, old
    (folder / "nightly.yaml").write_text(text + NOTIFY)
    (folder / "trips").mkdir()
    for day in DAYS[:3]:
        write(folder, day)
    first, listed = headrace(folder, "run", "nightly.yaml"), listing(folder)
    write(folder, DAYS[3])
    second, refused = headrace(folder, "run", "nightly.yaml", *UNREACHABLE), listing(folder)
    again = headrace(folder, "run", "nightly.yaml", *UNREACHABLE)
    write(folder, DAYS[2], rows=ROWS - 10)
    changed = headrace(folder, "run", "nightly.yaml")
    return Nights(folder, first, second, again, changed, (listed, refused, listing(folder)))


def listing(folder: Path) -> Listing:
    """What `headrace models` lists, newest first."""
    found: Listing = json.loads(headrace(folder, "models", "nightly.yaml", "--json").out)
    return found


def write(folder: Path, day: str, rows: int = ROWS) -> None:
    """A day's part of the taxi data."""
    (file,) = resolve("pkg://tfx/examples/chicago_taxi_pipeline/data/big_tipper_label/*.csv")
    header, *lines = Path(file).read_text(encoding="utf-8").splitlines(keepends=True)
    start = ROWS * DAYS.index(day)
    (folder / "trips" / f"{day}.csv").write_text("".join([header, *lines[start : start + rows]]))


def test_each_night_learns_from_the_days_of_its_window(nights: Nights) -> None:
    for done in (nights.first, nights.next):
        assert done.code == 0, done.out + done.err
        rows = json.loads(str(done.run.node("ExampleGen").outputs["examples"].properties["rows"]))
        assert sum(rows.values()) == 3 * ROWS
    shards = [path.name for path in nights.next.uri("ExampleGen", "examples").rglob("data_tfrecord-*")]
    assert {name[14:24] for name in shards} == set(DAYS[1:4])


def test_the_second_night_reads_the_new_day_alone(nights: Nights) -> None:
    assert f"read now: {', '.join(DAYS[:3])}" in nights.log(nights.first, "ExampleGen")
    assert f"read now: {DAYS[3]}\n" in nights.log(nights.next, "ExampleGen")
    assert "Computed 9 of 9 parts" in nights.log(nights.first, "StatisticsGen")
    assert "Computed 3 of 9 parts" in nights.log(nights.next, "StatisticsGen")
    assert f"Analyzed now: {', '.join(DAYS[:3])}; cached: 0 spans" in nights.log(nights.first, "Transform")
    assert f"Analyzed now: {DAYS[3]}; cached: 2 spans" in nights.log(nights.next, "Transform")


def test_a_night_without_news_reads_nothing(nights: Nights) -> None:
    assert nights.again.code == 0
    assert not nights.again.ran()


def test_a_refused_model_leaves_the_one_in_service_and_says_so_everywhere(nights: Nights) -> None:
    for done in (nights.next, nights.again):
        assert done.code == 0
        assert done.ending("blessing").startswith("not blessed: auc is")
        assert "pushed/" not in done.ending("pushed")
    served = nights.first.ending("pushed")
    assert nights.next.run.node("Pusher").outputs["pushed_model"].properties["pushed"] == 0
    (first,), (refused, kept), _ = nights.models
    assert (first["in_service"], first["blessed"]) == (True, True)
    assert (refused["in_service"], refused["blessed"], refused["versions"]) == (False, False, [])
    assert kept == first
    assert served.endswith(f"/{first['versions'][0]}")
    page = (nights.next.folder / "report.html").read_text(encoding="utf-8")
    assert "Not blessed" in page
    assert "at least 1" in page


def test_the_night_after_a_refused_model_compares_with_the_one_in_service_and_goes_on(nights: Nights) -> None:
    model = {one: str(done.uri("Trainer", "model")) for one, done in (("first", nights.first), ("next", nights.next))}
    assert model["first"] != model["next"]
    assert str(nights.changed.uri("Baseline", "baseline")) == model["first"]
    assert nights.changed.ending("blessing").startswith("blessed")
    newest, refused, first = nights.models[2]
    assert [one["in_service"] for one in (newest, refused, first)] == [True, False, False]
    assert [one["blessed"] for one in (newest, refused, first)] == [True, False, True]
    assert nights.changed.ending("pushed").endswith(f"/{newest['versions'][0]}")
    versions = {path.name for path in nights.folder.rglob("serving/*/*") if path.name.isdecimal()}
    assert versions == {str(newest["versions"][0]), str(first["versions"][0])}


def test_each_night_is_told_what_became_of_its_model(nights: Nights) -> None:
    told = [(one["subject"], one["type"].rpartition(".")[2], one["data"]["blessed"]) for one in nights.notices]
    runs = [done.run.run_id for done in (nights.first, nights.next, nights.again, nights.changed)]
    ends = [("pushed", True), ("not_blessed", False), ("not_blessed", False), ("pushed", True)]
    assert told[:4] == [(run, *end) for run, end in zip(runs, ends, strict=True)]
    (limit,) = (one for one in nights.notices[1]["data"]["limits"] if one["rule"] == "at least 1")
    assert (limit["metric"], limit["passed"]) == ("auc", False)


def test_a_changed_day_is_reported_and_read_again(nights: Nights) -> None:
    assert nights.changed.code == 0
    assert f"read now: {DAYS[2]}\n" in nights.log(nights.changed, "ExampleGen")
    reported = json.loads(str(nights.changed.run.node("ExampleGen").outputs["examples"].properties["notes"]))
    assert len(reported) == 1
    assert reported[0].startswith(f"{nights.folder}/trips/{DAYS[2]}.csv changed since it was last read")


def test_what_old_nights_left_goes_and_the_next_one_reads_its_own_day_all_the_same(nights: Nights) -> None:
    """Comes last: it takes away what the tests above look at."""
    done = headrace(nights.folder, "prune", "nightly.yaml", "--keep", "1")
    assert done.code == 0, done.out + done.err
    last = done.out.splitlines()[-1]
    assert re.match(r"3 of 4 runs .*, \d+ artifacts, 2 stored spans, 0 checkpoints: freed \d", last)
    assert [path.name for path in nights.folder.glob("runs/*/runs/*")] == [nights.changed.folder.name]
    assert all(Path(one.uri).exists() for node in nights.changed.run.nodes for one in node.outputs.values())
    write(nights.folder, DAYS[4])
    after = headrace(nights.folder, "run", "nightly.yaml")
    assert after.code == 0, after.out + after.err
    assert f"read now: {DAYS[4]}\n" in nights.log(after, "ExampleGen")
    assert "Computed 3 of 9 parts" in nights.log(after, "StatisticsGen")
    assert f"Analyzed now: {DAYS[4]}; cached: 2 spans" in nights.log(after, "Transform")
    assert after.run.node("Baseline").outputs["baseline"].properties["exists"] == 1

"""docs/nightly.md, followed line by line in an empty folder: each file is saved, and each command is executed.

Not executed are the installation, and what a test of its own is about: the image, and `headrace verify`.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from api_server import ApiServer
from command import ROOT, Finished, headrace
from faulty_backend import serving
from installed import without_pythonpath

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs" / "nightly.md").read_text(encoding="utf-8")
SERVER = "http://localhost:8888"
FILE = re.compile(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^    ((?:headrace|python|head|rm) .*)$", re.MULTILINE)


@dataclass
class Followed:
    """What the commands of the page left, by their first words, in their order."""

    folder: Path
    server: ApiServer
    done: dict[str, list[Finished]] = field(default_factory=dict)

    def of(self, command: str) -> list[Finished]:
        return self.done[command]


def steps() -> list[tuple[str, str]]:
    """(file, content) and ("", command), as they come."""
    found = [(match.start(), match[1], match[2]) for match in FILE.finditer(PAGE)]
    found += [(match.start(), "", match[1]) for match in COMMAND.finditer(PAGE)]
    return [(file, text) for _, file, text in sorted(found)]


@pytest.fixture(scope="module")
def followed(new_folder: Callable[[str], Path]) -> Iterator[Followed]:
    server = ApiServer()
    with serving(server):
        story = Followed(new_folder("nightly"), server)
        for file, text in steps():
            _follow(story, file, text)
        yield story


def _follow(story: Followed, file: str, text: str) -> None:
    if file:
        with (story.folder / file).open("a", encoding="utf-8") as target:
            target.write(text.replace(SERVER, story.server.url))
        return
    program, *arguments = shlex.split(text)
    if program == "headrace":
        story.done.setdefault(arguments[0], []).append(headrace(story.folder, *arguments))
        return
    shell = text.replace("python ", f"{sys.executable} ", 1)
    subprocess.run(shell, shell=True, check=True, cwd=story.folder, env=without_pythonpath())


def test_the_config_is_the_one_that_the_page_shows(followed: Followed) -> None:
    (done,) = followed.of("init")
    assert done.code == 0, done.err
    assert done.err.count("alone reaches an AUC") == 5
    shown = PAGE[PAGE.index("    data:\n") : PAGE.index("It also asks")].replace("\n    ", "\n")[4:]
    assert shown.strip() in (followed.folder / "biopsies.yaml").read_text()
    assert followed.of("validate")[0].out.endswith(
        "the config is valid and fits the data (30 features, label diagnosis)\n"
    )


def test_the_first_model_predicts_the_diagnosis(followed: Followed) -> None:
    first = followed.of("run")[0]
    assert first.ending("blessing").startswith("blessed: auc is 0.99")
    assert followed.of("predict")[0].code == 0
    with (followed.folder / "scored.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]][-3:] == ["prediction", "probability_benign", "probability_malignant"]
    assert len(rows) == 71
    assert sum(row["prediction"] == row["diagnosis"] for row in rows) >= 66


def test_the_next_night_reads_the_new_day(followed: Followed) -> None:
    second = followed.of("run")[1]
    assert second.statuses()["Pusher"] == "done"
    assert "changed since" not in second.out
    rows = [line for line in followed.of("models")[0].lines if "2026-11-01 to" in line]
    assert ["2026-11-08" in line for line in rows] == [True, False]
    assert [line.split()[0].endswith("*") for line in rows] == [True, False]


def test_the_bad_night_stops_as_the_page_says(followed: Followed) -> None:
    third = followed.of("run")[2]
    assert third.code == 1
    shown = re.search(r"^    DataGate failed:.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    for line in shown[0].replace("\n    ", "\n").strip().splitlines():
        assert line.strip() in third.out + third.err
    assert "Transform" not in third.ran()


def test_the_schedule_is_on_the_server(followed: Followed) -> None:
    (compiled, scheduled, submitted, listed) = (
        followed.of(verb)[0] for verb in ("compile", "schedule", "submit", "runs")
    )
    assert [done.code for done in (compiled, scheduled, submitted, listed)] == [0] * 4, (
        compiled.err + scheduled.err + submitted.err
    )
    tasks = next(yaml.safe_load_all((followed.folder / "compiled.yaml").read_text()))["root"]["dag"]["tasks"]
    assert {"examplegen", "trainer", "pusher"} <= {re.sub("[^a-z]", "", name) for name in tasks}
    (job,) = followed.server.objects["recurringruns"].values()
    assert job["trigger"]["cron_schedule"]["cron"] == "0 0 3 * * *"
    assert job["mode"] == "ENABLE"
    assert job["runtime_config"]["parameters"]["run_date"] == "scheduled"
    assert json.dumps(job).count("registry.example/headrace:1") <= 1

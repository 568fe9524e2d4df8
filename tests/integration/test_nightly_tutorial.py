"""docs/nightly.md, followed in an empty folder, with a stand-in of Kubeflow's API server.

Not executed are the installation, and what a test of its own is about: the image, and `headrace verify`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from api_server import ApiServer
from faulty_backend import serving
from pages import Followed, follow, text_of

pytestmark = pytest.mark.slow
PAGE = text_of("nightly.md")


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with serving(server := ApiServer()):
        yield server


@pytest.fixture(scope="module")
def followed(new_folder: Callable[[str], Path], server: ApiServer) -> Followed:
    return follow("nightly.md", new_folder("nightly"), {"http://localhost:8888": server.url})


def test_the_config_is_the_one_that_the_page_shows(followed: Followed) -> None:
    (done,) = followed.of("init")
    assert done.code == 0, done.err
    assert done.err.count("alone reaches an AUC") == 5
    shown = PAGE[PAGE.index("    data:\n") : PAGE.index("It also notes")].replace("\n    ", "\n")[4:]
    assert shown.strip() in (followed.folder / "biopsies.yaml").read_text()
    valid = "the config is valid and fits the data (30 features, label diagnosis)\nrows: looked at all "
    assert valid in followed.of("validate")[0].out


def test_the_first_model_predicts_the_diagnosis(followed: Followed) -> None:
    first = followed.of("run")[0]
    assert first.ending("blessing").startswith("blessed: auc is 0.99")
    assert followed.of("predict")[0].code == 0
    rows = followed.rows("scored.csv")
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


def test_the_schedule_is_on_the_server(followed: Followed, server: ApiServer) -> None:
    (compiled, scheduled, submitted, listed) = (
        followed.of(verb)[0] for verb in ("compile", "schedule", "submit", "runs")
    )
    assert [done.code for done in (compiled, scheduled, submitted, listed)] == [0] * 4, (
        compiled.err + scheduled.err + submitted.err
    )
    tasks = next(yaml.safe_load_all((followed.folder / "compiled.yaml").read_text()))["root"]["dag"]["tasks"]
    assert {"examplegen", "trainer", "pusher"} <= {re.sub("[^a-z]", "", name) for name in tasks}
    (job,) = server.objects["recurringruns"].values()
    assert job["trigger"]["cron_schedule"]["cron"] == "0 0 3 * * *"
    assert job["mode"] == "ENABLE"
    assert job["runtime_config"]["parameters"]["run_date"] == "scheduled"
    assert json.dumps(job).count("registry.example/headrace:1") <= 1

"""`headrace init`: from a file that nobody has described to a blessed model, in one command."""

from __future__ import annotations

import csv
import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from command import Finished, headrace

pytestmark = pytest.mark.slow
ROWS = 1000
GENRES = ("Action", "Comedy", "Drama", "Kids")


@dataclass(frozen=True)
class Story:
    """The customers of a company as a CSV file, and what one command made of it."""

    folder: Path
    done: Finished

    @property
    def text(self) -> str:
        return (self.folder / "customers.yaml").read_text()


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("init")
    with (folder / "customers.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *customers()])
    return Story(folder, headrace(folder, "init", "customers.csv", "--label", "status", "--run"))


HEADER = ("customer_id", "age", "plan", "signup date", "genres", "active", "source", "closed", "status")


def customers() -> list[tuple[object, ...]]:
    """Young customers, and active ones of the plan `pro`, stay."""
    draw, rows = random.Random(3), list[tuple[object, ...]]()
    for number in range(ROWS):
        age, plan = draw.randint(18, 80), draw.choice(["basic", "plus", "pro"])
        active = draw.choice(["yes", "no"])
        stays = (age < 40) + (plan == "pro" and active == "yes") + draw.gauss(0, 0.2) > 0.5
        since = dt.date(2019, 1, 1) + dt.timedelta(draw.randrange(2000))
        genres = "|".join(sorted(draw.sample(GENRES, draw.randint(1, 3))))
        known_age = age if draw.random() < 0.95 else ""
        status = "" if number % 100 == 99 else "stayed" if stays else "left"
        written = since.strftime("%d.%m.%Y")
        rows.append((f"C{number:05}", known_age, plan, written, genres, active, "web", int(not stays), status))
    return rows


def test_one_command_says_at_once_what_it_does_and_not_to_do_again_what_it_did(story: Story) -> None:
    written, features, early, *rest = story.done.out.splitlines()
    assert "customers.yaml" in written
    assert "features" in features
    assert "checking customers.yaml" in early
    assert "next: headrace run" not in story.done.out
    assert "running" in " ".join(rest)


def test_one_command_leads_to_a_blessed_model(story: Story) -> None:
    assert story.done.code == 0, story.done.out + story.done.err
    assert story.done.statuses()["Pusher"] == "done"
    assert story.done.ending("blessing").startswith("blessed: auc is 0.9")


def test_every_column_is_a_feature_or_left_out_with_the_reason(story: Story) -> None:
    config = yaml.safe_load(story.text)
    date = {"column": "datetime", "key": "signup date", "format": "%d.%m.%Y"}
    assert config["features"] == {
        "age": {"column": "numeric"},
        "plan": {"column": "vocabulary", "values": ["basic", "plus", "pro"]},
        "active": {"column": "boolean"},
        **{f"signup_date_{part}": {**date, "part": part} for part in ("year", "month", "weekday")},
        "genres": {"column": "vocabulary", "top_k": 1000, "multivalued": True, "separator": "|"},
    }
    assert config["label"] == {"key": "status", "kind": "binary", "classes": ["left", "stayed"], "missing": "drop"}
    assert f"{ROWS // 100} rows have no status" in story.done.err
    for line in ("customer_id: a different value in each row", "source: the same value in all rows: web"):
        assert f"  # {line}" in story.text
    assert "  # closed: each value stands for one of status" in story.text


def test_what_is_written_fits_the_data_and_is_not_replaced_unasked(story: Story) -> None:
    done = headrace(story.folder, "validate", "customers.yaml")
    assert done.code == 0, done.err
    before = story.text
    refused = headrace(story.folder, "init", "customers.csv", "--label", "age")
    assert refused.code == 1
    assert "--force" in refused.err
    assert story.text == before
    done = headrace(story.folder, "init", "customers.csv", "--label", "age", "-o", "age.yaml")
    assert done.code == 0, done.err
    text = (story.folder / "age.yaml").read_text()
    assert yaml.safe_load(text)["label"]["kind"] == "regression"
    assert text.startswith("# Written by `headrace init customers.csv --label age -o age.yaml`\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("customers.csv",), "it could be: active, closed, status, plan, genres, age"),
        (("customers.csv", "--label", "Status"), 'did you mean "status"?'),
        (("customers.csv", "--label", "customer_id"), f"text with {ROWS:,} different values"),
        (("absent.csv", "--label", "status"), "absent.csv"),
        (("customers.csv", "--label", "status", "-o", "absent/x.yaml"), "there is no folder absent"),
        (("customers.csv", "--label", "status", "--table", "t"), "--table is for databases"),
    ],
)
def test_mistakes_are_told_and_write_nothing(story: Story, arguments: tuple[str, ...], message: str) -> None:
    before = {*story.folder.iterdir()}
    done = headrace(story.folder, "init", *arguments, "--force")
    assert done.code == 1
    assert message in done.err
    assert "Traceback" not in done.err
    assert {*story.folder.iterdir()} == before

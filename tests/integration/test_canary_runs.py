"""A model that fails its canary: the run is a success, and the model is neither listed as blessed nor pushed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Finished, headrace, versions
from parcels import parcels_config, write_parcels

pytestmark = pytest.mark.slow

CONFIG = parcels_config(
    "distance: {column: numeric}",
    "hours: {column: numeric}",
)
IMPOSSIBLE = ("--set", "deploy.canary={examples: 5, latency_p99_ms: 0.000001}")
POSSIBLE = ("--set", "deploy.canary={examples: 5}")


@dataclass(frozen=True)
class Story:
    """A run whose canary fails, and one without the limit; what was listed and pushed after each."""

    folder: Path
    refused: Finished
    after_refusal: tuple[list[str], bool]
    listed: dict
    passed: Finished

    @property
    def home(self) -> Path:
        return self.folder / "runs" / "parcels"


@pytest.fixture(scope="session")
def story(new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("canary")
    write_parcels(folder / "parcels.csv", 400)
    (folder / "parcels.yaml").write_text(CONFIG)
    refused = headrace(folder, "run", "parcels.yaml", *IMPOSSIBLE)
    after = versions(folder), (folder / "runs" / "parcels" / "blessed.json").exists()
    models = headrace(folder, "models", "parcels.yaml", "--json")
    return Story(folder, refused, after, json.loads(models.out)[0], headrace(folder, "run", "parcels.yaml", *POSSIBLE))


def test_run_is_a_success_that_pushes_nothing_and_says_why(story: Story) -> None:
    done = story.refused
    assert (done.code, done.run.status) == (0, "done")
    assert done.ending("blessing").startswith("not blessed: canary: serving_default: p99 of its latency is ")
    assert "deploy.canary.latency_p99_ms allows 1e-06 ms" in done.out
    assert done.ending("pushed") == "nothing"  # and no model is in service yet
    assert story.after_refusal == ([], False)


def test_report_and_list_of_models_say_why(story: Story) -> None:
    page = (story.folder / story.refused.ending("report")).read_text()
    assert "Not blessed" in page
    assert 'id="canary"' in page
    assert "p99 of its latency is" in page
    assert story.listed["blessed"] is False
    assert "p99 of its latency" in story.listed["canary"][0]


def test_same_model_is_pushed_once_its_canary_passes(story: Story) -> None:
    done = story.passed
    assert done.ran() == {"Canary", "Pusher"}
    assert done.ending("blessing").startswith("blessed")
    assert done.ending("canary").startswith("passed: ")
    assert [Path(done.ending("pushed")).name] == versions(story.folder)
    (listed,) = json.loads((story.home / "blessed.json").read_text())["models"]
    assert str(story.home / listed["uri"]) == str(done.uri("Trainer", "model"))

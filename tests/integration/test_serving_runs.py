"""`deploy.serving` in real runs: what a server in production has loaded, its labels, and what it rejects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import Finished, headrace, wait_until
from google.protobuf import text_format
from parcels import write_parcels
from receivers import HttpReceiver, http_receiver
from serving_server import ServingServer, serving_server
from tensorflow_serving.config import model_server_config_pb2

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data: {source: {kind: csv, path: parcels.csv}}
label: {key: late, kind: binary}
features: {distance: {column: numeric}, hours: {column: numeric}}
model: {kind: dnn, hidden: [4]}
train: {epochs: 1, early_stopping: null}
evaluate: {metrics: [auc], better_than_constant: false}
deploy:
  canary: null
  serving: {rest: "%s", grpc: "%s", config_file: models.config, labels: true, timeout_seconds: 60}
notify: {hook: {kind: webhook, url: "%s"}}
"""
OTHER = """\
# what another team serves
model_config_list {
  config { name: "other" base_path: "/models/other" model_platform: "tensorflow" model_version_policy { all {} } }
}
"""
LARGER = 250_000
"""More bytes than the folder of a model of few weights has, and fewer than that of MANY."""
SECOND = ("--set", "train.epochs=2")
THIRD = ("--set", "train.epochs=3")
MANY = ("--set", "model.hidden=[256, 64]")
PREDICT = ("--set", "predict={source: {kind: csv, path: parcels.csv}, output: scored.csv}")


@dataclass
class Story:
    """Commands by name; after each: the versions, the text of the config file, the version behind each label."""

    folder: Path
    server: ServingServer
    hook: HttpReceiver
    done: dict[str, Finished] = field(default_factory=dict)
    versions: dict[str, list[int]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    events: dict[str, list[dict]] = field(default_factory=dict)

    def command(self, name: str, verb: str, *options: str) -> None:
        """Run a command, and note what is there afterwards."""
        before = len(self.hook.requests)
        self.done[name] = headrace(self.folder, verb, "parcels.yaml", *options)
        self.versions[name] = sorted(int(one.name) for one in (self.folder / "serving" / "parcels").iterdir())
        self.texts[name] = self.texts["now"] = (self.folder / "models.config").read_text()
        self.labels[name] = self.served_labels()
        self.events[name] = [json.loads(one.body) for one in self.hook.requests[before:]]

    def served_labels(self) -> dict[str, int]:
        """The version that the server has behind each label, once it has read the file."""
        config = text_format.Parse(self.texts["now"], model_server_config_pb2.ModelServerConfig())
        (wanted,) = [dict(one.version_labels) for one in config.model_config_list.config if one.name == "parcels"]

        def found() -> dict[str, str]:
            return dict(json.loads((self.folder / "labels.json").read_text())["parcels"])

        assert wait_until(lambda: found() == wanted or self.server.ended), (found(), wanted)
        return {name: int(number) for name, number in found().items()}


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Iterator[Story]:
    folder = new_folder("production")
    write_parcels(folder / "parcels.csv", 400)
    (folder / "models.config").write_text(OTHER)
    flags = (f"--model_config_file={folder / 'models.config'}", f"--shown_labels={folder / 'labels.json'}")
    with http_receiver() as hook, serving_server(folder, *flags) as server:
        (folder / "parcels.yaml").write_text(CONFIG % (server.rest, server.grpc, hook.url))
        story = Story(folder, server, hook)
        story.command("first", "run")
        story.command("again", "run")
        story.command("second", "run", *SECOND)
        story.command("rollback", "rollback")
        story.command("waiting", "run", *THIRD, "--set", "deploy.approval=manual")
        story.command("promote", "promote", "--set", "deploy.approval=manual")
        server.faults(refuse_to_load="out of memory", if_larger_than=LARGER)
        story.command("rejected", "run", *MANY)
        story.command("reused", "run", *MANY, "--set", "deploy.serving.on_failure=roll_back")
        story.command("back", "rollback")
        story.command("restored", "run", *MANY, *SECOND, *PREDICT, "--set", "deploy.serving.on_failure=roll_back")
        server.faults()
        server.stop()
        away = ("--set", "deploy.serving.on_failure=roll_back", "--set", "deploy.serving.timeout_seconds=1")
        story.command("away", "run", *MANY, *away)
        yield story


def test_server_has_loaded_what_was_pushed(story: Story) -> None:
    done, (version,) = story.done["first"], story.versions["first"]
    assert done.code == 0, done.out + done.err
    assert done.ending("serving").startswith(f"version {version} is AVAILABLE at {story.server.rest} and ")
    assert done.ending("serving").endswith("the config file was updated")
    assert story.labels["first"] == {"stable": version, "canary": version}


def test_other_models_stay_in_the_file(story: Story) -> None:
    for text in story.texts.values():
        assert text.count("config {") == 2
        assert 'base_path: "/models/other"' in text
        assert "all {" in text
        assert f'base_path: "{story.folder / "serving" / "parcels"}"' in text


def test_pushing_twice_changes_nothing(story: Story) -> None:
    done = story.done["again"]
    assert done.code == 0
    assert story.versions["again"] == story.versions["first"]
    assert story.texts["again"] == story.texts["first"]
    assert done.ending("serving").endswith(story.server.grpc)


def test_labels_move_once_the_version_is_loaded(story: Story) -> None:
    first, second = story.versions["second"]
    assert story.labels["second"] == {"stable": first, "canary": second}


def test_rollback_and_promotion_move_labels(story: Story) -> None:
    assert [story.done[name].code for name in ("rollback", "waiting", "promote")] == [0, 0, 0]
    *_, third = story.versions["rollback"]
    assert story.labels["rollback"] == {"stable": third, "canary": third}  # nothing else is blessed any more
    assert story.labels["waiting"] == story.labels["rollback"]
    *_, fourth = story.versions["promote"]
    assert story.labels["promote"] == {"stable": third, "canary": fourth}


def test_rejected_version_fails_the_run_loudly_and_labels_stay(story: Story) -> None:
    done, version = story.done["rejected"], story.versions["rejected"][-1]
    assert done.code == 1
    assert done.ending("pushed") == f"serving/parcels/{version}"
    assert done.ending("serving").startswith("FAILED: ")
    assert f"cannot load version {version}: out of memory" in done.ending("serving")
    assert story.labels["rejected"] == story.labels["promote"]


def test_receivers_are_told_that_it_failed(story: Story) -> None:
    (event,) = story.events["rejected"]
    assert event["type"] == "headrace.run.failed"
    (failure,) = event["data"]["failed"]
    assert failure["component"] == "TensorFlow Serving"
    assert str(story.versions["rejected"][-1]) in failure["error"]
    assert "out of memory" not in json.dumps(event)


def test_rejected_version_is_rolled_back_if_the_config_says_so(story: Story) -> None:
    done, version = story.done["restored"], story.versions["restored"][-1]
    assert done.code == 1
    assert [one > story.versions["back"][-1] for one in story.versions["restored"][-2:]] == [True, True]
    assert done.ending("serving").endswith(f"rolled back: version {version} is in service instead")
    assert story.labels["restored"]["canary"] == version
    listed = json.loads((story.folder / "runs" / "parcels" / "blessed.json").read_text())["models"]
    assert listed[-1]["withdrawn_at"] is None
    assert any(one["withdrawn_at"] for one in listed)
    cards = [card.read_text() for card in (story.folder / "runs" / "parcels" / "runs").glob("*/model_card.md")]
    assert sum(str(version) in card for card in cards) == 1


def test_predictions_of_the_run_are_those_of_the_version_that_came_back(story: Story) -> None:
    done, (rejected, version) = story.done["restored"], story.versions["restored"][-2:]
    assert done.ending("pushed") == f"serving/parcels/{rejected}"
    assert done.ending("predicted") == f"scored.csv: 400 rows by version {version}"


def test_rejected_version_of_an_earlier_run_is_not_rolled_back_by_one_that_pushed_nothing(story: Story) -> None:
    done = story.done["reused"]
    assert done.code == 1
    assert done.statuses()["Pusher"] == "cached"
    assert done.run.node("Pusher").outputs["pushed_model"].properties["pushed"] == 1
    assert f"cannot load version {story.versions['rejected'][-1]}: out of memory" in done.ending("serving")
    assert "rolled back" not in done.ending("serving")
    assert story.versions["reused"] == story.versions["rejected"]
    assert story.labels["reused"] == story.labels["promote"]


def test_server_that_is_away_is_no_reason_to_roll_back(story: Story) -> None:
    done = story.done["away"]
    assert done.code == 1
    assert "does not answer" in done.ending("serving")
    assert story.versions["away"] == story.versions["restored"]

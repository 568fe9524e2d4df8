"""Runs on this machine that push into an object store, with the installed command."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import Finished, headrace
from parcels import parcels_config, write_parcels
from s3_servers import S3Server

pytestmark = pytest.mark.slow

PUSH = 'deploy: {push: "s3://parcels-served/models/{name}", canary: null}\n'
URI = "s3://parcels-served/models/parcels"


@dataclass(frozen=True)
class Story:
    """Two models, an unchanged run, and a rollback. bucket: where they are served from."""

    folder: Path
    bucket: Any
    first: Finished
    unchanged: Finished
    second: Finished
    back: Finished

    @property
    def versions(self) -> list[str]:
        keys = [one.key.split("/") for one in self.bucket.objects.filter(Prefix="models/parcels/")]
        return sorted((key[2] for key in keys if key[3:] == ["saved_model.pb"]), key=int)


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path], s3_server: S3Server) -> Iterator[Story]:
    folder = new_folder("push-to-store")
    write_parcels(folder / "parcels.csv", 400)
    (folder / "parcels.yaml").write_text(
        parcels_config("distance: {column: numeric}", "hours: {column: numeric}") + PUSH
    )
    with pytest.MonkeyPatch.context() as patch, s3_server.bucket("parcels-served") as bucket:
        s3_server.enter(patch)
        first, unchanged = (headrace(folder, "run", "parcels.yaml") for _ in range(2))
        second = headrace(folder, "run", "parcels.yaml", "--set", "model.hidden=[5]")
        yield Story(folder, bucket, first, unchanged, second, headrace(folder, "rollback", "parcels.yaml"))


def test_each_model_is_a_version_in_the_store_and_an_unchanged_run_pushes_nothing(story: Story) -> None:
    assert len(story.versions) == 3
    pushed = [done.ending("pushed") for done in (story.first, story.second)]
    assert pushed == [f"{URI}/{version}" for version in story.versions[:2]]
    assert story.unchanged.run.nodes
    assert "Pusher" not in story.unchanged.ran()
    assert f"{URI}/{story.versions[2]}" in story.back.out
    assert f"{URI}/{story.versions[0]}" in (story.folder / story.first.ending("report")).read_text()


def test_a_version_in_the_store_is_the_model_that_was_trained(story: Story) -> None:
    model = story.first.uri("Trainer", "model") / "Format-Serving"
    trained = {str(path.relative_to(model)): path.read_bytes() for path in model.rglob("*") if path.is_file()}
    for version in (story.versions[0], story.versions[2]):  # the second of them by the rollback
        prefix = f"models/parcels/{version}/"
        found = {one.key.removeprefix(prefix): one for one in story.bucket.objects.filter(Prefix=prefix)}
        served = {name: one.get()["Body"].read() for name, one in found.items() if not f"/{name}".endswith("/")}
        assert served == trained


def test_models_and_predictions_are_of_the_version_in_service(story: Story) -> None:
    listed = json.loads(headrace(story.folder, "models", "parcels.yaml", "--json").out)
    (served,) = (model for model in listed if model["in_service"])
    assert (served["run"], len(served["versions"])) == (story.first.run.run_id, 2)
    done = headrace(story.folder, "predict", "parcels.yaml", "--input", "parcels.csv", "-o", "predictions.csv")
    assert done.code == 0, done.err
    with (story.folder / "predictions.csv").open() as rows:
        assert len([*csv.DictReader(rows)]) == 400


def test_a_bucket_that_does_not_exist_is_found_before_anything_runs(story: Story) -> None:
    done = headrace(story.folder, "run", "parcels.yaml", "--set", "deploy.push=s3://no-such-bucket-here/models")
    assert (done.code, done.record) == (1, None)
    assert "deploy.push" in done.err
    assert "s3://no-such-bucket-here" in done.err

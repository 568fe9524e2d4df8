"""`headrace tensorboard` in a real browser, which reaches nothing but this machine."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import keras
import numpy as np
import pytest
import tensorflow as tf
from browsing import PATIENCE, watched
from command import Going, headrace

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.configs.schema.train import TrainConfig
from headrace.pipeline.folders import Folders
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.tensorboard.server import LOADER, link, profile_page, trainings
from headrace.trainer.callbacks.tensorboard import Scalars
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.inputs import Inputs
from headrace.trainer.profiling.callback import profiling

if TYPE_CHECKING:
    from browsing import Watched
    from playwright.sync_api import Browser, Frame

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""
RUN = "20260101-000000"


def folders(folder: Path) -> Folders:
    return Folders(folder / "runs" / "trips")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline's folder with one training, its curves and a profile of ten steps."""
    folder = tmp_path_factory.mktemp("tensorboard")
    (folder / "trips.yaml").write_text(CONFIG)
    logs = folders(folder).artifacts / "Trainer" / "model_run" / RUN
    logs.mkdir(parents=True)
    features = np.ones((640, 8), np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((features, features[:, :1])).batch(32)
    train = TrainConfig.model_validate_json('{"epochs": 2, "batch_size": 32, "profile": {"batches": [25, 34]}}')
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse", steps_per_execution=2, jit_compile=False)
    split = InputSplit(lambda: dataset, lambda: dataset, 20, 640, lambda: 0)
    inputs = Inputs(split, split, "in memory", cache="memory", bytes_each=36)
    callbacks = [*profiling(train, inputs, 2, logs), Scalars(logs)]
    model.fit(dataset, validation_data=dataset, epochs=2, callbacks=callbacks, verbose=0, shuffle=False)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    before = checksum(folder / "runs")
    going = Going(folder, "tensorboard", "trips.yaml", "--port", "0")
    try:
        going.wait_for(r"^http://localhost:\d+/ ")
        yield going._seen[-1].split()[0]
    finally:
        going.signal(signal.SIGINT)
        ended = going.finish()
    assert (ended.code, ended.err) == (130, "interrupted\n")
    assert checksum(folder / "runs") == before  # xprof's own files lie elsewhere


def open_tool(page: Watched, address: str, folder: Path, tool: str) -> Frame:
    """The frame of one of the profile plugin's tools, loaded."""
    (profile,) = (folder / "runs").rglob("*.xplane.pb")
    session = f"{RUN}/train/{profile.parent.name}"
    asked = urlencode({"run": session, "tag": tool, "host": profile.name.removesuffix(".xplane.pb")})
    page.page.goto("about:blank")
    page.page.goto(f"{address}?{asked}#profile")
    return page.frame(f"profile/{tool}")


def legend_inside(frame: Frame) -> list[str]:
    """The names in the charts' legends as they are shown, all within their charts."""
    shown = frame.evaluate("""() => [...document.querySelectorAll('svg[role=img]')].flatMap((chart) => {
      const edge = chart.getBoundingClientRect();
      const lines = [...chart.querySelectorAll('text[data-legend]')].map((line) => {
        const box = line.getBoundingClientRect();
        const inside = box.left >= edge.left && box.right <= edge.right + 1 && box.bottom <= edge.bottom + 1;
        return {inside, entry: line.dataset.legend, words: line.firstChild.data};
      });
      const entries = [...new Set(lines.map((line) => line.entry))];
      return entries.map((entry) => lines.filter((line) => line.entry === entry)).map((parts) => (
        {inside: parts.every((part) => part.inside), words: parts.map((part) => part.words).join('')}));
    })""")
    assert [one["words"] for one in shown if not one["inside"]] == []
    return [one["words"] for one in shown]


@pytest.mark.slow
def test_the_tools_of_a_profile_load_without_the_internet(browser: Browser, folder: Path, address: str) -> None:
    with watched(browser, address, viewport={"width": 1500, "height": 1200}) as page:
        frame = open_tool(page, address, folder, "overview_page")
        frame.wait_for_selector("text=Performance Summary", timeout=PATIENCE)
        frame.wait_for_selector("text=Host Compute Time")

        frame = open_tool(page, address, folder, "input_pipeline_analyzer")
        frame.wait_for_selector("text=/Your program is .*input-bound because/", timeout=PATIENCE)
        frame.wait_for_selector("text=train 25", timeout=PATIENCE)  # a step on the chart's axis
        bars = frame.locator("svg[role=img] rect title, svg[role=img] circle title").all_text_contents()
        assert any(re.match(r"train 25: Host compute \d", bar) for bar in bars)
        assert "Device collective communication" in legend_inside(frame)
        assert "Enqueuing data to be transferred to device (in ms)" in legend_inside(frame)

        frame = open_tool(page, address, folder, "framework_op_stats")
        cells = frame.locator("td", has_text=re.compile("MatMul"))
        cells.first.wait_for(timeout=PATIENCE)
        assert frame.locator("svg[role=img] path title", has_text=re.compile(r"MatMul: .*%")).count() >= 1
        assert any(name.startswith("MatMul (") for name in legend_inside(frame))

        open_tool(page, address, folder, "trace_viewer@")
        trace = page.frame("trace_viewer_index.html")
        trace.wait_for_selector("text=python", timeout=PATIENCE)
        trace.wait_for_selector("text=Expand All")
    elsewhere = [request for request in page.left if "fonts.googleapis.com" not in request]
    assert elsewhere == []  # and the fonts, asked for by styles, are refused by the page's policy
    ours = [error for error in page.errors if "headrace_charts" in error]
    assert ours == []


@pytest.mark.slow
def test_the_curves_are_there_too(browser: Browser, folder: Path, address: str) -> None:
    with watched(browser, address) as page:
        page.page.goto(f"{address}#scalars")
        page.page.wait_for_selector("text=epoch_loss", timeout=PATIENCE)
        for split in ("train", "validation"):
            assert page.page.locator(f"text={RUN}/{split}").count() >= 1


def test_the_page_of_xprof_is_the_one_we_know() -> None:
    page = profile_page()
    assert page is not None
    assert LOADER.encode() not in page


def test_a_run_that_reused_a_training_shows_it_under_its_own_name(tmp_path: Path) -> None:
    place = folders(tmp_path)
    logs = place.artifacts / "Trainer" / "model_run" / "r-1"
    (logs / "train").mkdir(parents=True)
    (logs / "train" / "events.out.tfevents.1").write_bytes(b"x")
    (logs / "best.weights.h5").write_bytes(b"y")
    record = RunRecord("r-2", "trips", "trips.yaml", 0.0, 1.0, Status.DONE)
    record.nodes = [NodeRecord("Trainer", [], Status.CACHED, outputs={"model_run": ArtifactRecord("T", str(logs))})]
    (place.runs / "r-2").mkdir(parents=True)
    record.write(place.runs / "r-2")
    assert trainings(place, None) == {"r-1": logs}
    assert trainings(place, "r-2") == {"r-2": logs}
    view = tmp_path / "view"
    view.mkdir()
    link(trainings(place, "r-2"), view)
    assert [path.relative_to(view).as_posix() for path in view.rglob("*") if path.is_symlink()] == [
        "r-2/train/events.out.tfevents.1"
    ]
    (logs / "validation").mkdir()
    (logs / "validation" / "events.out.tfevents.2").write_bytes(b"z")
    (logs / "train" / "events.out.tfevents.1").unlink()
    link(trainings(place, "r-2"), view)  # as it continues
    assert [path.name for path in view.rglob("*") if path.is_symlink()] == ["events.out.tfevents.2"]
    with pytest.raises(RunError, match=r"no run r-3 in .*r-2"):
        trainings(place, "r-3")


def test_without_a_training_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "trips.yaml").write_text(CONFIG)
    ended = headrace(tmp_path, "tensorboard", "trips.yaml")
    assert ended.code == 1
    assert ended.err.startswith("no training yet in ")
    assert "headrace run" in ended.err

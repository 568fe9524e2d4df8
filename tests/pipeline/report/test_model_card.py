"""The card of a model: what it says, and that names and values from the data are text in HTML and Markdown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import yaml
from browsing import assert_accessible, watched
from keyboard import assert_operable, assert_usable, to_the_top, unfold, walked
from markdown_it import MarkdownIt

from headrace.common.storage.files import FileState
from headrace.components.evaluation.result import SliceMetrics, read_evaluation, write_evaluation
from headrace.components.gates.verdict import DataVerdicts, GateRow, GateVerdict
from headrace.pipeline.models import CARD
from headrace.pipeline.models.card import MARKDOWN, render_card
from headrace.pipeline.models.listing import Model
from headrace.pipeline.models.origin import Origin, SpanOrigin
from headrace.pipeline.share.runs import PublicFolder

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Run = Any  # what the fixtures of conftest.py give
EVIL = "<script>alert(1)</script>\n# [a](http://x.org) | ![i](www.x.org) `b` *c* &lt; \\| \u202e"
SHOWN = "<script>alert(1)</script> # [a](http://x.org) | ![i](www.x.org) `b` *c* &lt; \\| \\u202e"


def rendered(run: Run) -> dict[str, str]:
    """Both files of the model that the run trained on two spans, one with a hostile name."""
    run.record.write(run.folder)
    model = Model(Path("/m/1"), "r-1", commit="c0ffee", dirty=True, spans=("1", EVIL), versions=(17, 18))
    files = (FileState("/d/1.csv", 1500, "1"), FileState("/d/2.csv", 500, "2"))
    spans = (SpanOrigin("1", "abc123", files), SpanOrigin(EVIL, "def456", files[:1]))
    rows = {"train": 300, "eval": 100}
    folder = run.folder
    origin = Origin(model, record=folder, judged=folder, fingerprint="feed", rows=rows, spans=spans)
    return render_card(origin, PublicFolder(folder, run.record))


def as_html(card: str) -> str:
    """The Markdown as GitHub renders it, without a link in it that was not written as one."""
    return MarkdownIt("commonmark").enable("table").render(card)


def test_card_shows_verdict_metrics_slices_thresholds_data_and_limits(whole: Run) -> None:
    files = rendered(whole)
    page, text = whole.read(_saved(whole, files[CARD])), whole.read(_saved(whole, as_html(files[MARKDOWN])))
    metrics = text.table("metric")
    assert metrics["auc"]["model"] == "0.9123"
    assert metrics["auc"]["baseline"] == "0.9300"
    assert metrics["auc"]["best constant prediction"] == "0.5000"
    assert "at least 0.85: passed" in metrics["auc"]["must be"]
    assert ": missed" in metrics["auc"]["must be"]
    assert metrics["precision"]["model"] == "\N{EN DASH}"
    assert page.table("Metric")["auc"]["Model"] == "0.9123"
    assert text.table("hour", "examples")["2"] == {
        "hour": "2", "examples": "55", "auc": "0.7100", "binary_crossentropy": "0.6000", "precision": "\N{EN DASH}",
    }  # fmt: skip
    assert text.table("span")["1"] == {"span": "1", "files": "2", "bytes": "2.0 kB", "fingerprint": "abc123"}
    assert page.table("Span")["1"]["Fingerprint"] == "abc123"
    for said in (
        "Predicts big_tipper, one of 2 classes: 0, 1. The output is the probability of the second.",
        "Verdict: not blessed",
        "the predictions are not numbers",
        "2 examples of the eval split without a label were not evaluated.",
        "Too few examples to judge these slices: hour = 1 (5); company = a, hour = b, hour = 1 (9).",
        "the eval split has only 100 examples",
        "the eval loss was still falling",
        "17, 18",
        "c0ffee, with tracked files that differed from it",
        "train 300, eval 100",
    ):
        assert said in text.all_text()
    for said in ("Not blessed", "Too few examples to judge these slices: hour = 1 (5)", "17, 18", "c0ffee", "feed"):
        assert said in page.all_text()


def test_card_names_gates_that_were_not_passed_without_values_of_the_data(whole: Run) -> None:
    far = GateRow(what="poet", measure="distance", value="0.5", limit="0.1", before="Ono no Komachi", excess=4)
    near = GateRow(what="hour", measure="distance", value="0.05", limit="0.1", excess=-0.5)
    gates = [GateVerdict.of("gates.skew", "warn", [far, near]), GateVerdict.of("gates.rows", "stop", [near])]
    gates.append(GateVerdict.of("gates.freshness", "stop", [], note="Ono no Komachi is not a date"))
    verdict = DataVerdicts(gates=tuple(gates)).model_dump_json()
    (whole.output("DataVerdict", "verdict") / "value").write_text(verdict)
    files = rendered(whole)
    for page in (whole.read(_saved(whole, files[CARD])), whole.read(_saved(whole, as_html(files[MARKDOWN])))):
        text = page.all_text()
        assert "Its data did not pass gates.skew: 1 of 2 checks failed." in text
        assert "gates.freshness could not judge all of its data." in text
        assert ("gates.rows" in text, "poet" in text, "Komachi" in text) == (False, False, False)


def test_card_names_the_kind_that_was_trained(whole: Run) -> None:
    training = whole.artifacts / "Trainer" / "model_run" / "1" / "training.json"
    record = json.loads(training.read_text())
    for chosen, kind in {"tabm: auto, for 300 examples": "tabm", "": "wide_and_deep"}.items():
        training.write_text(json.dumps(record | {"chosen": {"model": chosen}}))
        files = rendered(whole)
        assert "- Model: " + kind.replace("_", "\\_") + "\n" in files[MARKDOWN]
        assert f"<dt>Model</dt><dd>{kind}</dd>" in files[CARD]


def test_card_shows_the_digits_of_the_float64_column_that_the_rows_were_split_by(run: Run) -> None:
    import tensorflow_data_validation as tfdv

    at = 1_700_000_000.25 + np.arange(300)
    frame = pd.DataFrame({"at": at.astype(np.float32), "at:float64": at.view(np.int64)})
    split = run.output("StatisticsGen", "statistics") / "Split-train"
    split.mkdir()
    (split / "FeatureStats.pb").write_bytes(tfdv.generate_statistics_from_dataframe(frame).SerializeToString())
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    config["data"] |= {"split_by": "at", "types": {"at": "float64"}}
    config["features"]["at"] = {"column": "numeric"}
    (run.folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    assert "1,700,000,000.25 to 1,700,000,299.25" in run.read(_saved(run, rendered(run)[CARD])).all_text()


def test_names_and_values_from_the_data_are_text_and_never_markup(whole: Run) -> None:
    found = read_evaluation(whole.artifacts / "Evaluator" / "evaluation" / "1")
    hostile = SliceMetrics(f"hour = {EVIL}", {"auc": 0.5}, 3, None)
    changed = replace(found, slices=(*found.slices, hostile), reasons=(EVIL,), remarks=(EVIL,))
    write_evaluation(whole.artifacts / "Evaluator" / "evaluation" / "1", changed)
    config = {**yaml.safe_load((whole.folder / "config.yaml").read_text()), "label": {"key": EVIL, "kind": "binary"}}
    config["kubeflow"] = {"object_store": {"secret_key": "hunter2"}}
    (whole.folder / "config.yaml").write_text(yaml.safe_dump(config))
    whole.record.pipeline = EVIL
    files = rendered(whole)
    assert not any("hunter2" in file for file in files.values())
    text = whole.read(_saved(whole, as_html(files[MARKDOWN])))
    assert not {"script", "img", "a", "em"} & {tag for tag, _ in text.tags}
    assert [tag for tag, _ in text.tags].count("h1") == 1
    assert text.all_text().count(SHOWN) >= 5  # the title, the label, the remark, the reason, the span
    page = whole.read(_saved(whole, files[CARD]))
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert "alert(1)" in page.all_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_card_is_used_by_the_keyboard_alone(whole: Run, browser: Browser, width: int) -> None:
    target = _saved(whole, rendered(whole)[CARD])
    size = {"width": width, "height": 844}
    with watched(browser, target.as_uri(), viewport=size, reduced_motion="reduce") as page:
        page.page.goto(page.home)
        unfold(page.page)
        to_the_top(page.page)
        stops = walked(page.page)
        assert_usable(page.page, stops)
        assert_operable(page.page)
        assert len(stops) > 3
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        assert page.errors == []


def test_addresses_are_no_links_on_pages_that_make_links_of_them(whole: Run) -> None:
    card = rendered(whole)[MARKDOWN].split("The config as it ran")[0]
    assert "http://" not in card
    assert "www.x" not in card


def test_card_passes_axe(whole: Run, browser: Browser) -> None:
    assert_accessible(browser, _saved(whole, rendered(whole)[CARD]).as_uri())


def _saved(run: Run, text: str) -> Path:
    path: Path = run.folder / "saved.html"
    path.write_text(text, encoding="utf-8")
    return path

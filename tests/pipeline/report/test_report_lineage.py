"""The lineage of a model in the report: the picture and the table below it."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from browsing import violations, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVIL = "<script>alert(1)</script>"
TEXTS_AND_BOXES = """[...document.querySelectorAll(".lineage text")].map(text =>
    [text.getBBox().width, text.parentNode.querySelector("rect").width.baseVal.value])"""
Run = Any  # what the fixtures of conftest.py give


@pytest.fixture
def traced(run: Run) -> Run:
    """A run with all that a picture may show, and a name that is markup."""
    run.record.commit, run.record.dirty = "4f0c2a91b7d25e6f1a3b8c9d0e2f4a6b8c0d1e3f", True
    spans = json.dumps(dict.fromkeys(("2026-11-16", "2026-11-17", EVIL), 3))
    run.output("ExampleGen", "examples", {"spans": spans, "input_fingerprint": "f" * 64, "headrace_contents": "e" * 64})
    for node, key in (("StatisticsGen", "statistics"), ("SchemaGen", "schema"), ("Transform", "transform_graph")):
        run.output(node, key)
    run.output("WarmStart", "base", {"exists": 1})
    run.output("Trainer", "model", {"headrace_contents": "a" * 64})
    run.output("Evaluator", "evaluation")
    run.output(
        "Pusher", "pushed_model", {"pushed": 1, "pushed_version": "1795402861", "pushed_destination": "/s/1795402861"}
    )
    return run


def test_picture_and_table_name_what_the_model_was_made_from_and_what_followed(traced: Run) -> None:
    page = traced.report()
    facts = page.table("Part", "Details")
    names = ["3 spans", "Examples", "Statistics", "Schema", "Transform graph", "Commit", "Config", "Started from"]
    assert list(facts) == [*names, "Model", "Evaluation", "Version"]
    assert facts["3 spans"]["Details"] == f"2026-11-16 to {EVIL}, fingerprint {'f' * 64}"
    assert facts["Commit"]["Details"] == f"{traced.record.commit}+dirty"
    digest = hashlib.sha256((traced.folder / "config.yaml").read_bytes()).hexdigest()
    assert facts["Config"]["Details"] == f"configs/taxi.yaml, SHA-256 {digest}"
    assert facts["Model"]["Details"] == f"{traced.artifacts}/Trainer/model/1, checksum {'a' * 64}"
    assert facts["Version"]["Details"] == "/s/1795402861"
    html = (traced.folder / "report.html").read_text(encoding="utf-8")
    (picture,) = re.findall(r'<svg[^>]*class="chart lineage".*?</svg>', html, re.DOTALL)
    for name in facts:
        assert f">{name}</text>" in picture
    assert "<script" not in html
    assert "&lt;script&gt;" in picture
    assert "The model was made from: 3 spans, examples, statistics, schema, transform graph, commit" in picture
    assert picture.count('class="edge"') == 4 + 1 + 3 + 2 + 1  # the chain, to the model, beside it, after it, around


@pytest.mark.parametrize("where", ["/s/17", None])
def test_what_a_pusher_of_the_users_says_of_its_push_is_enough(run: Run, where: str | None) -> None:
    for node, key in (("ExampleGen", "examples"), ("Trainer", "model")):
        run.output(node, key)
    model = run.output("Pusher", "pushed_model", {"pushed": 1, **({"pushed_destination": where} if where else {})})
    assert run.report().table("Part", "Details")["Version"]["Details"] == (where or str(model))


def test_run_without_a_model_has_no_picture_and_a_model_alone_has_a_small_one(run: Run) -> None:
    run.output("ExampleGen", "examples", {"input_fingerprint": "f" * 64})
    assert "Lineage" not in run.report().all_text()
    run.output("Trainer", "model")
    assert list(run.report().table("Part", "Details")) == ["Data", "Examples", "Config", "Model"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_page_with_a_picture_passes_axe_and_fits_on_a_phone(
    traced: Run, browser: Browser, scheme: str, width: int
) -> None:
    traced.report()
    home, size = (traced.folder / "report.html").as_uri(), {"width": width, "height": 844}
    with watched(browser, home, viewport=size, color_scheme=scheme, offline=True) as page:
        page.page.goto(page.home)
        assert violations(page.page) == []
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
        widths = page.page.evaluate(TEXTS_AND_BOXES)
        assert len(widths) == 2 * 11
        assert all(text < box for text, box in widths)
        assert page.errors == []

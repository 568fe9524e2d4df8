"""Mistakes of the config and of the data, reported at once."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trips_folder import CONFIG, headrace
from validated import source

from headrace.common.errors import ConfigError
from headrace.pipeline.verbs.options import GivenConfig

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "source", "kind", "fare", "column", "keys"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def both(text: str, *overrides: str) -> list[str]:
    """All that `headrace validate` says."""
    Path("c.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        GivenConfig(Path("c.yaml"), None, overrides).load(data=True)
    return [str(problem) for problem in caught.value.problems]


def test_mistakes_of_the_config_and_of_the_data_are_reported_at_once() -> None:
    text = CONFIG.replace("fare: {column: numeric}", "fair: {column: numeric, normalise: log}")
    data, form, rule, slices = both(text + "train: {epochs: many}\nevaluate: {slices: [zone]}\n")
    assert form.startswith("c.yaml:6: ")
    assert "normalise" in form
    assert rule.startswith("c.yaml:7: ")
    assert data.startswith('c.yaml:6: features.fair: "fair" ')
    assert data.endswith('; did you mean "fare"?')
    assert slices.startswith("c.yaml:8: evaluate.slices[0]")


def test_values_that_a_run_refuses_are_reported_along_with_mistakes_in_the_config() -> None:
    data, form = both(source("csv", [1.5, "abc"]) + "train: {epochs: 0}\n")
    assert "train.epochs" in form
    assert "fares.csv:3: column 'fare': 'abc' is not a float" in data


def test_mistakes_across_sections_do_not_hide_those_of_the_data() -> None:
    data, rule = both(CONFIG.replace("key: tip", "key: tips") + "evaluate: {metrics: [accuracy]}\n")
    assert "evaluate.metrics" in rule
    assert "label.key" in data


def test_a_feature_of_no_kind_is_reported_once_and_what_crosses_it_is_not() -> None:
    crossed = "  area: {column: numric}\n  both: {column: crossed, keys: [area, hour], hash_buckets: 9}\n"
    (problem,) = both(CONFIG + crossed)
    assert problem.startswith("c.yaml:7: ")


@pytest.mark.parametrize(
    "text",
    [
        CONFIG.replace("path: trips.csv", "path: trips.csv, delimiter: 7"),
        CONFIG.replace("kind: csv", "kind: cvs"),
        CONFIG.replace("key: tip, ", ""),
        CONFIG.replace("  fare: {column: numeric}\n", "").replace("features:", "features: {}"),
        CONFIG + "traine: {epochs: 1}\n",
        "- a list\n",
        "a: [\n",
    ],
)
def test_a_mistake_that_leaves_it_open_what_is_read_is_reported_alone(text: str) -> None:
    """The data would be read otherwise than it is meant."""
    assert len(both(text.replace("fare:", "fair:") if "traine" not in text else text)) == 1


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["pipeline", "data", "label", "features", "train", "x"]), JSON, max_size=5))
def test_whatever_is_written_a_config_s_mistakes_are_reported_and_nothing_fails(values: dict[str, object]) -> None:
    assert both(json.dumps({"pipeline": {"name": "x"}, "label": {"key": "tip", "kind": "binary"}} | values))


def test_notes_are_shown_along_with_mistakes_and_before_them(caplog: pytest.LogCaptureFixture) -> None:
    rows = "".join(f"{row}.5,{row // 3 % 2},same,{row}\n" for row in range(150))
    Path("trips.csv").write_text(f"fare,tip,zone,id\n{rows}", encoding="utf-8")
    features = "  zone: {column: numeric}\n  id: {column: identity, num_buckets: 3}\n"
    with caplog.at_level(logging.WARNING, logger="headrace"):
        (mistake,) = both(CONFIG + features + "evaluate: {slices: [id]}\n")
    assert mistake.startswith('c.yaml:7: features.zone: column "zone" holds text')
    assert [note.partition(": column")[0] for note in caplog.messages] == [
        "note: c.yaml:8: features.id",
        "note: c.yaml:9: evaluate.slices[0]",
    ]


def test_notes_and_then_mistakes_are_what_a_reader_sees(here: Path) -> None:
    config = CONFIG.replace("kind: binary}", "kind: binary, classes: ['1', '2']}")
    (here / "c.yaml").write_text(f"{config}evaluate: {{slices: [fare]}}\n", encoding="utf-8")
    rows = "".join(f"{row}.5,{row // 3 % 2}\n" for row in range(150))
    (here / "trips.csv").write_text(f"fare,tip\n{rows}", encoding="utf-8")
    done = headrace(here, "validate", "c.yaml")
    first, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert first.startswith("note: c.yaml:7: evaluate.slices[0]: ")
    assert "c.yaml:4: label.classes: the data has 0" in last

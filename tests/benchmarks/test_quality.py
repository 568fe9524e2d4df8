"""Which tables the quality benchmark reports together."""

from __future__ import annotations

from benchmarks.quality import Result, Scores, section
from benchmarks.quality_data import DATA_SETS

HELD_ASIDE = {
    "affairs",
    "breast_cancer",
    "credit_cards",
    "crime1",
    "gapminder",
    "happiness",
    "htv",
    "iris",
    "nhefs",
    "twoyear",
    "wine",
}


def test_a_new_table_changes_nothing_about_those_that_are_held_aside() -> None:
    assert {data.item for data in DATA_SETS if data.held_aside} == HELD_ASIDE


def test_a_table_for_which_the_default_is_another_model_is_reported_apart() -> None:
    results = [result("small", 148_148), result("aside", 569, held_aside=True), result("large", 148_149)]
    parts = section(results).parts
    assert [[row[0] for row in table.rows] for _, table in parts] == [["small"], ["aside"], ["large"]]
    assert parts[-1][0].startswith("More than 100,000 training examples")


def test_a_group_without_results_is_left_out() -> None:
    captions = [caption for caption, _ in section([result("large", 214_144)]).parts]
    assert len(captions) == 1
    assert "1 tables; as good as linear on 100%, as the trees on 0%" in captions[0]


def result(name: str, rows: int, *, held_aside: bool = False) -> Result:
    """A model that is as good as the linear one, and behind the trees."""
    scores = {"ours": Scores(0.7, 0.5), "linear": Scores(0.7, 0.5), "trees": Scores(0.8, 0.4)}
    return Result(name, "binary", rows, held_aside, scores, 0.0, 1.0)

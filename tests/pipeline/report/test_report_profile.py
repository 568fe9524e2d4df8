"""The section of the report on the profile."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.components.profile.result import OperationTime, ProfileDiagnosis, SettingChange, TimeShares

EVIL = "<script>alert(1)</script>"
VERDICT = ProfileDiagnosis(
    steps=47,
    executions=1,
    first_step=48,
    step_seconds=0.00576,
    split=TimeShares(input=0.78, host=0.03, compute=0.188, idle=0.002),
    input_bound=0.78,
    xprof_input=0.79,
    cause="examples are read and parsed again in every epoch",
    stages={"parsing examples": 0.3, EVIL: 0.1},
    operations=(OperationTime(EVIL, "MatMul", "host", 0.0231, 0.31, 12),),
    peak_bytes=710_000_000,
    device_peak_bytes={"GPU_0_bfc": 2_000_000_000},
    changes=(SettingChange("train.input.cache", "memory", "parsed data is 38 MB of 21 GB free", 0.74),),
    note="the first execution was left out",
)


def section(run: Any, verdict: str) -> Any:
    (run.output("ProfileVerdict", "verdict") / "value").write_text(verdict)
    return run.report()


def test_the_verdict_is_reported_with_its_split_and_the_changes(run: Any) -> None:
    page = section(run, VERDICT.model_dump_json())
    text = page.all_text()
    assert "input-bound Steps waited for input 78% of the time. Cause: examples are read and parsed again" in text
    assert "Set train.input.cache to memory : parsed data is 38 MB of 21 GB free. Saves up to 74%" in text
    assert "The first execution was left out." in text
    assert {name: row["Share"] for name, row in page.table("Part").items()} == {
        "Input": "78%", "Compute": "19%", "Host": "3%", "Between steps": "0.2%",
    }  # fmt: skip
    (operation,) = page.table("Operation").values()
    assert (operation["Type"], operation["ms"], operation["Share"], operation["Runs"]) == (
        "MatMul",
        "23.1",
        "31%",
        "12",
    )
    assert page.table("Work")["parsing examples"]["Share"] == "75%"
    assert "710.0 MB" in text
    assert "2.0 GB" in text
    assert "#profile" in [attributes.get("href") for _, attributes in page.tags]


def test_names_from_the_profile_are_escaped(run: Any) -> None:
    page = section(run, VERDICT.model_dump_json())
    assert "script" not in [tag for tag, _ in page.tags]
    assert EVIL in page.all_text()


def test_a_training_that_was_not_profiled_says_why(run: Any) -> None:
    page = section(
        run, ProfileDiagnosis(steps=0, note="training ended after 12 steps, before step 50").model_dump_json()
    )
    assert "No profile: training ended after 12 steps, before step 50." in page.all_text()


@pytest.mark.parametrize("text", ["", "{}", '{"steps": 1, "unknown'])
def test_a_verdict_that_cannot_be_read_leaves_the_section_out(run: Any, text: str) -> None:
    assert "profile" not in [attributes.get("id") for _, attributes in section(run, text).tags]


@pytest.mark.parametrize(
    ("share", "words"), [(0.5, "input-bound"), (0.1, "somewhat input-bound"), (0.02, "not input-bound")]
)
def test_the_words_follow_the_share(share: float, words: str) -> None:
    assert VERDICT.model_copy(update={"input_bound": share}).words == words

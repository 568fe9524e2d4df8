"""Features that are the label in another spelling, or as another number, are noted before anything runs."""

from __future__ import annotations

import random

import pytest
from trips_folder import CONFIG
from validated import noted, reported, rows

COUNT = 200
DRAWN = random.Random(3)
TIPS = [DRAWN.randrange(2) for _ in range(COUNT)]
NOISE = [DRAWN.random() for _ in range(COUNT)]
AGAIN = 'seems to be the label "tip" again: it '


def leaks(config: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    return [note for note in noted(config, caplog) if "to be the label" in note]


@pytest.mark.parametrize(
    ("column", "told", "words"),
    [
        ("vocabulary", lambda tip, _: ("no", "yes")[tip], "has one value for each of the label's, such as no"),
        ("numeric", lambda tip, _: 3.5 - tip, "has one value for each"),
        ("numeric", lambda tip, noise: "" if noise < 0.1 else tip, "has one value for each"),
        ("numeric", lambda tip, noise: tip + 0.9 * noise, "alone reaches an AUC of 1.000"),
        ("vocabulary", lambda tip, noise: f"{'un' * tip}paid {noise < 0.5}", "alone reaches an AUC of 1.000"),
        ("numeric", lambda tip, noise: noise if tip else "", "reaches an AUC of 1.000 by whether"),
        ("numeric", lambda tip, noise: tip + 1.2 * noise, ""),
        ("vocabulary", lambda tip, noise: int(noise < 0.95) * tip, ""),
        ("numeric", lambda tip, noise: "" if noise < 0.6 else tip, ""),
        ("hashed, hash_buckets: 9", lambda _, noise: f"v{noise}", ""),
    ],
)
def test_a_copy_of_two_classes_is_noted(
    column: str, told: object, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = zip(TIPS, NOISE, strict=True)
    rows(*(f"{told(tip, noise)},{tip}" for tip, noise in pairs))  # type: ignore[operator]
    found = leaks(CONFIG.replace("column: numeric", f"column: {column}"), caplog)
    assert [f'column "fare" {AGAIN}{words}' in note for note in found] == [True] * bool(words)
    assert all(note.startswith("note: c.yaml:6: features.fare: ") for note in found)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (lambda tip: round(tip * 100), "has one value for each of the label's"),
        (lambda tip: round(-tip / 3, 2), "has a rank correlation of -1.000 with it"),
        (round, ""),
    ],
)
def test_a_copy_of_a_number_is_noted_in_another_unit_and_rounded(
    told: object, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    tips = [round(5 * noise, 1) for noise in NOISE] if "one value" in words else [5 * noise for noise in NOISE]
    rows(*(f"{told(tip)},{tip}" for tip in tips))  # type: ignore[operator]
    found = leaks(CONFIG.replace("binary", "regression"), caplog)
    assert [f"{AGAIN}{words}" in note for note in found] == [True] * bool(words)


def test_codes_of_several_classes_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    names = ("red", "green", "blue")
    rows(*(f"{row % 3},{names[row % 3]}" for row in range(COUNT)))
    (note,) = leaks(CONFIG.replace("binary", "multiclass, classes: [red, green, blue]"), caplog)
    assert f"{AGAIN}has one value for each" in note


def test_each_of_several_labels_is_compared(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{1 - tip},{int(noise < 0.5)},{tip}" for tip, noise in zip(TIPS, NOISE, strict=True)), header="fare,a,b")
    labels = "label: {kind: multitask, tasks: {a: {key: a, kind: binary}, b: {key: b, kind: binary}}}"
    (note,) = leaks(CONFIG.replace("label: {key: tip, kind: binary}", labels), caplog)
    assert 'column "fare" seems to be the label "b"' in note


def test_many_copies_are_in_one_note(caplog: pytest.LogCaptureFixture) -> None:
    header = ",".join(["fare", *(f"c{number}" for number in range(5)), "tip"])
    rows(*(",".join([str(noise), *[str(tip)] * 6]) for tip, noise in zip(TIPS, NOISE, strict=True)), header=header)
    config = CONFIG + "".join(f"  c{number}: {{column: numeric}}\n" for number in range(5))
    (note,) = leaks(config, caplog)
    assert note.startswith('note: c.yaml:7: features.c0: columns "c0", "c1", "c2", "c3", "c4" seem to be the label')
    assert "leave those out" in note


def test_a_copy_stops_nothing() -> None:
    rows(*(f"{tip},{tip}" for tip in TIPS))
    assert reported(CONFIG) == []

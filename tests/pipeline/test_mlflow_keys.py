"""The keys of metrics and parameters in MLflow: what it accepts, and one for each name."""

from __future__ import annotations

import hashlib
import posixpath
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.pipeline.registration.mlflow import keys_of

NAMES = st.text(st.sampled_from("ab_.-/: $%é\n(") | st.characters(), min_size=1, max_size=8)


@given(st.lists(NAMES, max_size=8))
@example(["tip ($)", "tip (%)", "tip ___"])
@example(["x" * 249 + "$", "x" * 249 + "%", "x" * 300])
@example([".", "..", "../a", "/a", "a//b", "a/./b", "a_b"])
def test_keys_are_distinct_and_what_mlflow_accepts(names: list[str]) -> None:
    keys = keys_of(names)
    assert keys.keys() == set(names)
    assert len(set(keys.values())) == len(set(names))
    for name, key in keys.items():
        assert re.fullmatch(r"[/\w.\- :]{1,250}", key)
        assert posixpath.normpath(key) == key
        assert not key.startswith(("..", "/"))
        assert keys_of(reversed(names))[name] == key


@pytest.mark.parametrize("name", ["features.trip miles.column", "auc @ fare:0.5", "training/loss", "label.größe"])
def test_only_what_mlflow_refuses_is_replaced(name: str) -> None:
    assert keys_of([name, "other"])[name] == name.replace("@", "_")


def test_names_that_would_share_a_key_end_in_their_digest() -> None:
    def digest(name: str) -> str:
        return hashlib.sha256(name.encode()).hexdigest()[:8]

    assert keys_of(["tip ($)", "tip (%)", "tip ___", "toll ($)"]) == {
        "tip ($)": f"tip ___-{digest('tip ($)')}",
        "tip (%)": f"tip ___-{digest('tip (%)')}",
        "tip ___": "tip ___",
        "toll ($)": "toll ___",
    }

"""What is settled before a server is asked: secrets, the spans of a backfill; and verbs where there is no server."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import forks
import pytest
from forks import HEADRACE
from installed import without_pythonpath

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load
from headrace.configs.schema.kubeflow import ServerAuth
from headrace.pipeline.kubeflow.server import backfill
from headrace.pipeline.kubeflow.server.access import read_secret
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.submit import submit

ROOT = Path(__file__).parents[3]


def test_the_secret_comes_from_the_variable_that_is_named() -> None:
    assert read_secret(ServerAuth(kind="bearer", env="KFP_TOKEN"), {"KFP_TOKEN": "abc\n"}) == "abc"
    assert read_secret(ServerAuth(), dict(os.environ)) is None


@pytest.mark.parametrize(
    ("auth", "environ", "reported"),
    [
        (ServerAuth(kind="bearer", env="KFP_TOKEN"), {}, "the environment variable KFP_TOKEN is missing"),
        (ServerAuth(kind="cookie", env="C"), {"C": "abc"}, "`name=value`"),
        (ServerAuth(kind="bearer", env="T"), {"T": "abc\ndef"}, "holds more than one line"),
        (ServerAuth(kind="bearer", file="/nowhere/token"), {}, "/nowhere/token is missing"),
    ],
)
def test_a_secret_that_cannot_be_had_is_reported_by_its_place(
    auth: ServerAuth, environ: dict[str, str], reported: str
) -> None:
    with pytest.raises(ConfigError) as error:
        read_secret(auth, environ)
    assert reported in str(error.value)
    assert "abc" not in str(error.value)


@pytest.mark.parametrize("length", [0, 251])
def test_a_name_that_the_server_cannot_keep_is_refused_before_it_is_asked(length: int) -> None:
    """The server makes the workflow first, and cannot write down the run then."""
    nowhere: Any = None
    session = Session(load(str(ROOT / "configs/taxi.yaml")), nowhere, None)
    with pytest.raises(ConfigError, match=rf"^--name: .*\b{length} characters.* 250$"):
        submit(session, name="x" * length)


@pytest.mark.slow
def test_a_verb_without_a_server_ends_with_1_and_no_traceback(tmp_path: Path) -> None:
    """All at once, as each asks again after pauses."""
    settings = ("--set", "kubeflow.server.endpoint=http://127.0.0.1:1")
    config = str(ROOT / "configs" / "taxi.yaml")

    def run(verb: str) -> subprocess.CompletedProcess[str]:
        return forks.run([str(HEADRACE), verb, config, *settings], cwd=tmp_path, env=without_pythonpath())

    with ThreadPoolExecutor() as threads:
        for done in threads.map(run, ("runs", "status", "unschedule")):
            assert done.returncode == 1
            assert "http://127.0.0.1:1: cannot check its health" in done.stderr, done.args
            assert "Traceback" not in done.stderr


def dated(*settings: str) -> Any:
    return load(str(ROOT / "configs/taxi.yaml"), None, ("data.source.path=/d/{YYYY}-{MM}-{DD}/*.csv", *settings))


def test_a_backfill_has_each_span_of_its_range() -> None:
    assert backfill.spans(dated(), "2028-02-28", "2028-03-01") == ["2028-02-28", "2028-02-29", "2028-03-01"]
    numbered = load(str(ROOT / "configs/taxi.yaml"), None, ("data.source.path=/d/{SPAN}/*.csv",))
    assert backfill.spans(numbered, "9", "11") == ["9", "10", "11"]


@pytest.mark.parametrize(
    ("config", "first", "last", "reported"),
    [
        (dated(), "1", "3", "the spans of this data are dates"),
        (dated(), "2026-03-02", "2026-03-01", "2026-03-02 is after --to"),
        (dated(), "2020-01-01", "2026-01-01", "at most 1000 at once"),
        (dated('kubeflow.parameters=["epochs"]'), "2026-03-01", "2026-03-02", "add `spans`"),
        (load(str(ROOT / "configs/taxi.yaml")), "1", "2", "there are no spans"),
    ],
)
def test_a_backfill_of_what_is_not_a_span_is_refused(config: Any, first: str, last: str, reported: str) -> None:
    with pytest.raises(ConfigError) as error:
        backfill.spans(config, first, last)
    assert reported in str(error.value)

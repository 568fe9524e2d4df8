"""What the command line refuses: mistakes in configs, arguments and files, each with its place and the way out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from trips_folder import CONFIG, ROWS, headrace, here

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load
from headrace.pipeline.cli import cli

__all__ = ["here"]


def test_every_mistake_in_a_config_is_reported_at_once_with_its_line(here: Path) -> None:
    (here / "trips.yaml").write_text(CONFIG + "  hour: {column: numerik}\ntrain: {epochs: none, batchsize: 3}\n")
    done = headrace(here, "validate", "trips.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    first, second, third = done.stderr.splitlines()
    assert first.startswith("trips.yaml:7: ")
    assert 'did you mean "numeric"?' in first
    assert second.startswith("trips.yaml:8: train.")
    assert third.startswith("trips.yaml:8: train.")
    assert 'did you mean "batch_size"?' in second + third


@pytest.mark.parametrize("verb", ["validate", "run"])
def test_name_that_is_not_a_column_is_reported_before_anything_runs(here: Path, verb: str) -> None:
    (here / "trips.yaml").write_text(CONFIG.replace("fare:", "fair:"))
    done = headrace(here, verb, "trips.yaml")
    assert done.returncode == 1
    assert [" checking trips.yaml " in line for line in done.stdout.splitlines()] == [True] * (verb == "run")
    assert done.stderr.startswith('trips.yaml:6: features.fair: "fair" ')
    assert done.stderr.endswith('; did you mean "fare"?\n')
    assert not (here / "runs").exists()


def test_strategy_that_this_machine_lacks_is_reported_before_anything_runs(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    lacking = "--set train.strategy=one_gpu: train.strategy: one_gpu finds no GPU"
    done = headrace(here, "run", "trips.yaml", "--set", "train.strategy=one_gpu")
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 1)
    assert done.stderr.startswith(lacking)
    assert not (here / "runs").exists()
    done = headrace(here, "validate", "trips.yaml", "--set", "train.strategy=one_gpu")
    assert done.returncode == 0  # it may be meant for another
    assert re.search(rf"note: `headrace run` .*: {lacking}", done.stderr)


def test_push_that_would_fail_is_reported_before_anything_runs(here: Path) -> None:
    (here / "serving").write_text("a file instead of the folder")
    message = f"trips.yaml:1: deploy.push: serving/trips is not writable: {here}/serving: Not a directory"
    done = headrace(here, "run", "trips.yaml")
    assert (done.returncode, done.stderr) == (1, f"{message}\n")
    assert not (here / "runs").exists()
    done = headrace(here, "validate", "trips.yaml")
    assert done.returncode == 0
    assert re.fullmatch(rf"note: `headrace run` .*: {re.escape(message)}\n", done.stderr)


@pytest.mark.parametrize("verb", ["validate", "run", "compile", "submit", "schedule"])
def test_function_that_is_not_there_is_reported_at_its_place_before_anything_is_loaded(here: Path, verb: str) -> None:
    (here / "trips.yaml").write_text(f"{CONFIG}model: {{kind: mine.model.build}}\n")
    done = headrace(here, verb, "trips.yaml")
    assert done.returncode == 1
    *missing, function = done.stderr.splitlines()
    assert function.startswith('trips.yaml:7: model.kind: "mine.model.build": ')
    assert "no module mine " in function
    wanted = {"compile": ["image"], "submit": ["image", "server.endpoint"]}
    wanted["schedule"] = ["schedule", *wanted["submit"]]
    settings = [line.split(": ")[1].removeprefix("kubeflow.") for line in missing]
    assert sorted(settings) == sorted(wanted.get(verb, []))


@pytest.mark.parametrize("verb", ["validate", "run", "report"])
def test_config_that_is_not_there_is_reported(tmp_path: Path, verb: str) -> None:
    done = headrace(tmp_path, verb, "gone.yaml")
    assert done.returncode == 1
    assert done.stderr.startswith("gone.yaml: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("the trips.csv", b"miles,tipped\n1.5,0\n"),
        ("trips.parquet", b"PAR1\xc8\xff\x00PAR1"),
        ("trips.jsonl", b'{"miles": 1.5}\n{"miles": 2}\n'),
        ("trips.json", b'[{"miles": 1.5}]'),
        ("trips.csv.gz", b"\x1f\x8b\x08\x00"),
    ],
)
def test_data_in_place_of_a_config_names_the_command_that_writes_one(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(f"headrace init {shlex.quote(str(tmp_path / name))}")):
        load(tmp_path / name)


def test_validate_without_a_config_asks_for_one(tmp_path: Path) -> None:
    done = headrace(tmp_path, "validate")
    assert done.returncode == 2
    assert "name a config" in done.stderr


@pytest.mark.parametrize(
    ("given", "meant"), [("rum", '"run"'), ("explain_cache", '"explain-cache"'), ("a.yaml", "`run`")]
)
def test_unknown_verb_names_the_one_that_was_meant(here: Path, given: str, meant: str) -> None:
    done = headrace(here, given, "trips.yaml")
    assert done.returncode == 2
    assert f"did you mean {meant}" in done.stderr


def test_unknown_option_exits_with_two(here: Path) -> None:
    assert headrace(here, "run", "trips.yaml", "--epochs", "3").returncode == 2


def test_report_before_the_first_run_says_how_to_make_one(here: Path) -> None:
    done = headrace(here, "report", "trips.yaml")
    assert done.returncode == 1
    assert str(here / "runs" / "trips" / "runs") in done.stderr
    assert "`headrace run trips.yaml`" in done.stderr


def test_report_of_an_unknown_run_names_the_latest(here: Path) -> None:
    one, other = "20260101-000000", "20260102-000000"
    for name, ending in ((one, f"the only one is {one}"), (other, f"the latest are {one}, {other}")):
        folder = here / "runs" / "trips" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        done = headrace(here, "report", "trips.yaml", "--run", "1")
        assert done.returncode == 1
        assert done.stderr.endswith(f"{ending}\n")


def test_schema_that_cannot_be_read_is_reported_before_a_run_begins(here: Path) -> None:
    (here / "trips.pbtxt").write_text("feature { nam")
    done = headrace(here, "run", "trips.yaml", "--set", "data.schema=trips.pbtxt")
    assert done.returncode == 1
    assert "trips.pbtxt" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not list((here / "runs" / "trips" / "runs").glob("*"))


def test_folder_of_the_pipeline_that_is_a_file_is_reported_without_a_traceback(here: Path) -> None:
    (here / "runs").mkdir()
    (here / "runs" / "trips").write_text("a file instead of the folder")
    (here / "trips.csv").write_text("fare,hour,tip\n" + ROWS)
    done = headrace(here, "run", "trips.yaml")
    assert done.returncode == 1
    assert f"{here}/runs/trips/artifacts: Not a directory" in done.stderr
    assert "`pipeline.root`" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_init_of_data_without_a_column_to_predict_lists_the_columns(here: Path) -> None:
    (here / "ids.csv").write_text("id\n" + "".join(f"{row}\n" for row in range(100)))
    done = headrace(here, "init", "ids.csv")
    assert done.returncode == 1
    assert "--label; the columns are: id" in done.stderr


def test_init_lists_records_that_cannot_be_read_and_skips_them_if_told_to(here: Path) -> None:
    rows = [f'{{"x": {row * 7 % 40}, "y": {row % 2}}}' for row in range(40)]
    rows[5] = rows[20] = '{"x": 1'
    (here / "rows.jsonl").write_text("\n".join(rows))
    asked = ("init", "rows.jsonl", "--label", "y")
    refused = headrace(here, *asked)
    assert (refused.returncode, (here / "rows.yaml").exists()) == (1, False)
    assert "`--on-bad-record skip`" in refused.stderr
    done = headrace(here, *asked, "--on-bad-record", "skip")
    assert done.returncode == 0, done.stderr
    assert "note: 2 of 40 records" in done.stderr
    assert f"{here}/rows.jsonl:6, 21: " in done.stderr
    text = (here / "rows.yaml").read_text()
    assert text.startswith("# Written by `headrace init rows.jsonl --label y --on-bad-record skip`\n")
    assert "on_bad_record: skip  # 2 of 40 records" in text
    assert headrace(here, "validate", "rows.yaml").returncode == 0


def test_damaged_record_of_a_run_is_reported_by_report(here: Path) -> None:
    (here / "runs" / "trips" / "runs" / "r-1").mkdir(parents=True)
    (here / "runs" / "trips" / "runs" / "r-1" / "run.json").write_text("{")
    done = headrace(here, "report", "trips.yaml")
    assert done.returncode == 1
    assert "run.json is damaged" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["compile", "share", "compare", "init"])
def test_url_as_an_output_is_refused_and_becomes_no_folder(here: Path, verb: str) -> None:
    given = {"init": ("trips.csv", "--label=tip"), "compare": ("trips.yaml", "1", "2")}.get(verb, ("trips.yaml",))
    done = headrace(here, verb, *given, "-o", "s3://bucket/trips.html")
    assert done.returncode == 1
    assert "s3://bucket/trips.html is a URL; " in done.stderr
    assert not (here / "s3:").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("follow-logs", "logs", "--once", "--root", "s3://KEY:SECRETq8@bucket/x"),
        ("prune", "trips.yaml", "--root=s3://KEY:SECRETq8@bucket/x"),
        ("validate", "http://user:SECRETq8@host/trips.yaml"),
        ("image", "--name", "https://user:SECRETq8@host/x"),
        ("http://user:SECRETq8@host",),
        ("status", "trips.yaml", "--set", "pipeline.root=s3://KEY:SECRETq8@bucket/x"),
        ("compile", "trips.yaml", "--set", "data.source.path=s3:/KEY:SECRETq8 x@buck et/x.csv"),
        ("prune", "trips.yaml", "--root-s3://KEY:SECRETq8@bucket/x"),
        ("validate", "trips.yaml", "--https://user:SECRETq8@host=3"),
        ("run", "trips.yaml", "--param", "https://user:a SECRETq8@host"),
        ("run", "trips.yaml", "--param", "epochs=https://user:a SECRETq8@host"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_credential_on_the_command_line_is_refused_and_not_repeated(here: Path, arguments: tuple[str, ...]) -> None:
    done = headrace(here, *arguments)
    assert done.returncode in (1, 2)
    assert "SECRETq8" not in done.stdout + done.stderr
    assert ":***@" in done.stderr


def test_error_of_a_users_function_repeats_no_credential(here: Path) -> None:
    (here / "mine.py").write_text(
        "def arrays():\n"
        "    raise ValueError(\"no answer: password=SECRETa; Authorization: Basic SECRETb; {'password': 'SECRETc'}"
        ' api_key=SECRETd; host=h user=u password=SECRETe")\n'
    )
    source = "data.source={kind: arrays, function: mine.arrays}"
    done = headrace(here, "validate", "trips.yaml", "--set", source)
    assert done.returncode == 1
    assert "mine.arrays raised ValueError: no answer: password=***; Authorization: Basic ***" in done.stderr
    assert "SECRET" not in done.stdout + done.stderr


def test_errors_of_the_command_line_repeat_no_credential(here: Path) -> None:
    done = headrace(here, "validate", "trips.yaml", "host=h user=u password=SECRETq8")
    assert done.returncode == 2
    assert "extra argument (host=h user=u password=***" in done.stderr
    assert "SECRETq8" not in done.stderr


def test_installed_verb_that_fails_names_its_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sings.py").write_text(
        "import click\n@click.command()\ndef sing():\n    raise ValueError('no voice')\n"
    )
    info = tmp_path / "odd_verbs-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-verbs\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[headrace.verbs]\nsing = sings:sing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = CliRunner().invoke(cli, ["sing"])
    assert done.exit_code == 1
    assert 'entry point "sing" of odd-verbs 2.0 (group headrace.verbs) raised ValueError: no voice' in done.output
    assert f"({tmp_path}/sings.py:4); report it to the authors of odd-verbs 2.0" in done.output
    monkeypatch.setenv("HEADRACE_TRACEBACK", "1")
    assert isinstance(CliRunner().invoke(cli, ["sing"]).exception, ValueError)

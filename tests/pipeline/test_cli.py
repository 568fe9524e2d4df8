"""The command line, as a subprocess: what it imports, prints and exits with."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import forks
import pytest
import yaml
from click.testing import CliRunner
from forks import HEADRACE
from installed import without_pythonpath

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load
from headrace.pipeline.cli import LOCATIONS, cli
from headrace.pipeline.interrupts import CTRL_C
from headrace.pipeline.verbs.options import reports_errors

ROOT = Path(__file__).parents[2]
HEAVY = {"tensorflow", "keras", "tfx", "apache_beam", "ml_metadata", "pyarrow", "numpy", "pydantic", "yaml", "rich"}

ROWS = "".join(f"{row}.5,{row // 2 % 2},{row % 2}\n" for row in range(100))
"""Enough for each split to get some."""
CONFIG = """\
pipeline: {name: trips}
data:
  source: {kind: csv, path: trips.csv}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric}
"""
DEFAULT = "model: tabm, or wide_and_deep for more than 100,000 training examples\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "trips.csv").write_text("fare,hour,tip\n" + ROWS)
    (tmp_path / "trips.yaml").write_text(CONFIG)
    return tmp_path


def headrace(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forks.run([str(HEADRACE), *arguments], cwd=folder, env=environment())


def started(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A program that imports what it needs."""
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return started(folder, sys.executable, *arguments)


def environment() -> dict[str, str]:
    return {**without_pythonpath(), "COLUMNS": "100"}


@pytest.mark.parametrize(
    "doing",
    [
        "import headrace.pipeline.cli",
        "import click.testing as t, headrace.pipeline.cli as c; t.CliRunner().invoke(c.cli, ['--help'])",
        "import click.testing as t, headrace.pipeline.cli as c; t.CliRunner().invoke(c.cli, ['run', '--help'])",
    ],
)
def test_help_imports_nothing_heavy(tmp_path: Path, doing: str) -> None:
    done = python(tmp_path, "-c", f"{doing}; import json, sys; print(json.dumps([*sys.modules]))")
    modules = json.loads(done.stdout)
    assert "headrace.pipeline.cli" in modules
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()


def test_validate_imports_neither_tensorflow_nor_tfx_nor_beam(here: Path) -> None:
    script = (
        "import sys; from click.testing import CliRunner; from headrace.pipeline.cli import cli;"
        "done = CliRunner().invoke(cli, ['validate', 'trips.yaml']);"
        "print(done.exit_code, *{m.partition('.')[0] for m in sys.modules} & {'tensorflow', 'tfx', 'apache_beam'})"
    )
    assert python(here, "-c", script).stdout == "0\n"


def test_help_names_every_verb(tmp_path: Path) -> None:
    done = headrace(tmp_path, "--help")
    assert done.returncode == 0
    groups = done.stdout.partition("\nLocal:\n")[2]
    listed = re.findall(r"^  (\S+)  ", groups, re.MULTILINE)
    files = [file for file in (ROOT / "pipeline" / "verbs").glob("*.py") if file.stem not in {"__init__", "options"}]
    functions = [name for file in files for name in re.findall(r"@reports_errors\ndef (\w+)", file.read_text())]
    assert sorted(listed) == sorted(name.rstrip("_").replace("_", "-") for name in functions)
    headings = re.findall(r"^(\w+):$", done.stdout, re.MULTILINE)
    assert headings == ["Options", "Local", "Models", "Kubeflow", "Maintenance"]
    assert headrace(tmp_path, "-h").stdout == done.stdout
    page = (ROOT / "docs" / "commands.md").read_text()
    assert re.findall(r"^\| `headrace (\S+?)[ `]", page, re.MULTILINE) == listed
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == headings[1:]


def test_every_line_of_help_is_a_whole_sentence(tmp_path: Path) -> None:
    groups = headrace(tmp_path, "--help").stdout.partition("\nLocal:\n")[2]
    entries = re.split(r"^  (?=\S)|^\w+:\n|^$", groups, flags=re.MULTILINE)
    assert all(entry.strip().endswith(".") and "..." not in entry for entry in entries if entry.strip())


def test_every_option_is_described_by_a_whole_sentence() -> None:
    for name in LOCATIONS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for option in command.params:
            described = getattr(option, "help", None)
            if isinstance(option, click.Option):
                assert described, f"{name} {option.name}"
                assert described[0].isupper(), f"{name} {option.name}: {described}"
                assert described.endswith("."), f"{name} {option.name}: {described}"


def test_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert started(tmp_path, str(HEADRACE), "--version").stdout.startswith("headrace, version 0.")


def test_config_that_fits_its_data_is_said_to_be_sound(here: Path) -> None:
    done = started(here, str(HEADRACE), "validate", "trips.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "trips.yaml: the config is valid and fits the data (1 feature, label tip)\n" + DEFAULT


def test_what_the_default_model_stands_for_is_said_and_a_named_kind_is_not(here: Path) -> None:
    def said(*settings: str) -> str:
        return headrace(here, "validate", "trips.yaml", *(word for one in settings for word in ("--set", one))).stdout

    assert said("model.hidden=[4]").endswith(f"\n{DEFAULT}")
    assert said("train.warm_start=true").endswith("\nmodel: wide_and_deep\n")
    assert said("features.hour={column: identity, num_buckets: 2, deep: false}").endswith("\nmodel: wide_and_deep\n")
    assert said("model.kind=tabm").endswith("label tip)\n")
    assert said("model.kind=auto").endswith("label tip)\n")


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
    assert f"note: `headrace run` would stop on this machine: {lacking}" in done.stderr


def test_push_that_would_fail_is_reported_before_anything_runs(here: Path) -> None:
    (here / "serving").write_text("a file instead of the folder")
    message = f"trips.yaml:1: deploy.push: serving/trips is not writable: {here}/serving: Not a directory"
    done = headrace(here, "run", "trips.yaml")
    assert (done.returncode, done.stderr) == (1, f"{message}\n")
    assert not (here / "runs").exists()
    done = headrace(here, "validate", "trips.yaml")
    assert (done.returncode, done.stderr) == (0, f"note: `headrace run` would stop on this machine: {message}\n")


@pytest.mark.parametrize("arguments", [("validate", "trips.yaml"), ("run", "trips.yaml")])
def test_output_that_nobody_reads_ends_a_command_without_a_word(here: Path, arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command, environment = [str(HEADRACE), *arguments], without_pythonpath()
    done = subprocess.run(
        command, cwd=here, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
    for record in (here / "runs").glob("*/runs/*/run.json"):
        assert json.loads(record.read_text())["status"] == "interrupted"


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


def test_profile_and_set_are_laid_over_the_config(here: Path) -> None:
    (here / "trips.wide.yaml").write_text("features: {hour: {column: identity, num_buckets: 24}}\n")
    done = headrace(here, "validate", "trips.yaml", "--profile", "wide")
    assert "(2 features, label tip)" in done.stdout
    done = headrace(here, "validate", "trips.yaml", "--set", "label.key=hour", "--set", "train.epochs=x")
    assert done.returncode == 1
    assert done.stderr.startswith("--set train.epochs=x: train.epochs: ")


def test_schema_is_json_that_describes_every_section(tmp_path: Path) -> None:
    done = headrace(tmp_path, "validate", "--schema")
    assert done.returncode == 0
    schema = json.loads(done.stdout)
    example = yaml.safe_load((ROOT / "configs" / "taxi.yaml").read_text())
    assert set(example) <= set(schema["properties"])
    assert schema["additionalProperties"] is False


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
    for name in ("20260101-000000", "20260102-000000"):
        folder = here / "runs" / "trips" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    done = headrace(here, "report", "trips.yaml", "--run", "1")
    assert done.returncode == 1
    assert done.stderr.endswith("the latest are 20260101-000000, 20260102-000000\n")


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


def test_damaged_record_of_a_run_is_reported_by_report(here: Path) -> None:
    (here / "runs" / "trips" / "runs" / "r-1").mkdir(parents=True)
    (here / "runs" / "trips" / "runs" / "r-1" / "run.json").write_text("{")
    done = headrace(here, "report", "trips.yaml")
    assert done.returncode == 1
    assert "run.json is damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_sigterm_ends_a_command_as_ctrl_c_does_and_takes_its_temporary_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @reports_errors
    def verb() -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)

    with pytest.raises(SystemExit) as ended:
        verb()
    assert ended.value.code == CTRL_C
    assert capsys.readouterr().err == "interrupted\n"
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


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


NOISY = """
import logging, os
from headrace.common.environment import quiet
from headrace.pipeline.verbs.options import reports_errors

@reports_errors
def verb():
    with quiet():
        os.write(2, b"libraries")
        logging.getLogger("headrace.kubeflow").warning("the bucket cannot be read")
        os.write(2, b"libraries")

verb()
"""


def test_warnings_are_shown_while_what_libraries_print_is_hidden(here: Path) -> None:
    assert python(here, "-c", NOISY).stderr == "the bucket cannot be read\n"


IMPORTING = """
import gc
from headrace.common.environment import imports_alone

made = []
try:
    with imports_alone():
        made += [[number] for number in range(100_000)]
        print(gc.get_count()[0] >= 100_000)  # allocations since the last collection
        raise ImportError
except ImportError:
    print(gc.isenabled(), gc.get_freeze_count() >= 100_000)
"""


def test_no_garbage_is_collected_among_imports_not_even_later(here: Path) -> None:
    assert python(here, "-c", IMPORTING).stdout.split() == ["True", "True", "True"]


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

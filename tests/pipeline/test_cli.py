"""The command line, as a subprocess: what it imports, prints and exits with. Errors: test_cli_errors.py."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import pytest
import yaml
from forks import HEADRACE
from installed import without_pythonpath
from trips_folder import environment, headrace, here

from headrace.pipeline.cli import LOCATIONS, cli
from headrace.pipeline.interrupts import CTRL_C
from headrace.pipeline.verbs.options import reports_errors

__all__ = ["here"]
ROOT = Path(__file__).parents[2]
HEAVY = {"tensorflow", "keras", "tfx", "apache_beam", "ml_metadata", "pyarrow", "numpy", "pydantic", "yaml", "rich"}
DEFAULT = "model: tabm, or wide_and_deep for more than 100,000 training examples\n"


def started(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A program that imports what it needs."""
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return started(folder, sys.executable, *arguments)


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


@pytest.mark.slow
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
    made = re.compile(r"^@(?:click\.command|config_verb)\(.*?^def (\w+)", re.MULTILINE | re.DOTALL)
    functions = [name for file in files for name in made.findall(file.read_text())]
    assert sorted(listed) == sorted(name.rstrip("_").replace("_", "-") for name in functions)
    headings = re.findall(r"^(\w+):$", done.stdout, re.MULTILINE)
    assert headings == ["Options", "Local", "Runs", "Models", "Training", "Kubeflow", "Maintenance"]
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


@pytest.mark.slow
def test_config_that_fits_its_data_is_said_to_be_sound(here: Path) -> None:
    done = started(here, str(HEADRACE), "validate", "trips.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    valid = "trips.yaml: the config is valid and fits the data (1 feature, label tip)\n"
    assert done.stdout == f"{valid}rows: looked at all 100 rows\n{DEFAULT}"


def test_what_the_default_model_stands_for_is_said_and_a_named_kind_is_not(here: Path) -> None:
    def said(*settings: str) -> str:
        return headrace(here, "validate", "trips.yaml", *(word for one in settings for word in ("--set", one))).stdout

    assert said("model.hidden=[4]").endswith(f"\n{DEFAULT}")
    assert said("train.warm_start=true").endswith("\nmodel: wide_and_deep\n")
    assert said("features.hour={column: identity, num_buckets: 2, deep: false}").endswith("\nmodel: wide_and_deep\n")
    assert said("model.kind=tabm").endswith("label tip)\nrows: looked at all 100 rows\n")
    assert said("model.kind=auto").endswith("label tip)\nrows: looked at all 100 rows\n")


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

"""The doctor, in environments that are broken on purpose."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from headrace.pipeline import doctor
from headrace.pipeline.doctor import environment, imports, machine
from headrace.pipeline.doctor.result import CheckResult, Level

PROJECT = Path(__file__).parents[2]
GIB_IN_KB = 1024**2


def levels(results: object) -> list[str]:
    assert hasattr(results, "__iter__")
    return [result.level for result in results]


@pytest.mark.parametrize(
    ("version", "level"),
    [((3, 10, 9), "problem"), ((3, 11, 0), "ok"), ((3, 13, 2), "ok"), ((3, 14, 0), "problem")],
)
def test_python_outside_three_versions_is_a_problem(version: tuple[int, ...], level: str) -> None:
    (result,) = environment.python_version(version)
    assert result.level == level
    assert ".".join(map(str, version)) in result.what


def test_legacy_keras_in_the_environment_is_noted() -> None:
    assert levels(environment.legacy_keras({})) == ["ok"]
    assert levels(environment.legacy_keras({"TF_USE_LEGACY_KERAS": "0"})) == ["ok"]
    (result,) = environment.legacy_keras({"TF_USE_LEGACY_KERAS": "1"})
    assert (result.level, result.fix) == ("note", "unset TF_USE_LEGACY_KERAS")


def test_uncompiled_packages_are_named_with_the_command_that_compiles_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uncompiled_giant").mkdir()
    (tmp_path / "uncompiled_giant" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(environment, "_LARGE_PACKAGES", ("uncompiled_giant",))
    (result,) = environment.bytecode()
    assert result.level == "note"
    assert "uncompiled_giant" in result.what
    assert "-m compileall" in result.fix


def test_processor_without_avx_is_a_problem(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags : fpu sse4_2 avx avx2\n")
    assert levels(machine.cpu(cpuinfo, "x86_64")) == ["ok"]
    cpuinfo.write_text("processor : 0\nflags : fpu sse4_2\n")
    assert levels(machine.cpu(cpuinfo, "x86_64")) == ["problem"]
    assert levels(machine.cpu(cpuinfo, "aarch64")) == ["ok"]


@pytest.mark.parametrize(("free_gib", "level"), [(1, "problem"), (3, "note"), (16, "ok")])
def test_memory_is_judged_by_what_is_available(tmp_path: Path, free_gib: int, level: str) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {free_gib * GIB_IN_KB} kB\n")
    (result,) = machine.memory(meminfo, tmp_path)
    assert result.level == level
    assert result.what.startswith(f"{free_gib}.0 GiB")


def test_container_with_less_memory_than_its_machine_counts(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemAvailable: {64 * GIB_IN_KB} kB\n")
    (tmp_path / "memory.max").write_text(f"{3 * machine.GIB}\n")
    (tmp_path / "memory.current").write_text(f"{2 * machine.GIB}\n")
    assert levels(machine.memory(meminfo, tmp_path)) == ["problem"]
    (tmp_path / "memory.max").write_text("max\n")
    assert levels(machine.memory(meminfo, tmp_path)) == ["ok"]


def test_root_below_a_file_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (result,) = machine.disk(tmp_path / "file" / "runs")
    assert result.level == "problem"
    assert "pipeline.root" in result.fix
    assert levels(machine.disk(tmp_path / "not" / "yet" / "there")) != ["problem"]
    assert not (tmp_path / "not").exists()


def test_lost_temporary_folder_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    (result,) = machine.temporary_files()
    assert (result.level, "TMPDIR" in result.fix) == ("problem", True)


def test_lost_optional_programs_are_notes_and_say_what_they_are_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert levels(environment.tools()) == ["note"] * 5
    (tmp_path / "java").write_text("#!/bin/sh\n")
    (tmp_path / "java").chmod(0o755)
    found = list(environment.tools())
    assert found[0] == CheckResult(Level.OK, "optional programs: java")
    assert len(found) == 5


def fake_distribution(site: Path, name: str, version: str) -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_versions_outside_the_range_or_the_lock_are_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    fake_distribution(site, "too_old", "1.0")
    fake_distribution(site, "not_locked", "2.5")
    fake_distribution(site, "as_locked", "3.0")
    monkeypatch.syspath_prepend(str(site))
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["too-old>=2", "not-locked>=2,<3", "as-locked", "absent-one<4"]\n'
    )
    (tmp_path / "uv.lock").write_text(
        '[[package]]\nname = "not-locked"\nversion = "2.4"\n[[package]]\nname = "as-locked"\nversion = "3.0"\n'
    )
    assert [(result.level, result.what) for result in environment.versions(tmp_path)] == [
        ("problem", "too-old 1.0 is installed; Headrace needs >=2"),
        ("problem", "absent-one is not installed; Headrace needs absent-one<4"),
        ("note", "not the locked versions: not-locked 2.5 (locked: 2.4)"),
        ("ok", "not-locked 2.5, as-locked 3.0"),
    ]


def test_folder_that_hides_the_kubernetes_client_is_a_problem(tmp_path: Path) -> None:
    client = tmp_path / "site" / "kubernetes" / "client"
    client.mkdir(parents=True)
    (client.parent / "__init__.py").touch()
    site = str(tmp_path / "site")
    shadow = tmp_path / "project" / "kubernetes"
    shadow.mkdir(parents=True)
    project = str(tmp_path / "project")
    assert levels(environment.kubernetes_client([project, site])) == ["ok"]  # a folder of YAML hides nothing
    assert levels(environment.kubernetes_client([project])) == ["problem"]
    (shadow / "__init__.py").touch()
    (result,) = environment.kubernetes_client([project, site])
    assert result.level == "problem"
    assert str(shadow / "__init__.py") in result.fix


def test_library_that_raises_or_crashes_is_a_problem_and_the_rest_is_still_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fine_one.py").touch()
    (tmp_path / "raises.py").write_text("raise ImportError('x.so: undefined symbol: __isoc23_strtol')")
    (tmp_path / "crashes.py").write_text("import os, sys; sys.stderr.write('symbol lookup error: y\\n'); os.abort()")
    (tmp_path / "fine_two.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    raised, crashed, absent, fine = imports.load(["fine_one", "raises", "crashes", "no_such_library", "fine_two"])
    assert raised.what == "import raises fails: ImportError: x.so: undefined symbol: __isoc23_strtol"
    assert "relabel" in raised.fix
    assert crashed.what == "import crashes ends the interpreter with SIGABRT: symbol lookup error: y"
    assert "relabel" in crashed.fix
    assert absent.fix == "rm -f .venv/made && make env"
    assert fine.level == "ok"
    assert re.fullmatch(r"loaded in \d+ s: fine_one, fine_two", fine.what)


def test_library_that_hangs_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hangs.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(imports, "_TIMEOUT_SECONDS", 1)
    assert [result.what for result in imports.load(["hangs"])] == ["import hangs takes more than 1 s"]


def test_exit_code_counts_problems_and_not_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [CheckResult(Level.OK, "a"), CheckResult(Level.NOTE, "b [x]", "c")]
    monkeypatch.setattr(doctor, "examine", lambda _: iter(results))
    output = io.StringIO()
    assert doctor.main(console=Console(file=output, width=20)) == 0
    results.append(CheckResult(Level.PROBLEM, "d", "first\nsecond"))
    output.truncate(0)
    output.seek(0)
    assert doctor.main(console=Console(file=output, width=20)) == 1
    assert output.getvalue().splitlines() == [
        "ok      a",
        "note    b [x]",
        "        → c",
        "problem d",
        "        → first",
        "        → second",
        "",
        "1 problem to fix",
    ]


@pytest.mark.slow
def test_broken_wheel_and_wrong_version_in_a_real_environment_are_both_named(tmp_path: Path) -> None:
    fake_distribution(tmp_path, "tensorflow", "2.15.0")
    (tmp_path / "ml_metadata").mkdir()
    (tmp_path / "ml_metadata" / "__init__.py").write_text("raise ImportError('GLIBC_2.38 not found')")
    program = "import sys; from headrace.pipeline.doctor import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{PROJECT}", "COLUMNS": "200"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    problems = [line for line in done.stdout.splitlines() if line.startswith("problem")]
    assert problems[0] == "problem tensorflow 2.15.0 is installed; Headrace needs <2.22,>=2.21"
    assert "ml_metadata.metadata_store.metadata_store fails: ImportError: GLIBC_2.38 not found" in problems[1]
    assert any("tfx.v1" in line for line in problems[2:])
    (loaded,) = [line for line in done.stdout.splitlines() if "loaded in" in line]
    assert "apache_beam" in loaded


@pytest.mark.slow
def test_environment_that_runs_these_tests_is_fit() -> None:
    assert [result for result in imports.load() if result.level is Level.PROBLEM] == []

"""The making of the environment, on machines that lack something."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import bootstrap

PROJECT = Path(__file__).parents[2]


def test_a_whole_machine_lacks_nothing(tmp_path: Path) -> None:
    (tmp_path / "Python.h").touch()
    assert bootstrap.complaints((3, 12), str(tmp_path), ("no-such-compiler", "sh")) == []


def test_missing_compiler_and_headers_are_both_named_with_the_packages_that_bring_them(tmp_path: Path) -> None:
    compiler, headers = bootstrap.complaints((3, 13), str(tmp_path), ("no-such-compiler",))
    assert "no-such-compiler" in compiler
    assert "apt install g++" in compiler
    assert f"{tmp_path}/Python.h" in headers
    assert "apt install python3.13-dev" in headers


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_another_python_is_refused_with_the_way_to_name_one(version: tuple[int, int], tmp_path: Path) -> None:
    (sentence,) = bootstrap.complaints(version, str(tmp_path), ("sh",))
    assert f"Python {version[0]}.{version[1]};" in sentence
    assert "PYTHON=python3.12" in sentence


def test_a_python_without_optimizations_is_told_from_one_of_the_system_and_one_with_them() -> None:
    assert bootstrap.unoptimized("'--prefix=/opt/python' '--enable-shared'", "/opt/python")
    assert not bootstrap.unoptimized("'--enable-shared' '--prefix=/usr'", "/usr")
    assert not bootstrap.unoptimized("'--prefix=/opt/python' '--enable-optimizations' '--with-lto'", "/opt/python")
    assert not bootstrap.unoptimized("", "/opt/python")


def test_a_python_fits_if_it_is_there_of_a_known_version_and_has_headers(tmp_path: Path) -> None:
    (tmp_path / "Python.h").touch()
    old = tmp_path / "old"
    old.write_text(f"#!/bin/sh\necho 3 10 {tmp_path}\n")
    old.chmod(0o755)
    bare = tmp_path / "bare"
    bare.write_text(f"#!/bin/sh\necho 3 12 {tmp_path}/nowhere\n")
    bare.chmod(0o755)
    assert bootstrap.fits(sys.executable, ("sh",))
    assert not any(bootstrap.fits(str(path), ("sh",)) for path in (old, bare, tmp_path / "absent"))


SLOWER = """
import sys, sysconfig
from tools import bootstrap

bootstrap.SYSTEM = sys.argv[1]
sys.argv[:2] = ["tools/bootstrap.py"]
sys.base_prefix = "/opt/python"
sysconfig.get_config_vars()["CONFIG_ARGS"] = "'--prefix=/opt/python' '--enable-shared'"
bootstrap.venv.create = lambda *_, **__: sys.exit("the environment is made with this Python")
bootstrap.main()
"""
"""The bootstrap by a Python that was built without optimizations, up to where the environment is made."""


@pytest.mark.parametrize(
    ("options", "has_headers", "is_replaced"),
    [(["--default"], True, True), ([], True, False), (["--default"], False, False)],
    ids=["not chosen", "chosen by the user", "the system's has no headers"],
)
def test_the_systems_python_takes_the_place_of_a_slower_one_that_the_user_did_not_choose(
    options: list[str], has_headers: bool, is_replaced: bool, tmp_path: Path
) -> None:
    headers, system = tmp_path / "include", tmp_path / "python3"
    headers.mkdir()
    if has_headers:
        (headers / "Python.h").touch()
    system.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then echo 3 12 {headers}; else echo "ran: $@"; fi\n')
    system.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", SLOWER, system, *options],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "CXX": "sh"},
        capture_output=True,
        text=True,
        check=False,
    )
    slower = f"{sys.executable} is built without optimizations, which takes about 15% more CPU time"
    if is_replaced:  # by the script alone: with the option again, it might not end
        used = f"using {system}, as {slower} (PYTHON=python3 uses that one)\nran: tools/bootstrap.py\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, used, "")
    else:
        kept = (1, f"note: {slower}\n", "the environment is made with this Python\n")
        assert (done.returncode, done.stdout, done.stderr) == kept


@pytest.mark.parametrize(("chosen", "options"), [([], ["--default"]), (["PYTHON=python3"], [])])
def test_make_says_whether_the_user_chose_the_python(chosen: list[str], options: list[str]) -> None:
    unset = {"PYTHON", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}  # of the `make` that runs the tests
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    shown = subprocess.run(
        ["make", "--dry-run", "--always-make", "env", *chosen],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.splitlines()[0].split() == ["python3", "tools/bootstrap.py", *options]


def test_an_environment_that_was_made_with_another_python_is_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, python, package = tmp_path / "made", tmp_path / "made/bin/python", tmp_path / "made/lib/package"
    bootstrap.create(made, has_pip=False)
    package.write_text("kept")
    bootstrap.create(made, has_pip=False)
    assert package.exists()
    assert capsys.readouterr().out == ""
    python.unlink()
    python.symlink_to("/bin/false")  # as if that were another Python
    bootstrap.create(made, has_pip=False)
    assert not package.exists()
    assert capsys.readouterr().out.startswith(f"making {made} ")
    found = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, check=True)
    assert found.stdout == f"{made}\n"
    python.unlink()
    python.symlink_to(tmp_path / "removed")  # an update of the system took that Python away
    bootstrap.create(made, has_pip=False)
    assert subprocess.run([python, "-c", ""], check=False).returncode == 0


def test_a_download_with_another_hash_than_the_locked_one_ends_the_making(tmp_path: Path) -> None:
    wheel = tmp_path / "pip-1-py3-none-any.whl"
    wheel.write_bytes(b"not what was locked")
    entry = {"url": wheel.as_uri(), "hash": "sha256:" + hashlib.sha256(b"what was locked").hexdigest()}
    with pytest.raises(SystemExit, match="its hash differs"):
        bootstrap.download(entry, str(tmp_path / "nowhere"))


def test_without_ensurepip_uv_is_installed_by_the_locked_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "pip-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "pip/__main__.py", f"import sys; open({str(tmp_path / 'asked')!r}, 'w').write(' '.join(sys.argv[1:]))"
        )
    pip = {"url": wheel.as_uri(), "hash": "sha256:" + hashlib.sha256(wheel.read_bytes()).hexdigest()}
    monkeypatch.setattr(bootstrap, "locked", {"pip": {"wheels": [pip]}, "uv": {"version": "1.2.3"}}.__getitem__)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "made"], check=True)
    bootstrap.install_uv(tmp_path / "made", has_pip=False)
    assert (tmp_path / "asked").read_text() == "install --quiet --disable-pip-version-check uv==1.2.3"


def test_the_lock_names_the_wheels_that_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    (wheel,) = bootstrap.locked("pip")["wheels"]
    assert wheel["url"].endswith("-py3-none-any.whl")
    assert wheel["hash"].startswith("sha256:")
    assert bootstrap.locked("uv")["version"]

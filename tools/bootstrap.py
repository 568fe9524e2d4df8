"""Create `.venv` with the locked uv in it, from a bare Python without uv, pip or the distribution's venv package.

Debian and Ubuntu ship Python without ensurepip, and without the headers that one dependency is compiled against. If
ensurepip is missing, pip is downloaded from the address in uv.lock and checked against its hash. Anything else that is
missing is reported before anything is downloaded.

`make` runs this as `python3 tools/bootstrap.py` with the user's Python, so it must parse in versions that are too old
for the rest. With `--default`, where the user has not chosen that Python, the system's is taken if it is faster.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OLDEST, NEWEST = (3, 11), (3, 13)
SYSTEM = "/usr/bin/python3"
ENVIRONMENT = Path(".venv")


def complaints(version: tuple[int, int], include: str, compilers: tuple[str, ...]) -> list[str]:
    """One sentence for everything that this machine lacks."""
    found = "{}.{}".format(*version)
    if not OLDEST <= version <= NEWEST:
        return [f"this is Python {found}; Headrace needs 3.11 to 3.13; choose one with `make run PYTHON=python3.12`"]
    missing = []
    if not any(map(shutil.which, compilers)):
        missing.append(f"no C++ compiler was found ({', '.join(compilers)}): on Debian and Ubuntu, `apt install g++`")
    if not Path(include, "Python.h").exists():
        missing.append(
            f"Python's headers are missing ({include}/Python.h): on Debian and Ubuntu, `apt install python{found}-dev`"
        )
    return missing


def unoptimized(configured: str, prefix: str) -> bool:
    """Whether a Python was built without optimizations, as pyenv does by default.

    configured: the options with which it was configured, "" if they are not known. prefix: where it is installed; in
    /usr, it is the system's, which distributions optimize by other means than that option.
    """
    return bool(configured) and "--enable-optimizations" not in configured and prefix != "/usr"


def fits(python: str, compilers: tuple[str, ...]) -> bool:
    """Whether the interpreter `python` is there and the environment can be made with it."""
    probe = "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_path('include'))"
    if not shutil.which(python):
        return False
    found = subprocess.run([python, "-c", probe], capture_output=True, encoding="utf-8", check=False)  # noqa: S603
    if found.returncode:
        return False
    major, minor, include = found.stdout.rstrip("\n").split(" ", 2)
    return not complaints((int(major), int(minor)), include, compilers)


def locked(package: str) -> dict[str, Any]:
    """The entry of `package` in uv.lock."""
    import tomllib

    packages = tomllib.loads(Path("uv.lock").read_text(encoding="utf-8"))["package"]
    return next(entry for entry in packages if entry["name"] == package)


def download(wheel: dict[str, str], folder: str) -> Path:
    """Download a wheel of uv.lock into `folder`. Exits if its hash is not the locked one."""
    url = wheel["url"]
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310 - an address of uv.lock
        content = answer.read()
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != wheel["hash"]:
        sys.exit(f"error: {url} is not the file in uv.lock: its hash differs")
    path = Path(folder, url.rpartition("/")[2])
    path.write_bytes(content)
    return path


def create(environment: Path, has_pip: bool) -> None:
    """Create the environment, or keep what is in it; one that was made with another Python is made anew."""
    python = environment / "bin" / "python"
    is_others = os.path.lexists(str(python)) and os.path.realpath(str(python)) != os.path.realpath(sys.executable)
    if is_others:
        print(f"making {environment} anew, as it was made with {os.path.realpath(str(python))}", flush=True)
    venv.create(environment, clear=is_others, with_pip=has_pip, symlinks=True)


def install_uv(environment: Path, has_pip: bool) -> None:
    """Install the locked uv into `environment`, with its pip or with the locked pip, run from its wheel."""
    python = str(environment / "bin" / "python")
    install = ["install", "--quiet", "--disable-pip-version-check", f"uv=={locked('uv')['version']}"]
    if has_pip:
        subprocess.run([python, "-m", "pip", *install], check=True)  # noqa: S603
        return
    with tempfile.TemporaryDirectory() as folder:
        pip = download(locked("pip")["wheels"][0], folder) / "pip"
        subprocess.run([python, str(pip), *install], check=True)  # noqa: S603


def main() -> None:
    compilers = ((os.environ.get("CXX") or "g++").split()[0], "c++")
    missing = complaints(sys.version_info[:2], sysconfig.get_path("include"), compilers)
    if missing:
        sys.exit("\n".join(f"error: {sentence}" for sentence in missing))
    if unoptimized(sysconfig.get_config_var("CONFIG_ARGS") or "", sys.base_prefix):
        slower = "is built without optimizations, which takes about 15% more CPU time"
        if sys.argv[1:] == ["--default"] and fits(SYSTEM, compilers):
            print(f"using {SYSTEM}, as {sys.executable} {slower} (PYTHON=python3 uses that one)", flush=True)
            os.execv(SYSTEM, [SYSTEM, sys.argv[0]])  # noqa: S606
        print(f"note: {sys.executable} {slower}")
    has_pip = find_spec("ensurepip") is not None
    create(ENVIRONMENT, has_pip)
    try:
        install_uv(ENVIRONMENT, has_pip)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # pip has printed the reason
    except OSError as error:
        sys.exit(f"error: pip could not be downloaded ({error}); `apt install python3-venv` provides it")


if __name__ == "__main__":
    main()

"""What the image is built from: a copy of this project's sources, its lock and the user's modules, in one folder.

The tag of an image is a digest of that folder, so the same code and the same lock give the same tag.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from headrace.configs.config import PipelineConfig
from headrace.configs.credentials import CERTAIN
from headrace.configs.errors import RunError
from headrace.pipeline.digest import digest_path, digest_text

PROJECT = Path(__file__).resolve().parents[2]
PARTS = (
    "Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "uv.lock",
    "image",
    "src/headrace/__init__.py",
    "src/headrace/__main__.py",
    "configs",
    "trainer",
    "components",
    "pipeline",
)
"""Of this project."""
SUFFIXES = frozenset({".py", ".html", ".css", ".js", ".json", ".md", ".sh", ".txt", ".yaml"})
"""Of the files in the folders among them; an editor's copies have others, and would make another image."""
CODE = "image/code"
"""Where the Dockerfile takes the user's modules from."""
REQUIREMENTS = "image/requirements.txt"
"""And the user's packages."""
CA = "image/ca.txt"
"""And the authorities that a download may be signed by, beside the public ones."""
NOT_CODE = ("__pycache__", "runs", "serving", "node_modules")
CONFIGS = frozenset({".yaml", ".yml"})
"""How configs of pipelines end."""
MOST = 100_000_000
"""Bytes of the user's modules: code is small, and data lies elsewhere."""
READABLE = 1_000_000
"""Bytes of a file that is looked through for credentials."""
TEMPLATE = re.compile(r"[{%$<]")
"""A character of a text that a credential is put into when the code runs."""
TAG_LENGTH = 16
PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


def stage(folder: Path, code: Path | None = None, requirements: Path | None = None) -> None:
    """Fill an empty folder with what the image is built from; `code`: the user's folder, with modules at its top;
    `requirements`: a file of packages beyond the locked ones.

    Raises RunError where this installation cannot build an image, or what is the user's must not go into one.
    """
    missing = [name for name in PARTS if not (PROJECT / name).exists()]
    if missing:
        raise RunError(
            f"{PROJECT} has no {', '.join(missing)}, which an image is built from\n"
            "  Run this from a clone of the project, as `.venv/bin/headrace image`."
        )
    for name in PARTS:
        _copy(PROJECT / name, folder / name)
    if code is not None:
        _copy_code(code, folder / CODE)
    if requirements is not None:
        _refuse_credentials(requirements)
        shutil.copy(requirements, folder / REQUIREMENTS)


def trust(folder: Path, ca: Path) -> None:
    """Let what is downloaded while the image is built be signed by the authorities in a file of PEM certificates.

    Raises RunError where the file is not one.
    """
    text = ca.read_bytes().decode("utf-8", "replace")
    if "PRIVATE KEY-----" in text:
        raise RunError(
            f"--ca {ca}: a private key stands in it\n  Name a file with the certificate of the authority alone."
        )
    if not PEM.search(text):
        raise RunError(
            f"--ca {ca}: no PEM certificate is in it (-----BEGIN CERTIFICATE-----)\n"
            f"  `openssl x509 -inform der -in {ca} -out ca.pem` makes one of a binary certificate."
        )
    (folder / CA).write_text("\n" + "\n".join(PEM.findall(text)) + "\n", encoding="ascii")


def content_tag(folder: Path, variant: str) -> str:
    """The tag of the image that is built from the folder."""
    return digest_text(digest_path(folder), variant)[:TAG_LENGTH]


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=_no_source, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _no_source(folder: str, names: Iterable[str]) -> set[str]:
    """The names in a folder that are no part of the image: what is hidden, Python's, an editor's, and configs."""
    files = {name for name in names if Path(folder, name).is_file() and Path(name).suffix not in SUFFIXES}
    files |= {name for name in names if _is_config(Path(folder, name))}
    return files | {name for name in names if name.startswith(".") or name == "__pycache__"}


def _is_config(file: Path) -> bool:
    """Whether it is a pipeline's config, or a profile of one. No pod reads it, and it may name the image itself: with
    it among the content, the image would be another one as soon as the config names it.
    """
    if file.suffix not in CONFIGS or not file.is_file() or file.stat().st_size > READABLE:
        return False
    try:
        told = yaml.safe_load(file.read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
    sections = set(told) if isinstance(told, dict) else set()
    return not sections.isdisjoint(("pipeline", "kubeflow")) and sections <= PipelineConfig.model_fields.keys()


def _copy_code(code: Path, target: Path) -> None:
    files = list(_files(code))
    if not any(file.suffix == ".py" for file in files):
        raise RunError(f"--code {code}: there is no Python module in it; name the folder that your modules lie in")
    total = sum(file.stat().st_size for file in files)
    if total > MOST:
        largest = max(files, key=lambda file: file.stat().st_size)
        raise RunError(
            f"--code {code}: {total / 1e6:,.0f} MB, and at most {MOST / 1e6:,.0f} MB go into an image; "
            f"the largest file is {largest.relative_to(code)}\n"
            "  Name a folder with code alone. Data belongs into an object store, or on a volume."
        )
    for file in files:
        _refuse_credentials(file)
        copied = target / file.relative_to(code)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copied)


def _files(code: Path) -> Iterator[Path]:
    """All but configs, and what is hidden, made by runs, or an environment of Python's; in an order of their own."""
    for path in sorted(code.iterdir()):
        if path.name.startswith(".") or path.name in NOT_CODE or path.name.endswith(".egg-info"):
            continue
        if path.is_dir() and not (path / "pyvenv.cfg").exists():
            yield from _files(path)
        elif path.is_file() and not _is_config(path):
            yield path


def _refuse_credentials(file: Path) -> None:
    """Whoever can pull the image can read it."""
    text = file.read_bytes().decode(errors="replace") if file.stat().st_size <= READABLE else ""
    for what, shape in CERTAIN.items():
        if any(not TEMPLATE.search(_secret(found)) for found in shape.finditer(text)):
            raise RunError(
                f"{file}: {what} stands in it, and all who can pull an image can read its files\n"
                "  Put it into a Kubernetes Secret, and name that under kubeflow.defaults.secrets."
            )


def _secret(found: re.Match[str]) -> str:
    """The credential of what was found; all of it where that is not known."""
    return found.groupdict().get("secret") or found[0]

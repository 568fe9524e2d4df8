"""The build context of the image: this project's sources, its lock and the user's modules, copied into one folder.

An image's tag is a digest of that folder, so the same code and the same lock give the same tag.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from headrace.common import yaml_text
from headrace.common.credentials import CERTAIN_PATTERNS
from headrace.common.digests import digest_path, digest_text
from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig

PROJECT = Path(__file__).resolve().parents[2]
PARTS = (
    "Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "uv.lock",
    "image",
    "src/headrace/__init__.py",
    "src/headrace/__main__.py",
    "common",
    "configs",
    "trainer",
    "components",
    "pipeline",
)
"""The files and folders of this project that go into the image."""
SUFFIXES = frozenset({".py", ".html", ".css", ".js", ".json", ".md", ".sh", ".txt", ".yaml"})
"""Suffixes of the files to copy from those folders; an editor's backup files would make another image."""
CODE = "image/code"
"""Folder of the user's modules, as the Dockerfile expects it."""
REQUIREMENTS = "image/requirements.txt"
"""File that lists the user's packages."""
CA = "image/ca.txt"
"""File of certificate authorities to trust for downloads, in addition to the public ones."""
NOT_CODE = ("__pycache__", "runs", "serving", "node_modules")
CONFIGS = frozenset({".yaml", ".yml"})
"""Suffixes of pipeline configs."""
MOST = 100_000_000
"""Largest size of the user's modules in bytes; data belongs elsewhere."""
READABLE = 1_000_000
"""Largest size in bytes of a file that is searched for credentials."""
TEMPLATE = re.compile(r"[{%$<]")
"""A character of a template, into which the code inserts the credential at run time."""
TAG_LENGTH = 16
PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")


def stage(folder: Path, code: Path | None = None, requirements: Path | None = None) -> None:
    """Copy everything that the image is built from into an empty folder.

    Args:
        folder: The build context.
        code: The user's folder, with modules at its top.
        requirements: A file of packages in addition to the locked ones.

    Raises:
        RunError: This installation cannot build an image, or the user's files hold credentials or are too large.
    """
    missing = [name for name in PARTS if not (PROJECT / name).exists()]
    if missing:
        raise RunError(
            f"{PROJECT} has no {', '.join(missing)}, which the image is built from\n"
            "  Run `.venv/bin/headrace image` from a clone of the project."
        )
    for name in PARTS:
        _copy(PROJECT / name, folder / name)
    if code is not None:
        _copy_code(code, folder / CODE)
    if requirements is not None:
        _refuse_credentials(requirements)
        shutil.copy(requirements, folder / REQUIREMENTS)


def trust(folder: Path, ca: Path) -> None:
    """Trust the authorities in a file of PEM certificates for downloads during the build.

    Raises RunError if the file holds a private key or no certificate.
    """
    text = ca.read_bytes().decode("utf-8", "replace")
    if "PRIVATE KEY-----" in text:
        raise RunError(
            f"--ca {ca}: the file holds a private key\n  Name a file with only the certificate of the authority."
        )
    if not PEM.search(text):
        raise RunError(
            f"--ca {ca}: the file holds no PEM certificate (-----BEGIN CERTIFICATE-----)\n"
            f"  `openssl x509 -inform der -in {ca} -out ca.pem` converts a binary certificate."
        )
    (folder / CA).write_text("\n" + "\n".join(PEM.findall(text)) + "\n", encoding="ascii")


def content_tag(folder: Path, variant: str) -> str:
    """The tag of the image for a build context."""
    return digest_text(digest_path(folder), variant)[:TAG_LENGTH]


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=_no_source, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _no_source(folder: str, names: Iterable[str]) -> set[str]:
    """Names in a folder that do not go into the image: hidden files, caches, backup files, and pipeline configs."""
    files = {name for name in names if Path(folder, name).is_file() and Path(name).suffix not in SUFFIXES}
    files |= {name for name in names if _is_config(Path(folder, name))}
    return files | {name for name in names if name.startswith(".") or name == "__pycache__"}


def _is_config(file: Path) -> bool:
    """Whether a file is a pipeline's config or a profile of one.

    No pod reads it, and it may name the image: if it were part of the content, naming the image would change its tag.
    """
    if file.suffix not in CONFIGS or not file.is_file() or file.stat().st_size > READABLE:
        return False
    try:
        content = yaml_text.parse(file.read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
    sections = set(content) if isinstance(content, dict) else set()
    return not sections.isdisjoint(("pipeline", "kubeflow")) and sections <= PipelineConfig.model_fields.keys()


def _copy_code(code: Path, target: Path) -> None:
    files = list(_files(code))
    if not any(file.suffix == ".py" for file in files):
        raise RunError(f"--code {code}: the folder holds no Python module; name the folder of your modules")
    total = sum(file.stat().st_size for file in files)
    if total > MOST:
        largest = max(files, key=lambda file: file.stat().st_size)
        raise RunError(
            f"--code {code}: {total / 1e6:,.0f} MB, but at most {MOST / 1e6:,.0f} MB are allowed in an image; "
            f"the largest file is {largest.relative_to(code)}\n"
            "  Name a folder with only code. Data belongs in an object store or on a volume."
        )
    for file in files:
        _refuse_credentials(file)
        copied = target / file.relative_to(code)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copied)


def _files(code: Path) -> Iterator[Path]:
    """The files of a folder, sorted, without configs, hidden files, outputs of runs and virtual environments."""
    for path in sorted(code.iterdir()):
        if path.name.startswith(".") or path.name in NOT_CODE or path.name.endswith(".egg-info"):
            continue
        if path.is_dir() and not (path / "pyvenv.cfg").exists():
            yield from _files(path)
        elif path.is_file() and not _is_config(path):
            yield path


def _refuse_credentials(file: Path) -> None:
    """Raise RunError if the file holds a credential: everyone who can pull the image could read it."""
    text = file.read_bytes().decode(errors="replace") if file.stat().st_size <= READABLE else ""
    for what, pattern in CERTAIN_PATTERNS.items():
        if any(not TEMPLATE.search(_secret(match)) for match in pattern.finditer(text)):
            raise RunError(
                f"{file}: the file holds {what}, and everyone who can pull an image can read its files\n"
                "  Put it into a Kubernetes Secret and list that under kubeflow.defaults.secrets."
            )


def _secret(match: re.Match[str]) -> str:
    """The credential itself, if the pattern marks it; else the whole match."""
    return match.groupdict().get("secret") or match[0]

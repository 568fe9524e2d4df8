"""Where the config file of a server is: on this machine, or in an object store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.common.durable import write_text
from headrace.common.errors import DataError, RunError
from headrace.common.locks import wait_and_hold
from headrace.common.storage.paths import is_remote
from headrace.common.store_lock import held


def update(file: str, change: Callable[[str], str]) -> bool:
    """Replace the text of a file by what `change` makes of it, in one step; "" stands for no file.

    Whoever else changes it, another command on this machine or a pod, is waited for. Returns whether it changed. Raises
    RunError if it cannot be read or written, if the lock was lost meanwhile, or if `change` does.
    """
    try:
        return _update_remote(file, change) if is_remote(file) else _update_local(Path(file).absolute(), change)
    except DataError as error:
        raise RunError(f"deploy.serving.config_file: {error}") from None
    except RunError as error:
        raise RunError(f"deploy.serving.config_file: {file}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"deploy.serving.config_file: {file} cannot be kept up to date: {error}") from None


def _update_local(path: Path, change: Callable[[str], str]) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wait_and_hold(path.with_name(f".{path.name}.lock")):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        changed = change(text)
        if changed == text:
            return False
        write_text(path, changed)
        return True


def _update_remote(file: str, change: Callable[[str], str]) -> bool:
    from headrace.common.storage.filesystems import filesystem, parse_location, promptly

    location = parse_location(file)
    text = _text(filesystem(location), location.arrow)
    if change(text) == text:
        return False
    folder, _, name = location.arrow.rpartition("/")
    system = promptly(location)
    waiting = f"deploy.serving.config_file: {file}: another pipeline is changing it; waiting"
    with held(system, f"{folder}/.{name}.lock", waiting) as claim:
        text = _text(system, location.arrow)
        if (changed := change(text)) == text:
            return False
        claim.check()
        with system.open_output_stream(location.arrow, compression=None) as stream:
            stream.write(changed.encode())
    return True


def _text(system: Any, path: str) -> str:
    with contextlib.suppress(FileNotFoundError), system.open_input_stream(path, compression=None) as stream:
        return bytes(stream.read()).decode()
    return ""

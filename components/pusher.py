"""Copying a blessed model to where a model server looks for new versions."""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfx import types
from tfx.components import Pusher as StockPusher
from tfx.components.pusher import executor
from tfx.dsl.components.base import executor_spec
from tfx.proto import pusher_pb2
from tfx.types import artifact_utils
from tfx.utils import proto_utils

from configs.errors import RunError


def push(model: Path, destination: Path, clock: Callable[[], float] = time.time) -> Path:
    """Make `destination/<version>` a copy of `model`, in one step: a server sees the whole version or none of it.

    The version is the Unix time in seconds, or one more than the greatest there; or the greatest itself where that is
    this very model, so that a run which was killed before it wrote down what it had pushed does not push it twice.
    Whatever is left of a push that was killed has no number for a name, and is cleared away by the next. Pushes to one
    place wait for each other. RunError if it cannot be written to.
    """
    try:
        destination.mkdir(parents=True, exist_ok=True)
        with _alone(destination):
            for left_over in destination.glob(".pushing-*"):
                shutil.rmtree(left_over)
            there = {int(path.name): path for path in destination.iterdir() if path.name.isdecimal()}
            if there and _same(model, there[max(there)]):
                return there[max(there)]
            version = max([int(clock()), *(number + 1 for number in there)])
            partial = destination / f".pushing-{version}-{os.getpid()}"
            try:
                shutil.copytree(model, partial)
            except OSError:
                shutil.rmtree(partial, ignore_errors=True)  # a full disk should not stay full
                raise
            return partial.rename(destination / str(version))
    except OSError as error:
        raise RunError(
            f"deploy.push: cannot push to {destination}: {error}\n"
            "  Make room for a folder that can be written to there, or set `deploy.push` to another, or to null."
        ) from error


def _same(model: Path, version: Path) -> bool:
    """Whether two folders hold the same files, byte for byte; a different size is seen before any is read."""
    own, there = _files(model), _files(version)
    return _sizes(own) == _sizes(there) and all(filecmp.cmp(own[name], there[name], shallow=False) for name in own)


def _files(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def _sizes(files: Mapping[str, Path]) -> dict[str, int]:
    return {name: path.stat().st_size for name, path in files.items()}


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for other pushes into the folder, and keep them out. Without effect where the file system has no locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # and with it the lock


def archive(model: Path, directory: Path) -> None:
    """Keep what was pushed in the artifact too, as TFX does: hard links where the file system has them, else copies."""
    shutil.copytree(model, directory, copy_function=_link, dirs_exist_ok=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


class Executor(executor.Executor):
    """TFX's, with the copy made in one step and versions that always rise."""

    def Do(  # noqa: N802
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Push the model if it is blessed, and set the properties `pushed`, `pushed_destination`, `pushed_version`."""
        pushed_model = artifact_utils.get_single_instance(output_dict["pushed_model"])
        if not self.CheckBlessing(input_dict):
            print("not blessed, so not pushed")
            self._MarkNotPushed(pushed_model)
            return
        to = proto_utils.json_to_proto(exec_properties["push_destination"], pusher_pb2.PushDestination())
        model = Path(self.GetModelPath(input_dict))
        version = push(model, Path(to.filesystem.base_directory))
        archive(model, Path(pushed_model.uri))
        self._MarkPushed(pushed_model, pushed_destination=str(version), pushed_version=version.name)
        print(f"pushed to {version}")


class Pusher(StockPusher):
    """TFX's Pusher with the executor above."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)


def pusher(model: types.BaseChannel, blessing: types.BaseChannel, destination: Path) -> Pusher:
    """The component that pushes `model` to `destination` if `blessing` allows it."""
    filesystem = pusher_pb2.PushDestination.Filesystem(base_directory=str(destination))
    return Pusher(model, blessing, push_destination=pusher_pb2.PushDestination(filesystem=filesystem))

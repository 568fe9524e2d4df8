"""A night on Kubeflow whose pods are killed once each leaves what an undisturbed night leaves.

HEADRACE_TEST_SEED draws other moments (docs/testing.md).
"""

from __future__ import annotations

import json
import operator
import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import ClassVar

import dying_pod
import pytest
from command import headrace
from compared_outputs import NOT_COMPARED, compared, without_varying
from forks import FIRST, Forked
from killed_nights import CONFIG, ROWS, STAMP, Nights

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.configs.loading.loader import load
from headrace.configs.schema.components import DECLARATIONS
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import TaskSpec
from headrace.pipeline.kubeflow.verify import cluster
from headrace.pipeline.kubeflow.verify.cluster import Cluster, ClusterRun
from headrace.pipeline.kubeflow.verify.driver import Json
from headrace.pipeline.kubeflow.verify.launcher import Pod

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("HEADRACE_TEST_SEED", "1"))
ROOT = "minio://mlpipeline/v2/artifacts"
HOME = f"{ROOT}/nightly"
KUBEFLOW = f'kubeflow: {{image: "registry.example/headrace:1", pipeline_root: "{ROOT}"}}\n'
ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Of runs and of tries of tasks, which stand in URIs."""
VERSION = re.compile(rb"\b1\d{9}\b")
NAMED = re.compile(rf"{ID.pattern.decode()}|[0-9a-f]{{16,64}}|1\d{{9}}|\d{{4}}-\d\d-\d\dT[\d:.+]*")
"""What varies in names in the store: ids, digests, versions and times."""
LEFT = re.compile(r"(blessed|trained|pushed)\.json|spans/\w+/.+/[0-9a-f]{64}|.*\.partial")
"""Sums of other objects, which the next of those brings up to date; what spans consist of, named by its content, which
nobody reads before a list names it; and what the folder that stands for the store keeps of a write that was killed."""
POD = re.compile(rb"/[^\"' ]*/pods/[a-z-]+-[0-9a-f]{8}")
"""The root of a pod, which is `/` in a cluster."""


@dataclass(frozen=True)
class WatchedPod(Pod):
    """A pod whose changes are noted.

    folder: where, a file for each task; moments: by task, the number of the change before which its first pod dies.
    """

    folder: ClassVar[Path]
    moments: ClassVar[dict[str, int]]
    is_doomed: bool = False

    def launch(self, spec: TaskSpec, executor_input: Json) -> Json:
        """As Argo tries it: a pod that dies is followed by another, with the same names for the outputs."""
        if spec.name in self.moments:
            first = replace(self, root=self.root.with_name(f"{self.root.name}-first"), is_doomed=True)
            with pytest.raises(RunError):
                Pod.launch(first, spec, executor_input)
        return super().launch(spec, executor_input)

    def _environment(self, spec: TaskSpec) -> dict[str, str]:
        at = self.moments[spec.name] if self.is_doomed else None
        notes = self.folder / f"{spec.name}{'-first' * self.is_doomed}"
        asked = {"folder": str(self.folder.with_suffix("")), "notes": str(notes), "at": at}
        return {**super()._environment(spec), FIRST: dying_pod.__file__, dying_pod.ASKED: json.dumps(asked)}


@dataclass
class Night:
    """A night of the pipeline with every component, on a cluster of its own. notes: the changes of its pods, by task,
    those of a first pod that died by `<task>-first`.
    """

    config: Path
    cluster: Cluster
    run: ClusterRun
    notes: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Path, text: str, name: str, moments: dict[str, int]) -> Night:
        there = Cluster(config.parent / name, ROOT)
        WatchedPod.folder, WatchedPod.moments = config.parent / f"{name}.changes", moments
        WatchedPod.folder.mkdir()
        run = there.run(text)
        notes = {file.name: file.read_text().splitlines() for file in WatchedPod.folder.iterdir()}
        return cls(config, there, run, notes)

    @property
    def versions(self) -> list[str]:
        return [name for name in self.cluster.store.children(f"{HOME}/serving/nightly") if name.isdecimal()]

    @property
    def names(self) -> Counter[str]:
        """The names of all files of the pipeline in the store, without those that do not matter after a kill."""
        names = (name for name in self.cluster.store.files(HOME) if not LEFT.fullmatch(name))
        return Counter(NAMED.sub("*", STAMP.sub("*", name)) for name in names)

    @property
    def outputs(self) -> dict[str, bytes]:
        """What is compared of the files of all outputs."""
        return dict(self._outputs())

    def _outputs(self) -> Iterator[tuple[str, bytes]]:
        names = {name.replace("_", "-"): "".join(map(str.capitalize, name.split("_"))) for name in DECLARATIONS}
        for task, run in self.run.tasks.items():
            for output, artifact in run.artifacts.items():
                path = self.cluster.path(artifact["uri"])
                for file in path.rglob("*") if path.is_dir() else [path]:
                    name = str(file.relative_to(path)) if file != path else ""
                    full = f"{names[task]}/{output}/{STAMP.sub('*', name)}"
                    if file.is_file() and output != "executor-logs":
                        found = self._compared(file, full, output)
                        yield full, _without_ids(found)

    def _compared(self, file: Path, name: str, output: str) -> object:
        if output != "record":
            return compared(self.config.parent, file, name)
        return None if NOT_COMPARED.match(name) else _record(file)

    def headrace(self, *arguments: str) -> str:
        done = headrace(
            self.config.parent, arguments[0], self.config.name, *arguments[1:], "--kubeflow",
            HEADRACE_STORE=str(self.cluster.store_folder),
        )  # fmt: skip
        assert done.code == 0, done.out + done.err
        return done.out


def _record(file: Path) -> list[object]:
    """What a task without other outputs has written down, in lines of which most are JSON."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [without_varying(json.loads(line)) if line.startswith("{") else line for line in lines]


def _difference(calm: bytes, killed: bytes) -> list[bytes]:
    """What both say from shortly before the first byte that differs."""
    same = takewhile(bool, map(operator.eq, calm, killed))
    start = max(0, sum(same) - 100)
    return [each[start : start + 200] for each in (calm, killed)]


def _without_ids(value: object) -> bytes:
    text = value if isinstance(value, bytes) else repr(value).encode()
    return POD.sub(b"<pod>", VERSION.sub(b"<version>", ID.sub(b"<id>", text)))


@pytest.fixture(scope="module")
def nights(new_folder: Callable[[str], Path]) -> Iterator[tuple[Night, Night]]:
    """The undisturbed one, and the one in which the first pod of each task dies."""
    folder = new_folder("killed_pods")
    Nights(folder, tuned=False).next_day()
    config = folder / "nightly.yaml"
    config.write_text(CONFIG.replace('path: "', f'path: "{folder}/') + KUBEFLOW)
    text, draw = compile_pipeline(load(config), folder=folder), random.Random(SEED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "Pod", WatchedPod)
        patch.setattr(subprocess, "Popen", Forked)
        calm = Night.of(config, text, "calm", {})
        moments = {task: draw.randrange(len(noted)) for task, noted in sorted(calm.notes.items())}
        print(f"seed {SEED}: {moments}")
        yield calm, Night.of(config, text, "killed", moments)


def test_every_component_died_once_and_was_tried_again(nights: tuple[Night, Night]) -> None:
    calm, killed = nights
    tasks = {name.replace("_", "-") for name in DECLARATIONS} - {"tuner"}
    assert calm.run.tasks.keys() == killed.run.tasks.keys() == tasks
    died = {name.removesuffix("-first") for name, noted in killed.notes.items() if noted[-1] == dying_pod.KILLED}
    assert died == tasks
    assert not [name for name, noted in calm.notes.items() if dying_pod.KILLED in noted]


def test_outputs_are_those_of_the_undisturbed_night(nights: tuple[Night, Night]) -> None:
    calm, killed = (night.outputs for night in nights)
    assert calm.keys() == killed.keys()
    assert {name: _difference(calm[name], killed[name]) for name in calm if calm[name] != killed[name]} == {}


def test_one_whole_version_is_pushed_and_predicts(nights: tuple[Night, Night]) -> None:
    for night in nights:
        (version,) = night.versions
        store = night.cluster
        model = store.path(night.run.tasks["trainer"].artifacts["model"]["uri"]) / "Format-Serving"
        assert checksum(store.path(f"{HOME}/serving/nightly/{version}")) == checksum(model)
        (listed,) = json.loads(night.headrace("models", "--json"))
        assert (listed["versions"], listed["in_service"]) == ([int(version)], True)
        assert [int(number) for number in store.store.children(f"{HOME}/serving/nightly/lite")] == [int(version)]
        (scored,) = store.path(f"{HOME}/scored").iterdir()
        assert scored.read_text().count("\n") == 1 + ROWS
    first, second = (next(night.cluster.path(f"{HOME}/scored").iterdir()).read_bytes() for night in nights)
    assert first == second


def test_nothing_else_is_left_in_the_store(nights: tuple[Night, Night]) -> None:
    calm, killed = (night.names for night in nights)
    assert [*(killed - calm).elements(), *(calm - killed).elements()] == []

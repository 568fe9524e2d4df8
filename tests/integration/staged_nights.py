"""Nights of a pipeline with staged artifacts: its compiled tasks in pods of their own, data and kept spans in S3.

with object_store(s3_server) as server:
    nights = Nights(server, folder)
    server.put_day(1)
    night = nights.run()
    night.read                              # the days whose raw data that night fetched

Pods are processes (forked, with their imports done) that begin with nothing but what Kubeflow's launcher gives them.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import yaml
from forks import Forked
from s3_proxy import Asked, S3Proxy, s3_proxy
from s3_servers import S3Server

from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import TaskSpec
from headrace.pipeline.kubeflow.store import FOLDER
from headrace.pipeline.kubeflow.verify import cluster
from headrace.pipeline.kubeflow.verify.cluster import Cluster, ClusterRun
from headrace.pipeline.kubeflow.verify.launcher import Pod

ROOT = "s3://runs/v2/artifacts"
CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: "s3://lake/trips/{YYYY}-{MM}-{DD}.csv"}, window: 10, schema: %s}
label: {key: tip, kind: binary}
model: {kind: wide_and_deep}
features:
  fare: {column: numeric}
  miles: {column: bucketized, buckets: 8}
  kind: {column: vocabulary}
evaluate: {better_than_constant: false}
kubeflow:
  image: registry.example/headrace:1
  pipeline_root: s3://runs/v2/artifacts
  object_store: {endpoint: "%s", region: us-east-1}
"""
SCHEMA = "\n".join(
    f'feature {{ name: "{name}" type: {type_} presence {{ min_fraction: 1.0 }} }}'
    for name, type_ in {"fare": "FLOAT", "miles": "FLOAT", "kind": "BYTES", "tip": "INT"}.items()
)
READ = ("spans", "example-gen")
ANALYZED = (*READ, "statistics-gen", "schema-gen", "transform")
"""Tasks of a night, as far as its days are read one by one."""
ROWS = 400


@dataclass(frozen=True)
class ObjectStore:
    """An S3 server with the buckets `lake` and `runs`, behind a proxy that notes what programs ask for."""

    proxy: S3Proxy
    client: Any
    """Of the server itself: what the tests do there is not noted."""

    @property
    def url(self) -> str:
        return self.proxy.url

    def put_day(self, day: int, rows: int = ROWS) -> None:
        """Trips of a day in November."""
        columns = trips(day, rows)
        lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        text = "\n".join([",".join(columns), *lines, ""])
        self.client.put_object(Bucket="lake", Key=f"trips/{name(day)}.csv", Body=text.encode())

    def age(self, days: float, below: str = "s3://runs/") -> None:
        """As if all that runs left below a folder had been written this many days earlier."""
        found = self.client.list_objects_v2(Bucket="runs", Prefix=below.removeprefix("s3://runs/"))
        paths = [f"/runs/{one['Key']}" for one in found.get("Contents", [])]
        self.proxy.age(dict.fromkeys(paths, days))

    def names(self, prefix: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="runs", Prefix=f"v2/artifacts/{prefix}")
        return [one["Key"] for page in pages for one in page.get("Contents", [])]


def name(day: int) -> str:
    return f"2026-11-{day:02d}"


def trips(day: int, rows: int = ROWS) -> dict[str, Sequence[object]]:
    """The columns of a day."""
    random = np.random.default_rng(day)
    fares = random.gamma(10, 1.0, rows).round(2)
    kinds = [f"k{number}" for number in random.integers(0, 4 + day % 3, rows)]
    miles = random.exponential(3, rows).round(3)
    return {"fare": fares.tolist(), "miles": miles.tolist(), "kind": kinds, "tip": (fares > 10).astype(int).tolist()}


@contextlib.contextmanager
def object_store(server: S3Server) -> Iterator[ObjectStore]:
    """Two empty buckets, `lake` and `runs`, and the environment to use them through a proxy."""
    with (
        server.bucket("lake") as lake,
        server.bucket("runs"),
        s3_proxy(server.url) as proxy,
        pytest.MonkeyPatch.context() as patch,
    ):
        replace(server, url=proxy.url).enter(patch)
        yield ObjectStore(proxy, lake.meta.client)


class S3Pod(Pod):
    """A pod whose component has the S3 server of its config for an object store. The launcher's copies go by folder."""

    def _environment(self, spec: TaskSpec) -> dict[str, str]:
        return {name: value for name, value in super()._environment(spec).items() if name != FOLDER}


class Program(Forked):
    """The process of a pod, which may be killed."""

    started: ClassVar[list[Program]] = []

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.started.append(self)

    @classmethod
    def kill_newest(cls) -> None:
        cls.started[-1].send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def pods() -> Iterator[None]:
    """Let the pods of clusters be such processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "Pod", S3Pod)
        patch.setattr(subprocess, "Popen", Program)
        yield


@dataclass(frozen=True)
class Night:
    """A run, what was asked of the server meanwhile, and where its artifacts lie."""

    run: ClusterRun
    asked: list[Asked]
    cluster: Cluster

    @property
    def read(self) -> set[str]:
        """The days whose raw data was fetched."""
        return {Path(path).stem for method, path in self.asked if method == "GET" and path.startswith("/lake/trips/")}

    def count(self, method: str, below: str) -> int:
        return Counter(one == method and path.startswith(below) for one, path in self.asked)[True]

    def folder(self, task: str, output: str) -> Path:
        return self.cluster.path(self.run.tasks[task].artifacts[output]["uri"])

    def log(self, task: str) -> str:
        return self.folder(task, "executor-logs").read_text()

    def properties(self, task: str, output: str) -> dict[str, Any]:
        metadata: dict[str, Any] = self.run.tasks[task].artifacts[output]["metadata"]
        return metadata

    def moved(self, task: str) -> tuple[int, int, int, int]:
        """Files and bytes that a pod fetched of kept spans, and those that it kept."""
        reported = re.search(
            r"spans: fetched (\S+) files? \((\S+) bytes\) .*, stored (\S+) files? \((\S+) bytes\)", self.log(task)
        )
        assert reported, self.log(task)
        one, two, three, four = (int(number.replace(",", "")) for number in reported.groups())
        return one, two, three, four


@dataclass(frozen=True)
class Nights:
    """The pipeline, over a server."""

    server: ObjectStore
    folder: Path
    compiling: threading.Lock = field(default_factory=threading.Lock)
    texts: dict[tuple[str, ...], str] = field(default_factory=dict)
    """What was compiled, by tasks and root: that takes half a CPU second, and nothing that it depends on changes."""

    def text(self, tasks: Sequence[str], *settings: str) -> str:
        """The compiled pipeline with some of its tasks alone."""
        (self.folder / "schema.pbtxt").write_text(SCHEMA)  # comes along, and lies elsewhere in each pod
        (self.folder / "trips.yaml").write_text(CONFIG % (self.folder / "schema.pbtxt", self.server.url))
        first, *more = yaml.safe_load_all(compile_pipeline(load(self.folder / "trips.yaml", overrides=list(settings))))
        dag = first["root"]["dag"]
        dag["tasks"] = {name: one for name, one in dag["tasks"].items() if name in tasks}
        for one in dag["tasks"].values():
            one["dependentTasks"] = [task for task in one.get("dependentTasks", []) if task in tasks]
        return yaml.safe_dump_all([first, *more])

    def run(
        self, tasks: Sequence[str] = READ, *, root: str = ROOT, where: str = "cluster", remembering: bool = False
    ) -> Night:
        """A night. remembering: on a cluster whose own cache knows the nights before."""
        start = len(self.server.proxy.asked)
        there = Cluster(self.folder / where, root)
        if not remembering:
            there._cache.clear()
        with self.compiling:
            if (key := (*tasks, root)) not in self.texts:
                self.texts[key] = self.text(tasks, f"kubeflow.pipeline_root={root}")
            text = self.texts[key]
        run = there.run(text)
        return Night(run, self.server.proxy.asked[start:], there)

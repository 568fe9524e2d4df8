"""Two runs that end at the same time: RecordBlessing and Pusher of each in pods' processes, on the S3 server, and
ModelInService, which says what predicts new data.
"""

from __future__ import annotations

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from command import PATIENCE
from compiled_trips import trips
from test_kubeflow_entrypoint import Pod

from headrace.components.stored_models.blessed_record import Registry
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.compiler.tasks import component_tasks
from headrace.pipeline.kubeflow.pod.invocation import Invocation
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.records import PUSHES
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import Store

RUNS = ("run-a", "run-b")
FILES = ("saved_model.pb", "assets/words", "variables/variables.data")
SCHEMA = 'feature { name: "fare" type: FLOAT } feature { name: "kind" type: BYTES }'
ROUNDS, AT_ONCE = 12, 2
PREDICT = "predict={source: {kind: csv, path: new.csv}, output: scored.csv}"
LATEST = 0.4
"""Seconds, at most, that a task starts after the one that it meets. It takes about as long on an idle machine."""


@dataclass(frozen=True)
class Ends:
    """A pipeline, whose two runs end.

    barrier: where their tasks wait for each other, blessings for blessings and pushes for pushes; shifted: the second
    blessing meets the first push instead, and the second push nothing; predicts: whether they predict new data;
    predicting: by run, the version that predicts, and the run whose model that is.
    """

    store: Store
    home: str
    folder: Path
    config: PipelineConfig
    predicting: dict[str, tuple[str, str]]
    draw: random.Random
    barrier: Barrier
    shifted: bool
    predicts: bool

    @classmethod
    def of(cls, number: int, store: Store, folder: Path) -> Ends:
        root = f"s3://root/round-{number}"
        config = trips("deploy.canary=null", PREDICT, f"kubeflow.pipeline_root={root}")
        draw, barrier = random.Random(number), Barrier(2)
        kind = (number % 2 == 0, number % 3 == 0)  # a pod takes a second, so a third of the rounds predicts
        return cls(store, f"{root}/trips", folder / str(number), config, {}, draw, barrier, *kind)

    def both(self) -> None:
        """Both runs, from the blessing to the model that predicts."""
        delays = [tuple(self.draw.uniform(0, LATEST) * (self.draw.random() < 0.5) for _ in "bp") for _ in RUNS]
        with ThreadPoolExecutor(len(RUNS)) as threads:
            list(threads.map(self._end, RUNS, delays))

    def _end(self, run: str, delays: tuple[float, float]) -> None:
        pod, model = PodPaths(str(self.folder / run)), f"{self.home}/{run}/trainer/5/model/Format-Serving"
        inputs = {f"{model}/{name}": f"{name} of {run}" for name in FILES}
        for uri, text in inputs.items():
            self.store.write(uri, text)
        for uri, text in {**inputs, f"{self.home}/{run}/schema-gen/4/schema/schema.pbtxt": SCHEMA}.items():
            file = pod.local(uri)  # where the launcher puts it
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        given = {"model": "trainer/5/model", "blessing": "evaluator/6/blessing", "schema": "schema-gen/4/schema"}
        late = self.shifted and run == RUNS[1]
        for _ in range(1 + late):
            self.barrier.wait()
        listed = self._task(run, "record-blessing", given, {}, delays[0])
        parameters = {"model": listed["newest"], "entry": listed["entry"]}
        if not late:
            self.barrier.wait()
        self._task(run, "pusher", {"model_blessing": given["blessing"]}, parameters, delays[1])
        if not self.predicts:
            return
        found = self._task(run, "model-in-service", {"pushed_model": "pusher/7/pushed_model"}, {}, 0)
        model = json.loads(found["newest"])["uri"].removeprefix(f"{self.home}/")
        self.predicting[run] = found["version"], model.split("/")[0]

    def _task(
        self, run: str, name: str, given: dict[str, str], parameters: dict[str, Any], delay: float
    ) -> dict[str, Any]:
        """Run a task, perhaps a little later; returns its output parameters."""
        task = next(task for task in component_tasks(self.config) if task.name == name)
        made = "pushed_model" if name == "pusher" else "record"
        root = f"{self.home}/{run}/{name}/7"

        def artifact(key: str, uri: str) -> dict[str, Any]:
            metadata = {"blessed": 1} if key.endswith("blessing") else {}
            return {"artifacts": [{"name": key, "uri": uri, "type": {"schemaTitle": "a"}, "metadata": metadata}]}

        file = f"/{root.replace('s3://', 's3/')}/output_metadata.json"
        executor_input = {
            "inputs": {
                "parameterValues": parameters,
                "artifacts": {key: artifact(key, f"{self.home}/{run}/{uri}") for key, uri in given.items()},
            },
            "outputs": {
                "artifacts": {key: artifact(key, f"{root}/{key}") for key in (made, "executor-logs")},
                "outputFile": file,
            },
        }
        time.sleep(delay)
        self._run(run, task.invocation, executor_input)
        output = json.loads(Path(f"{self.folder / run}{file}").read_text(encoding="utf-8"))
        found: dict[str, Any] = output["parameterValues"]
        return found

    def _run(self, run: str, invocation: Invocation, executor_input: dict[str, Any]) -> None:
        process = Pod(self.folder / run, has_store=False).start(invocation, executor_input)
        out, _ = process.communicate(timeout=PATIENCE)
        if process.returncode:
            self.barrier.abort()
        assert process.returncode == 0, out

    def listed(self) -> list[str]:
        """The runs of the blessed models, as the next pod finds them."""
        paths = PodPaths(str(self.folder / "next"))
        path = paths.local(f"{self.home}/blessed.json")
        with present({"registry": str(path)}, paths, self.store):
            return [Path(entry.uri).parts[-4] for entry in Registry.read(path).models]

    def pushed(self) -> dict[int, str]:
        """The versions in the store, each whole, with the run whose model it holds."""
        uri = f"{self.home}/serving/trips"
        found = {}
        for version in self.store.children(uri):
            held = {name: self.store.text(f"{uri}/{version}/{name}") for name in self.store.files(f"{uri}/{version}")}
            (run,) = {text.rpartition(" ")[2] for text in held.values()}
            assert held == {name: f"{name} of {run}" for name in FILES}
            found[int(version)] = run
        return found


@pytest.mark.slow
@pytest.mark.usefixtures("forked_pods")
def test_two_runs_that_end_together_lose_no_blessing_and_the_newest_is_in_service(store: Store, tmp_path: Path) -> None:
    ends = [Ends.of(number, store, tmp_path) for number in range(ROUNDS)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(Ends.both, ends))
    for one in ends:
        listed, pushed = one.listed(), one.pushed()
        assert sorted(listed) == [*RUNS]
        assert pushed[max(pushed)] == listed[-1]
        ((_, noted),) = PUSHES.read(f"{one.home}/pushed.json", store).models.items()
        assert {int(version): uri.split("/")[0] for version, uri in noted.items()} == pushed
        assert len({*pushed.values()}) == len(pushed)
        assert store.files(f"{one.home}/serving/.trips-versions") == {}
        assert {*one.predicting} == ({*RUNS} if one.predicts else set())
        for run, (version, model) in one.predicting.items():  # nothing was pushed yet if there is no version
            assert model == (pushed[int(version)] if version else listed[-1])
            assert run in pushed.values() or model != run

"""The run on Kubeflow that trained a model, as the folder that a local run would have left.

found = StoredRuns(home, origins, folder).read(model)
found.folder.evaluation, found.folder.config         # of a RunFolder

Pages and comparisons are made from such folders. It has what a model's record beside it (`pod/origin.py`) and the
run's own components left in the store; what only the pods knew, such as their times, is not in it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from headrace.common import yaml_text
from headrace.components.stored_models.blessed_record import WHY
from headrace.pipeline.kubeflow.document import task_name
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.pod.paths import RECORD
from headrace.pipeline.kubeflow.stored_lineage import Origins
from headrace.pipeline.kubeflow.stored_models import StoredHome, StoredModel
from headrace.pipeline.models.listing import Model
from headrace.pipeline.models.origin import Origin
from headrace.pipeline.report.statistics import FILE_NAME as STATISTICS
from headrace.pipeline.report.training import FILE_NAME as TRAINING
from headrace.pipeline.report.training import SEARCH_FILE_NAME
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.results.run_folder import CONFIG_FILE
from headrace.pipeline.run_parameters import RUN_PARAMETERS
from headrace.pipeline.share.runs import PublicFolder
from headrace.pipeline.versions import FILE_NAME as VERSIONS
from headrace.trainer.trials import MODEL_SEARCH_FILE

_ZERO: Mapping[str, str | None] = {"epochs": "auto", "steps_per_epoch": None}
"""The parameters that a run's record has, with what 0 stands for in the config."""


@dataclass(frozen=True)
class StoredRun:
    """A run that trained a model. origin: with paths relative to the pipeline's folder; folder: on this machine."""

    origin: Origin
    folder: PublicFolder


class StoredRuns:
    """Reads runs. home: the pipeline's folder in the store; tmp: an empty folder for the copies."""

    def __init__(self, home: StoredHome, origins: Origins, tmp: Path) -> None:
        self._home, self._origins, self._tmp = home, origins, tmp

    def read(self, model: StoredModel) -> StoredRun:
        """The run that trained a model. Raises RunError if a record is damaged, OSError if the store fails."""
        origin = self._origins.of(self._home.judged(model))
        folder = self._tmp / f"run-{model.run}"
        folder.mkdir(parents=True, exist_ok=True)
        if origin.config is not None:
            for file in self._copies(str(origin.config)):
                text = with_parameters(file.read_text(encoding="utf-8"), origin.parameters)
                (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
        (folder / VERSIONS).write_text(json.dumps(dict(origin.packages)), encoding="utf-8")
        record = self._record(origin, folder)
        record.write(folder)
        return StoredRun(origin, PublicFolder(folder, record))

    def _record(self, origin: Origin, folder: Path) -> RunRecord:
        model = origin.model
        started = model.trained or model.blessed_at
        return RunRecord(
            run_id=model.run or "",
            pipeline=self._home.name,
            config_file="",
            started=started.timestamp() if started else 0.0,
            status=Status.DONE,
            commit=model.commit,
            dirty=model.dirty,
            nodes=[
                NodeRecord(component, status=Status.DONE, outputs=outputs)
                for component, outputs in self._outputs(origin, folder).items()
                if outputs
            ],
        )

    def _outputs(self, origin: Origin, folder: Path) -> dict[str, dict[str, ArtifactRecord]]:
        """The outputs of the components that pages read, with copies of the files that they read."""
        run, beside = origin.model.run, origin.model.path.parent
        examples: dict[str, str | int | float] = {"rows": json.dumps(origin.rows), **origin.left_out}
        if origin.fingerprint:
            examples["input_fingerprint"] = origin.fingerprint
        if any(span.name for span in origin.spans):
            examples["spans"] = json.dumps({span.name: span.fingerprint for span in origin.spans})
        found = {
            "ExampleGen": {"examples": ArtifactRecord("Examples", "", examples)},
            "StatisticsGen": self._output("statistics", self._statistics(origin, folder)),
            "Tuner": self._output("best_hyperparameters", self._search(origin)),
            "Trainer": {
                "model": ArtifactRecord("Model", str(origin.model.path)),
                **self._output("model_run", self._files(f"{beside}/model_run", TRAINING, MODEL_SEARCH_FILE)),
            },
            "Evaluator": self._output("evaluation", self._home.fetched("evaluator", run)),
            "Baseline": self._output("baseline", self._why_no_baseline(run, folder)),
        }
        for component in ("Canary", "Lite"):
            blessing = self._home.fetched(component.lower(), run)
            found[component] = self._output("blessing", blessing)
            for artifact in found[component].values():
                artifact.properties["blessed"] = self._passed(component, origin.model)
        return found

    def _output(self, key: str, path: Path | None) -> dict[str, ArtifactRecord]:
        return {} if path is None else {key: ArtifactRecord(key, str(path))}

    def _passed(self, component: str, model: Model) -> int:
        verdict = model.lite if component == "Lite" else None
        return int(verdict.passed if verdict else not model.canary)

    def _statistics(self, origin: Origin, folder: Path) -> Path | None:
        """Copied for data that is split by a column, as pages show its range."""
        artifact, config = origin.artifacts.get("statistics"), folder / CONFIG_FILE
        if artifact is None or not config.exists() or "split_by" not in config.read_text(encoding="utf-8"):
            return None
        files = self._copies(rf"{re.escape(str(artifact.path))}/Split-[^/]+/{re.escape(STATISTICS)}", pattern=True)
        return files[0].parent.parent if files else None

    def _search(self, origin: Origin) -> Path | None:
        """The Tuner's result that the model was trained with, which may be that of an earlier run."""
        record = self._home.origin(origin.model) if isinstance(origin.model, StoredModel) else None
        paths = [path for path in (record.upstream if record else ()) if path.endswith("/best_hyperparameters")]
        return self._files(paths[0], SEARCH_FILE_NAME) if paths else None

    def _files(self, folder: str, *names: str) -> Path | None:
        """A folder with copies of files of one in the store; None if there are none."""
        files = [file for name in names for file in self._copies(f"{folder}/{name}")]
        return files[0].parent if files else None

    def _why_no_baseline(self, run: str | None, folder: Path) -> Path | None:
        """A folder with the reason for which the model was compared with no other."""
        where = rf"{re.escape(run or '')}/{task_name('Baseline')}/[^/]+/{RECORD}"
        for file in self._copies(where, pattern=True):
            with contextlib.suppress(ValueError, AttributeError):
                if why := json.loads(unpack(file.read_text(encoding="utf-8"))).get("why"):
                    (folder / "baseline").mkdir(exist_ok=True)
                    (folder / "baseline" / WHY).write_text(str(why), encoding="utf-8")
                    return folder / "baseline"
        return None

    def _copies(self, name: str, *, pattern: bool = False) -> list[Path]:
        return [*self._home.files(name if pattern else re.escape(name)).values()]


def with_parameters(config: str, parameters: Mapping[str, str | int]) -> str:
    """A config as a run used it, with the run's own values of settings of the training. config: YAML."""
    try:
        tree = yaml_text.parse(config)
    except yaml.YAMLError:
        return config
    if not parameters or not isinstance(tree, dict):
        return config
    changed = False
    for name, value in parameters.items():
        if name in _ZERO:
            section, _, setting = RUN_PARAMETERS[name].path.partition(".")
            settings = tree.setdefault(section, {})
            used = int(value) or _ZERO[name]
            if isinstance(settings, dict) and settings.get(setting) != used:
                settings[setting], changed = used, True
    return (
        yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)
        if changed
        else config
    )

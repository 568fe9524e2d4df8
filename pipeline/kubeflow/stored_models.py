"""The models of a pipeline on Kubeflow, from what its runs left in the object store, without ML Metadata.

for model in stored_models(config, open_results(config), limit=20):
    model.uri, model.run, model.versions, model.blessed

A run's model is what its own Trainer wrote, and the verdict that of its own Evaluator and Canary: a later run that took
the model from the cache and judged it again only counts if it blessed it, as `blessed.json` and the objects in
`blessed/` list it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from headrace.components.canary.verdict import FILE_NAME as VERDICT
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import FILE_NAME as EVALUATION
from headrace.components.evaluation.result import read_evaluation
from headrace.components.lite.verdict import REPORT_FILE, LiteVerdict
from headrace.components.spans.manifest import SpanManifest
from headrace.components.stored_models.blessed_record import MANUAL, Registry, inside
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.trigger.decision import TrainingRecord
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.document import task_name
from headrace.pipeline.kubeflow.pod.origin import FILE as ORIGIN
from headrace.pipeline.kubeflow.pod.origin import SPANS_FILE, ModelOrigin
from headrace.pipeline.kubeflow.pod.paths import PARTS_BELOW_HOME, RECORD
from headrace.pipeline.kubeflow.pod.records import BLESSINGS, PUSHES, TRAININGS
from headrace.pipeline.kubeflow.pod.state import GRAPH
from headrace.pipeline.kubeflow.results_store import home_uri
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.models import CARD
from headrace.pipeline.models.destination import Destination
from headrace.pipeline.models.listing import Model, with_entry
from headrace.pipeline.models.origin import MADE_FROM, SpanOrigin

OUTPUT = re.compile(
    rf"(?P<run>[^/]+)/(?P<task>trainer|evaluator|canary|lite)/[^/]+/"
    rf"(?:model/Format-Serving/{GRAPH}|evaluation/{EVALUATION}|blessing/(?:{VERDICT}|{REPORT_FILE}))"
)
"""The objects that show a run's model and the verdicts on it."""
SERVING = f"/Format-Serving/{GRAPH}"
CARDS = "cards"
"""The folder whose folders, named after versions, have the cards of pushed models."""
UPSTREAM = {key: task_name(component) for key, component in MADE_FROM.items() if key != "model"}
"""Outputs that a model was made from to the tasks that write them."""
_CARD = re.compile(rf"{CARDS}/(\d+)/{CARD}")


@dataclass(frozen=True)
class StoredModel(Model):
    """A model in the object store. `path` is relative to the pipeline's folder there; `run` is the id of the run; the
    commit is that of the machine that compiled. uri: of the Model artifact, or of the version if no run pushed it;
    kserve: what became of it on KServe, in words, "" if it was never pointed to.
    """

    uri: str = ""
    kserve: str = ""


def stored_models(config: PipelineConfig, store: Store, limit: int) -> list[StoredModel]:
    """The newest models, newest first, and the one in service if it is not among them.

    Raises RunError if `blessed.json`, `pushed.json` or a model's record is damaged, OSError if the store fails.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        home = StoredHome(home_uri(config), config.push_directory, store, Path(folder))
        order = by_age(home.models(manual=config.deploy.approval == MANUAL))
        spans = home.spans(2 * limit)
        chosen = [model for place, model in enumerate(order) if place < limit or model.in_service]
        return [home.judged(_with_origin(home, model, spans.get(model.run or "", ()))) for model in chosen]


def _with_origin(home: StoredHome, model: StoredModel, spans: tuple[str, ...]) -> StoredModel:
    """The model with what its record says. spans: those that the record of its training has, else those read."""
    record = home.origin(model)
    if record is not None and not spans:
        spans = names_of(home.spans_read(made_from(record, "examples")))
    return with_commit(replace(model, spans=spans), record)


def with_commit(model: StoredModel, origin: ModelOrigin | None) -> StoredModel:
    """The model with the commit that it was compiled from, as far as its record has it."""
    compiled = None if origin is None else origin.compiled
    return model if compiled is None else replace(model, commit=compiled.commit, dirty=compiled.dirty)


def made_from(record: ModelOrigin, key: str) -> str | None:
    """The path of the artifact of that name in UPSTREAM which a model was made from."""
    ends = (path.split("/") for path in record.upstream)
    return next(("/".join(parts) for parts in ends if parts[1:2] + parts[-1:] == [UPSTREAM[key], key]), None)


def names_of(spans: Iterable[SpanOrigin]) -> tuple[str, ...]:
    """The names of spans; none for data without spans."""
    return tuple(span.name for span in spans if span.name)


def by_age(models: Iterable[StoredModel]) -> list[StoredModel]:
    """The models, newest first."""
    return sorted(models, key=_age, reverse=True)


def _age(model: StoredModel) -> tuple[float, int]:
    time = model.trained or model.blessed_at
    return (time.timestamp() if time else 0.0), max(model.versions, default=0)


class StoredHome:
    """The pipeline's folder in the store. uri: its URI; push: `deploy.push`; tmp: an empty folder."""

    def __init__(self, uri: str, push: str | None, store: Store, tmp: Path) -> None:
        self._push, self._store, self._tmp = push, store, tmp
        self._uri = uri
        self._listing = store.listing(self._uri)
        self._read: dict[str, tuple[SpanOrigin, ...]] = {}

    def models(self, *, manual: bool = False) -> list[StoredModel]:
        """All models, with their versions and what the list of blessed ones says of them.

        manual: whether the newest blessed one awaits approval if nobody approved it.
        """
        found = self._trained()
        self._add_blessed(found)
        if (there := self.destination) is not None:
            self._add_versions(found, there)
            for path in (inside(self._tmp, entry.uri) for entry in there.waiting(manual=manual)):
                found[path] = replace(found[path], awaiting_approval=found[path].trained is not None)
        return [*found.values()]

    @property
    def name(self) -> str:
        return self._uri.rpartition("/")[2]

    @cached_property
    def registry(self) -> Registry:
        """The blessed models. Their folders are below `tmp`."""
        file = self._tmp / "blessed.json"
        BLESSINGS.fetch(f"{self._uri}/blessed.json", file, self._store)
        return Registry.read(file)

    @cached_property
    def destination(self) -> Destination | None:
        """The folder `deploy.push`, as if it were below `tmp`; None if it is on a volume of the Pusher's alone."""
        if self._push is None or Path(self._push).is_absolute():
            return None
        file, path = self._tmp / "pushed.json", self._tmp / self._push
        pattern = re.compile(rf"{re.escape(self._push)}/(\d+)/{GRAPH}")
        versions = sorted(int(match[1]) for name in self._listing if (match := pattern.fullmatch(name)))
        PUSHES.fetch(f"{self._uri}/pushed.json", file, self._store)
        return Destination(path, {one: path / str(one) for one in versions}, self.registry, PushRecord.read(file), file)

    @cached_property
    def artifacts(self) -> frozenset[str]:
        """The paths of the artifacts that there are, below the pipeline's folder."""
        return frozenset("/".join(name.split("/", PARTS_BELOW_HOME)[:PARTS_BELOW_HOME]) for name in self._listing)

    def path_of(self, version: str) -> Path | None:
        """The path of the model of a version, below the pipeline's folder; None if no run pushed it."""
        uri = self.destination.model_of(version) if self.destination is not None else None
        return None if uri is None else Path(inside(self._tmp, uri))

    def output(self, task: str, run: str | None) -> str | None:
        """The path of what the Evaluator, the Canary or Lite of a run wrote, below the pipeline's folder."""
        name = self._outputs[task].get(run or "")
        return None if name is None else name.rpartition("/")[0]

    @cached_property
    def _outputs(self) -> Mapping[str, Mapping[str, str]]:
        """By task and run, the name of the newest object that matches OUTPUT."""
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for name in sorted(self._listing, key=lambda name: self._listing[name].written):
            if match := OUTPUT.fullmatch(name):
                found[match["task"]][match["run"]] = name
        return found

    def files(self, pattern: str) -> dict[str, Path]:
        """Copies of the objects whose whole names below the pipeline's folder match a regular expression, by name."""
        found = {}
        for name in filter(re.compile(pattern).fullmatch, self._listing):
            if self._store.get(f"{self._uri}/{name}", self._tmp / name):
                found[name] = self._tmp / name
        return found

    def _trained(self) -> dict[str, StoredModel]:
        """The models that Trainers wrote, by their paths in the folder."""
        found = {}
        for run, name in self._outputs["trainer"].items():
            written = dt.datetime.fromtimestamp(self._listing[name].written, dt.UTC)
            model = replace(self._model(name.removesuffix(SERVING), run), trained=written)
            found[str(model.path)] = model
        return found

    def _add_blessed(self, found: dict[str, StoredModel]) -> None:
        """Add what the list of blessed models says; also of those whose files are gone."""
        for entry in self.registry.models:
            path = inside(self._tmp, entry.uri)
            model = found.get(path) or self._model(path, path.partition("/")[0])
            found[path] = with_entry(replace(model, blessed=True), entry)

    def _add_versions(self, found: dict[str, StoredModel], there: Destination) -> None:
        """Add the versions below `deploy.push` to their models."""
        for version, folder in there.versions.items():
            uri = there.model_of(str(version))
            path = inside(self._tmp, uri or str(folder))
            model = found.get(path) or self._model(path, path.partition("/")[0] if uri else None)
            found[path] = replace(model, versions=(*model.versions, version), in_service=version == max(there.versions))

    def spans(self, limit: int) -> dict[str, tuple[str, ...]]:
        """The spans of the newest trainings by run, as far as the run's own StatisticsGen computed their statistics."""
        found = {}
        for name in sorted(name for name in self._listing if name.startswith(f"{TRAININGS.folder}/"))[-limit:]:
            with contextlib.suppress(ValueError):  # damaged, which the next run reports, or no such record
                data = TrainingRecord.parsed(self._store.text_if_there(f"{self._uri}/{name}") or "").judged
                if data is not None and any(data.spans):
                    found[data.statistics.partition("/")[0]] = data.spans
        return found

    def spans_read(self, examples: str | None) -> tuple[SpanOrigin, ...]:
        """The spans that ExampleGen read, from the record of Spans in the same run, or on a volume from its own.

        examples: the path of what it wrote; None if that is unknown, as are the spans then.
        """
        if examples is None:
            return ()
        if examples not in self._read:
            self._read[examples] = self._manifest_of(examples)
        return self._read[examples]

    def _manifest_of(self, examples: str) -> tuple[SpanOrigin, ...]:
        run, folder = examples.partition("/")[0], examples.rpartition("/")[0]
        records = [path for path in self.artifacts if path.startswith(f"{run}/spans/") and path.endswith(RECORD)]
        for path in (f"{folder}/{SPANS_FILE}", *records):
            with contextlib.suppress(OSError):
                for line in self._store.text(f"{self._uri}/{path}").splitlines():  # RECORD has the other outputs too
                    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                        found = SpanManifest.from_json(line).spans
                        return tuple(SpanOrigin(one.name, one.fingerprint, one.files) for one in found)
        return ()

    def origin(self, model: StoredModel) -> ModelOrigin | None:
        """The record that the Trainer's pod wrote beside the model; None if there is none, as of an earlier version.

        Raises RunError if it is damaged.
        """
        name = f"{model.path.parent}/{ORIGIN}"
        return ModelOrigin.read(f"{self._uri}/{name}", self._store) if name in self._listing else None

    def card(self, model: StoredModel) -> str | None:
        """The path of the newest card of a model, below the pipeline's folder; None if it has none."""
        found = {int(match[1]): name for name in self._listing if (match := _CARD.fullmatch(name))}
        return next((found[one] for one in sorted(found, reverse=True) if self.path_of(str(one)) == model.path), None)

    def judged(self, model: StoredModel) -> StoredModel:
        """The model with the verdict of its run."""
        evaluation = self.fetched("evaluator", model.run)
        if evaluation is None:
            return model
        result, canary, lite = (
            read_evaluation(evaluation),
            self.fetched("canary", model.run),
            self.fetched("lite", model.run),
        )
        verdict = None if canary is None else CanaryVerdict.read(canary)
        converted = None if lite is None else LiteVerdict.read(lite)
        failed = verdict.reasons if verdict and not model.blessed else ()
        passed = not failed and (converted is None or converted.passed)
        blessed = model.blessed or (result.blessed and passed)
        return replace(model, blessed=blessed, canary=failed, lite=converted, metrics=result.metrics)

    def _model(self, path: str, run: str | None) -> StoredModel:
        return StoredModel(Path(path), run=run, uri=f"{self._uri}/{path}")

    def fetched(self, task: str, run: str | None) -> Path | None:
        """A folder with what the Evaluator, the Canary or Lite of a run wrote; None if it wrote nothing."""
        name = self._outputs[task].get(run or "")
        if name is None or not self._store.get(f"{self._uri}/{name}", self._tmp / name):
            return None
        return (self._tmp / name).parent

"""From a model of runs on Kubeflow back to what it was made from, and from a span or a file forward.

lineage = stored_lineage(config, open_results(config), None)
lineage.origins[0].model.commit, lineage.home

It is read from the records that the Trainers' pods wrote beside their models (`pod/origin.py`), and from what the runs
left in the store; neither ML Metadata nor the API server is asked.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from headrace.common.errors import RunError
from headrace.components.stored_models.blessed_record import MANUAL
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.pod.origin import CONFIG_FILE, FILE, ModelOrigin, Upstream
from headrace.pipeline.kubeflow.results_store import home_uri
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.stored_models import (
    UPSTREAM,
    StoredHome,
    StoredModel,
    by_age,
    made_from,
    names_of,
    with_commit,
)
from headrace.pipeline.models.lineage import Lineage, forward, name_of
from headrace.pipeline.models.origin import ArtifactOrigin, Origin


def stored_lineage(config: PipelineConfig, store: Store, name: str | None) -> Lineage:
    """The lineage of a model, span or file. All paths are relative to `Lineage.home`.

    name: a version, the id of the run that trained a model, the URI of a model, a span, or the path of a source file as
    pods name it; None for the model in service, or else the newest one.

    Raises RunError if there is no model yet, none that has to do with `name`, or a record is damaged; OSError if the
    store fails.
    """
    uri = home_uri(config)
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        home = StoredHome(uri, config.push_directory, store, Path(folder))
        models = by_age(home.models(manual=config.deploy.approval == MANUAL))
        if not models:
            raise RunError(f"no run of {config.pipeline.name} has trained a model in {uri} yet")
        origins = Origins(home, len(models))
        chosen = choose(models, home, uri, name)
        if chosen is None:
            assert name is not None  # noqa: S101 - without a name there is a model
            return replace(forward([origins.of(model) for model in models], name), home=uri)
        return Lineage(name or name_of(chosen), "model", (origins.of(home.judged(chosen)),), home=uri)


def choose(models: Sequence[StoredModel], home: StoredHome, uri: str, name: str | None) -> StoredModel | None:
    """The model of a version, of the run that trained it, or at a URI; by default the one in service, or the newest.

    models: newest first; uri: that of the pipeline's folder.
    """
    if name is None:
        return next((model for model in models if model.in_service), models[0])
    path = home.path_of(name) if name.isdecimal() else Path(name.removeprefix(f"{uri}/"))
    return next(
        (model for model in models if path == model.path or name in {model.run, *map(str, model.versions)}), None
    )


@dataclass(frozen=True)
class Origins:
    """Reads origins. number: how many models there are."""

    home: StoredHome
    number: int

    def of(self, model: StoredModel) -> Origin:
        """The origin of a model; nothing but the model if there is no record, as with one of an earlier version."""
        beside = model.path.parent
        spans = self._spans_by_run.get(model.run or "", ())
        record = self.home.origin(model)
        if record is None:
            return Origin(replace(model, spans=spans))
        examples, card = made_from(record, "examples"), self.home.card(model)
        read = self.home.spans_read(examples)
        compiled = record.compiled
        config = compiled.config if compiled else None
        spans = names_of(read) or spans
        given = record.upstream.get(examples or "", Upstream())
        return Origin(
            with_commit(replace(model, spans=spans), record),
            record=beside / FILE,
            card=Path(card) if card else None,
            judged=Path(model.run) if model.run and self.home.output("evaluator", model.run) else None,
            config=beside / CONFIG_FILE if config else None,
            config_digest=hashlib.sha256(config.encode()).hexdigest() if config else None,
            code_digest=compiled.code if compiled else None,
            packages=record.packages,
            fingerprint=given.fingerprint,
            rows=given.rows,
            left_out=given.left_out,
            spans=read,
            artifacts=self._artifacts(model, record),
            started_from=Path(record.started_from) if record.started_from else None,
            parameters=record.parameters,
        )

    def _artifacts(self, model: StoredModel, record: ModelOrigin) -> dict[str, ArtifactOrigin]:
        paths = {key: made_from(record, key) for key in UPSTREAM}
        if paths["statistics"] is None and paths["examples"]:  # with a schema that the config names, none is inferred
            paths["statistics"] = self._other_output(paths["examples"].partition("/")[0], "statistics")
        contents = {path: one.contents for path, one in record.upstream.items()} | {str(model.path): record.contents}
        paths |= {"model": str(model.path), "evaluation": self.home.output("evaluator", model.run)}
        return {
            key: ArtifactOrigin(Path(path), contents.get(path), path in self.home.artifacts)
            for key, path in paths.items()
            if path is not None
        }

    def _other_output(self, run: str, key: str) -> str | None:
        ends = (path.split("/") for path in sorted(self.home.artifacts))
        return next(("/".join(one) for one in ends if one[:2] + one[-1:] == [run, UPSTREAM[key], key]), None)

    @cached_property
    def _spans_by_run(self) -> dict[str, tuple[str, ...]]:
        return self.home.spans(2 * self.number)

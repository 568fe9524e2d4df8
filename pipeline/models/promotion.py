"""Push a blessed model that awaits approval.

done = promote(config, runs, None, datetime.now(UTC))
done.version, done.model

With `deploy.approval: manual` a run lists the model that it blesses as awaiting approval. A promotion makes it the
newest in `blessed.json`, pushes it and records the push, in this order, as a run and a rollback do. After a kill in
between, the next run or the same command completes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.stored_models.blessing import time_after
from headrace.components.stored_models.usable import why_unusable
from headrace.configs.config import PipelineConfig
from headrace.pipeline.folders import Folders
from headrace.pipeline.models.destination import Destination, ModelChange, changing_models, required_push_directory
from headrace.pipeline.models.listing import Model, list_models, model_path
from headrace.pipeline.models.rollback import newly_withdrawn
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.run import Run


def promote(
    config: PipelineConfig, runs: Sequence[Run], wanted: str | None, now: datetime, *, allow_older: bool = False
) -> ModelChange:
    """Push a blessed model, as its run would have without `deploy.approval: manual`.

    Args:
        config: the pipeline.
        runs: its runs.
        wanted: id of a run that has the model, or a version of it; by default the newest that awaits approval.
        now: the time of the promotion.
        allow_older: push it even if the model in service is newer. That one is withdrawn, as in a rollback.

    Raises RunError, before anything is changed, if the model is not blessed, was rolled back, is in service, older than
    the one in service, gone or damaged; if no model awaits approval; or if a run of the pipeline is in progress.
    """
    push_directory, folders = required_push_directory(config), Folders.of(config)
    if not folders.registry.is_file():
        raise RunError(f"there is nothing to promote: no model in {folders.home} has been blessed yet")
    with changing_models(folders, push_directory) as there:
        trained = {run.id: model_path(RunFolder(run.path, run.record)) for run in runs}
        choice = PromotableModels(there, list_models(config, runs), trained)
        changed = choice.promoted(wanted, now, allow_older=allow_older)
        changed.write(folders.registry)
        version = there.push(changed.models[-1], config.deploy.keep)
    done = changed.models[-1]
    return ModelChange(str(version), done.uri, choice.run_of(done), newly_withdrawn(there.registry, changed))


@dataclass(frozen=True)
class PromotableModels:
    """The models that can be promoted.

    Attributes:
        there: Where they are pushed to.
        models: All models of the pipeline.
        trained: By the id of each run, the folder of its model; None if it did not get that far.
        option: The option of commands that messages name, such as `--kubeflow`; "" for none.
    """

    there: Destination
    models: Sequence[Model]
    trained: Mapping[str, Path | None]
    option: str = ""

    def promoted(self, wanted: str | None, now: datetime, *, allow_older: bool) -> Registry:
        """The list of blessed models after a promotion, with the promoted model as the last. Raises RunError as above;
        the arguments are those of `promote`.
        """
        target = self.default() if wanted is None else self.named(wanted)
        superseded = self.superseded_by(target)
        if superseded and not allow_older:
            raise RunError(self.why_older(target, superseded))
        if flaw := why_unusable(target.uri, target, None, self.there.record_file):
            raise RunError(f"{flaw.reason}, so it cannot be promoted{self.others()}")
        at = time_after(self.there.registry.last_change, now)
        return self.there.registry.promoted(target.uri, at, str(self.there.path), superseded)

    def default(self) -> Entry:
        """The model whose promotion was stopped, or else the newest that awaits approval."""
        if self.there.unfinished:
            return self.there.unfinished
        if not (found := self._waiting()):
            raise RunError(f"no model awaits approval{self._in_service()}")
        return found[-1]

    def named(self, name: str) -> Entry:
        """The model of a run or version."""
        path, what = self._path(name)
        model = next((model for model in self.models if model.path == path), None)
        if model is not None and model.blessed is False:
            raise RunError(f"{what} is not blessed, so it cannot be promoted{self.others()}")
        entry = self.there.registry.find(str(path))
        if entry is None:
            raise RunError(f"{what} is not in the list of blessed models{self.others()}")
        if entry.withdrawn_at:
            raise RunError(
                f"{what} was rolled back at {entry.withdrawn_at}, so it cannot be promoted{self._undo(entry)}"
            )
        if entry == self.there.in_service:
            raise RunError(f"{what} is in service already, as version {max(self.there.versions)}{self.others()}")
        return entry

    def superseded_by(self, target: Entry) -> Entry | None:
        """The model in service, or that was there last, if it is newer than this one."""
        current = self.there.in_service or self.there.registry.newest
        return current if current and current.judged > target.judged else None

    def why_older(self, target: Entry, superseded: Entry) -> str:
        there = "the model in service" if superseded == self.there.in_service else "the model promoted last"
        return (
            f"the model {target.uri} is older than {there}: it was blessed at {target.judged}, that one at"
            f" {superseded.judged}.\n  Add `--allow-older` (in Python `allow_older=True`) to push it anyway; the"
            " newer one is then withdrawn, as in a rollback."
        )

    def others(self) -> str:
        """A second line of messages: what awaits approval."""
        runs = [self.run_of(entry) or Path(entry.uri).name for entry in reversed(self._waiting())]
        return f".\n  Runs whose models await approval: {join_names(runs) if runs else 'none'}."

    def run_of(self, entry: Entry) -> str | None:
        return next((model.run for model in self.models if model.path == Path(entry.uri)), None)

    def _waiting(self) -> list[Entry]:
        """Those that await approval and are not gone, in the order of their blessings."""
        refused = {model.path for model in self.models if model.blessed is False}
        found = ((entry, Path(entry.uri)) for entry in self.there.waiting())
        return [entry for entry, path in found if path not in refused and path.is_dir()]

    def _path(self, name: str) -> tuple[Path, str]:
        """The model of a run or version, and what messages call it."""
        if name in self.trained:
            path = self.trained[name]
            if path is None:
                raise RunError(f"run {name} trained no model{self.others()}")
            return path, f"the model of run {name}"
        uri = self.there.model_of(name) if name.isdecimal() else None
        if uri is None:
            raise RunError(
                f"{name} is neither a run of this pipeline nor a version that a run here pushed{self.others()}"
            )
        return Path(uri), f"the model of version {name}"

    def _in_service(self) -> str:
        if self.there.in_service is None:
            return ""
        return f"; version {max(self.there.versions)} is in service"

    def _undo(self, entry: Entry) -> str:
        versions = self.there.versions_of(entry)
        rollback = f"headrace rollback {self.option}".rstrip()
        way = f"`{rollback} --to {versions[-1]}` undoes that" if versions else "Train another one"
        return f".\n  {way}."

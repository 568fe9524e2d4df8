"""The models of a pipeline: which there are, how they compare, where they came from, and which is in service."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.common.environment import prepare, quiet
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import ConfigSource
from headrace.pipeline.api.loading import Overrides, load
from headrace.pipeline.api.pages import rewrite_report, write_card_of
from headrace.pipeline.api.running import register_versions, runs
from headrace.pipeline.api.serving import serve_or_fail

if TYPE_CHECKING:
    from headrace.pipeline.kubeflow.store import Store
    from headrace.pipeline.models.comparison import Comparison
    from headrace.pipeline.models.destination import ModelChange
    from headrace.pipeline.models.lineage import Lineage
    from headrace.pipeline.models.listing import Model


def models(
    config: ConfigSource,
    *,
    kubeflow: bool = False,
    limit: int = 20,
    profile: str | None = None,
    overrides: Overrides = (),
) -> list[Model]:
    """List the models of the config's pipeline, newest first; empty if there is none.

    kubeflow: those of runs on Kubeflow, from the object store or the mounted volume, instead of those on this machine;
    limit: of those on Kubeflow, how many to list besides the one in service.

    Raises RunError if the list of blessed models or the record of pushed ones is damaged, or the store fails.
    """
    loaded = load(config, profile=profile, overrides=overrides)
    if kubeflow:
        from headrace.pipeline.kubeflow.kserve.shelf import with_kserve
        from headrace.pipeline.kubeflow.results_store import results_of
        from headrace.pipeline.kubeflow.stored_models import stored_models

        with results_of(loaded) as store:
            return [*with_kserve(loaded, store, stored_models(loaded, store, limit))]
    from headrace.pipeline.models.listing import list_models

    return list_models(loaded, runs(loaded))


def compare(
    config: ConfigSource,
    *names: int | str,
    kubeflow: bool = False,
    profile: str | None = None,
    overrides: Overrides = (),
) -> Comparison:
    """Compare runs of the config's pipeline: metrics, and what differs in settings, data and code.

    names: ids of runs, or versions, each of which stands for the run that trained its model; two or more; kubeflow: of
    runs on Kubeflow, from the object store or the mounted volume, instead of those on this machine.

    Raises RunError for fewer than two names, for a name that stands for no run, or if the store fails.
    """
    loaded, wanted = load(config, profile=profile, overrides=overrides), [str(name) for name in names]
    if kubeflow:
        from headrace.pipeline.kubeflow.results_store import results_of
        from headrace.pipeline.kubeflow.stored_comparison import compare_stored

        with results_of(loaded) as store:
            return compare_stored(loaded, store, wanted)
    from headrace.pipeline.models.comparison import compare_runs

    return compare_runs(loaded, runs(loaded), wanted)


def lineage(
    config: ConfigSource,
    name: int | str | None = None,
    *,
    kubeflow: bool = False,
    profile: str | None = None,
    overrides: Overrides = (),
) -> Lineage:
    """Follow a model back to its commit, config, code, data and artifacts, or data forward to the models it touched.

    name: a pushed version, the id of a run, or the folder of a model; or a span, or the path of a source file; by
    default the model in service, or else the newest one; kubeflow: of runs on Kubeflow, whose paths are relative to
    `Lineage.home`, instead of those on this machine.

    Raises RunError if there is no model yet, none that has to do with `name`, or the store fails.
    """
    loaded, wanted = load(config, profile=profile, overrides=overrides), None if name is None else str(name)
    if kubeflow:
        from headrace.pipeline.kubeflow.results_store import results_of
        from headrace.pipeline.kubeflow.stored_lineage import stored_lineage

        with results_of(loaded) as store:
            return stored_lineage(loaded, store, wanted)
    from headrace.pipeline.models.lineage import lineage as follow

    return follow(loaded, runs(loaded), wanted)


def promote(
    config: ConfigSource,
    to: int | str | None = None,
    *,
    allow_older: bool = False,
    profile: str | None = None,
    overrides: Overrides = (),
) -> Path:
    """Push a blessed model that awaits approval (`deploy.approval: manual`); returns the folder of the new version.

    to: the id of a run that has the model, or a version of it, by default the newest model that awaits approval;
    allow_older: push it even if the model in service is newer, which is then withdrawn as in a rollback.

    Raises RunError, before anything is changed, if the model is not blessed, was rolled back, is in service, older than
    the one in service, gone or damaged; if no model awaits approval; or if a run is in progress.
    """
    return Path(promote_model(config, to, allow_older=allow_older, profile=profile, overrides=overrides).version)


def promote_model(
    config: ConfigSource,
    to: int | str | None,
    *,
    allow_older: bool = False,
    profile: str | None = None,
    overrides: Overrides = (),
) -> ModelChange:
    """Like `promote`, and returns what was done."""
    loaded = load(config, profile=profile, overrides=overrides)
    prepare()
    with quiet():
        from headrace.pipeline.models.promotion import promote as push_approved
    earlier, wanted = runs(loaded), None if to is None else str(to)
    done = push_approved(loaded, earlier, wanted, dt.datetime.now(dt.UTC), allow_older=allow_older)
    write_card_of(loaded, earlier, Path(done.version))
    rewrite_report(earlier, done.run)
    try:
        serve_or_fail(loaded, roll_back=True)
    finally:
        register_versions(loaded)
    return done


def rollback(
    config: ConfigSource, to: int | str | None = None, *, profile: str | None = None, overrides: Overrides = ()
) -> Path:
    """Put an earlier blessed model back into service, as a new version; returns the version's folder.

    to: a version with that model or the run that trained it, by default the model blessed before the one in service.
    The next candidate is compared with it, and the models blessed after it are not pushed again.

    Raises RunError, before anything is changed, if there is no such model, it is not blessed, its files are gone or
    damaged, or a run is in progress.
    """
    return Path(rollback_model(config, to, profile=profile, overrides=overrides).version)


def rollback_model(
    config: ConfigSource, to: int | str | None, *, profile: str | None = None, overrides: Overrides = ()
) -> ModelChange:
    """Like `rollback`, and returns what was done."""
    loaded = load(config, profile=profile, overrides=overrides)
    prepare()
    with quiet():
        from headrace.pipeline.models.rollback import roll_back as put_back
    done = put_back(loaded, None if to is None else str(to), dt.datetime.now(dt.UTC))
    write_card_of(loaded, runs(loaded), Path(done.version))
    register_versions(loaded)
    serve_or_fail(loaded, roll_back=False)
    return done


def change_on_kubeflow(
    config: PipelineConfig, change: Callable[[PipelineConfig, Store], ModelChange], say: Callable[[str], None]
) -> ModelChange:
    """Change the model in service on Kubeflow, let servers serve it, and register what changed.

    change: such as `model_changes.promote`; say: called with what has been done so far, as the rest may take minutes.
    """
    from headrace.pipeline.kubeflow.kserve.follow import check_as_user, follow_as_user
    from headrace.pipeline.kubeflow.production import serve_pushed, serving
    from headrace.pipeline.kubeflow.registration import register_pushed, registration
    from headrace.pipeline.kubeflow.results_store import home_uri, results_of

    with results_of(config) as store:
        if config.deploy.kserve is not None:
            check_as_user(config)
        done, served = change(config, store), None
        try:
            if config.deploy.kserve is not None:
                say(f"pushed      {done.version}")
                served = follow_as_user(config, home_uri(config), store, say)
        finally:
            if given := registration(config):
                register_pushed(given, home_uri(config), store)
            if given := serving(config):
                serve_pushed(given, home_uri(config), store, from_pod=False)
    return replace(done, kserve=served)

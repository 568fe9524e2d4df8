"""The rules of `deploy.kserve:`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.configs.rules.rule import Rule, Violation
from headrace.configs.schema.deploy import DeployConfig
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.section import to_seconds

KSERVE = ("deploy", "kserve")


def kserve_has_versions_to_serve(deploy: DeployConfig) -> Iterator[Violation]:
    if deploy.kserve is not None and deploy.push is None:
        yield KSERVE, "`deploy.push` is null, so there are no versions to serve; set it to a folder, or remove this"


def kserve_reads_where_models_are_pushed(deploy: DeployConfig) -> Iterator[Violation]:
    if deploy.kserve is not None and deploy.push is not None and Path(deploy.push).is_absolute():
        what = f"{deploy.push} is on a volume of the Pusher's pod alone, from which KServe gets no model"
        yield KSERVE, f"{what}; set a relative `deploy.push`, or remove this"


def pusher_lives_as_long_as_a_rollout(deploy: DeployConfig, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    limit = kubeflow.settings("Pusher").timeout
    if deploy.kserve is None or limit is None:
        return
    needed = 3 * to_seconds(deploy.kserve.ready) + to_seconds(deploy.kserve.observe)
    if to_seconds(limit) <= needed:
        what = f"the Pusher's pod ends after {limit}, but a rollout with a rollback may take {needed:,} seconds"
        yield KSERVE, f"{what}; raise `kubeflow.components.Pusher.timeout`, or lower `ready` or `observe`"


RULES: tuple[Rule, ...] = (kserve_has_versions_to_serve, kserve_reads_where_models_are_pushed)
RULES_OF_PODS: tuple[Rule, ...] = (pusher_lives_as_long_as_a_rollout,)

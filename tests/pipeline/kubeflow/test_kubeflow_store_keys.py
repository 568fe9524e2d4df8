"""The object store that pods get, and which of them get its keys, from which Secret."""

from __future__ import annotations

import pytest
from compiled_trips import NO_SECRET, compiled, invocations, needs_kubernetes, settings_of, store_keys, trips


def test_kubeflows_own_object_store_is_the_one_of_the_release() -> None:
    stores = {
        backend: invocations(compiled(f"kubeflow.backend='{backend}'"))["baseline"].store["minio"]
        for backend in ("2.15", "2.17")
    }
    assert stores == {"2.15": "http://minio-service.kubeflow:9000", "2.17": "http://seaweedfs.kubeflow:9000"}


@pytest.mark.parametrize(
    ("overrides", "secret"),
    [
        ((NO_SECRET,), None),
        (("kubeflow.pipeline_root=s3://bucket/root",), None),
        (("kubeflow.pipeline_root=gs://bucket/root",), None),
        (("kubeflow.object_store.secret=keys",), "keys"),
        (("kubeflow.pipeline_root=s3://bucket/root", "kubeflow.object_store.secret=keys"), "keys"),
    ],
)
def test_the_stores_secret_is_the_one_named_or_none(overrides: tuple[str, ...], secret: str | None) -> None:
    assert trips(*overrides).kubeflow.store_secret == secret


@needs_kubernetes
def test_whoever_reads_or_writes_beside_the_artifacts_has_the_stores_keys() -> None:
    schedule = "schedule={cron: '30 4 * * *', retrain: drift}"
    search = "tune={max_trials: 2, parameters: {train.batch_size: {choices: [8, 16]}}}"
    found = trips(schedule, search, "train.warm_start=true")
    looking = {"baseline", "drift", "evaluator", "pusher", "record-blessing", "record-training", "spans", "trainer"}
    of_spans = {"example-gen", "statistics-gen", "transform"}
    assert set(store_keys(found)) == {f"exec-{name}" for name in {*looking, *of_spans, "tuner", "warm-start"}}


@needs_kubernetes
def test_data_without_spans_is_not_a_reason_for_the_stores_keys() -> None:
    found = set(store_keys(trips("data.source.path=/data/trips.csv", "data.window=1")))
    assert "exec-baseline" in found
    assert not found & {"exec-example-gen", "exec-statistics-gen", "exec-transform"}


@pytest.mark.slow
def test_pods_that_have_or_share_a_folder_for_spans_get_its_path() -> None:
    by_reference = ("kubeflow.storage=reference", "kubeflow.volume={claim: artifacts}")
    without = ("data.source.path=/data/trips.csv", "data.window=1")
    reported = {
        overrides: invocations(compiled(NO_SECRET, *overrides))["example-gen"].exec_properties["store"]
        for overrides in ((), without, by_reference, (*without, *by_reference))
    }
    assert reported[()] == reported[by_reference] == reported[*without, *by_reference] == "/headrace-home/spans"
    assert not reported[without]


@needs_kubernetes
def test_a_pod_that_reads_data_with_keys_of_their_own_gets_those_of_the_store_beside_them() -> None:
    of_data = "kubeflow.defaults.secrets=[{name: of-data, env: {AWS_ACCESS_KEY_ID: a, AWS_SECRET_ACCESS_KEY: b}}]"
    found = settings_of(trips(of_data, "schedule={cron: '30 4 * * *', retrain: new_span}"))["exec-spans"]["secretAsEnv"]
    given = [(key["envVar"], one["secretName"]) for one in found for key in one["keyToEnv"]]
    own = "mlpipeline-minio-artifact"
    of_store = [("HEADRACE_STORE_ACCESS_KEY", own), ("HEADRACE_STORE_SECRET_KEY", own)]
    assert sorted(given) == [("AWS_ACCESS_KEY_ID", "of-data"), ("AWS_SECRET_ACCESS_KEY", "of-data"), *of_store]

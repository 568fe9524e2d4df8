"""What a rollout does to an InferenceService, on a stand-in of KServe (kserve_cluster.py)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kserve_cluster import Cluster, serving
from kserve_objects import FIRST, InMemory, first_service
from kserve_pods import Plan

from headrace.common.errors import RunError
from headrace.configs.schema.kserve import KServeConfig
from headrace.pipeline.kubeflow.kserve.rollout import Rollout, SupersededError, Target
from headrace.pipeline.kubeflow.kserve.service import ServiceClient

HOME = "s3://root/runs/taxi"
NEXT, LATER = "s3://root/2", "s3://root/3"
CANARY = KServeConfig(name="headrace-model", canary_percent=10, ready="60s", observe="30s")
PLAIN = KServeConfig(name="headrace-model", ready="60s", observe="30s")
MODES = {"Serverless": CANARY, "RawDeployment": PLAIN}


@dataclass
class Time:
    """A clock that only waiting moves."""

    now: float = 0.0
    said: list[str] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """One that serves FIRST, in the mode of the test's parameter."""
    with serving(Cluster(getattr(request, "param", "Serverless"))) as alive:
        alive.use(monkeypatch, tmp_path)
        alive.settle()
        alive.traffic.clear()
        yield alive


both_modes = pytest.mark.parametrize("cluster", MODES, indirect=True)


def rollout(cluster: Cluster, uri: str = NEXT, version: str = "2", chosen: KServeConfig | None = None) -> Rollout:
    time = Time()
    return Rollout(
        ServiceClient.of_pod(chosen or MODES[cluster.mode], "kubeflow"),
        chosen or MODES[cluster.mode],
        Target(uri, version, f"run-{version}/pusher", HOME),
        clock=lambda: time.now,
        sleep=time.wait,
        say=time.said.append,
    )


def shares(cluster: Cluster, uri: str) -> list[int]:
    """The shares of the requests that a URI had, without repetitions."""
    return [share for share, _ in itertools.groupby(one.get(uri, 0) for one in cluster.traffic)]


@both_modes
def test_good_version_gets_all_requests_and_nothing_else_changes(cluster: Cluster) -> None:
    before = cluster.service
    assert rollout(cluster).try_out() is None
    cluster.settle(1)
    after = cluster.service
    assert (cluster.uri, cluster.canary) == (NEXT, None)
    assert cluster.traffic[-1] == {NEXT: 100}
    notes = after["metadata"]["annotations"]
    assert (notes["headrace/version"], notes["headrace/run"], notes["headrace/pipeline"]) == ("2", "run-2/pusher", HOME)
    assert notes["team"] == "a user's own"
    expected = before["spec"]["predictor"] | {"model": before["spec"]["predictor"]["model"] | {"storageUri": NEXT}}
    assert after["spec"]["predictor"] == expected
    assert all(sum(one.values()) == 100 for one in cluster.traffic)


def test_canary_gets_its_share_until_it_was_observed(cluster: Cluster) -> None:
    said: list[str] = []
    one = rollout(cluster)
    one.say = said.append
    assert one.try_out() is None
    cluster.settle(1)
    assert shares(cluster, NEXT) == [0, 10, 100]
    assert sum(one.get(NEXT) == 10 for one in cluster.traffic) >= 6  # 30 seconds, a look every five
    assert [one["spec"]["predictor"]["canaryTrafficPercent"] for one in cluster.patches] == [10, None]
    assert not any("KServe sends" in line for line in said)
    assert len(cluster.revisions) == 2  # promoting makes no further revision, whose pods would start again


@both_modes
@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (Plan(load_error="no versions of servable found"), "no versions of servable|restarted|not ready after 60s"),
        (Plan(ready_after=None), "not ready after 60s"),
        (Plan(ready_after=None, crashes_after=2), "exit code 139"),
        (Plan(ready_after=2, crashes_after=5), "kserve-container of pod .* restarted .* exit code 139"),
    ],
)
def test_failed_version_is_taken_back(cluster: Cluster, plan: Plan, reason: str) -> None:
    cluster.plans[NEXT] = plan
    one = rollout(cluster)
    why = one.try_out()
    assert why is not None
    assert re.search(reason, why), why
    assert f"serves {FIRST} again" in one.take_back(why)
    cluster.settle(3)
    assert (cluster.uri, cluster.canary) == (FIRST, None)
    assert cluster.traffic[-1] == {FIRST: 100}
    notes = cluster.service["metadata"]["annotations"]
    assert "headrace/version" not in notes
    assert "headrace/previous" not in notes
    if cluster.mode == "Serverless":
        assert max(shares(cluster, NEXT)) <= 10
        assert all(one.get(FIRST, 0) >= 90 for one in cluster.traffic)


@both_modes
def test_download_that_succeeds_when_it_is_tried_again_is_not_a_failure(cluster: Cluster) -> None:
    """In between, KServe's state of the model is BlockedByFailedLoad; in raw mode it looks at any pod for that."""
    cluster.plans[NEXT] = Plan(failed_downloads=1)
    assert rollout(cluster).try_out() is None
    assert cluster.uri == NEXT
    loading = cluster.service["status"]["modelStatus"]
    assert loading["transitionStatus"] == "UpToDate"
    assert cluster.mode == "RawDeployment" or loading["lastFailureInfo"]["exitCode"] == 1


@both_modes
def test_version_waits_for_a_node(cluster: Cluster) -> None:
    """Clusters that scale add one within minutes. Knative calls the revision failed until its pod is ready."""
    cluster.plans[NEXT] = Plan(no_node=4, ready_after=3)
    assert rollout(cluster).try_out() is None
    assert cluster.uri == NEXT


@both_modes
def test_version_that_gets_no_node_is_taken_back_with_what_the_scheduler_says(cluster: Cluster) -> None:
    cluster.plans[NEXT] = Plan(no_node=100)
    one = rollout(cluster)
    why = str(one.try_out())
    assert re.fullmatch(r".*not ready after 60s \(pod \S+-00002-pod .*: 0/3 nodes are .* cpu\.\)", why)
    assert f"serves {FIRST} again" in one.take_back(why)


@both_modes
def test_reason_names_what_failed_now_and_nothing_else(cluster: Cluster) -> None:
    """KServe keeps what it says of the last failure, whatever is loaded later, and its condition Stopped is False."""
    cluster.plans |= {NEXT: Plan(load_error="NoSuchBucket: root"), LATER: Plan(ready_after=None)}
    one = rollout(cluster)
    why = str(one.try_out())
    assert re.search(r"storage-initializer of pod .* \(Error, exit code 1, NoSuchBucket: root\)", why)
    one.take_back(why)
    why = str(rollout(cluster, LATER, "3").try_out())
    assert "not ready after 60s" in why
    assert "NoSuchBucket" not in why
    assert "Stopped" not in why


def test_what_several_conditions_say_is_reported_once(cluster: Cluster) -> None:
    cluster.plans[NEXT] = Plan(no_node=100)
    one = rollout(cluster)
    one.try_out()
    assert one.service.read().unmet.count("Insufficient cpu") == 1


def test_failed_version_never_gets_more_while_the_old_one_is_made_again(cluster: Cluster) -> None:
    """Without a canary's 0%, Knative would send everything to the latest revision that is ready: the failed one."""
    cluster.plans[NEXT] = Plan(ready_after=2, crashes_after=5)
    cluster.plans[FIRST] = Plan(ready_after=6)
    one = rollout(cluster)
    one.take_back(str(one.try_out()))
    cluster.settle(3)
    assert shares(cluster, NEXT) == [0, 10, 0]
    assert [one["spec"]["predictor"]["canaryTrafficPercent"] for one in cluster.patches] == [10, 0, None]


def test_rest_of_the_requests_that_kserve_sends_to_an_earlier_revision_is_reported(cluster: Cluster) -> None:
    """KServe takes shares that it sees before the new revision for a rollback to the one before."""
    assert rollout(cluster).try_out() is None
    cluster.routes_first = True
    cluster.traffic.clear()
    said: list[str] = []
    one = rollout(cluster, LATER, "3")
    one.say = said.append
    assert one.try_out() is None
    (line,) = (line for line in said if "KServe sends" in line)
    assert re.search(r"\b90% .* headrace-model-predictor-00001, .*before", line)
    assert {FIRST: 90, LATER: 10} in cluster.traffic
    assert shares(cluster, LATER)[-2:] == [10, 100]


def test_old_version_that_does_not_start_again_keeps_its_revision(cluster: Cluster) -> None:
    cluster.plans |= {NEXT: Plan(crashes_after=5), FIRST: Plan(ready_after=None)}
    one = rollout(cluster)
    where = one.take_back(str(one.try_out()))
    assert "all requests still go to revision headrace-model-predictor-00001" in where
    assert cluster.canary == 0
    assert cluster.traffic[-1] == {FIRST: 100, NEXT: 0}


@both_modes
def test_second_rollout_of_a_version_changes_nothing(cluster: Cluster) -> None:
    assert rollout(cluster).try_out() is None
    patches = len(cluster.patches)
    assert rollout(cluster).try_out() is None
    assert len(cluster.patches) == patches


@both_modes
def test_restarts_from_before_are_not_held_against_a_version_that_has_all_requests(cluster: Cluster) -> None:
    """Its record was lost, or a kill came before it was written."""
    assert rollout(cluster).try_out() is None
    cluster.revisions[-1].plan = Plan(restarts_before=3)
    patches = len(cluster.patches)
    assert rollout(cluster).try_out() is None
    cluster.revisions[-1].plan = Plan(crashes_after=cluster.revisions[-1].age + 5)
    assert "restarted" in str(rollout(cluster).try_out())
    assert len(cluster.patches) == patches


def test_first_version_of_a_service_that_never_was_ready_has_no_canary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serving(Cluster("Serverless", plans={FIRST: Plan(ready_after=None)})) as cluster:
        cluster.use(monkeypatch, tmp_path)
        cluster.settle()
        assert rollout(cluster).try_out() is None
        assert [one["spec"]["predictor"]["canaryTrafficPercent"] for one in cluster.patches] == [None]
        assert cluster.traffic[-1] == {NEXT: 100}


def test_newer_version_replaces_one_that_is_being_observed_and_goes_back_past_it(cluster: Cluster) -> None:
    """What the newer one goes back to is what served before both."""
    good = {FIRST}
    older, newer = rollout(cluster), rollout(cluster, LATER, "3")
    for one in (older, newer):
        one.is_good = good.__contains__
    cluster.plans[LATER] = Plan(crashes_after=6)

    def begin(seconds: float) -> None:
        older.sleep = lambda _: None
        newer._begin()

    older.sleep = begin
    with pytest.raises(SupersededError, match=LATER):
        older.try_out()
    why = newer.try_out()
    assert why
    assert f"serves {FIRST} again" in newer.take_back(why)
    cluster.settle(2)
    assert cluster.traffic[-1] == {FIRST: 100}


@both_modes
def test_older_version_leaves_a_newer_one(cluster: Cluster) -> None:
    assert rollout(cluster, LATER, "3").try_out() is None
    patches = len(cluster.patches)
    with pytest.raises(SupersededError, match="newer version 3"):
        rollout(cluster).try_out()
    assert len(cluster.patches) == patches


def test_change_in_between_is_not_written_over(cluster: Cluster) -> None:
    """A user scales the service between our look at it and our change."""
    done = iter([True])

    def scale(method: str, _: str) -> None:
        if method == "PATCH" and next(done, False):
            assert isinstance(cluster.objects, InMemory)
            cluster.objects.patch({"spec": {"predictor": {"maxReplicas": 9}}})

    cluster.before = scale
    assert rollout(cluster).try_out() is None
    assert cluster.service["spec"]["predictor"]["maxReplicas"] == 9
    assert cluster.uri == NEXT


@pytest.mark.parametrize("cluster", ["RawDeployment"], indirect=True)
def test_canary_in_raw_mode_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RunError, match=r"deploy\.kserve\.canary_percent: .*RawDeployment.*\n.*null"):
        rollout(cluster, chosen=CANARY).try_out()
    assert cluster.patches == []


def test_service_of_another_pipeline_is_refused(cluster: Cluster) -> None:
    assert rollout(cluster).try_out() is None
    other = rollout(cluster, LATER, "3")
    other.target = Target(LATER, "3", "run", "s3://root/runs/other")
    with pytest.raises(RunError, match=r"deploy\.kserve\.name: .*s3://root/runs/taxi"):
        other.try_out()


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"model": None, "tensorflow": {}}, "no `spec.predictor.model`"),
        ({"model": {"storageUri": None, "storage": {"key": "k"}}}, "spec.predictor.model.storage"),
        ({"model": {"storageUri": None}, "storageUris": [{"uri": "s3://a"}]}, "spec.predictor.storageUris"),
    ],
)
def test_service_that_does_not_take_a_uri_is_refused(
    change: dict[str, object], reported: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = first_service("Serverless")
    with serving(Cluster("Serverless", InMemory(service))) as cluster:
        cluster.use(monkeypatch, tmp_path)
        cluster.settle()
        assert isinstance(cluster.objects, InMemory)
        cluster.objects.patch({"spec": {"predictor": change}})
        cluster.step = lambda: None  # type: ignore[method-assign]
        with pytest.raises(RunError, match=reported):
            rollout(cluster).try_out()


def test_missing_service_names_the_manifest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(Cluster("Serverless", InMemory(None))) as cluster:
        cluster.objects.service = None  # type: ignore[attr-defined]
        cluster.use(monkeypatch, tmp_path)
        one = Rollout(ServiceClient.of_pod(CANARY, "kubeflow"), CANARY, Target(NEXT, "2", "run", HOME))
        with pytest.raises(RunError, match=r"headrace-model in namespace kubeflow.*\n.*kubernetes/components/kserve"):
            one.try_out()


def test_account_without_the_role_is_told_of_it(cluster: Cluster) -> None:
    cluster.rules = []
    with pytest.raises(RunError, match=r"service account lacks the permission \(HTTP 403\)\.\n.*components/kserve"):
        rollout(cluster).try_out()


STEPS = st.none() | st.integers(0, 14)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mode=st.sampled_from(["Serverless", "RawDeployment"]),
    percent=st.none() | st.integers(1, 99),
    new=st.builds(Plan, ready_after=STEPS, crashes_after=STEPS),
    again=st.builds(Plan, ready_after=STEPS),
)
def test_whatever_becomes_of_the_pods_requests_are_answered(
    mode: str, percent: int | None, new: Plan, again: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """new: how the pods of the version fare; again: those of the earlier one, if they have to be made again."""
    given_settings = CANARY.model_copy(update={"canary_percent": percent if mode == "Serverless" else None})
    with serving(Cluster(mode)) as cluster:
        cluster.use(monkeypatch, tmp_path)
        cluster.settle()
        cluster.traffic.clear()
        cluster.plans |= {NEXT: new, FIRST: again}
        one = rollout(cluster, chosen=given_settings)
        why = one.try_out()
        if why is not None:
            one.take_back(why)
        cluster.settle(2)
        share = max(shares(cluster, NEXT))
        answered = {name: part for name, part in cluster.traffic[-1].items() if part}
        if why is None:
            assert answered == {NEXT: 100}
            assert new.crashes_after is None or new.crashes_after > 5
        elif mode == "Serverless" and percent is not None:
            assert answered == {FIRST: 100}
            assert share <= percent
        assert cluster.uri == (NEXT if why is None else FIRST)
        assert new.ready_after is not None or share == 0

"""`deploy.canary.server` in real runs: a staging server that is right, wrong, down, or gone in the middle."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Finished, headrace, started_at_once, versions, wait_until
from kfp_kubernetes import certificate
from messages import says
from parcels import parcels_config, write_parcels
from s3_servers import S3Server
from serving_server import ServingServer, serving_server

from headrace.components.canary.staging import MARK
from headrace.components.canary.verdict import CanaryVerdict

pytestmark = pytest.mark.slow

CONFIG = parcels_config(
    "distance: {column: numeric}",
    "hours: {column: numeric}",
    "carrier: {column: vocabulary}",
)
SERVER = """\
deploy:
  canary:
    examples: 8
    replay: null
    server: {rest: "%s", grpc: "%s", folder: staging, timeout_seconds: 60}
"""


def again(number: int) -> tuple[str, ...]:
    """The options that let the Canary run again, although the model is the same."""
    return ("--set", f"deploy.canary.memory_mb={10_000 + number}")


def verdict_of(done: Finished) -> CanaryVerdict:
    found = CanaryVerdict.read(done.uri("Canary", "blessing"))
    assert found is not None
    return found


@dataclass(frozen=True)
class Story:
    """What each run made of the same model; left: what was in the folder of the server after it."""

    folder: Path
    server: ServingServer
    done: dict[str, Finished]
    left: dict[str, list[str]]


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Iterator[Story]:
    folder = new_folder("staging")
    write_parcels(folder / "parcels.csv", 400)
    watched = folder / "staging"
    done, left = dict[str, Finished](), dict[str, list[str]]()
    with serving_server(folder, "--model_name=parcels", f"--model_base_path={watched}") as server:
        (folder / "parcels.yaml").write_text(CONFIG + SERVER % (server.rest, server.grpc))

        def run(name: str, *options: str) -> None:
            done[name] = headrace(folder, "run", "parcels.yaml", *again(len(done)), *options)
            left[name] = sorted(path.name for path in watched.iterdir())

        server.faults(times=1.5)
        run("wrong", "--set", "deploy.canary.server={latency_p50_ms: 0.001, latency_p99_ms: 0.002}")
        server.faults(refuse_to_load="Op type not registered 'Special'")
        run("refused")
        server.faults(slow_to_load=4)
        run("slow", "--set", "deploy.canary.server.timeout_seconds=1")
        server.faults(die_at=30)
        run("died", "--set", "deploy.canary.server.timeout_seconds=10")
        run("down", "--set", "deploy.canary.server.timeout_seconds=1")
        server.faults(die_of_loading=True)
        server.start()
        run("crashed", "--set", "deploy.canary.server={timeout_seconds: 2, on_unreachable: warn}")
        server.faults()
        server.start()
        run(
            "elsewhere",
            "--set",
            "deploy.canary.server.folder=nobody",
            "--set",
            "deploy.canary.server.timeout_seconds=1",
        )
        run("right")
        server.stop()
        warn = ("deploy.canary.server.timeout_seconds=10", "deploy.canary.server.on_unreachable=warn")
        options = (*again(100), *(word for setting in warn for word in ("--set", setting)))
        done["warned"] = headrace(folder, "run", "parcels.yaml", *options)
        server.start()
        for name in ("asked later", "reused"):
            done[name] = headrace(folder, "run", "parcels.yaml", *options)
            if name == "asked later":
                done["explained"] = headrace(folder, "explain-cache", "parcels.yaml")
        served = ("--set", "deploy.push=in-service")
        done["served"] = headrace(folder, "run", "parcels.yaml", *options, *served)
        server.faults(refuse_to_load="Op type not registered 'Special'")
        run("refused in service", *served)
        server.faults()
        yield Story(folder, server, done, left)


@pytest.mark.parametrize("name", ["wrong", "refused", "slow", "died", "crashed"])
def test_model_that_fails_on_the_server_is_neither_blessed_nor_pushed(story: Story, name: str) -> None:
    done = story.done[name]
    assert (done.code, done.run.status) == (0, "done"), done.out + done.err
    assert done.ending("blessing").startswith("not blessed: canary: server: ")
    assert done.ending("pushed") == "nothing"  # and no model is in service yet
    blessing = done.uri("Canary", "blessing")
    assert (blessing / "INFRA_NOT_BLESSED").exists()


def test_reason_names_protocol_signature_and_output(story: Story) -> None:
    reasons = verdict_of(story.done["wrong"]).reasons
    assert reasons[0].startswith("server: REST: serving_default: its output ")
    assert "differs from that of TensorFlow's Python" in reasons[0]
    assert {reason.split(": ")[1] for reason in reasons} == {"REST", "gRPC"}


@pytest.mark.parametrize(("quantile", "limit"), [("p50", "0.001"), ("p99", "0.002")])
def test_latency_through_the_network_above_its_limit_is_a_reason(story: Story, quantile: str, limit: str) -> None:
    verdict = verdict_of(story.done["wrong"])
    assert verdict.server is not None
    expected = [
        f"server: {one.protocol}: {signature.name}: {quantile} of its latency through the network is "
        f"{getattr(signature, f'{quantile}_ms'):.3g} ms; deploy.canary.server.latency_{quantile}_ms allows {limit} ms"
        for one in verdict.server.protocols
        for signature in one.signatures
        if signature.p50_ms is not None
    ]
    assert len(expected) >= 4
    assert [reason for reason in verdict.reasons if f": {quantile} of its latency" in reason] == expected


def test_refusal_of_the_model_in_service_is_named_in_the_ending_and_the_report(story: Story) -> None:
    done = story.done["refused in service"]
    version = max((path.name for path in (story.folder / "in-service").iterdir() if path.name.isdecimal()), key=int)
    assert done.code == 0
    assert done.ending("blessing").startswith("not blessed: canary: server: ")
    assert done.ending("pushed").startswith("nothing; THE REFUSED MODEL IS IN SERVICE as ")
    assert done.ending("pushed").endswith(f"/in-service/{version}")
    assert "headrace rollback" in done.out
    page = (story.folder / done.ending("report")).read_text(encoding="utf-8")
    assert "the refused model is in service as <code>" in page
    assert f"/in-service/{version}</code>" in page


def test_error_of_loading_is_quoted(story: Story) -> None:
    (reason,) = verdict_of(story.done["refused"]).reasons
    assert "cannot load version" in reason
    assert "Op type not registered 'Special'" in reason


def test_server_that_takes_too_long_is_named_with_its_state(story: Story) -> None:
    (reason,) = verdict_of(story.done["slow"]).reasons
    assert "is LOADING" in reason
    assert "after 1 s" in reason


def test_server_that_ends_at_a_request_is_the_models_fault(story: Story) -> None:
    verdict = verdict_of(story.done["died"])
    (reason,) = verdict.reasons
    assert reason.startswith("server: REST: serving_default: ")
    assert "did not survive it" in reason


def test_server_that_ends_as_it_loads_the_model_is_the_models_fault_too(story: Story) -> None:
    (reason,) = verdict_of(story.done["crashed"]).reasons
    assert reason.startswith("server: the server did not survive ")


@pytest.mark.parametrize(("name", "why"), [("down", "does not answer"), ("elsewhere", "does not know version")])
def test_run_fails_without_a_verdict_if_the_server_does_not_take_part(story: Story, name: str, why: str) -> None:
    done = story.done[name]
    assert done.code == 1
    assert done.statuses()["Canary"] == "failed"
    assert f"deploy.canary.server: {'http' if name == 'down' else ''}" in done.out + done.err
    assert why in done.out + done.err
    assert "on_unreachable: warn" in done.out + done.err
    assert "Traceback" not in done.out


def test_right_server_lets_the_model_pass_with_measurements(story: Story) -> None:
    done = story.done["right"]
    assert done.code == 0, done.out + done.err
    assert done.ending("server").startswith("passed: loaded in ")
    server = verdict_of(done).server
    assert server is not None
    assert [one.protocol for one in server.protocols] == ["REST", "gRPC"]
    for protocol in server.protocols:
        assert {one.name for one in protocol.signatures} >= {"serving_default", "serving_raw", "transform_features"}
        for one in protocol.signatures:
            assert one.difference is not None
            assert one.difference < 1e-4
            assert one.p50_ms is not None
            assert 0 < one.p50_ms <= (one.p99_ms or 0)
            outcomes = {odd.what: odd.outcome for odd in one.odd}
            assert {"an empty batch", "missing features", "wrong types"} <= outcomes.keys()
            assert set(outcomes.values()) <= {"answered", "refused"}
    assert [Path(done.ending("pushed")).name] == versions(story.folder)


def test_report_has_a_row_for_each_signature_and_protocol(story: Story) -> None:
    page = (story.folder / story.done["right"].ending("report")).read_text()
    assert "Staging server" in page
    server = verdict_of(story.done["right"]).server
    assert server is not None
    for protocol in server.protocols:
        assert page.count(f"<td>{protocol.protocol}, ") == len(protocol.signatures)
    refused = (story.folder / story.done["refused"].ending("report")).read_text()
    assert "Op type not registered" in refused


def test_warning_lets_the_other_checks_decide(story: Story) -> None:
    done = story.done["warned"]
    assert done.code == 0, done.out + done.err
    assert done.ending("server").startswith("skipped: http")
    assert done.ending("canary").startswith("passed: ")


def test_server_that_did_not_take_part_is_asked_by_the_next_run_though_nothing_changed(story: Story) -> None:
    later, reused = story.done["asked later"], story.done["reused"]
    assert later.statuses()["Canary"] == "done"
    assert later.ending("server").startswith("passed: ")
    assert later.statuses()["Trainer"] == later.statuses()["Evaluator"] == "cached"
    assert "the staging server did not take part" in story.done["explained"].out
    assert reused.statuses()["Canary"] == "cached"
    assert reused.ending("server") == later.ending("server")


def test_nothing_is_left_in_the_folder(story: Story) -> None:
    assert set(map(tuple, story.left.values())) == {()}


def test_killed_run_leaves_a_version_that_the_next_one_removes(story: Story) -> None:
    watched, server = story.folder / "staging", story.server
    server.start()
    server.faults(slow_to_load=3)
    (watched / "7").mkdir()  # not ours
    going = started_at_once(story.folder, "run", "parcels.yaml", *again(200))

    def is_staged() -> bool:
        return any(path.name.isdecimal() and path.name != "7" for path in watched.iterdir())

    assert wait_until(lambda: is_staged() or going.process.poll() is not None)
    going.signal(9)
    going.finish()
    (left,) = (path.name for path in watched.iterdir() if path.name.startswith(MARK))
    assert (watched / left.removeprefix(MARK)).is_dir()
    server.faults()
    done = headrace(story.folder, "run", "parcels.yaml", *again(200))
    assert done.code == 0, done.out + done.err
    assert done.ending("server").startswith("passed: ")
    assert [path.name for path in watched.iterdir()] == ["7"]
    (watched / "7").rmdir()
    server.stop()


def test_server_that_dies_of_a_request_twice_is_not_asked_again(story: Story) -> None:
    """A supervisor starts it again, as Kubernetes does."""
    story.server.faults(die_of_empty=True)
    story.server.start()
    over = threading.Event()

    def supervise() -> None:
        while not over.wait(0.1):
            if story.server.ended:
                story.server.start()

    supervisor = threading.Thread(target=supervise)
    supervisor.start()
    try:
        options = ("--set", "deploy.canary.server.rest=null")
        done = headrace(story.folder, "run", "parcels.yaml", *again(300), *options)
    finally:
        over.set()
        supervisor.join()
        story.server.stop()
    assert done.code == 0, done.out + done.err
    (reason,) = verdict_of(done).reasons
    assert says(reason, "server: gRPC: serving_default: an empty batch: …lost twice")
    assert not [*(story.folder / "staging").iterdir()]


def test_candidate_is_staged_in_an_object_store(story: Story, s3_server: S3Server, tmp_path: Path) -> None:
    with s3_server.bucket("staging") as bucket:
        base = "s3://staging/models/parcels"
        flags = ("--model_name=parcels", f"--model_base_path={base}", "--max_num_load_retries=100")
        bucket.put_object(Key="models/parcels/.headrace-staged-5", Body=b"")  # of a killed run
        bucket.put_object(Key="models/parcels/5/variables/variables.index", Body=b"")
        with serving_server(tmp_path, *flags, environment=s3_server.environment) as server:
            done = headrace(
                story.folder,
                "run",
                "parcels.yaml",
                "--set",
                f"deploy.canary.server={{rest: '{server.rest}', grpc: '{server.grpc}', folder: '{base}'}}",
                **s3_server.environment,
            )
        assert done.code == 0, done.out + done.err
        assert done.ending("server").startswith("passed: ")
        assert [one.key for one in bucket.objects.all() if not one.key.endswith("/")] == []


def test_encrypted_server_is_asked_if_its_authority_is_known(story: Story, tmp_path: Path) -> None:
    signed, key = certificate(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(key.read_bytes() + signed.read_bytes())
    flags = ("--model_name=parcels", f"--model_base_path={story.folder / 'staging'}", f"--certificate={both}")
    with serving_server(tmp_path, *flags, encrypted=True) as server:
        common = f"rest: '{server.rest}', grpc: '{server.grpc}', grpc_tls: true, folder: staging"

        def run(more: str) -> Finished:
            options = ("--set", f"deploy.canary.server={{{common}, {more}}}")
            return headrace(story.folder, "run", "parcels.yaml", *options)

        known, unknown = run(f"timeout_seconds: 120, ca_file: '{signed}'"), run("timeout_seconds: 1")
    assert known.code == 0, known.out + known.err
    assert known.ending("server").startswith("passed: ")
    assert unknown.code == 1
    assert "certificate" in unknown.out + unknown.err


def test_verdict_is_json_without_the_folder(story: Story) -> None:
    written = json.loads((story.done["right"].uri("Canary", "blessing") / "verdict.json").read_text())
    assert written["server"]["version"] > 0
    assert "staging" not in json.dumps(written)

"""TensorFlow Serving's config file: the entry of one model, beside those of others."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from rewriting import rewriting
from s3_servers import S3Server
from tensorflow_serving.config import model_server_config_pb2

from headrace.common import store_lock
from headrace.common.errors import RunError
from headrace.common.store_lock import Timing
from headrace.configs.schema.serving import ServingConfig
from headrace.pipeline.production.config_file import Labels, in_between, update, with_model
from headrace.pipeline.production.serve import ModelService, PushedModel, bring_up

OTHER = 'model_config_list { config { name: "other" base_path: "/other" model_version_policy { all {} } } }'

numbers = st.integers(1, 2**40)
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)


def parsed(text: str) -> dict[str, model_server_config_pb2.ModelConfig]:
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    return {one.name: one for one in config.model_config_list.config}


@st.composite
def configs(draw: st.DrawFn) -> str:
    config = model_server_config_pb2.ModelServerConfig()
    for name in draw(st.lists(names, unique=True, max_size=4)):
        entry = config.model_config_list.config.add(name=name, base_path=draw(names), model_platform="tensorflow")
        for number in draw(st.lists(numbers, max_size=3)):
            entry.model_version_policy.specific.versions.append(number)
            entry.version_labels[draw(names)] = number
    return text_format.MessageToString(config)


@given(text=configs(), model=names, base=names, labels=st.none() | st.builds(Labels, numbers, numbers))
def test_only_the_entry_of_the_model_changes_and_only_once(
    text: str, model: str, base: str, labels: Labels | None
) -> None:
    changed = with_model(text, model, base, labels)
    before, after = parsed(text), parsed(changed)
    assert {name: one for name, one in after.items() if name != model} == {
        name: one for name, one in before.items() if name != model
    }
    entry = after[model]
    assert entry.base_path == base
    if labels is None:
        assert not entry.model_version_policy.HasField("specific")
        assert not {"stable", "canary"} & {*entry.version_labels}
    else:
        assert [*entry.model_version_policy.specific.versions] == sorted({labels.stable, labels.canary})
        assert {name: entry.version_labels[name] for name in ("stable", "canary")} == labels.named
    assert with_model(changed, model, base, labels) == changed


def test_labels_stay_until_the_new_version_is_loaded_unless_theirs_is_gone() -> None:
    text = with_model(OTHER, "taxi", "/taxi", Labels(1, 2))
    entry = parsed(in_between(text, "taxi", "/taxi", Labels(2, 3), present={1: None, 2: None, 3: None}))["taxi"]
    assert [*entry.model_version_policy.specific.versions] == [1, 2, 3]
    assert dict(entry.version_labels) == {"stable": 1, "canary": 2}
    entry = parsed(in_between(text, "taxi", "/taxi", Labels(2, 3), present={2: None, 3: None}))["taxi"]
    assert [*entry.model_version_policy.specific.versions] == [2, 3]
    assert dict(entry.version_labels) == {"canary": 2}


def test_policy_and_further_labels_of_the_user_stay_without_labels_of_ours() -> None:
    text = (
        'model_config_list { config { name: "taxi" base_path: "/a" model_version_policy { latest { num_versions: 2 } }'
        ' version_labels { key: "x" value: 3 } } }'
    )
    entry = parsed(with_model(text, "taxi", "/taxi", None))["taxi"]
    assert entry.model_version_policy.latest.num_versions == 2
    assert dict(entry.version_labels) == {"x": 3}


@pytest.mark.parametrize(
    ("text", "why"), [("model_config_list {", "text format"), ("custom_model_config {}", "custom_model_config")]
)
def test_file_of_another_kind_is_left_alone(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "models.config"
    file.write_text(text)
    with pytest.raises(RunError, match=rf"deploy\.serving\.config_file: .*models\.config: .*{why}"):
        update(str(file), lambda old: with_model(old, "taxi", "/taxi", None))
    assert file.read_text() == text


def test_unchanged_file_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "below" / "models.config"
    assert update(str(file), lambda old: with_model(old, "taxi", "/taxi", None))
    written = file.stat().st_mtime_ns
    assert not update(str(file), lambda old: with_model(old, "taxi", "/taxi", None))
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("versions", "labels"),
    [
        ({5: PushedModel("a", withdrawn=False)}, Labels(5, 5)),
        ({5: PushedModel("a", withdrawn=False), 6: PushedModel("b", withdrawn=False)}, Labels(5, 6)),
        ({5: PushedModel("a", withdrawn=True), 6: PushedModel("b", withdrawn=False)}, Labels(6, 6)),
        (
            {
                4: PushedModel("c", withdrawn=False),
                5: PushedModel("a", withdrawn=False),
                6: PushedModel("b", withdrawn=True),
                7: PushedModel("a", withdrawn=False),
            },
            Labels(7, 7),
        ),
        ({17: PushedModel(None, withdrawn=False), 18: PushedModel("b", withdrawn=False)}, Labels(18, 18)),
    ],
)
def test_stable_is_the_newest_other_model_that_was_not_rolled_back(
    versions: dict[int, PushedModel], labels: Labels
) -> None:
    assert ModelService("/serving", versions).labels == labels


@pytest.mark.slow
def test_pipelines_that_change_one_file_in_an_object_store_at_once_all_have_their_entry(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.enter(monkeypatch)
    monkeypatch.setattr(store_lock, "USUAL", Timing(poll=0.05))
    names, ready = [f"model-{number}" for number in range(5)], threading.Barrier(5)

    def push(name: str) -> None:
        ready.wait()
        assert update("s3://configs/models.config", lambda text: with_model(text or OTHER, name, "/models", None))

    with s3_server.bucket("configs") as bucket:
        threads = [threading.Thread(target=push, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {one.key for one in bucket.objects.all()} == {"models.config"}
        text = bucket.Object("models.config").get()["Body"].read().decode()
    assert parsed(text).keys() == {"other", *names}


def test_pipeline_that_waits_for_another_says_so_and_one_that_lost_the_lock_writes_nothing(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    s3_server.enter(monkeypatch)
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    def change(text: str) -> str:
        passed[0] += 60
        return f"{text}#"

    monkeypatch.setattr(store_lock, "USUAL", Timing(poll=20, clock=lambda: passed[0], sleep=sleep))
    with s3_server.bucket("configs") as bucket:
        bucket.put_object(Key=".models.config.lock-0123", Body=b"")
        with pytest.raises(RunError, match=r"config_file: s3://configs/models\.config: the lock .* was lost"):
            update("s3://configs/models.config", change)
        assert "s3://configs/models.config: another pipeline is changing it; waiting" in log.text
        assert [one.key for one in bucket.objects.all()] == []


def test_wait_for_the_lock_that_ends_in_vain_names_the_setting(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.enter(monkeypatch)
    monkeypatch.setattr(store_lock, "USUAL", Timing(poll=0.01, patience=0.0))
    with s3_server.bucket("configs") as bucket:
        bucket.put_object(Key=".models.config.lock-0123", Body=b"process 7 on night-3")
        with pytest.raises(RunError, match=r"config_file: s3://configs/models\.config: others held .* night-3"):
            update("s3://configs/models.config", lambda text: f"{text}#")
        assert [one.key for one in bucket.objects.all()] == [".models.config.lock-0123"]


@pytest.mark.slow
def test_a_file_that_other_pipelines_replace_meanwhile_is_read_whole(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the lock is taken: PyArrow has the size of one file and the bytes of the other."""
    s3_server.enter(monkeypatch)
    ours = with_model("", "taxi", "/models/taxi", None)
    change = partial(with_model, model="taxi", base_path="/models/taxi", labels=None)
    with s3_server.bucket("bucket") as bucket:
        there = bucket.Object("models.config")
        there.put(Body=ours.encode())

        def replace(number: int) -> None:
            path = f"/models/{number}" * (1 + number % 2 * 1000)
            there.put(Body=with_model(ours, "trips", path, None).encode())

        with rewriting(replace):
            assert not any(update("s3://bucket/models.config", change) for _ in range(150))


@pytest.mark.parametrize(("broken", "rejected"), [("11", True), ("10", False)])
def test_only_the_version_in_service_is_rejected_not_one_that_another_label_needs(
    tmp_path: Path, broken: str, rejected: bool
) -> None:
    states: dict[str, dict[str, object]] = {"10": {"state": "AVAILABLE"}, "11": {"state": "AVAILABLE"}}
    states[broken] = {"state": "END", "status": {"error_code": "INTERNAL", "error_message": "no such operation"}}
    answer = json.dumps({"model_version_status": [{"version": each, **state} for each, state in states.items()]})

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        serving = ServingConfig(
            rest=f"http://127.0.0.1:{server.server_port}", config_file=str(tmp_path / "models.config"), labels=True
        )
        service = ModelService("/models/trips", {10: PushedModel("a", False), 11: PushedModel("b", False)})
        outcome = bring_up(serving, "trips", service)
        server.shutdown()
    assert (outcome.version, outcome.rejected) == (11, rejected)
    assert f"cannot load version {broken}" in (outcome.error or "")

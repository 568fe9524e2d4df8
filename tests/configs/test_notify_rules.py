"""`notify:` in a config: what is allowed, and where secrets may be."""

from __future__ import annotations

from pathlib import Path

import pytest
import trips_folder

from headrace.common.errors import ConfigError
from headrace.configs.loading.editing import to_yaml
from headrace.configs.loading.loader import load
from headrace.configs.schema.notify import EmailReceiver, SlackReceiver, WebhookReceiver

CONFIG = (
    trips_folder.CONFIG
    + """\
notify:
  ops: {kind: slack, url_env: SLACK_URL, on: [failed, blessed]}
  mail: {kind: email, to: [ops@example.com], sender: ci@example.com, host: mail.example.com}
"""
)
SECRET = "T0AB12CD/B0EF34GH/x9Yz8Wv7Ut6Sr5Qp4"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trips.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def test_receivers_have_sensible_defaults_and_are_written_back_as_they_were(file: Path, tmp_path: Path) -> None:
    config = load(file)
    ops, mail = config.notify["ops"], config.notify["mail"]
    assert isinstance(ops, SlackReceiver)
    assert isinstance(mail, EmailReceiver)
    assert ops.on == ("failed", "blessed")
    assert mail.on == ("failed", "killed", "not_blessed")
    assert (mail.port_used, mail.security) == (587, "starttls")
    copy = tmp_path / "copy.yaml"
    copy.write_text(to_yaml(config), encoding="utf-8")
    assert load(copy) == config


@pytest.mark.parametrize(
    ("setting", "reported"),
    [
        ("notify.ops.on=[faild]", r"notify\.ops\.on\[0\]: .* did you mean \"failed\""),
        ("notify.ops.kind=slak", r"notify\.ops\.kind: .* did you mean \"slack\""),
        ("notify.ops.url=https://hooks.example/x", r"notify\.ops\.url: no such setting.* did you mean \"url_env\""),
        ("notify.ops.url_env=SLACK URL", r"notify\.ops\.url_env: .*environment variable"),
        ("notify.ops={kind: webhook, url: 'ftp://x.example'}", r"notify\.ops\.url: .* a URL such as https"),
        ("notify.ops={kind: prometheus_file, path: trips.txt}", r"notify\.ops\.path: .* ends in \.prom"),
        ("notify.mail.too=x", r"notify\.mail\.too: no such setting; .*email.* has: "),
        ("notify.mail.to=['a@b.example, c']", r"notify\.mail\.to\[0\]: .* an address such as"),
    ],
)
def test_mistake_is_located_with_the_way_out(file: Path, setting: str, reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        load(file, overrides=[setting])


def test_port_follows_the_encryption(file: Path) -> None:
    mail = load(file, overrides=["notify.mail.security=tls"]).notify["mail"]
    assert isinstance(mail, EmailReceiver)
    assert mail.port_used == 465


@pytest.mark.parametrize("setting", ["url", "url_env"])
def test_secret_in_the_config_is_refused_and_not_repeated(file: Path, setting: str) -> None:
    overrides = [f"notify.ops.{setting}=https://hooks.slack.com/services/{SECRET}"]
    with pytest.raises(ConfigError, match=rf"notify\.ops\.{setting}: ") as refused:
        load(file, overrides=overrides)
    assert SECRET not in str(refused.value)
    with pytest.raises(ConfigError, match="contains a credential") as refused:
        load(file, overrides=["notify.hook={kind: webhook, url: 'https://ci:hunter2@hooks.example/x'}"])
    assert "hunter2" not in str(refused.value)


def test_profile_replaces_a_receiver_of_another_kind_and_removes_others(file: Path) -> None:
    file.with_name("trips.dev.yaml").write_text(
        "notify:\n  ops: {kind: webhook, url: 'http://127.0.0.1:9/x'}\n  mail: null\n", encoding="utf-8"
    )
    receivers = load(file, "dev").notify
    assert [*receivers] == ["ops"]
    ops = receivers["ops"]
    assert isinstance(ops, WebhookReceiver)
    assert (ops.url_env, ops.on) == (None, ("failed", "killed", "not_blessed"))

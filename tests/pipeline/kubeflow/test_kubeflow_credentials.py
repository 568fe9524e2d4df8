"""What counts as a credential in a compiled pipeline, by where it stands, and what does not."""

from __future__ import annotations

import json
import random
import re
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from compiled_trips import ROOT, trips
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.credentials import looks_like_secret
from headrace.common.errors import HeadraceError, RunError
from headrace.configs.schema.sources import SqlSource
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.compiler.credentials import check

SHORT = "a1"


@pytest.mark.parametrize(
    ("reported", "what"),
    [
        ({"options": {"password": SHORT}}, "a value of `password`"),
        ({"options": {"db_passwd": "x"}}, "a value of `db_passwd`"),
        ({"options": {"api-key": SHORT}}, "a value of `api-key`"),
        ({"options": {"access_token": SHORT}}, "a value of `access_token`"),
        ({"args": ["--invocation", json.dumps({"properties": json.dumps({"client_secret": SHORT})})]}, "client_secret"),
        ({"env": [{"name": "PGPASSWORD", "value": SHORT}]}, "a value of `PGPASSWORD`"),
        ({"url": f"postgresql://reader:{SHORT}@db/trips"}, "a URL with a password"),
        ({"url": f"postgresql://db/trips?user=reader&password={SHORT}"}, "a URL with a password"),
        ({"url": f"host=db dbname=trips user=reader password={SHORT}"}, "a connection string with a password"),
        ({"url": f"Driver=x;Server=db;Uid=reader;Pwd={SHORT};"}, "a connection string with a password"),
        ({"args": [f"--token={SHORT}"]}, "an option with a credential"),
        ({"headers": f"Authorization: Bearer {SHORT}"}, "a header with a credential"),
        ({"headers": json.dumps({"authorization": "Basic YTpi"})}, "a header with a credential"),
        ({"options": {"password": 31415926}}, "a value of `password`"),
        ({"options": json.dumps({"api_key": ["a1", "b2"]})}, "a value of `api_key`"),
        ({"env": [{"name": "X", "value": "sk_" + "live_51Hxxxxxxxxxxxxxxx"}]}, "a Stripe key"),
        ({"conn": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=abcdEFGH1234=="}, "an Azure key"),
        ({"env": [{"name": "X", "value": "glp" + "at-abcdefghij1234567890"}]}, "a GitLab token"),
        ({"env": [{"name": "AUTHORIZATION", "value": SHORT}]}, "a value of `AUTHORIZATION`"),
        ({"headers": {"Set-Cookie": SHORT}}, "a value of `Set-Cookie`"),
        ({"env": [{"name": "MY_AUTH", "value": "Bearer abcdef"}]}, "a header's value"),
        ({"env": [{"name": "MY_AUTH", "value": "Basic dXNlcjpwYXNzd29yZA=="}]}, "a header's value"),
        ({"env": [{"name": "X_HEADERS", "value": "tenant=a,api-key=abc1"}]}, "a header with a credential"),
        ({"env": [{"name": "X_HEADERS", "value": "x-honeycomb-team-key=abc1"}]}, "a header with a credential"),
        ({"url": "https://" + "a1b2c3d4e5f6a7b8c9d0@github.example/a/b.git"}, "a URL with a token"),
        ({"env": [{"name": "X", "value": "pypi-" + "AgEIcHlwaS5vcmcCJDU2Nzg5"}]}, "a PyPI token"),
        ({"env": [{"name": "X", "value": "npm_" + "abcdefghijklmnopqrstuvwxyz0123456789"}]}, "an npm token"),
        ({"env": [{"name": "X", "value": "dop_" + "v1_" + "0123456789abcdef" * 4}]}, "a DigitalOcean token"),
        ({"hook": "https://hooks.slack.com/" + "services/T000/B000/XXXXXXXXXXXXXXXX"}, "a Slack token"),
    ],
)
def test_a_credential_of_any_length_is_found_where_only_credentials_stand(reported: Any, what: str) -> None:
    with pytest.raises(RunError, match=what):
        check([reported], {})


@pytest.mark.parametrize(
    "reported",
    [
        {"keyToEnv": [{"secretKey": "password", "envVar": "DB_PASSWORD"}], "secretName": "database"},
        {"types": {"password": "string", "token": "int list"}},
        {"options": {"pad_token": "[PAD]", "max_tokens": "512", "tokens": "abc", "split_key": "day"}},
        {"options": {"password": "$(DB_PASSWORD)", "credentials": "/var/secrets/key.json"}},
        {"password_env": "DB_PASSWORD", "label_key": "password", "limits": {"secret": 0.05}},
        {"labels": {"secret": "true"}},
        {"sizes": {"token": 1024, "tokens": 1234567}, "order": ["disk-2", "task-1234567890-1234567890"]},
        {"query": "SELECT fare FROM trips WHERE password = other AND token = 'x'"},
        {"url": "http://store.example:9000/path/to@2x"},
        {"path": "s3://bucket/token=5/password=1/*.csv"},
        {
            "values": [
                "Basic Economy",
                "Basic",
                "Bearer",
                "bearer of news",
                "Basic Plus 4 You",
                "cookie",
                "Cookie: none",
            ]
        },
        {"env": [{"name": "MY_AUTH", "value": "Bearer $(TOKEN)"}, {"name": "AUTH_MODE", "value": "basic"}]},
        {"types": {"cookie": "string", "authorization": "int list"}, "by": "cookie", "package": "pypi-simple"},
        {"url": "https://reader@db.example/trips", "source": "https://git@github.example/a/b.git"},
        {"query": "SELECT a, b FROM t WHERE api_key = 'x' OR x-key=y", "sort": "a=1,key=fare"},
    ],
)
def test_names_and_places_of_credentials_are_none(reported: Any) -> None:
    check([reported], {})


EXAMPLES = [ROOT / "configs" / f"{name}.yaml" for name in ("digits", "pydoc", "taxi")]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_configs_hold_no_credential(path: Path) -> None:
    check([yaml.safe_load(path.read_text(encoding="utf-8"))], {})


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_words_of_the_docs_are_not_a_credential(path: Path) -> None:
    """Each word and each run of code in them, as values that a config may hold."""
    text = path.read_text(encoding="utf-8")
    for value in {*(word.strip("`,.;") for word in text.split()), *re.findall(r"`([^`\n]+)`", text)}:
        check([value], {})


@given(st.lists(st.from_regex(r"[A-Z]?[a-z]{1,9}|[A-Z]{2,6}|[0-9]{1,8}", fullmatch=True), min_size=1, max_size=5))
def test_words_and_numbers_are_not_a_credential_however_they_are_joined(words: list[str]) -> None:
    check([[glue.join(words) for glue in (" ", "_", "-", "/", ".", ", ", "=", ":")]], {})


NAMES = (
    "accesskey",
    "secretkey",
    "AWS_SECRET_ACCESS_KEY",
    "tls.crt",
    "root-password",
    "key-2026-11-20",
    "rootUserOfS3",
)


@pytest.mark.parametrize("name", [*NAMES, "AWS_S3_V2_ACCESS_KEY_1", "service-account.json", ".dockerconfigjson"])
def test_what_a_key_is_called_is_taken_for_a_name(name: str) -> None:
    assert not looks_like_secret(name)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("length", [32, 40, 64])
def test_what_is_drawn_at_random_is_taken_for_a_secret(length: int, seed: int) -> None:
    drawn = random.Random(seed)
    letters = string.ascii_letters + string.digits
    assert looks_like_secret("".join(drawn.choices(letters, k=length)))
    assert looks_like_secret("".join(drawn.choices(string.hexdigits.lower(), k=length)))


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("DB_PASSWORD", "ab12", True),
        ("HF_TOKEN", "q-9z", True),
        ("READER", "ab12", True),  # declared
        ("READER", "ab1", False),
        ("DB_PASSWORD", "test", False),  # a word, such as the name of a split
        ("DB_PASSWORD", "1024", False),
        ("TOKENIZER_OF_WORDS", "ab12", False),  # has to do with tokens, and holds none
        ("TOKENIZER_OF_WORDS", "open-sesame", True),
        ("READER", "opensesame", True),
        ("WRITER", "open-sesame", False),
        ("AZURE_STORAGE_KEY", "open-sesame\n", True),
        ("ENCRYPTION_KEY", "open-sesame", True),
        ("SORT_KEY", "open-sesame", False),
        ("DB_PRIMARY_KEY", "open-sesame", False),
        ("LABEL_KEY", "open-sesame", False),
        ("MONKEY", "open-sesame", False),
    ],
)
def test_a_variables_value_is_looked_for_by_its_name_and_length(name: str, value: str, found: bool) -> None:
    reported = [{"args": ["--experiment", f"x {value}, test 1024", "opensesame"], "split": value}]
    if found:
        with pytest.raises(RunError, match=f"the value of the environment variable {name}"):
            check(reported, {name: value}, frozenset({"READER"}))
    else:
        check(reported, {name: value}, frozenset({"READER"}))


def test_a_short_value_within_another_word_is_not_that_value() -> None:
    check([{"digest": "f00ab12c", "file": "ab12.csv", "name": "x-ab12"}], {"DB_PASSWORD": "ab12"})


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("data.source.path='https://reader:hunter2@example.com/trips-{SPAN}.csv'", "a credential"),
        ("beam.options={s3_secret_access_key: wJalrXUtnFEMI}", "AWS_ACCESS_KEY_ID"),
        ("beam.options={experiments: ['key=AKIAIOSFODNN7EXAMPLE']}", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_a_credential_in_the_config_is_refused(override: str, what: str) -> None:
    with pytest.raises(HeadraceError, match=what):
        compile_pipeline(trips(override), {})


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["--s3_secret_access_key=wJalrXUtnFEMI"], "an option with a credential"),
        (["--s3_secret_access_key", "wJalrXUtnFEMI"], "an option and a credential"),
        (["--key=AKIAIOSFODNN7EXAMPLE"], "an AWS access key"),
    ],
)
def test_a_credential_among_arguments_is_refused(args: list[str], what: str) -> None:
    with pytest.raises(RunError, match=what):
        check([{"args": args}], {})


@pytest.mark.slow
def test_the_value_of_a_secret_variable_is_found_wherever_it_stands() -> None:
    config = trips("beam.options={experiments: [opensesame42]}")
    with pytest.raises(RunError, match="the value of the environment variable DB_PASSWORD"):
        compile_pipeline(config, {"DB_PASSWORD": "opensesame42"})
    compile_pipeline(config, {"EXPERIMENT": "opensesame42", "API_TOKEN": "short"})
    odd = 'open "sésame\\" now'  # in YAML and JSON such letters are written otherwise
    for reported in (
        f"beam.options={json.dumps({'experiments': [odd]})}",
        f"kubeflow.defaults.env={json.dumps({'GREETING': odd})}",
    ):
        with pytest.raises(RunError, match="the value of the environment variable MYSQL_PWD"):
            compile_pipeline(trips(reported), {"MYSQL_PWD": odd})


def test_planted_secrets_do_not_reach_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {"AWS_SECRET_ACCESS_KEY": "planted-aws-secret", "KFP_TOKEN": "planted-token", "HOME": "/home/planted-me"}
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    source = SqlSource(kind="sql", url="postgresql://db/shop", password_env="KFP_TOKEN", table="trips")
    config = trips()
    text = compile_pipeline(config.model_copy(update={"data": config.data.model_copy(update={"source": source})}))
    assert "KFP_TOKEN" in text
    assert not [value for value in planted.values() if value in text]

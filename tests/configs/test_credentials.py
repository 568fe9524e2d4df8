"""What hides credentials: nothing of a secret in a URL stays, and nothing else goes."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.credentials import CREDENTIAL_PATTERNS, MASK, redact, redact_value
from headrace.common.errors import ConfigError, DataError, HeadraceError, RunError, ServerError
from headrace.common.tracebacks import write_traceback
from headrace.configs.loading.loader import load
from headrace.configs.loading.secrets import url_credentials

WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)
PLAIN = "abcXYZ0189!$()*+,;=:%-._~"
SECRET = st.one_of([st.text(f"{PLAIN}{more}", min_size=1, max_size=12) for more in ("@", "/?#", "'\"\\<>")]).map(
    lambda text: f"Zq{text}9"
)
"""Also letters that have to be escaped there, and are not where people write a URL by hand. An at sign and a slash in
one password could be read in several ways.
"""
SAFE = SECRET.map(lambda text: quote(text, safe=""))
SCHEMES = st.sampled_from(["s3", "gs", "http", "https", "minio", "grpc", "postgresql+psycopg"])
SETTINGS = st.one_of(
    st.sampled_from(["sig", "Signature", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token"]),
    st.sampled_from(["X-Goog-Signature", "access_token", "token", "api_key", "AWSAccessKeyId", "client_secret", "pwd"]),
)
PROSE = st.sampled_from(["", "cannot be read: ", "two urls, ", "\n  at line 3: ", '{"a": "', "GET "])
REST = st.sampled_from(["", " - no such host", '", "b": "x"}', "\nnext line", " (tried 3 times)"])


@given(PROSE, SCHEMES, WORD, SECRET, WORD, WORD, REST)
def test_password_of_a_url_goes_and_nothing_else(
    before: str, scheme: str, user: str, password: str, host: str, path: str, rest: str
) -> None:
    reported = redact(f"{before}{scheme}://{user}:{password}@{host}/{path}{rest}")
    assert password not in reported
    assert reported == f"{before}{scheme}://{user}:{MASK}@{host}/{path}{rest}"


@given(PROSE, SCHEMES, WORD, SETTINGS, SAFE, REST)
def test_signature_or_token_of_a_query_goes_and_nothing_else(
    before: str, scheme: str, host: str, setting: str, secret: str, rest: str
) -> None:
    reported = redact(f"{before}{scheme}://{host}/a?x=1&{setting}={secret}&y=2{rest}")
    assert reported == f"{before}{scheme}://{host}/a?x=1&{setting}={MASK}&y=2{rest}"
    first = redact(f"{before}{scheme}://{host}/a?{setting}={secret}{rest}")
    assert first == f"{before}{scheme}://{host}/a?{setting}={MASK}{rest}"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("//us:czNrcjF0@host/x", "//us:***@host/x"),
        ("cannot read //us:czNrcjF0@host/x: gone", "cannot read //us:***@host/x: gone"),
        ("https%3A%2F%2Fus:czNrcjF0@host/x", "https%3A%2F%2Fus:***@host/x"),
        ("next=https%3A%2F%2Fus%3AczNrcjF0%40host%2Fx&a=b", "next=https%3A%2F%2Fus%3A***%40host%2Fx&a=b"),
        ("https%253A%252F%252Fus%253AczNrcjF0%2540host", "https%253A%252F%252Fus%253A***%2540host"),
        ("s3://b/k?sig=czNrcjF0: not found", "s3://b/k?sig=***: not found"),
        ("s3://b/k?sig=czNr:cjF0 is not found", "s3://b/k?sig=*** is not found"),
    ],
)
def test_a_password_is_redacted_without_a_scheme_and_in_an_escaped_url(text: str, redacted: str) -> None:
    assert redact(text) == redacted
    assert redact_value(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "//host/share: see a@b",
        "// note: write to me@example.org",
        "https%3A%2F%2Fexample.org%2Fa%3A1",
        "s3://bucket/year=2024/*.csv",
        "http://localhost:9000/bucket/key",
        "postgresql://me@db:5432/trips?sslmode=require",
        "https://example.org/a?design=3&signal=4&assignment=5&max_length=6",
        "mail to someone@example.org: 3 of 4",
        "grpc://headrace-tfdata:5050",
    ],
)
def test_text_without_a_credential_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


NAMES = st.sampled_from(["password", "db_password", "api_key", "client_secret", "AWS_SECRET_ACCESS_KEY", "DB_PASS"])
FORMS = st.sampled_from(
    [
        ("{name}=", ""),
        ("{name}='", "'"),
        ('{name} = "', '"'),
        ("{{'{name}': '", "'}}"),
        ('{{"{name}": "', '", "rows": 3}}'),
        ("host=h user=u {name}=", " dbname=d"),
        ("x=1;{name}=", ";y=2"),
        ("--{name}=", " --rows=3"),
    ]
)


@given(PROSE, NAMES, FORMS, st.text("abcXYZ0189!()+%._~/@:-", min_size=1, max_size=12), REST)
def test_value_under_the_name_of_a_secret_goes_and_its_surroundings_stay(
    before: str, name: str, form: tuple[str, str], secret: str, rest: str
) -> None:
    start, end = form[0].format(name=name), form[1].format()
    rest = rest if end else rest.lstrip('",')
    reported = redact(f"{before}{start}Zq{secret}9{end} {rest}")
    assert f"Zq{secret}9" not in reported
    quotes = str.maketrans("", "", "\"'")
    assert reported.translate(quotes) == f"{before}{start}{MASK}{end} {rest}".translate(quotes)
    assert redact(reported) == reported


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Basic czNrcjF0",
        "{'Authorization': 'Bearer czNrcjF0'}",
        "failed with tenant=a,x-team-key=czNrcjF0",
        "Basic czNrcjF0c2VjcmV0QQ==",
        "--s3-secret-access-key czNrcjF0",
        "Driver=x;Server=db;Uid=reader;Pwd=czNrcjF0;",
        "server = db, user = me, password = 'czNrcjF0 x'",
    ],
)
def test_what_is_refused_in_a_config_is_hidden_in_messages(text: str) -> None:
    assert any(shape.search(text) for shape in CREDENTIAL_PATTERNS.values())
    assert "czNrcjF0" not in redact(text)
    assert MASK in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "column 'token': found 'x', and before 3",
        "kubeflow.server.auth.token: no such setting",
        "data.source.password_env=DB_PASSWORD: is not set",
        "s3://bucket/token=5/password=1/*.csv",
        "gs://bucket: denied for reader@project.iam.gserviceaccount.com",
        "http://localhost:9000 does not know me@example.org",
        "features.words: pad_token='[PAD]', max_tokens=512",
        "{'types': {'password': 'string'}, 'token': None}",
    ],
)
def test_names_of_secrets_without_a_value_stay(text: str) -> None:
    assert redact(text) == text


PART = st.text("abcXYZ0189 !$()*+,;=%._~'\"<>-", min_size=1, max_size=8)
STARTS = st.sampled_from(["://", ":/", ":///", "//", ":\\", ":\\\\"])


@given(SCHEMES, STARTS, PART, PART, PART, st.sampled_from(["", "/x.csv", "/db?sslmode=require"]))
def test_login_in_a_url_is_refused_and_hidden_whatever_letters_it_has(
    scheme: str, start: str, user: str, password: str, host: str, path: str
) -> None:
    secret = f"Zq{password}9"
    for url in (
        f"{scheme}{start}{user}:{secret}@{host}{path}",
        f"{scheme}{start}a/{user}:{secret}@{host}{path}",
        f"{scheme}{start}{quote(f'{user}:{secret}@{host}', safe='')}{path}",
    ):
        ((where, what),) = url_credentials({"data": {"source": {"path": [url]}}})
        assert where == ("data", "source", "path", 0)
        for reported in (what, redact_value(url)):
            assert secret not in reported
            assert quote(secret, safe="") not in reported
            assert MASK in reported


TEXTS = st.text("abcXYZ019 _.,=*'-", max_size=8)


@given(
    st.one_of(
        st.builds("select {} from t where mail = '{}@{}' and a:b".format, TEXTS, WORD, WORD),
        st.builds("C:\\{}\\{}@{}\\*.csv".format, TEXTS, WORD, TEXTS),
        st.builds("{}:{}".format, TEXTS, TEXTS),
        st.builds("/data/{}/{}:{}@{}.csv".format, TEXTS, WORD, WORD, WORD),
        st.builds("{}:5000/{}@sha256:{}".format, WORD, WORD, st.text("0123456789abcdef", min_size=64, max_size=64)),
        st.builds("docker://h/{}:1@sha256:{}".format, WORD, st.text("0123456789abcdef", min_size=64, max_size=64)),
        st.builds("s3://{}/day=10:30/{}@{}.csv".format, WORD, TEXTS, WORD),
        st.builds("s3://{}/{}@{}:{}.csv".format, WORD, TEXTS, WORD, TEXTS),
        st.builds("postgresql://{}@{}:5432/{}".format, WORD, WORD, WORD),
        st.builds("{}@{}.example".format, WORD, WORD),
    )
)
def test_text_with_an_at_sign_or_a_colon_is_not_a_login(text: str) -> None:
    assert list(url_credentials([text])) == []
    assert redact_value(text) == text


@pytest.mark.parametrize("kind", [RunError, ServerError, HeadraceError])
def test_no_message_of_an_error_repeats_a_credential(kind: type[HeadraceError]) -> None:
    error = kind("https://me:s3cr3t@host/a?sig=abc123 cannot be read")
    assert str(error) == "https://me:***@host/a?sig=*** cannot be read"
    assert "s3cr3t" not in str(DataError("is gone", file="s3://k:s3cr3t@b/x.csv", hint="see http://u:s3cr3t@h"))


def test_tracebacks_in_logs_repeat_no_credential_of_a_librarys_error() -> None:
    log = io.StringIO()
    try:
        raise OSError("GET https://b.s3.amazonaws.com/k?X-Amz-Signature=0123abcd&x=1 failed")
    except OSError as error:
        with redirect_stderr(log):
            write_traceback(error)
    assert "0123abcd" not in log.getvalue()
    assert "X-Amz-Signature=***&x=1 failed" in log.getvalue()
    assert "Traceback" in log.getvalue()


@pytest.mark.parametrize(
    ("setting", "way_out"),
    [
        ("data.source.path=s3://AKID:SECRETq8@bucket/data/*.csv", "AWS_ACCESS_KEY_ID"),
        ("data.source.path=[a.csv, 'gs://u:SECRETq8@b/*.csv']", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("data.source.path=http://u:SECRETq8@host/x.csv", "without it"),
        ("pipeline.root=s3://AKID:SECRETq8@bucket/r", "is a URI"),
        ("pipeline.root=s3://AK ID:SECRETq8 x@bucket/r", "is a URI"),
        ("data.source.path=s3://AKID:SECRETq8@buck et/*.csv", "AWS_ACCESS_KEY_ID"),
        ("data.source.path=s3://AK/ID:SECRETq8@bucket/*.csv", "AWS_ACCESS_KEY_ID"),
        ("data.source.path=s3:/AKID:SECRETq8@bucket/*.csv", "AWS_ACCESS_KEY_ID"),
        ("data.source={kind: sql, table: t, url: 'postgresql+psycopg://u:SECRETq8 w@h/db'}", "password_env"),
    ],
)
def test_config_with_a_credential_in_a_url_is_refused_before_anything_keeps_it(setting: str, way_out: str) -> None:
    taxi = Path(__file__).parents[2] / "configs" / "taxi.yaml"
    with pytest.raises(ConfigError) as caught:
        load(taxi, overrides=[setting])
    assert "SECRETq8" not in str(caught.value)
    assert way_out in str(caught.value)
    assert str(caught.value).count("\n") == 0


GITHUB = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("setting", "value", "way_out"),
    [
        ("model.options.api_key", "SECRETq8", "environment variable"),
        ("model.options.nested.db_password", "SECRETq8", "environment variable"),
        ("model.options.x", GITHUB, "environment variable"),
        ("data.source.api_token", "SECRETq8", "no such setting"),
        ("kubeflow.defaults.env.X", GITHUB, "`secrets:`"),
        ("kubeflow.defaults.labels.x", GITHUB, "`secrets:`"),
    ],
)
def test_secret_in_a_setting_with_a_free_name_is_refused_with_the_way_out(
    setting: str, value: str, way_out: str
) -> None:
    taxi = Path(__file__).parents[2] / "configs" / "taxi.yaml"
    with pytest.raises(ConfigError) as caught:
        load(taxi, overrides=[("model.kind", "mine.build"), ("model.hidden", None), (setting, value)])
    (problem,) = [each for each in caught.value.problems if setting in each.what]
    assert way_out in problem.what
    assert value not in str(caught.value)


def test_settings_that_name_where_a_secret_is_are_accepted() -> None:
    settings = {
        "pipeline": {"name": "x"},
        "data": {"source": {"kind": "sql", "url": "postgresql://u@h/d", "table": "t", "password_env": "DB_PASSWORD"}},
        "label": {"key": "tip", "kind": "binary"},
        "features": {"password": {"column": "text"}, "token": {"column": "hashed", "hash_buckets": 9}},
        "model": {"kind": "mine.build", "options": {"api_key_env": "API_KEY", "pad_token": "<pad>", "max_tokens": 9}},
        "kubeflow": {"defaults": {"secrets": [{"name": "db", "env": {"DB_PASSWORD": "password"}}]}},
    }
    assert load(settings).data.source.kind == "sql"

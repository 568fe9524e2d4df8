"""The proxy in front of the S3 server of the tests, and the buckets there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, HTTPClientError
from pyarrow import fs
from s3_proxy import S3Proxy, s3_proxy
from s3_servers import S3Server

NAMES = ["plain", "a b/ü&x+%41", "<Key>"]


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    with s3_server.bucket("proxied"), s3_proxy(s3_server.url) as proxy:
        yield proxy


@pytest.fixture
def client(s3_server: S3Server, proxy: S3Proxy) -> Any:
    """One that asks once only."""
    return replace(s3_server, url=proxy.url).resource(retries={"total_max_attempts": 1}).meta.client


def test_requests_are_noted_and_carried_out(proxy: S3Proxy, client: Any) -> None:
    client.put_object(Bucket="proxied", Key="a b", Body=b"1" * 300_000)
    assert client.get_object(Bucket="proxied", Key="a b")["Body"].read() == b"1" * 300_000
    assert client.head_object(Bucket="proxied", Key="a b")["ContentLength"] == 300_000
    assert proxy.asked == [(method, "/proxied/a b") for method in ("PUT", "GET", "HEAD")]


@pytest.mark.parametrize("name", NAMES)
def test_an_object_looks_older_until_it_is_written_again(
    s3_server: S3Server, proxy: S3Proxy, client: Any, name: str
) -> None:
    keys = {"access_key": s3_server.access_key, "secret_key": s3_server.secret_key, "region": s3_server.region}
    arrow = fs.S3FileSystem(**keys, scheme="http", endpoint_override=proxy.url.removeprefix("http://"))

    def ages() -> set[int]:
        """In days, by all the ways to ask for them."""
        (listed,) = client.list_objects_v2(Bucket="proxied")["Contents"]
        found = arrow.get_file_info(fs.FileSelector("proxied", recursive=True))
        times = [listed["LastModified"], client.head_object(Bucket="proxied", Key=name)["LastModified"]]
        times += [one.mtime for one in found if one.type == fs.FileType.File]
        assert len(times) == 3
        return {round((dt.datetime.now(dt.UTC) - time).total_seconds() / 86_400) for time in times}

    client.put_object(Bucket="proxied", Key=name, Body=b"1")
    proxy.age({f"/proxied/{name}": 2})
    proxy.age({f"/proxied/{name}": 1})
    assert ages() == {3}
    client.put_object(Bucket="proxied", Key=name, Body=b"2")
    assert ages() == {0}


def test_a_refused_request_does_not_reach_the_server_and_one_whose_answer_is_lost_does(
    proxy: S3Proxy, client: Any
) -> None:
    proxy.before = lambda method, _path: "503 Slow Down" if method == "PUT" else None
    with pytest.raises(ClientError, match="503"):
        client.put_object(Bucket="proxied", Key="refused", Body=b"1")
    proxy.before = lambda _method, _path: None
    proxy.lost = lambda method, _path: method == "PUT"
    with pytest.raises(HTTPClientError):
        client.put_object(Bucket="proxied", Key="lost", Body=b"1")
    assert [one["Key"] for one in client.list_objects_v2(Bucket="proxied")["Contents"]] == ["lost"]


def test_a_bucket_that_is_there_is_neither_used_nor_removed(s3_server: S3Server) -> None:
    with s3_server.bucket("taken") as bucket:
        bucket.put_object(Key="precious", Body=b"1")
        with pytest.raises(AssertionError, match=f"{s3_server.url} has a bucket taken"), s3_server.bucket("taken"):
            pass
        assert [one.key for one in bucket.objects.all()] == ["precious"]
    assert bucket.creation_date is None

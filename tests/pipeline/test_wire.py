"""Messages and artifacts between the command and its fork server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.types import artifact_utils, standard_artifacts

from headrace.pipeline.local.wire import JsonConnection, StoredArtifact

MESSAGES = st.dictionaries(
    st.text(max_size=5), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists), max_size=4
)


@pytest.fixture
def ends() -> Iterator[tuple[JsonConnection, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield JsonConnection(ours), theirs
    ours.close()
    theirs.close()


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(MESSAGES, min_size=1, max_size=5), st.integers(1, 40))
def test_messages_arrive_whole_and_in_order_however_they_are_cut(messages: list[dict[str, Any]], size: int) -> None:
    ours, theirs = socket.socketpair()
    sender, between = socket.socketpair()
    for message in messages:
        JsonConnection(sender).send(**message)
    sender.close()
    whole = between.makefile("rb").read()
    line = JsonConnection(ours)
    received: list[dict[str, Any]] = []
    for start in range(0, len(whole), size):
        theirs.sendall(whole[start : start + size])
        received += line.receive()
    for end in (ours, theirs, between):
        end.close()
    assert received == messages


def test_two_messages_in_one_piece_are_two(ends: tuple[JsonConnection, socket.socket]) -> None:
    line, other = ends
    other.sendall(b'{"a": 1}\n{"b": 2}\n{"c"')
    assert list(line.receive()) == [{"a": 1}, {"b": 2}]
    other.sendall(b": 3}\n")
    assert list(line.receive()) == [{"c": 3}]


def test_end_of_the_other_side_is_reported(ends: tuple[JsonConnection, socket.socket]) -> None:
    line, other = ends
    other.close()
    with pytest.raises(EOFError):
        list(line.receive())


def _examples() -> standard_artifacts.Examples:
    examples = standard_artifacts.Examples()
    examples.uri = "/data/é"
    examples.split_names = '["train"]'
    examples.span = 3
    examples.set_string_custom_property("rows", '{"train": 5}')
    examples.set_float_custom_property("ratio", 0.5)
    return examples


def test_artifact_of_tfx_comes_back_as_it_was() -> None:
    examples = _examples()
    there = StoredArtifact.from_json(StoredArtifact(examples.mlmd_artifact, examples.artifact_type).to_json())
    back = artifact_utils.deserialize_artifact(there.type, there.artifact)
    assert isinstance(back, standard_artifacts.Examples)
    assert (back.uri, back.split_names, back.span) == ("/data/é", '["train"]', 3)
    assert back.get_string_custom_property("rows") == '{"train": 5}'


def test_properties_are_the_typed_and_the_custom_ones_together() -> None:
    examples = _examples()
    stored = StoredArtifact(examples.mlmd_artifact, examples.artifact_type)
    assert stored.uri == "/data/é"
    expected = {"split_names": '["train"]', "span": 3, "rows": '{"train": 5}', "ratio": 0.5}
    assert stored.properties.items() >= expected.items()


def test_property_without_a_value_is_an_empty_text() -> None:
    artifact = mlmd.Artifact()
    artifact.custom_properties["nothing"].SetInParent()
    assert StoredArtifact(artifact, mlmd.ArtifactType(name="String")).properties == {"nothing": ""}

"""`headrace serve` with the model that a run pushed, compared with its signature.

The expected predictions are those of the pushed SavedModel, loaded by TensorFlow, for tf.Examples that are made here.
"""

from __future__ import annotations

import base64
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from command import headrace, started_at_once
from parcel_arrivals import PROBABILITIES, Pushed, Server, check, example, pushed_once, signature_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pushed(new_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Pushed:
    return pushed_once(tmp_path_factory, new_folder("serve"))


@pytest.fixture(scope="module")
def expected(pushed: Pushed) -> np.ndarray:
    return signature_rows(pushed.version, pushed.rows)


@pytest.fixture(scope="module")
def server(pushed: Pushed) -> Iterator[Server]:
    going = started_at_once(pushed.folder, "serve", "parcels.yaml", "--port", "0")
    going.wait_for(r"^http://")
    yield Server(going, going.lines[-1].split()[0])
    going.signal(signal.SIGINT)
    done = going.finish()
    assert done.code == 130
    assert done.err.splitlines()[0] == "loading TensorFlow and the model"
    assert "Traceback" not in done.err


def test_rows_of_columns_get_names_and_probabilities(pushed: Pushed, expected: np.ndarray, server: Server) -> None:
    rows = [{name: value for name, value in row.items() if value is not None} for row in pushed.rows]
    status, answer = server.ask({"instances": rows})
    assert status == 200
    schema = pa.schema({"prediction": pa.string(), **dict.fromkeys(PROBABILITIES, pa.float32())})
    check(pa.Table.from_pylist(answer["predictions"], schema), expected)


def test_signatures_answer_by_row_and_by_column(pushed: Pushed, expected: np.ndarray, server: Server) -> None:
    coded = [{"b64": base64.b64encode(example(row)).decode()} for row in pushed.rows]
    for body in ({"instances": coded}, {"instances": [{"examples": one} for one in coded]}):
        status, answer = server.ask(body)
        assert status == 200
        for output in ("predictions", "probabilities"):
            found = [row[output] for row in answer["predictions"]]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        names = [name.removeprefix("probability_") for name in PROBABILITIES]
        assert [row["classes"] for row in answer["predictions"]] == [names] * len(coded)
    status, answer = server.ask({"inputs": {"examples": coded}}, f"/versions/{pushed.version.name}:predict")
    np.testing.assert_allclose(answer["outputs"]["predictions"], expected, rtol=0, atol=1e-6)
    raw = {"distance": 12.5, "stops": 2, "code": "007", "tags": ["heavy", "fragile"]}
    status, answer = server.ask({"signature_name": "serving_raw", "instances": [raw]})
    found = [row["predictions"] for row in answer["predictions"]]
    np.testing.assert_allclose(found, signature_rows(pushed.version, [raw]), rtol=0, atol=1e-6)
    status, answer = server.ask({"signature_name": "transform_features", "instances": coded[:2]})
    assert [row["stops"] for row in answer["predictions"]] == [
        int(np.digitize(row["stops"], [2, 4])) if row["stops"] is not None else 3 for row in pushed.rows[:2]
    ]


def test_examples_are_classified(pushed: Pushed, expected: np.ndarray, server: Server) -> None:
    examples = [{name: row[name] for name in ("distance", "stops", "code", "tags")} for row in pushed.rows]
    given = [{name: value for name, value in row.items() if value is not None} for row in examples]
    status, answer = server.ask({"examples": given}, f"/versions/{pushed.version.name}:classify")
    assert status == 200, answer
    names = [name.removeprefix("probability_") for name in PROBABILITIES]
    assert [[name for name, _ in row] for row in answer["results"]] == [names] * len(given)
    np.testing.assert_allclose([[score for _, score in row] for row in answer["results"]], expected, rtol=0, atol=1e-6)


def test_state_and_metadata_name_version_and_signatures(pushed: Pushed, server: Server) -> None:
    status, state = server.ask(None, "")
    assert (status, state["model_version_status"][0]["version"]) == (200, pushed.version.name)
    status, answer = server.ask(None, "/metadata")
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert signatures["serving_raw"]["inputs"]["distance"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {"dim": [{"size": "-1"}]},
    }


@pytest.mark.parametrize(
    ("status", "words", "path", "body"),
    [
        (400, 'did you mean "distance"', ":predict", {"instances": [{"distnace": 1}]}),
        (400, "'distance'", ":predict", {"instances": [{"distance": "far"}]}),
        (
            400,
            "a string in row 1, a list in row 2",
            ":predict",
            {"instances": [{"code": None}, {"code": "007"}, {"code": ["008"]}]},
        ),
        (400, "no signature 'serving_rw'", ":predict", {"signature_name": "serving_rw", "instances": [1]}),
        (400, "stops", ":predict", {"signature_name": "serving_raw", "instances": [{"distance": 1.0}]}),
        (
            400,
            "'distance' has 2, 'stops' has 1",
            ":predict",
            {
                "signature_name": "serving_raw",
                "inputs": {"distance": [1.0, 2.0], "stops": [1], "code": ["a"], "tags": [["b"]]},
            },
        ),
        (400, "no column 'code.first'", ":predict", {"instances": [{"code": {"first": "a"}}]}),
        (400, "either `instances`", ":predict", {}),
        (400, "not JSON", ":predict", b"\xff{"),
        (400, "refuses", ":predict", {"instances": ["no example"]}),
        (400, "refuses", ":predict", {"instances": [{"b64": "//8="}]}),
        (404, "version 7", "/versions/7:predict", {"instances": [1]}),
        (404, "nothing is at", "/versions", None),
        (405, "POST", ":predict", None),
        (405, "POST", ":classify", None),
        (400, "returns classes: ask it with :classify", ":regress", {"examples": [{"distance": 1.0}]}),
    ],
)
def test_what_cannot_be_answered_is_named(server: Server, status: int, words: str, path: str, body: Any) -> None:
    found, answer = server.ask(body, path)
    assert (found, words in answer["error"]) == (status, True), answer


def test_requests_at_once_get_their_own_answers_and_a_bad_row_fails_alone(
    pushed: Pushed, expected: np.ndarray, server: Server
) -> None:
    rows = [{name: value for name, value in row.items() if value is not None} for row in pushed.rows[:96]]
    bad, beyond_float32 = {7, 40, 41}, 1e300
    bodies = [{"distance": beyond_float32} if number in bad else row for number, row in enumerate(rows)]
    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(lambda row: server.ask({"instances": [row]}), bodies))
    assert [number for number, (status, _) in enumerate(answers) if status != 200] == sorted(bad)
    for number in bad:
        assert answers[number][0] == 400
        assert "'distance'" in answers[number][1]["error"]
    good = [number for number in range(len(rows)) if number not in bad]
    found = [[answers[number][1]["predictions"][0][name] for name in PROBABILITIES] for number in good]
    np.testing.assert_allclose(found, expected[good], rtol=0, atol=1e-6)


def test_a_new_version_is_served_once_it_is_there(pushed: Pushed, server: Server) -> None:
    newer = pushed.version.with_name(str(int(pushed.version.name) + 1))
    partial = newer.with_name("partial")
    shutil.copytree(pushed.version, partial)
    partial.rename(newer)
    try:
        assert server.ask(None, "")[1]["model_version_status"][0]["version"] == newer.name
        assert server.ask({"instances": [{"distance": 3}]})[0] == 200
    finally:
        shutil.rmtree(newer)
    assert server.ask(None, "")[1]["model_version_status"][0]["version"] == pushed.version.name


def test_the_folder_of_a_version_is_served_alone(pushed: Pushed) -> None:
    going = started_at_once(pushed.folder, "serve", str(pushed.version), "--port", "0")
    going.wait_for(r"^http://.*/v1/models/model ")
    alone = Server(going, going.lines[-1].split()[0])
    assert alone.ask({"instances": [{"distance": 3}]})[0] == 200
    going.signal(signal.SIGINT)
    going.finish()


def test_a_taken_port_and_a_missing_version_are_refused(pushed: Pushed, server: Server) -> None:
    port = server.address.split(":")[2].split("/")[0]
    taken = headrace(pushed.folder, "serve", "parcels.yaml", "--port", port)
    assert (taken.code, f"port {port}" in taken.err, "--port" in taken.err) == (1, True, True)
    missing = headrace(pushed.folder, "serve", "parcels.yaml", "--model", "7")
    assert (missing.code, "no version 7" in missing.err) == (1, True)
    assert "Traceback" not in taken.err + missing.err

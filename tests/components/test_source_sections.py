"""Mistakes in a source name the section that it was in: that of the training data, or of the new data."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ml_metadata.proto import metadata_store_pb2 as mlmd
from source_rows import read_source

from headrace.common.errors import DataError
from headrace.components.bulk_predictor.publishing import list_new_data
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig, data_from_json
from headrace.configs.schema.gates import SkewGate
from headrace.configs.schema.predict import PREDICT_SOURCE, PredictConfig
from headrace.pipeline.local.light import LightArtifact
from headrace.pipeline.local.wire import StoredArtifact

FILES: dict[str, str | bytes] = {
    "a.csv": "a,b\n1,2\n3\n",
    "empty.csv": "",
    "twice.csv": "a,a\n1,2\n",
    "open.csv": 'a,b\n1,"2\n',
    "comment.csv": "a,b\n# made today\n1,2\n",
    "latin.csv": b"a,b\n\xe9,2\n",
    "bad.py": "def (",
}
SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "csv", "path": "a.csv"}, ".delimiter"),
    ({"kind": "csv", "path": "empty.csv"}, ".path"),
    ({"kind": "csv", "path": "twice.csv"}, ".duplicate_names"),
    ({"kind": "csv", "path": "open.csv"}, ".quote"),
    ({"kind": "csv", "path": "comment.csv"}, ".comment"),
    ({"kind": "csv", "path": "latin.csv"}, ".encoding"),
    ({"kind": "text", "path": "bad.py", "unit": "string"}, ".unit"),
    ({"kind": "text", "path": "a.csv", "keep": "("}, ".keep"),
    ({"kind": "sql", "url": "sqlite:///a.db", "table": "t", "password_env": "NO_SUCH_PASSWORD"}, ".password_env"),
    ({"kind": "arrays", "path": "*.csv"}, ".path"),
    ({"kind": "arrays", "function": "section_rows.missing"}, ".function"),
    ({"kind": "python", "function": "section_rows.rows"}, ".function"),
    ({"kind": "python", "function": "section_rows.rows", "fingerprint": "section_rows.missing"}, ".fingerprint"),
    ({"kind": "images", "path": "nowhere"}, ".path"),
]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the folder is added, as in a run
    monkeypatch.delenv("NO_SUCH_PASSWORD", raising=False)
    for name, content in FILES.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    Path("a.db").touch()
    module = ModuleType("section_rows")
    module.rows = lambda: 1 // 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "section_rows", module)


def fails(data: DataConfig) -> DataError:
    def read() -> None:
        find_spans(data)
        read_source(data.source)

    with pytest.raises(DataError) as caught:
        read()
    return caught.value


@pytest.mark.parametrize(("settings", "setting"), SETTINGS)
def test_a_mistake_names_the_section_of_the_source(settings: dict[str, Any], setting: str) -> None:
    data = DataConfig.model_validate({"source": settings})
    predict = PredictConfig.model_validate({"source": settings, "output": "out.csv"})
    of_training, of_new_data = str(fails(data)), str(fails(predict.data(data)))
    assert f"data.source{setting}" in of_training
    assert of_new_data == of_training.replace("data.source", "predict.source")
    in_component = data_from_json(predict.data(data).model_dump_json(by_alias=True), PREDICT_SOURCE)
    assert str(fails(in_component)) == of_new_data
    logged = SkewGate.model_validate({"source": settings}).data(data)
    assert str(fails(logged)) == of_training.replace("data.source", "gates.skew.source")


def test_the_component_that_lists_new_data_names_its_section(tmp_path: Path) -> None:
    settings = {"kind": "sql", "url": "sqlite:///a.db", "table": "t", "password_env": "NO_SUCH_PASSWORD"}
    settings |= {"fingerprint_query": "select 1"}
    given = PredictConfig.model_validate({"source": settings, "output": "out.csv"})
    spans = LightArtifact(StoredArtifact(mlmd.Artifact(uri=str(tmp_path / "spans")), mlmd.ArtifactType()))
    with pytest.raises(DataError, match=r"`predict\.source\.password_env` names"):
        list_new_data(spans, given.data(DataConfig.model_validate({"source": settings})).model_dump_json(by_alias=True))


def test_a_source_is_the_same_in_json_wherever_it_was() -> None:
    source = DataConfig.model_validate({"source": {"kind": "csv", "path": "a.csv"}}).source
    moved = source.in_section("predict.source")
    assert (source.section, moved.section) == ("data.source", "predict.source")
    assert moved.model_dump_json() == source.model_dump_json()

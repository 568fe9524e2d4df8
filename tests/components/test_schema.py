"""Curated schemas: what is read, and where a mistake is said to be."""

from pathlib import Path

import pytest

from headrace.common.errors import DataError
from headrace.components.schema import check_float64, column_types, read_schema


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "schema.pbtxt"
    path.write_text(text)
    return path


def test_types_of_the_columns_that_have_one(tmp_path: Path) -> None:
    text = """
        feature { name: "fare" type: FLOAT }
        feature { name: "hour" type: INT }
        feature { name: "company" type: BYTES }
        feature { name: "open" }
    """
    schema = read_schema(_write(tmp_path, text))
    assert column_types(schema) == {"fare": "float", "hour": "int", "company": "string"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('feature { name: "a" type: INT }\nfeature { name: "b" tpe: INT }', 2, 'no field named "tpe"'),
        ('feature { name: "a"\n  type: FLOT }', 2, "no value named FLOT"),
        ('feature {\n  name: "a"', 2, 'Expected "}"'),
        ('feature { name: "a" } feature { name: "a" }', None, "column 'a': "),
        ("feature { type: INT }", None, "no name"),
        ('feature { name: "p" domain: "pay" }', None, "no string_domain 'pay'"),
        ("", None, "not name any column"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(DataError) as error:
        read_schema(path)
    assert error.value.line == line
    assert str(error.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert words in str(error.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.pbtxt: .*: No such file"):
        read_schema(tmp_path / "none.pbtxt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="UTF-8"):
        read_schema(tmp_path / "binary")


def test_a_curated_schema_needs_the_bits_of_float64_too(tmp_path: Path) -> None:
    path = _write(tmp_path, 'feature { name: "at" type: FLOAT } feature { name: "y" type: INT }')
    schema = read_schema(path)
    check_float64(schema, str(path), ["not in the schema"])
    with pytest.raises(DataError, match=r'feature \{ name: "at:float64" type: INT \}') as error:
        check_float64(schema, str(path), ["at"])
    assert error.value.column == "at"
    path = _write(tmp_path, path.read_text() + 'feature { name: "at:float64" type: INT }')
    check_float64(read_schema(path), str(path), ["at"])

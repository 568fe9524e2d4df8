"""`unit: string` of the text source: the strings in Python files."""

import ast
import pydoc_data.topics
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from test_example_gen_text import read, source_of

from headrace.common.errors import DataError

SOURCE = '''# not a string
"""Documentation of the module.

    Two paragraphs; “quoted”."""

def f(name="short", *, label='with \\
a joined line'):
    r"""Raw \\d+ of f."""
    reported = f"{name} is {'inside'} here"
    return (
        "adjacent strings "
        'are one' , b"bytes are none", reported
    )
'''


def test_chapters_of_the_documentation_are_read_as_they_are() -> None:
    _, rows = read(source_of(pydoc_data.topics.__file__, unit="string", min_length=100))
    wanted = [text.strip() for text in topics.values() if len(text.strip()) >= 100]
    assert len(wanted) > 70
    assert [row["text"] for row in rows] == wanted


def test_strings_come_in_order_with_the_byte_where_each_starts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE, encoding="utf-8")
    _, rows = read(source_of(tmp_path / "*.py", unit="string", text_key="place"))
    assert [row["text"] for row in rows] == [
        "Documentation of the module.\n\n    Two paragraphs; “quoted”.",
        "short",
        "with a joined line",
        "Raw \\d+ of f.",
        "adjacent strings are one",
    ]
    data = SOURCE.encode()
    for row in rows:
        name, _, offset = row["place"].partition(":")
        assert name == "a.py"
        start = data[int(offset) :].decode()
        ends = [end for end in range(2, len(start) + 1) if start[end - 1] in "'\""]
        assert any(literal(start[:end]) == row["text"] for end in ends), row["place"]


def literal(text: str) -> str | None:
    try:
        return str(ast.literal_eval(f"({text})")).strip()
    except (SyntaxError, ValueError):
        return None


def test_windows_lie_in_one_string(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"""a b c d"""\nx = "e f g"\n')
    _, rows = read(source_of(tmp_path / "a.py", unit="string", window=2))
    assert [(row["words"], row["next_word"]) for row in rows] == [
        (["a", "b"], "c"),
        (["b", "c"], "d"),
        (["e", "f"], "g"),
    ]


def test_file_that_is_not_python_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nthis is no Python\n")
    with pytest.raises(DataError, match=r"a\.py:2: is not valid\b"):
        read(source_of(tmp_path / "a.py", unit="string"))

"""Lists of the API: page by page, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from headrace.pipeline.kubeflow.server.connection import Connection

PAGE = 100
EQUALS = 1
"""The number of the operation in the API's filters."""


def every(server: Connection, what: str, ask: Callable[..., Any], key: str, *args: Any, **kwargs: Any) -> list[Any]:
    """All that a list method finds, over its pages. key: of the list in the answer."""
    return list(pages(server, what, ask, key, *args, **kwargs))


def pages(server: Connection, what: str, ask: Callable[..., Any], key: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """The same, each page when it is come to."""
    token = ""
    while True:
        answer = server.read(what, ask, *args, **kwargs, page_size=PAGE, page_token=token)
        yield from getattr(answer, key) or []
        token = answer.next_page_token or ""
        if not token:
            return


def named(name: str) -> str:
    """The filter for one name."""
    return equals("display_name", name)


def equals(key: str, value: str) -> str:
    """The filter for one value of a field."""
    return json.dumps({"predicates": [{"operation": EQUALS, "key": key, "stringValue": value}]})

"""A server of Kubeflow Pipelines that tests may let fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faulty_backend import Backend, serving


@pytest.fixture
def backend() -> Iterator[Backend]:
    """It has no runs, and nothing fails yet."""
    with serving() as alive:
        yield alive

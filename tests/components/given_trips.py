"""Trips for the tests, which a source of kind `python` yields, also in a process without other test modules."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = 3000


def columns() -> dict[str, list[Any]]:
    random = np.random.default_rng(3)
    return {
        "id": list(range(ROWS)),
        "fare": [None if number % 11 == 0 else float(value) for number, value in enumerate(random.gamma(2, 9, ROWS))],
        "company": [f"company {value}" for value in random.zipf(1.5, ROWS) % 97],
    }


def rows() -> list[dict[str, Any]]:
    table = columns()
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]

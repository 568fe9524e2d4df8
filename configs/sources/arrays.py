"""Arrays from Python."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from configs.features import DottedPath
from configs.section import Name, Section


class ArraysSource(Section):
    """NumPy arrays or pandas objects: what a function of yours gives, or arrays in a `.npz` file."""

    kind: Literal["arrays"]
    """`arrays`."""
    function: DottedPath | None = None
    """Dotted path to a function without parameters that returns {name: array of n rows}, a pandas DataFrame, or a
    pyarrow Table; it runs in each run. Arrays of two dimensions are multi-valued columns. Give this or `path`."""
    path: Name | None = None
    """A `.npz` file, as `numpy.savez` writes it, with one array for each column."""

    @model_validator(mode="after")
    def _one_thing_to_read(self) -> ArraysSource:
        if (self.function is None) == (self.path is None):
            raise ValueError("give either `function` or `path`")
        return self

"""Arrays from Python."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from headrace.configs.features import DottedPath
from headrace.configs.section import Name, Section


class ArraysSource(Section):
    """NumPy arrays or pandas objects: what a function of yours gives, or arrays in a `.npz` file. A missing value is
    pandas' NaN, NA or NaT, None, or masked; a NaN in a NumPy array is a NaN. An index of pandas' is not read. Types
    become kinds as those of Parquet do.
    """

    kind: Literal["arrays"]
    """`arrays`."""
    function: DottedPath | None = None
    """Dotted path to a function without parameters that returns {name: array of n rows}, a pandas DataFrame, or a
    pyarrow Table; it runs at the start of each run, and where its content was not seen before, again to read it; what
    it gives is held in memory. Arrays of two dimensions are multi-valued columns. Give this or `path`."""
    path: Name | None = None
    """A `.npz` file, as `numpy.savez` writes it, with one array for each column."""

    @model_validator(mode="after")
    def _one_thing_to_read(self) -> ArraysSource:
        if (self.function is None) == (self.path is None):
            raise ValueError("give either `function` or `path`")
        return self

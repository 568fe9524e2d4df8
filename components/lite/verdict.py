"""What Lite writes beside the `.tflite` file: one JSON object, for people and for the program on the device."""

from __future__ import annotations

from pydantic import BaseModel

from headrace.common.records import RecordFile

MODEL_FILE, REPORT_FILE = "model.tflite", "report.json"


class LiteInput(BaseModel, frozen=True):
    """An input of the file: a transformed feature. shape: without the batch; None for any number of values."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()


class LiteVerdict(RecordFile):
    """The comparison of a converted model with its SavedModel.

    reasons: why it must not be pushed, empty if it may; skipped: why it was not converted, although nothing is wrong
    with the conversion; precision: as in `deploy.lite`; contents: checksum of the file; size, saved_model_size: bytes
    of the file, and of graph and weights of the SavedModel; inputs: what the program on the device must compute;
    operations: kinds of LiteRT's operations in it; split, examples: what was predicted; representative: the examples
    that ranges were taken from; largest: the largest prediction of the SavedModel; difference, mean_difference: between
    the predictions of the two, relative to it; agreement: the fraction of examples with the same predicted class, None
    for a regression; max_difference, min_agreement: the limits.
    """

    file_name = REPORT_FILE

    reasons: tuple[str, ...] = ()
    skipped: str = ""
    precision: str
    contents: str = ""
    size: int | None = None
    saved_model_size: int | None = None
    inputs: tuple[LiteInput, ...] = ()
    outputs: int | None = None
    operations: tuple[str, ...] = ()
    split: str = ""
    examples: int = 0
    representative: int = 0
    largest: float | None = None
    difference: float | None = None
    mean_difference: float | None = None
    agreement: float | None = None
    max_difference: float | None = None
    min_agreement: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the model may be pushed."""
        return not self.reasons and not self.skipped

    @property
    def words(self) -> str:
        """The measurements, such as `int8, 29.3 kB, differs by at most 0.084, same class for 98.2%`."""
        found = [self.precision]
        found += [] if self.size is None else [f"{self.size / 1000:,.1f} kB"]
        found += [] if self.difference is None else [f"differs by at most {self.difference:.2g}"]
        found += [] if self.agreement is None else [f"same class for {100 * self.agreement:.4g}%"]
        return ", ".join(found)

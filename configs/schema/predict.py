"""`predict:` new data that each run predicts at its end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.data import DataConfig, placeholders
from headrace.configs.schema.section import Name, PositiveInt, Section
from headrace.configs.schema.sources import FileSource, SourceConfig

OUTPUT_ENDINGS = (".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".tfrecord", ".tfrecord.gz")
"""The formats of predictions, by the ending of the file."""
Probabilities = Literal["auto", "all", "best", "none"]
"""Which probabilities of classes are written."""
PREDICT_SOURCE = "predict.source"
ONLY_PREDICTS = "-predict"
"""The end of the name of runs that only predict."""


class PredictConfig(Section):
    """New data that each run predicts at its end, with the model in service: the one that the run has just pushed, or
    the previous one if it pushed none (see docs/predict.md).
    """

    source: SourceConfig
    """Where the new rows come from: any source, as in `data.source`. Columns have the types of the training data;
    `types`, `columns` and `fingerprint` are those of `data`."""
    output: Name
    """The file to write, such as `scored/{YYYY}-{MM}-{DD}.parquet`, which each run replaces in one step. Its ending
    names the format: `.parquet`, `.csv`, `.jsonl` or `.tfrecord`, or one of the last three with `.gz`. `{SPAN}`, or
    `{YYYY}`, `{MM}` and `{DD}`, stand for the newest span that is predicted, and must be in the paths of `source` too.
    On Kubeflow, a relative path is in the pipeline's folder below `kubeflow.pipeline_root`."""
    window: PositiveInt | Literal["all"] = 1
    """How many of the newest spans are predicted, in one file. Spans after the date of the run (`data.run_date`, or
    today) are not."""
    columns: tuple[Name, ...] | None = None
    """The columns of the input to write in front of the predictions, in this order; `[]` for none. null: all, or those
    that `data.columns` lists."""
    prefix: str = ""
    """Text in front of the names of the predictions' columns."""
    probabilities: Probabilities = "auto"
    """Of a label with classes, or words: all: a column for each, in their order; best: one column `probability`, the
    highest; none: neither. auto: all up to 10,000, and best of more; of a multilabel label, always all."""
    batch_size: PositiveInt | None = None
    """Examples in a call of the model. null: 2,048; up to 16,384 if examples are short and layers small, and fewer if
    examples are long or classes are many."""

    on_bad_record: Literal["stop", "skip"] | None = None
    """What to do with a record that cannot be read, as in `data.on_bad_record`. null: what it says."""
    max_bad_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Write nothing and stop the run if more than this fraction of records is skipped. null: that of `data`."""

    only: bool = False
    """true: the pipeline does nothing else: it predicts with the model in service, and trains none. For a profile with
    a schedule of its own (see docs/predict.md). On Kubeflow it is called `<pipeline.name>-predict`."""

    @property
    def placeholders(self) -> frozenset[str]:
        """The placeholders in the paths of the new data."""
        return placeholders(self.source.patterns) if isinstance(self.source, FileSource) else frozenset()

    @property
    def format(self) -> str:
        """The ending of the output that names its format; "" if none does."""
        return max((ending for ending in OUTPUT_ENDINGS if self.output.endswith(ending)), key=len, default="")

    def data(self, training: DataConfig) -> DataConfig:
        """How the new data is read. training: how the training data is."""
        own = {
            "source": self.source.in_section(PREDICT_SOURCE),
            "window": self.window,
            "spans": None,
            "run_date": None,
            "delay": 0,
        }
        bad = {"on_bad_record": self.on_bad_record, "max_bad_fraction": self.max_bad_fraction}
        given = {name: value for name, value in bad.items() if value is not None}
        return training.model_copy(update={**own, **given})

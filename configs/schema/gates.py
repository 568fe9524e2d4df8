"""`gates:` what arriving data must be like for a run to train on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.schema.data import DataConfig, placeholders
from headrace.configs.schema.features.calendar import has_date
from headrace.configs.schema.schedule import Limit
from headrace.configs.schema.section import Name, PositiveInt, Section, defaults_of
from headrace.configs.schema.sources import FileSource, SourceConfig

Share = Annotated[float, Field(gt=0, le=1)]


class Gate(Section):
    """What all gates have in common."""

    on_anomaly: Literal["stop", "warn"] = "stop"
    """What to do if the gate is not passed. stop: stop the run before it trains. warn: train anyway, with a warning in
    the terminal, the log and the report."""


class RowsGate(Gate):
    """How many rows have to arrive. All splits count together, without records that were skipped and rows that were
    dropped. If splits have files of their own, spans without files of `train` do not count.
    """

    min: PositiveInt | None = None
    """Minimum number of rows in the newest span; of data without spans, in all of it."""
    max: PositiveInt | None = None
    """Maximum number of rows there."""
    max_decrease: Share | None = None
    """How much smaller the newest span may be than the median of the spans before it, as a share of that median: 0.5
    allows half as many rows. Data without spans is compared with the data of the model that is blessed now."""
    max_increase: Annotated[float, Field(gt=0)] | None = None
    """How much larger it may be, as a share of the median: 1.0 allows twice as many rows."""
    spans: PositiveInt = 7
    """How many of the spans before the newest make up the median, as far as `data.window` reads them."""
    max_missing_spans: Annotated[int, Field(ge=0)] | None = None
    """How many spans may be missing between the first and the last of the window: 0 asks for every day."""

    @property
    def compares(self) -> bool:
        """Whether the rows are compared with those of earlier data."""
        return self.max_decrease is not None or self.max_increase is not None

    @model_validator(mode="after")
    def _bounds_make_sense(self) -> RowsGate:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min: {self.min} is greater than max: {self.max}")
        if not self.compares and self.min is None and self.max is None and self.max_missing_spans is None:
            raise ValueError("set at least one of `min`, `max`, `max_decrease`, `max_increase` and `max_missing_spans`")
        return self


class FreshnessGate(Gate):
    """How old the newest data may be. The age is counted in days up to the date of the run: `data.run_date`; without
    it, the date on which the run starts (UTC). A run for the spans that `data.spans` selects, as in a backfill, is
    judged as of the last of them, plus `data.delay`.
    """

    max_days: Annotated[int, Field(ge=0)]
    """How many days before the date of the run the newest data may be from. For a nightly run on the data of the day
    before, this is 1."""
    column: Name | None = None
    """A data column of dates or times whose newest value in the newest span counts. null: the date of the newest span,
    which requires dates in the path. A value more than a day after the date of the run does not pass either."""
    format: Name | None = None
    """How the column writes them: as in Python's strptime, such as `%d/%m/%Y`; or `epoch_days`, `epoch_s`, `epoch_ms`
    or `epoch_us` for numbers. null: ISO 8601, which is how dates in Parquet and databases are read."""

    @model_validator(mode="after")
    def _known_format(self) -> FreshnessGate:
        if self.format is not None and self.column is None:
            raise ValueError("`format` is that of `column`; name the column, or remove it")
        if not has_date(self.format):
            raise ValueError(f"{self.format} is a time of day, which has no age; use the format of a column of dates")
        return self


class ColumnDistances(Section):
    """Limits of one column. Those that are not set are as for other columns."""

    l_infinity: Limit | None = None
    """Maximum L-infinity distance, for text columns."""
    jensen_shannon: Limit | None = None
    """Maximum Jensen-Shannon divergence, for numeric and text columns."""
    missing: Limit | None = None
    """Maximum change of the share of examples without a value."""


class DistanceGate(Gate):
    """How far the newest span may be from other data, comparing train splits (with `data.split_spans`, the newest span
    by the split that holds it). The label and the columns that features read are compared, by the measures of TFDV.
    Drift comparators in the schema of `data.schema` take precedence over `categorical` and `numeric`, and `columns`
    over both.
    """

    categorical: Limit | None = 0.1
    """Maximum L-infinity distance of text columns: by how much the frequency of any value may differ. null: no
    limit."""
    numeric: Limit | None = 0.1
    """Maximum Jensen-Shannon divergence of numeric columns, between 0 (equal) and 1. null: no limit."""
    missing: Limit | None = 0.1
    """By how much the share of examples without a value may differ, in any column. null: no limit."""
    columns: dict[str, ColumnDistances] = {}
    """Limits of individual columns."""


class DriftGates(Section):
    """Gates for drift."""

    blessed: DistanceGate | None = None
    """Limits for the newest span (for data without spans: all of it) against the data that the model was trained on
    that is blessed now. Nothing is compared while no model is blessed, or if it was blessed before this gate was set.
    null: not compared."""
    earlier_spans: DistanceGate | None = None
    """Limits for the newest span against all other spans of the window together. null: not compared."""


SKEW_SOURCE = "gates.skew.source"


class SkewGate(DistanceGate):
    """How far the requests that a model server logged may be from the data that is trained on (all of its train split).
    The columns that features read are compared, by the measures of TFDV; the label too if the log has it, but its
    values may be missing. A column of texts on one side and of numbers on the other does not pass. Skew comparators in
    the schema of `data.schema` take precedence over `categorical` and `numeric`, and `columns` over both.
    """

    source: SourceConfig
    """Where the logged requests are: any source, as in `data.source`. `types` and `fingerprint` are those of `data`.
    Files without a byte are left out."""
    window: PositiveInt | Literal["all"] = 1
    """How many of the newest spans of the log are read, if its paths have `{SPAN}`, or `{YYYY}`, `{MM}` and `{DD}`.
    Spans after the date of the run are not."""
    delay: Annotated[int, Field(ge=0)] = 0
    """Days between the newest span that may be read and the date of the run: 1 if a day's files are written to until
    the day ends. A file that changes while it is read stops the run."""
    min_examples: PositiveInt = 1
    """How many requests the comparison needs. Fewer are not judged, which the terminal and the report say."""
    required: bool = False
    """true: the gate is not passed if fewer requests than `min_examples` were logged, or none."""
    on_bad_record: Literal["stop", "skip"] | None = None
    """What to do with a request that cannot be read, as in `data.on_bad_record`. null: what it says."""
    max_bad_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Stop the run if more than this fraction of requests is skipped. null: that of `data`."""

    @property
    def placeholders(self) -> frozenset[str]:
        """The placeholders in the paths of the log."""
        return placeholders(self.source.patterns) if isinstance(self.source, FileSource) else frozenset()

    def data(self, training: DataConfig) -> DataConfig:
        """How the log is read. training: how the training data is."""
        bad = {"on_bad_record": self.on_bad_record, "max_bad_fraction": self.max_bad_fraction}
        given = {name: value for name, value in bad.items() if value is not None}
        source = self.source.in_section(SKEW_SOURCE)
        own = {"source": source, "window": self.window, "spans": None, "run_date": None, "delay": self.delay}
        return training.model_copy(update={**own, **given})


class GatesConfig(Section):
    """What arriving data must be like, in addition to what `data.on_anomaly` is about. Each gate stops the run or
    warns.
    """

    rows: RowsGate | None = None
    """How many rows have to arrive. null: any number."""
    freshness: FreshnessGate | None = None
    """How old the newest data may be. null: any age."""
    drift: DriftGates = defaults_of(DriftGates)
    """How far the data may drift."""
    skew: SkewGate | None = None
    """How far logged requests may be from the data that is trained on. null: not compared."""

    @property
    def any_set(self) -> bool:
        """Whether there is a gate."""
        return any((self.rows, self.freshness, self.drift.blessed, self.drift.earlier_spans, self.skew))

    def compare_with_blessed(self, *, spans: bool) -> bool:
        """Whether data is compared with that of the blessed model. spans: whether the data comes in spans."""
        return self.drift.blessed is not None or (self.rows is not None and self.rows.compares and not spans)

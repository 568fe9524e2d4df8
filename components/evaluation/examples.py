"""What the report shows of single examples: the worst-predicted ones, and numbers predicted against actual ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from headrace.common.names import join_names
from headrace.components.evaluation.metrics.accumulator import Array
from headrace.components.evaluation.ranked_examples import EXAMPLES, RankedExamples
from headrace.components.evaluation.result import BAND, Agreement, ErrorBand, WorstExample, WorstExamples
from headrace.configs.schema.data import bits_column

MOST_COLUMNS = 50
"""Columns of the worst examples."""
MOST_VALUES = 5
"""Values of a multivalued column that are shown."""
MOST_CHARACTERS = 200
PAIRS = 10_000
"""Examples that predicted and actual numbers are compared on."""
CELLS, BANDS = 24, 10
_OUTSIDE = 0.005
"""Share of the examples at either end that may lie beyond the edges."""


def worst_examples(ranked: RankedExamples, columns: Sequence[str], name: Callable[[Any], str] | None) -> WorstExamples:
    """The kept examples as rows. name: what a label or prediction is called; None for numbers that are themselves."""
    each = zip(*(ranked.columns[key] for key in ("label", "prediction", "loss", EXAMPLES)), strict=True)
    shown = columns[:MOST_COLUMNS]
    rows = []
    for label, prediction, loss, serialized in each:
        features = tf.train.Example.FromString(serialized).features.feature
        error = float(prediction - label) if name is None else None
        rows.append(
            WorstExample(
                label=(name or number_as_text)(label),
                prediction=(name or number_as_text)(prediction),
                loss=float(loss) if np.isfinite(loss) else None,
                error=error if error is not None and np.isfinite(error) else None,
                values=tuple(_shown(features, column) for column in shown),
            )
        )
    return WorstExamples(tuple(shown), tuple(rows), len(columns) - len(shown))


def column_names(serialized: Iterable[bytes]) -> list[str]:
    """The columns of some examples, sorted."""
    return sorted({name for one in serialized for name in tf.train.Example.FromString(one).features.feature})


def _shown(features: Mapping[str, tf.train.Feature], column: str) -> str | None:
    """The values of a column: as float64 if the example has their bits."""
    if (bits := bits_column(column)) in features and features[bits].int64_list.value:
        value = np.array(features[bits].int64_list.value[:1]).view(np.float64)[0]
        return np.format_float_positional(value, trim="-")
    return _as_text(features[column]) if column in features else None


def _as_text(feature: tf.train.Feature) -> str | None:
    """The values of a feature, shortened; None if it has none."""
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value if kind else ()
    if not values:
        return None
    text = join_names(map(_value_as_text, values[: MOST_VALUES + 1]), MOST_VALUES)
    if len(values) > MOST_VALUES + 1:
        text = f"{join_names(map(_value_as_text, values[:MOST_VALUES]))} and {len(values) - MOST_VALUES:,} more"
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _value_as_text(value: bytes | float) -> str:
    if not isinstance(value, bytes):
        return str(value) if isinstance(value, int) else number_as_text(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"{len(value):,} bytes"


def number_as_text(value: float) -> str:
    """With as many digits as a float32 has, without an exponent."""
    return np.format_float_positional(np.float32(value), trim="-")


def agreement(ranked: RankedExamples) -> Agreement | None:
    """Predicted against actual numbers; None if there is no pair of them."""
    labels, predictions, weights = (ranked.columns[name] for name in ("label", "prediction", "weight"))
    finite = np.isfinite(labels) & np.isfinite(predictions)
    labels, predictions, weights = labels[finite], predictions[finite], weights[finite]
    if not len(labels):
        return None
    ends = np.quantile(np.stack([labels, predictions]), [_OUTSIDE, 1 - _OUTSIDE], axis=1)
    low, high = float(ends[0].min()), float(ends[1].max())
    edges = np.linspace(low, high if high > low else low + 1, CELLS + 1)
    cells, _, _ = np.histogram2d(predictions, labels, bins=[edges, edges], weights=weights)
    filled = zip(*np.nonzero(cells), strict=True)
    return Agreement(
        examples=len(labels),
        edges=tuple(map(float, edges)),
        cells=tuple((int(x), int(y), float(cells[x, y])) for x, y in filled),
        outside=max(0.0, float(1 - cells.sum() / weights.sum())),
        bands=tuple(_bands(labels, predictions, weights)),
    )


def _bands(labels: Array, predictions: Array, weights: Array) -> Iterable[ErrorBand]:
    order = np.argsort(predictions, kind="stable")
    for part in np.array_split(order, min(BANDS, len(order))):
        rising = part[np.argsort(predictions[part] - labels[part], kind="stable")]
        reached = np.cumsum(weights[rising])
        at = rising[np.searchsorted(reached, np.array(BAND) * reached[-1]).clip(max=len(rising) - 1)]
        mean = float(np.average(predictions[part], weights=weights[part]))
        yield ErrorBand(mean, tuple(map(float, predictions[at] - labels[at])))

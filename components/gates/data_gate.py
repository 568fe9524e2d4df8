"""DataGate: stops the run, or warns, if a rule finds that the data is unfit for training."""

import itertools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import Artifact, artifact_utils, standard_artifacts

from headrace.common.errors import GateError
from headrace.components.gates import data_rules
from headrace.components.gates.data_rules import DataAnomaly, SplitStatistics
from headrace.components.gates.float32_rules import digits_lost
from headrace.components.gates.verdict import DataVerdicts, explain_stop
from headrace.configs.loading.tree import dotted
from headrace.configs.schema.label import LabelConfig

logger = logging.getLogger(__name__)

TRAIN = "train"


@component
def DataGate(  # noqa: N802, PLR0913, PLR0917
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    anomalies: InputArtifact[standard_artifacts.ExampleAnomalies],
    verdict: OutputArtifact[standard_artifacts.String],
    label: Parameter[str],
    columns: Parameter[str],
    single: Parameter[str],
    rounded: Parameter[str],
    on_anomaly: Parameter[str],
    computed_label: Parameter[int] = 0,
    judged: InputArtifact[standard_artifacts.String] = None,
) -> None:
    """Stop the run, or warn, if the data is unfit. Raises GateError.

    Args:
        statistics: from StatisticsGen.
        anomalies: from ExampleValidator.
        verdict: JSON {"anomalies": [{"split", "column", "rule", "what", "stops"}, ...], "action": on_anomaly,
            "stopped": whether the run stops}, written before it does. An anomaly that `stops` makes the data unfit;
            another is only noted.
        label: LabelConfig as JSON.
        columns: JSON list of the data columns that features read.
        single: JSON object: the feature's name for each column that a feature reads as a single number.
        rounded: JSON object: the feature's name and `normalize` for each column that is rounded to float32 unscaled.
        on_anomaly: `stop` or `warn`.
        computed_label: 1 if a function of the user's computes the label, so that the column need not hold classes.
        judged: the output of DataVerdict; None without `gates:`.
    """
    splits = [
        SplitStatistics.of(
            name, DatasetFeatureStatisticsList.FromString(_read(statistics, name, "FeatureStats.pb")).datasets
        )
        for name in artifact_utils.decode_split_names(statistics.split_names)
    ]
    against_schema = {
        name: Anomalies.FromString(_read(anomalies, name, "SchemaDiff.pb"))
        for name in artifact_utils.decode_split_names(anomalies.split_names)
    }
    label_config = LabelConfig.model_validate_json(label)
    found = find_anomalies(
        splits,
        against_schema,
        label_config,
        json.loads(columns),
        json.loads(single),
        computed_label=bool(computed_label),
    )
    found += digits_lost(splits, label_config, json.loads(rounded))
    if found:
        logger.info(describe(found))
    stopping = DataVerdicts.model_validate_json(judged.value).stopping if judged is not None else []
    reasons = [explain_stop(stopping)] if stopping else []
    if on_anomaly == "stop" and any(anomaly.stops for anomaly in found):
        reasons.append(describe(found))
    verdict.value = json.dumps({"anomalies": [*map(asdict, found)], "action": on_anomaly, "stopped": bool(reasons)})
    if reasons:
        raise GateError("\n".join(reasons))


def find_anomalies(
    splits: Sequence[SplitStatistics],
    anomalies: Mapping[str, Anomalies],
    label: LabelConfig,
    columns: Sequence[str],
    single: Mapping[str, str] = MappingProxyType({}),
    *,
    computed_label: bool = False,
) -> list[DataAnomaly]:
    """Everything that is wrong with the data, split by split. The split named `train` is the one that is trained on.

    Args:
        splits: the statistics of each split.
        anomalies: differences from the schema, by the split's name.
        label: the label's config.
        columns: the data columns that features read.
        single: the feature's name for each column that a feature reads as a single number.
        computed_label: whether the label is computed from its column and perhaps others. Then the column needs values,
            and which ones is up to the function.
    """
    columns = [*label.columns, *columns] if computed_label else columns
    numbers = [part.key for part in label.parts.values() if part.kind == "regression"]
    found: list[DataAnomaly] = []
    train = next(split for split in splits if split.name == TRAIN)
    for split in splits:
        found += data_rules.empty_split(split)
        if split.name in anomalies and split.examples:
            found += data_rules.schema_anomalies(split.name, anomalies[split.name])
        for rule in () if computed_label else data_rules.LABEL_RULES:
            found += itertools.chain.from_iterable(rule(split, part) for part in label.parts.values())
        for column in dict.fromkeys(columns):
            found += data_rules.missing_feature(split, train, column)
        for column in dict.fromkeys([*numbers, *columns]):
            found += data_rules.infinite_values(split, column)
        for name, part in label.parts.items():
            found += _multiple_labels(split, part, dotted(part.setting(name)))
        if label.weight is not None:
            found += _weight_anomalies(split, label.weight)
        for column, feature in single.items():
            found += data_rules.multiple_values(split, column, f"features.{feature}")
    for part in () if computed_label else label.parts.values():
        found += data_rules.constant_label(train, part)
    return found


def _multiple_labels(split: SplitStatistics, label: LabelConfig, setting: str) -> Iterator[DataAnomaly]:
    return data_rules.multiple_values(split, label.key, setting) if label.kind != "multilabel" else iter(())


def _weight_anomalies(split: SplitStatistics, column: str) -> Iterator[DataAnomaly]:
    yield from data_rules.invalid_weights(split, column)
    yield from data_rules.infinite_values(split, column)
    yield from data_rules.multiple_values(split, column, "label.weight")


def describe(found: Sequence[DataAnomaly]) -> str:
    """One line for each anomaly. Those that make the data unfit come last, followed by the ways out."""
    notes, anomalies = [one for one in found if not one.stops], [one for one in found if one.stops]
    lines = [f"note: {_line(note)}" for note in notes]
    if anomalies:
        count = f"{len(anomalies)} {'anomaly' if len(anomalies) == 1 else 'anomalies'}"
        lines += [
            f"the data is unfit for training ({count}):",
            *(f"  {_line(anomaly)}" for anomaly in anomalies),
            "Correct the data, or, if the data is right, correct the schema (`data.schema`), `label:` or `features:`,",
            "or set `data.on_anomaly: warn` to train anyway.",
        ]
    return "\n".join(lines)


def _line(anomaly: DataAnomaly) -> str:
    where = f"column {anomaly.column!r}, split {anomaly.split}" if anomaly.column else f"split {anomaly.split}"
    return f"{where}: {anomaly.rule}: {anomaly.what}"


def _read(artifact: Artifact, split: str, name: str) -> bytes:
    return (Path(artifact_utils.get_split_uri([artifact], split)) / name).read_bytes()

"""The gate between the data and training: what the rules find stops the run, or is only said."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import Artifact, artifact_utils, standard_artifacts

from headrace.components import data_rules
from headrace.components.data_rules import Finding, Split
from headrace.components.float32_rules import digits_lost
from headrace.configs.errors import GateError
from headrace.configs.label import LabelConfig

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
) -> None:
    """Stop the run, or warn, when the data is unfit.

    label: LabelConfig as JSON; columns: JSON list of the data columns that features read; single: JSON object of those
    that a feature takes one number of, with its name; rounded: JSON object of those that a feature rounds to float32
    unscaled, with its name and its `normalize`; on_anomaly: `stop` or `warn`.
    verdict: JSON {"anomalies": [{"split", "column", "rule", "what", "stops"}, ...], "action": on_anomaly, "stopped":
    false}. `stops`: whether it makes the data unfit.
    """
    splits = [
        Split.of(name, DatasetFeatureStatisticsList.FromString(_file(statistics, name, "FeatureStats.pb")).datasets)
        for name in artifact_utils.decode_split_names(statistics.split_names)
    ]
    against_schema = {
        name: Anomalies.FromString(_file(anomalies, name, "SchemaDiff.pb"))
        for name in artifact_utils.decode_split_names(anomalies.split_names)
    }
    of_label = LabelConfig.model_validate_json(label)
    findings = judge(splits, against_schema, of_label, json.loads(columns), json.loads(single))
    findings += digits_lost(splits, of_label, json.loads(rounded))
    if findings:
        print(describe(findings))
    if on_anomaly == "stop" and any(finding.stops for finding in findings):
        raise GateError(describe(findings))
    verdict.value = json.dumps({"anomalies": [*map(asdict, findings)], "action": on_anomaly, "stopped": False})


def judge(
    splits: Sequence[Split],
    anomalies: Mapping[str, Anomalies],
    label: LabelConfig,
    columns: Sequence[str],
    single: Mapping[str, str] = MappingProxyType({}),
) -> list[Finding]:
    """All that is wrong with the data, split by split; the split named `train` is the one that is trained on. single:
    the feature's name for each column that a feature takes one number of.
    """
    findings: list[Finding] = []
    train = next(split for split in splits if split.name == TRAIN)
    for split in splits:
        findings += data_rules.empty_split(split)
        if split.name in anomalies and split.examples:
            findings += data_rules.schema_anomalies(split.name, anomalies[split.name])
        for rule in data_rules.LABEL_RULES:
            findings += rule(split, label)
        for column in dict.fromkeys(columns):
            findings += data_rules.missing_feature(split, train, column)
        for column in dict.fromkeys([label.key, *columns] if label.kind == "regression" else columns):
            findings += data_rules.infinite_values(split, column)
        findings += data_rules.several_values(split, label.key, "label")
        for column, feature in single.items():
            findings += data_rules.several_values(split, column, f"features.{feature}")
    findings += data_rules.constant_label(train, label)
    return findings


def describe(findings: Sequence[Finding]) -> str:
    """One line for each finding, and the ways out of those that make the data unfit, which come last."""
    notes, anomalies = [one for one in findings if not one.stops], [one for one in findings if one.stops]
    lines = [f"note: {_line(note)}" for note in notes]
    if anomalies:
        count = f"{len(anomalies)} {'anomaly' if len(anomalies) == 1 else 'anomalies'}"
        lines += [
            f"the data is unfit for training ({count}):",
            *(f"  {_line(anomaly)}" for anomaly in anomalies),
            "Mend the data, or correct the schema (`data.schema`), `label:` or `features:` if the data is right,",
            "or set `data.on_anomaly: warn` to train anyway.",
        ]
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    place = f"column {finding.column!r}, split {finding.split}" if finding.column else f"split {finding.split}"
    return f"{place}: {finding.rule}: {finding.what}"


def _file(artifact: Artifact, split: str, name: str) -> bytes:
    return (Path(artifact_utils.get_split_uri([artifact], split)) / name).read_bytes()

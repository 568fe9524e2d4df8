"""What of a config with mistakes can be held against rows, so that nothing is reported which only follows from another
mistake.

judged = judged_config(config, uncertain)           # for check_rows; None if rows show nothing certain
check = certain_part(check, uncertain)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.valid_part import (
    DECIDES_SPLITS,
    Paths,
    is_uncertain,
    touches,
    types_are_certain,
    without_features,
)
from headrace.configs.rules.rule import Violation

if TYPE_CHECKING:
    from headrace.pipeline.preview.rows import RowsCheck


def judged_config(config: PipelineConfig, uncertain: Paths) -> PipelineConfig | None:
    """The config without the features that are uncertain, or whose columns have an uncertain type; None if that goes
    for the types of all columns.
    """
    if not uncertain:
        return config
    if not types_are_certain(uncertain):
        return None
    untyped = _untyped(uncertain)
    features = config.declared_features
    names = [
        name
        for name, feature in features.items()
        if touches(uncertain, ("features", name)) or not untyped.isdisjoint(feature.data_columns(name, features))
    ]
    lenient = {"on_anomaly": "warn", "on_bad_record": "skip"}
    update: dict[str, Any] = {name: to for name, to in lenient.items() if touches(uncertain, ("data", name))}
    update["types"] = {name: kind for name, kind in config.data.types.items() if name not in untyped}
    return without_features(config.model_copy(update={"data": config.data.model_copy(update=update)}), names)


def certain_part(config: PipelineConfig, check: RowsCheck, uncertain: Paths) -> RowsCheck:
    """The check without what may follow from a mistake in the label, or in how rows are split."""
    label = touches(uncertain, ("label",)) or not _untyped(uncertain).isdisjoint(config.label.columns)
    splits = label or any(touches(uncertain, ("data", name)) for name in DECIDES_SPLITS)

    def is_certain(violation: Violation) -> bool:
        path = violation[0]
        about_splits = path[0] == "data" and path[1:2] != ("source",)
        return (
            not (label and path[0] == "label") and not (splits and about_splits) and not is_uncertain(uncertain, path)
        )

    return replace(
        check,
        rejected=[each for each in check.rejected if is_certain(each)],
        notes=[each for each in check.notes if is_certain(each)],
    )


def _untyped(uncertain: Paths) -> set[object]:
    """The columns whose declared type is refused."""
    return {path[2] for path in uncertain if path[:2] == ("data", "types") and len(path) > 2}

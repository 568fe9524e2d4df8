"""What the shared page shows of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from headrace.common import yaml_text
from headrace.common.credentials import redact
from headrace.pipeline.report.evaluation import EvaluationSection, evaluation_section
from headrace.pipeline.report.slices import group_slices
from headrace.pipeline.report.training import TrainingHistory, read_searches, read_training
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.verdict import ModelVerdict, read_verdict
from headrace.pipeline.share.events import TrainingClock, TrainingLogs, read_logs
from headrace.pipeline.share.find import logs_of
from headrace.pipeline.share.settings import flattened, stripped
from headrace.trainer.trials import Search

COLORS, STROKES = 10, 3
"""Colors of runs (share.css), and dash patterns of their lines: together they distinguish 40 runs."""


def look(number: int) -> str:
    """The CSS classes of a run's marks: one of ten colors, and a dash pattern from the eleventh run on."""
    rounds, color = divmod(number, COLORS)
    return f"run{color} more{(rounds - 1) % STROKES + 1}" if rounds else f"run{color}"


@dataclass(frozen=True)
class PublicFolder(RunFolder):
    """A run's folder whose config shows nothing that looks like a password or a key."""

    @cached_property
    def config_text(self) -> str:
        """The config as YAML: the file's own text if there is nothing to hide."""
        text = RunFolder(self.path, self.record).config_text
        try:
            tree = yaml_text.parse(text)
        except yaml.YAMLError:
            return redact(text)
        clean = stripped(tree)
        if clean == tree:
            return text
        return yaml.safe_dump(clean, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)


@dataclass(frozen=True)
class SharedRun:
    """One run on the page. `label` is its id, preceded by the pipeline's name if there are several pipelines."""

    folder: PublicFolder
    label: str
    number: int

    @property
    def anchor(self) -> str:
        """The id of its part of the page, and the name of its folder of logs."""
        return f"run-{self.number + 1}"

    @property
    def look(self) -> str:
        """The CSS classes of its marks."""
        return look(self.number)

    @cached_property
    def logs_at(self) -> Path:
        """The folder of the Trainer's logs."""
        logs = logs_of(self.folder)
        assert logs is not None, self.folder.path  # noqa: S101 - `find` returns no other runs
        return logs

    @cached_property
    def logs(self) -> TrainingLogs:
        return read_logs(self.logs_at)

    @cached_property
    def training(self) -> TrainingHistory | None:
        return read_training(self.logs_at)

    @cached_property
    def clock(self) -> TrainingClock:
        return TrainingClock.of(self.logs, self.training)

    @cached_property
    def verdict(self) -> ModelVerdict:
        return read_verdict(self.folder)

    @cached_property
    def evaluation(self) -> EvaluationSection | None:
        result = self.folder.evaluation
        return evaluation_section(result, self.verdict, self.folder.config) if result else None

    @cached_property
    def settings(self) -> dict[str, str]:
        """All settings by dotted name, with the defaults if this version can read the config."""
        config = self.folder.config
        if config is not None:
            return flattened(config.model_dump(mode="json"))
        try:
            tree = yaml_text.parse(self.folder.config_text)
        except yaml.YAMLError:
            return {}
        return flattened(tree) if isinstance(tree, dict) else {}

    @cached_property
    def search(self) -> Search | None:
        return read_searches(self.folder)

    @property
    def tuned(self) -> dict[str, str]:
        """The settings that a search chose; training used them instead of the config's."""
        best = self.search.best if self.search else None
        return best.words if best else {}

    @property
    def used(self) -> dict[str, str]:
        """All settings as training used them."""
        return self.settings | {name: f"{words} (tuned)" for name, words in self.tuned.items()}

    def plain(self) -> dict[str, Any]:
        """The run's numbers and settings as plain JSON values, for the page's script and for programs."""
        record = self.folder.record
        return {
            "label": self.label,
            "look": self.look,
            "pipeline": record.pipeline,
            "run": record.run_id,
            "started": record.started,
            "status": str(record.status),
            "settings": self.settings,
            "tuned": self.tuned,
            "timed": self.clock.ends is not None,
            "scalars": [
                {
                    "split": one.split,
                    "tag": one.tag,
                    "steps": [step for step, _, _ in one.points],
                    "times": [time for _, time, _ in one.points],
                    "elapsed": self.clock.elapsed(one),
                    "values": [value for _, _, value in one.points],
                }
                for one in self.logs.scalars
            ],
            "histograms": [
                {
                    "split": one.split,
                    "tag": one.tag,
                    "steps": [{"step": step, **_buckets(buckets)} for step, buckets in one.steps],
                }
                for one in self.logs.histograms
            ],
            "evaluation": self._plain_evaluation(),
        }

    def _plain_evaluation(self) -> dict[str, Any] | None:
        section = self.evaluation
        if section is None:
            return None
        result = section.result
        all_slices = [
            {
                "by": by,
                "value": one.value,
                "label": one.label,
                "examples": one.slice.example_count,
                "metrics": one.slice.metrics,
                "intervals": one.slice.intervals,
            }
            for by, slices in group_slices(result, self.folder.config).items()
            for one in slices
        ]
        return {
            "split": result.split,
            "examples": result.example_count,
            "metrics": {name: result.metrics[name] for name in section.names},
            "intervals": result.intervals,
            "slices": all_slices,
        }


def shared(folders: Sequence[RunFolder]) -> list[SharedRun]:
    """The runs in the given order, each once."""
    once = {folder.path.resolve(): PublicFolder(folder.path, folder.record) for folder in folders}
    many_pipelines = len({folder.record.pipeline for folder in once.values()}) > 1
    labels = [
        f"{folder.record.pipeline} {folder.record.run_id}" if many_pipelines else folder.record.run_id
        for folder in once.values()
    ]
    return [
        SharedRun(folder, label if labels.count(label) == 1 else f"{label} ({number + 1})", number)
        for number, (folder, label) in enumerate(zip(once.values(), labels, strict=True))
    ]


def _buckets(buckets: list[tuple[float, float, float]]) -> dict[str, list[float]]:
    """The edges, to six digits, and the counts of a histogram; there is one more edge than there are counts."""
    edges = [left for left, _, _ in buckets] + [right for _, right, _ in buckets[-1:]]
    return {"edges": [float(f"{edge:.6g}") for edge in edges], "counts": [count for _, _, count in buckets]}

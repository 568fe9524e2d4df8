"""What the page knows of each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from headrace.configs.credentials import without
from headrace.pipeline.report.judgement import Judgement, grouped, read_judgement
from headrace.pipeline.report.run_folder import RunFolder
from headrace.pipeline.report.training import Training, read_training
from headrace.pipeline.report.tuning import read_search
from headrace.pipeline.report.verdict import Verdict, read_verdict
from headrace.pipeline.share.clock import Clock
from headrace.pipeline.share.credentials import stripped
from headrace.pipeline.share.differences import flattened
from headrace.pipeline.share.events import Logs, read_logs
from headrace.pipeline.share.find import logs_of
from headrace.trainer.tuning.trials import Search

COLORS, STROKES = 10, 3
"""Of runs (share.css), and strokes of dashes and dots, so that 40 runs are told apart."""


@dataclass(frozen=True)
class PublicFolder(RunFolder):
    """A run's folder of which the config has lost what looks like a password or a key."""

    @cached_property
    def config_text(self) -> str:
        """As it was loaded, YAML; as it lies there if there is nothing to hide."""
        text = RunFolder(self.path, self.record).config_text
        try:
            tree = yaml.safe_load(text)
        except yaml.YAMLError:
            return without(text)
        clean = stripped(tree)
        if clean == tree:
            return text
        return yaml.safe_dump(clean, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)


@dataclass(frozen=True)
class SharedRun:
    """One of the runs on the page. `label`: its id, with the pipeline's name where there are several pipelines."""

    folder: PublicFolder
    label: str
    number: int

    @property
    def anchor(self) -> str:
        """Of its part of the page, and the name of its folder of logs."""
        return f"run-{self.number + 1}"

    @property
    def look(self) -> str:
        """The classes of its marks: one of ten colours, and once those are used up, strokes of dashes and dots too."""
        again, color = divmod(self.number, COLORS)
        return f"run{color} more{(again - 1) % STROKES + 1}" if again else f"run{color}"

    @cached_property
    def logs_at(self) -> Path:
        """The Trainer's logs."""
        found = logs_of(self.folder)
        assert found is not None, self.folder.path  # noqa: S101 - `find` has seen to it
        return found

    @cached_property
    def logs(self) -> Logs:
        return read_logs(self.logs_at)

    @cached_property
    def training(self) -> Training | None:
        return read_training(self.logs_at)

    @cached_property
    def clock(self) -> Clock:
        return Clock.of(self.logs, self.training)

    @cached_property
    def verdict(self) -> Verdict:
        return read_verdict(self.folder)

    @cached_property
    def judgement(self) -> Judgement | None:
        evaluation = self.folder.evaluation
        return read_judgement(evaluation, self.verdict, self.folder.config) if evaluation else None

    @cached_property
    def settings(self) -> dict[str, str]:
        """All settings by their dotted names, with defaults where the config can be read."""
        config = self.folder.config
        if config is not None:
            return flattened(config.model_dump(mode="json"))
        try:
            tree = yaml.safe_load(self.folder.config_text)
        except yaml.YAMLError:
            return {}
        return flattened(tree) if isinstance(tree, dict) else {}

    @cached_property
    def search(self) -> Search | None:
        return read_search(self.folder.directory("Tuner", "best_hyperparameters"))

    @property
    def tuned(self) -> dict[str, str]:
        """The settings that a search found, which training had in the place of the config's."""
        best = self.search.best if self.search else None
        return best.words if best else {}

    @property
    def used(self) -> dict[str, str]:
        """All settings as training had them."""
        return self.settings | {name: f"{words} (tuned)" for name, words in self.tuned.items()}

    def plain(self) -> dict[str, Any]:
        """For the script of the page, and for programs: what of the run is numbers, and its settings."""
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
            "evaluation": self._evaluation(),
        }

    def _evaluation(self) -> dict[str, Any] | None:
        judgement = self.judgement
        if judgement is None:
            return None
        evaluation = judgement.evaluation
        slices = [
            {
                "by": by,
                "value": cut.value,
                "label": cut.label,
                "examples": cut.slice.example_count,
                "metrics": cut.slice.metrics,
            }
            for by, cuts in grouped(evaluation, self.folder.config).items()
            for cut in cuts
        ]
        return {
            "split": evaluation.split,
            "examples": evaluation.example_count,
            "metrics": {name: evaluation.metrics[name] for name in judgement.names},
            "slices": slices,
        }


def shared(folders: Sequence[RunFolder]) -> list[SharedRun]:
    """The runs in the order given, each once."""
    once = {folder.path.resolve(): PublicFolder(folder.path, folder.record) for folder in folders}
    several = len({folder.record.pipeline for folder in once.values()}) > 1
    labels = [
        f"{folder.record.pipeline} {folder.record.run_id}" if several else folder.record.run_id
        for folder in once.values()
    ]
    return [
        SharedRun(folder, label if labels.count(label) == 1 else f"{label} ({number + 1})", number)
        for number, (folder, label) in enumerate(zip(once.values(), labels, strict=True))
    ]


def _buckets(buckets: list[tuple[float, float, float]]) -> dict[str, list[float]]:
    """Edges, to six digits, and counts: one edge more than counts."""
    edges = [left for left, _, _ in buckets] + [right for _, right, _ in buckets[-1:]]
    return {"edges": [float(f"{edge:.6g}") for edge in edges], "counts": [count for _, _, count in buckets]}

"""Where a pipeline keeps its things."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.configs.config import PipelineConfig


@dataclass(frozen=True)
class Folders:
    """Where a pipeline keeps its things; all paths absolute."""

    home: Path
    """`<pipeline.root>/<pipeline.name>`."""

    @classmethod
    def of(cls, config: PipelineConfig) -> Folders:
        """The folders of the pipeline that `config` describes, from the folder the command runs in."""
        return cls(Path(config.pipeline.root).absolute() / config.pipeline.name)

    @property
    def artifacts(self) -> Path:
        return self.home / "artifacts"

    @property
    def metadata(self) -> Path:
        return self.home / "metadata.sqlite"

    @property
    def registry(self) -> Path:
        return self.home / "blessed.json"

    @property
    def push_record(self) -> Path:
        """Which blessed model was pushed last."""
        return self.home / "pushed.json"

    @property
    def trained(self) -> Path:
        """What the last models learned from; of pipelines that train only where there is a reason to."""
        return self.home / "trained.json"

    @property
    def scratch(self) -> Path:
        return self.home / "tmp"

    @property
    def spans(self) -> Path:
        """What is kept of spans between runs."""
        return self.home / "spans"

    @property
    def checkpoints(self) -> Path:
        """Of trainings that are not done."""
        return self.home / "checkpoints"

    def pushed(self, directory: str) -> Path:
        """Where `deploy.push` is."""
        return Path(directory).absolute()

    @property
    def runs(self) -> Path:
        return self.home / "runs"

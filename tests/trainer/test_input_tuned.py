"""`headrace tune-input`: the trials on transformed examples, and what is written into the config."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from configs.config import PipelineConfig
from configs.loader import load
from pipeline.verbs.tune_input import write
from trainer.input.tuned import measure

TAXI = Path(__file__).resolve().parents[2] / "configs" / "taxi.yaml"


def test_auto_is_measured_once_beside_the_other_caches(prepared: Any) -> None:
    data = prepared("binary")
    sections, files = data.sections(), sorted(tf.io.gfile.glob(data.patterns["train"]))
    graph = Path(data.output.transform_savedmodel_dir).parent
    found = measure(sections.train, sections.label.key, graph, files, seconds=1)
    settings = [trial.setting for trial in found.trials]
    assert settings[0] == "as it is"
    assert "cache: memory" not in settings  # is what `auto` comes to
    assert all(trial.examples_per_second > 0 for trial in found.trials)


def test_what_is_faster_is_written_beside_the_comments(tmp_path: Path) -> None:
    file = tmp_path / "taxi.yaml"
    file.write_text(TAXI.read_text())
    write(file, {"read_batch": 4096, "cache": "memory"})
    config: PipelineConfig = load(file)
    assert (config.train.input.read_batch, config.train.input.cache) == (4096, "memory")
    kept = [line for line in TAXI.read_text().splitlines() if line not in file.read_text().splitlines()]
    assert kept in ([], ["train: {epochs: 10, batch_size: 256}"])

"""`headrace tune-input`: the trials on transformed examples, and what is written into the config."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import TrainingError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.verbs.training_input import write
from headrace.trainer.input.inputs import InputPlan, TransformedExamples
from headrace.trainer.sections import TrainerSections
from headrace.trainer.tune_input import InputTuning, measure

TAXI = Path(__file__).resolve().parents[2] / "configs" / "taxi.yaml"


def measured(data: Any, **settings: Any) -> InputTuning:
    """What the trials on the data's examples find, with these settings of `train.input`."""
    graph = Path(data.output.transform_savedmodel_dir).parent
    examples = Path(data.patterns["train"]).parents[1]
    return measure(data.sections(input=settings), graph, examples, seconds=1)


def test_auto_is_measured_once_beside_the_other_caches(prepared: Any) -> None:
    found = measured(prepared("binary"))
    settings = [trial.setting for trial in found.trials]
    assert settings[0] == "as it is"
    assert "cache: memory" not in settings  # is what `auto` comes to
    assert all(trial.examples_per_second > 0 for trial in found.trials)


def test_service_that_nobody_runs_is_refused_as_a_training_would(prepared: Any) -> None:
    with pytest.raises(TrainingError, match="localhost:1"):
        measured(prepared("binary"), service={"address": "grpc://localhost:1", "timeout": 1})


def test_snapshot_is_measured_and_serves_as_the_cache_on_disk(prepared: Any, tmp_path: Path) -> None:
    found = measured(prepared("binary"), snapshot=str(tmp_path), cache="none")
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["train"]
    assert not {"cache: disk", "cache: none"} & {trial.setting for trial in found.trials}


def test_pipeline_that_is_measured_is_the_trainers(prepared: Any, tmp_path: Path) -> None:
    data = prepared("binary")
    settings = {"snapshot": str(tmp_path), "threads": 2, "shuffle": 5, "cache": "disk"}
    image = {"column": "image", "height": 8, "width": 8, "channels": 1}
    plain = data.sections(input=settings)
    sections = TrainerSections.from_json(
        json.dumps({**json.loads(plain.to_json()), "features": {"photo": image}, "model": {"kind": "image"}})
    )
    examples = TransformedExamples.of(data.output, [data.patterns["train"]], [data.patterns["eval"]])
    plan = InputPlan.of(examples, sections)
    assert plan.training.load is not None
    assert plan.training.source is not None
    assert (plan.training.reading.threads, plan.training.shuffle, plan.training.cache) == (2, 5, "none")
    assert InputPlan.of(examples, plain).training.load is None


def test_what_is_faster_is_written_beside_the_comments(tmp_path: Path) -> None:
    file = tmp_path / "taxi.yaml"
    file.write_text(TAXI.read_text())
    write(file, {"read_batch": 4096, "cache": "memory"})
    config: PipelineConfig = load(file)
    assert (config.train.input.read_batch, config.train.input.cache) == (4096, "memory")
    kept = [line for line in TAXI.read_text().splitlines() if line not in file.read_text().splitlines()]
    assert kept in ([], ["train: {epochs: 10, batch_size: 256}"])

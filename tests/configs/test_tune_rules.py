"""`tune:` parameters are checked against the settings that they stand for."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from headrace.common.errors import ConfigError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.configs.rules import registry
from headrace.configs.rules.rule import Rule
from headrace.configs.rules.tune import TRIAL_RULES

REST = """
pipeline: {name: taxi}
data: {source: {kind: csv, path: a.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
model: {kind: dnn}
train: {optimizer: {kind: adamw, weight_decay: 0.01}}
"""


def reported(folder: Path, tune: str) -> str:
    """What is said of a config with that `tune:`."""
    file = folder / "c.yaml"
    file.write_text(f"tune: {tune}\n{REST}")
    with pytest.raises(ConfigError) as error:
        load(str(file))
    return str(error.value)


WRONG = {
    "train.learning_rat: {min: 0.1, max: 1}": 'no setting "train.learning_rat" in model or train; did you mean "train.',
    "train.input.shuffle: {min: 1, max: 9}": "tune-input",
    "train.epochs: {min: 1, max: 9}": "train.epochs cannot be tuned",
    "data.splits: {min: 1, max: 9}": 'no setting "data.splits" in model or train',
    "train.clip.norm: {min: 1, max: 9}": "train.clip has no settings",
    "train.learning_rate: {min: -1, max: 1}": "-1.0 is not valid",
    "train.batch_size: {min: 0, max: 64}": "0 is not valid",
    "train.batch_size: {min: 1.5, max: 64}": "1.5 is not valid",
    "model.hidden: {choices: [[64], [64, x]]}": '[64, "x"] is not valid',
    "train.optimizer: {choices: [adam, adamm]}": 'did you mean "adam"?',
    "model.activation: {choices: [relu, relo]}": 'did you mean "relu"?',
    "train.optimizer.weight_decai: {min: 0.1, max: 1}": "adamw has no such argument",
    "model.dropout: {min: 0.5, max: 0.1}": "min 0.5 is not below max 0.1",
    "model.dropout: {min: 0, max: 0.5, scale: log}": "`scale: log` requires a min above 0",
    "model.dropout: {max: 0.5}": "`min` and `max`, or `choices`",
    "model.dropout: {max: 0.5, choices: [0, 0.1]}": "`choices` cannot be combined",
    "model.dropout: {choices: [0.1]}": "one choice",
}


@pytest.mark.parametrize("parameter", WRONG)
def test_wrong_parameter_is_reported(tmp_path: Path, parameter: str) -> None:
    message = reported(tmp_path, f"{{parameters: {{{parameter}}}}}")
    assert WRONG[parameter] in message
    assert message.startswith(f"{tmp_path}/c.yaml:1: tune.parameters.")
    assert "\n" not in message


def test_objective_that_no_training_reports_is_reported(tmp_path: Path) -> None:
    message = reported(tmp_path, "{objective: acu, parameters: {model.dropout: {min: 0, max: 0.5}}}")
    assert 'tune.objective: training does not report "acu" ' in message
    assert 'did you mean "auc"?' in message


def test_sound_parameters_pass(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    parameters = (
        "train.learning_rate: {min: 0.0001, max: 0.1, scale: log}, model.hidden: {choices: [[64], [128, 64]]},"
        " train.batch_size: {min: 64, max: 1024, scale: log, step: 2}, train.optimizer: {choices: [adam, sgd]},"
        " train.optimizer.weight_decay: {min: 0.0, max: 0.1}, model.dropout: {min: 0, max: 0.5}"
    )
    file.write_text(f"tune: {{parameters: {{{parameters}}}}}\n{REST}")
    tune = load(str(file)).tune
    assert tune is not None
    assert len(tune.parameters) == 6


def test_every_rule_of_model_and_train_is_asked_of_the_values_of_a_trial() -> None:
    def concerns_a_trial(rule: Rule) -> bool:
        needs = inspect.signature(rule).parameters.keys()
        return bool(needs & {"model", "train"}) and needs <= {"model", "train", "label", "features"}

    assert list(TRIAL_RULES) == [rule for rule in registry.RULES if concerns_a_trial(rule)]


def test_a_value_that_does_not_fit_the_features_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "text.yaml"
    features = "features: {english: {column: text}, french: {column: text}}"
    rest = REST.replace("label: {key: tip, kind: binary}", "label: {key: german, kind: text}")
    rest = "\n".join(line for line in rest.splitlines() if not line.startswith(("features", "model")))
    model = "model: {kind: encoder_decoder, text: english}"

    def tuned(parameter: str) -> PipelineConfig:
        file.write_text(f"tune: {{parameters: {{{parameter}}}}}\n{rest}\n{model}\n{features}\n")
        return load(str(file))

    assert tuned("model.text: {choices: [english, french]}").tune is not None
    with pytest.raises(ConfigError, match=r'model.text: "frnch" is not valid.*did you mean "french"'):
        tuned("model.text: {choices: [english, frnch]}")
    with pytest.raises(ConfigError, match=r'train.jit: "on" is not valid.*variable number of values'):
        tuned("train.jit: {choices: [auto, 'on']}")

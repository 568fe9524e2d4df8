"""Keras' names of optimizers, their arguments and activations, to find typos without importing TensorFlow.

tests/configs/test_keras_names.py compares them with the installed Keras.
"""

from __future__ import annotations

_OPTIMIZERS = """
adadelta adafactor adagrad adam adamax adamw ftrl lion muon nadam rmsprop schedulefreeadamw sgd
"""
OPTIMIZERS = tuple(_OPTIMIZERS.split())
SHARED_ARGUMENTS = {
    "weight_decay": "number or null",
    "use_ema": "true or false",
    "ema_momentum": "number",
    "ema_overwrite_frequency": "integer or null",
    "loss_scale_factor": "number or null",
}
"""Arguments of every optimizer, each with its allowed values."""
SET_ELSEWHERE = {
    "learning_rate": "train.learning_rate",
    "clipnorm": "train.clip.norm",
    "global_clipnorm": "train.clip.global_norm",
    "clipvalue": "train.clip.value",
    "gradient_accumulation_steps": "train.gradient_accumulation",
}
"""Arguments of every optimizer for which the config has its own settings."""
_MOMENTS = {"beta_1": "number", "beta_2": "number", "epsilon": "number"}
OPTIMIZER_ARGUMENTS: dict[str, dict[str, str]] = {
    "adadelta": {"rho": "number", "epsilon": "number"},
    "adafactor": {
        "beta_2_decay": "number",
        "epsilon_1": "number",
        "epsilon_2": "number",
        "clip_threshold": "number",
        "relative_step": "true or false",
    },
    "adagrad": {"initial_accumulator_value": "number", "epsilon": "number"},
    "adam": {**_MOMENTS, "amsgrad": "true or false"},
    "adamax": _MOMENTS,
    "adamw": {**_MOMENTS, "amsgrad": "true or false"},
    "ftrl": {
        "learning_rate_power": "number",
        "initial_accumulator_value": "number",
        "l1_regularization_strength": "number",
        "l2_regularization_strength": "number",
        "l2_shrinkage_regularization_strength": "number",
        "beta": "number",
    },
    "lion": {"beta_1": "number", "beta_2": "number"},
    "muon": {
        "adam_beta_1": "number",
        "adam_beta_2": "number",
        "adam_weight_decay": "number",
        "epsilon": "number",
        "exclude_layers": "list of strings or null",
        "exclude_embeddings": "true or false",
        "muon_a": "number",
        "muon_b": "number",
        "muon_c": "number",
        "adam_lr_ratio": "number",
        "momentum": "number",
        "ns_steps": "integer",
        "nesterov": "true or false",
        "rms_rate": "number",
    },
    "nadam": _MOMENTS,
    "rmsprop": {"rho": "number", "momentum": "number", "epsilon": "number", "centered": "true or false"},
    "schedulefreeadamw": {**_MOMENTS, "warmup_steps": "integer"},
    "sgd": {"momentum": "number", "nesterov": "true or false"},
}
"""The other arguments of each optimizer, each with its allowed values."""
_ACTIVATIONS = """
celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu linear
log_sigmoid log_softmax mish relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus
sparse_sigmoid sparsemax squareplus swish tanh tanh_shrink threshold
"""
ACTIVATIONS = tuple(_ACTIVATIONS.split())

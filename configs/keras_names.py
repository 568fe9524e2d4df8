"""The names that Keras gives its optimizers, their arguments and its activations, so that a slip is found without
importing TensorFlow.

tests/configs/test_keras_names.py compares them with the installed Keras.
"""

OPTIMIZERS = (
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "ftrl",
    "lion",
    "muon",
    "nadam",
    "rmsprop",
    "schedulefreeadamw",
    "sgd",
)
SHARED_ARGUMENTS = {
    "weight_decay": "a number or null",
    "use_ema": "true or false",
    "ema_momentum": "a number",
    "ema_overwrite_frequency": "a whole number or null",
    "loss_scale_factor": "a number or null",
}
"""Arguments of every optimizer, each with what is allowed."""
SET_ELSEWHERE = {
    "learning_rate": "train.learning_rate",
    "clipnorm": "train.clip.norm",
    "global_clipnorm": "train.clip.global_norm",
    "clipvalue": "train.clip.value",
    "gradient_accumulation_steps": "train.gradient_accumulation",
}
"""Arguments of every optimizer that the config has settings of its own for."""
_MOMENTS = {"beta_1": "a number", "beta_2": "a number", "epsilon": "a number"}
OPTIMIZER_ARGUMENTS: dict[str, dict[str, str]] = {
    "adadelta": {"rho": "a number", "epsilon": "a number"},
    "adafactor": {
        "beta_2_decay": "a number",
        "epsilon_1": "a number",
        "epsilon_2": "a number",
        "clip_threshold": "a number",
        "relative_step": "true or false",
    },
    "adagrad": {"initial_accumulator_value": "a number", "epsilon": "a number"},
    "adam": {**_MOMENTS, "amsgrad": "true or false"},
    "adamax": _MOMENTS,
    "adamw": {**_MOMENTS, "amsgrad": "true or false"},
    "ftrl": {
        "learning_rate_power": "a number",
        "initial_accumulator_value": "a number",
        "l1_regularization_strength": "a number",
        "l2_regularization_strength": "a number",
        "l2_shrinkage_regularization_strength": "a number",
        "beta": "a number",
    },
    "lion": {"beta_1": "a number", "beta_2": "a number"},
    "muon": {
        "adam_beta_1": "a number",
        "adam_beta_2": "a number",
        "adam_weight_decay": "a number",
        "epsilon": "a number",
        "exclude_layers": "a list of texts or null",
        "exclude_embeddings": "true or false",
        "muon_a": "a number",
        "muon_b": "a number",
        "muon_c": "a number",
        "adam_lr_ratio": "a number",
        "momentum": "a number",
        "ns_steps": "a whole number",
        "nesterov": "true or false",
        "rms_rate": "a number",
    },
    "nadam": _MOMENTS,
    "rmsprop": {"rho": "a number", "momentum": "a number", "epsilon": "a number", "centered": "true or false"},
    "schedulefreeadamw": {**_MOMENTS, "warmup_steps": "a whole number"},
    "sgd": {"momentum": "a number", "nesterov": "true or false"},
}
"""For each optimizer its own arguments, each with what is allowed."""
ACTIVATIONS = (
    "celu",
    "elu",
    "exponential",
    "gelu",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "swish",
    "tanh",
    "tanh_shrink",
    "threshold",
)

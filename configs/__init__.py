"""The typed config, its rules, its loader, and the worked examples as YAML. Imports only pydantic and yaml.

from headrace.configs.loading.loader import load
config = load("configs/taxi.yaml", profile=None, overrides=["train.epochs=1"])
config.train.epochs
"""

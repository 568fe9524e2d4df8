"""The typed config, its checks, its loader, and the worked examples as YAML (floor 0: stdlib, pydantic and yaml only).

from headrace.configs.loader import load
config = load("configs/taxi.yaml", profile=None, overrides=["train.epochs=1"])
config.train.epochs
"""

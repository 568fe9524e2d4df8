"""The text of a config that profiles and `--set` are laid over."""

from __future__ import annotations

BASE = """\
pipeline: {name: taxi}
data: {source: {kind: csv, path: a.csv}}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric, normalize: log}
  area: {column: vocabulary, top_k: 9}
model: {hidden: [64, 32]}
train: {epochs: 7, early_stopping: {patience: 3}}
"""

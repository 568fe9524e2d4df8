"""Headrace: one YAML file takes raw data to a trained, judged and pushed model."""

"""Runs on a Kubeflow Pipelines server: submitted, followed, scheduled through its API."""

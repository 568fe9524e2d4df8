"""The client of a Kubeflow Pipelines server: versions, runs, schedules, logs, and why a run reused a result or not."""

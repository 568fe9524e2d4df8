"""The same pipeline on Kubeflow Pipelines: compiled to its YAML, and run in its pods."""

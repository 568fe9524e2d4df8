"""From a config to the YAML that Kubeflow Pipelines runs, and to the manifests that a GitOps repository holds."""

"""`headrace verify`: runs the compiled pipeline's tasks here as Kubeflow would, and compares them with a local run."""

from headrace.pipeline.kubeflow.verify.verify import RunComparison, verify

__all__ = ["RunComparison", "verify"]

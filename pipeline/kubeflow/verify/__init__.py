"""`headrace verify`: the compiled pipeline's own tasks, run here as Kubeflow would, against a local run."""

from headrace.pipeline.kubeflow.verify.verify import Verdict, verify

__all__ = ["Verdict", "verify"]

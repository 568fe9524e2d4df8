"""Registers pushed versions in the model registries of `deploy.registry`: MLflow's, and Kubeflow Model Registry."""

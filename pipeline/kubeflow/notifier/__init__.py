"""Tells the receivers of `notify:` of the runs on Kubeflow that have ended: a sweep, which a CronJob repeats."""

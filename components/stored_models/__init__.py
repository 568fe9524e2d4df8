"""Blessed and pushed models: their records, `blessed.json` and `pushed.json`, their files, and a push of a version.

The Evaluator's verdict, the canary, the Pusher, predictions and `headrace models` all start from these.
"""

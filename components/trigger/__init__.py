"""Reasons to train: a new span has arrived, or its data drifted from what the blessed model was trained on.

from headrace.components.trigger.decision import decide        # without TensorFlow
"""

"""Whether there is a reason to train: a new span has landed, or its data drifted from what the model was trained on.

from headrace.components.trigger.look import decide        # without TensorFlow
"""

"""From a blessed model to a served one: the baseline, what a run builds on, the Pusher, and the `.tflite` files."""

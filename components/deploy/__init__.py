"""From a blessed model to a served one: the baseline, the records of blessed and pushed models, and the Pusher."""
